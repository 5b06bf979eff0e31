"""Design 7.4: recorded refusals, their corrected successors, `retry_rejected`; what never closes a name."""

from __future__ import annotations

import httpx
import pytest
from tenacity import wait_fixed

import samekey
from samekey import KeyMismatch, KeyNotAccepted, KeySpent, OutcomeUnknown
from samekey.journal import RowState
from samekey.testing import ReceivedRequest, Reply, faults
from tests.named.shop import NAME, QUICK, SECOND, Shop, charge
from tests.transport.harness import statuses, the

DECLINED = Reply.of_json(402, {"error": "card_declined"})
CORRECTED = {"amount": 4900, "currency": "eur", "card": "another"}


def declines(request: ReceivedRequest) -> Reply:
    """The first card is declined, another one is charged."""
    return Reply.of_json(201, {"id": "ch_1"}) if b"another" in request.body else DECLINED


async def test_declined_payment_delivered_again(shop: Shop) -> None:
    """The job runs again with equal bytes: nothing is sent, and it gets the recorded refusal."""
    shop.server.script(then=lambda _: DECLINED)
    first = await shop.charge()
    again = await shop.charge()

    assert (first.status_code, again.status_code) == (402, 402)
    assert again.json() == {"error": "card_declined"}
    assert len(shop.server.requests) == 1
    report = the(samekey.report(again))
    assert (report.source, report.outcome, report.recorded) == ("journal", "rejected", True)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        again.raise_for_status()
    assert the(samekey.report(caught.value)) == report


async def test_corrected_request_gets_a_new_key(shop: Shop) -> None:
    """After a refusal another request is a new operation under the name, with a new key."""
    shop.server.script(then=declines)
    declined = await shop.charge()
    charged = await shop.charge(json=CORRECTED)
    again = await shop.charge(json=CORRECTED)

    assert charged.status_code == 201
    assert again.content == charged.content
    keys = [the(samekey.report(response)).key for response in (declined, charged)]
    assert shop.server.keys == keys
    assert keys[0] != keys[1]
    entry = await shop.row()
    assert (entry.key, entry.sends, entry.status) == (keys[1], 1, 201)


async def test_the_first_request_after_the_corrected_one(shop: Shop) -> None:
    """An old delivery of the job must not undo what the corrected one did."""
    shop.server.script(then=declines)
    await shop.charge()
    await shop.charge(json=CORRECTED)
    with pytest.raises(KeyMismatch, match="which was executed") as caught:
        await shop.charge()

    assert caught.value.report.outcome == "executed"
    assert len(shop.server.requests) == 2


async def test_corrected_in_the_same_block(shop: Shop) -> None:
    """One operation, a declined card, another one: a named operation may go on like that."""
    shop.server.script(then=declines)
    async with shop.client() as client:
        with samekey.operation(NAME) as op:
            await client.post()
            response = await client.post(json=CORRECTED)

    assert response.status_code == 201
    assert op.key == shop.server.keys[1]


async def test_retry_rejected(shop: Shop) -> None:
    """A second try with equal bytes after a refusal: a new key, once it is asked for."""
    shop.server.script(lambda _: DECLINED)
    await shop.charge()
    response = await shop.charge(operation={"retry_rejected": True})
    again = await shop.charge(operation={"retry_rejected": True})

    assert response.status_code == 201
    assert again.content == response.content
    assert len(shop.server.requests) == len(shop.server.keys) == 2


async def test_retry_rejected_changes_nothing_else(shop: Shop) -> None:
    """An unknown operation keeps its key, an executed one its answer."""
    shop.server.script(faults.lost(), faults.lost())
    with pytest.raises(OutcomeUnknown):
        await shop.charge(policy=SECOND, operation={"retry_rejected": True})
    await shop.charge(operation={"retry_rejected": True})
    await shop.charge(operation={"retry_rejected": True})

    shop.api.seen(wire=3, effects=1)


@pytest.mark.parametrize("status", [400, 402, 403, 404, 409, 410, 422])
async def test_refusals_of_a_fresh_key_close_the_name(shop: Shop, status: int) -> None:
    """The key is new and nothing is open, so a no is a no."""
    shop.server.script(then=faults.status(status, json={"detail": "no"}))
    response = await shop.charge()
    again = await shop.charge()

    assert (response.status_code, again.status_code) == (status, status)
    assert await shop.state() == ("rejected", status)
    assert len(shop.server.requests) == 1


@pytest.mark.parametrize("status", [401, 407, 429])
async def test_turned_away_never_closes_a_name(shop: Shop, status: int) -> None:
    """The job that comes back with credentials (or later) sends, with the same key."""
    shop.server.script(faults.status(status), faults.status(status))
    response = await shop.charge(policy=SECOND)
    assert response.status_code == status
    entry = await shop.row()
    assert (entry.state, entry.status, entry.sends) == (RowState.CLAIMED, None, 0)

    shop.server.script()
    response = await shop.charge()

    assert response.status_code == 201
    assert len(shop.server.keys) == len(shop.server.effects) == 1


async def test_425_never_closes_a_name(shop: Shop) -> None:
    """Too early: the server may have seen it."""
    shop.server.script(then=faults.status(425))
    await shop.charge(policy=SECOND)
    assert (await shop.row()).state in (RowState.CLAIMED, RowState.UNKNOWN)

    shop.server.script()
    assert (await shop.charge()).status_code == 201
    assert len(shop.server.keys) == 1


async def test_turned_away_after_something_open(shop: Shop) -> None:
    """A lost attempt, then 429: unknown."""
    shop.server.script(faults.lost(), faults.status(429))
    with pytest.raises(OutcomeUnknown):
        await shop.charge(policy=SECOND)

    assert await shop.state() == ("unknown", None)


async def test_auth_legs(shop: Shop) -> None:
    """The 401 leg lets go of the name, the next leg takes it again: one key, one operation."""

    class Token(httpx.Auth):
        def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def] # noqa: ANN202
            response = yield request
            if response.status_code == 401:
                request.headers["Authorization"] = "Bearer secret"
                yield request

    log: list[str] = []
    shop.server.script(faults.status(401))
    async with shop.client(journal=shop.faulty(log), auth=Token()) as client:
        response = await charge(client)

    assert log == ["claim", "record", "claim", "record"]
    assert statuses(samekey.report(response)) == [401, 201]
    shop.api.seen(wire=2, effects=1)
    entry = await shop.row()
    assert (entry.state, entry.sends) == (RowState.EXECUTED, 1)


async def test_redirect_307(shop: Shop) -> None:
    """The hop repeats the POST with the key, as the same operation; its answer is recorded."""
    shop.server.script(faults.redirect(307, "/charges/v2"), path="/charges")
    async with shop.client(follow_redirects=True) as client:
        response = await charge(client)
        again = await charge(client)

    assert response.status_code == again.status_code == 201
    assert len(shop.server.keys) == 1
    assert len(shop.server.requests) == 2
    assert the(samekey.report(again)).source == "journal"


async def test_redirect_307_not_followed(shop: Shop) -> None:
    """Turned away to another place: the name stays free for the process that follows."""
    shop.server.script(faults.redirect(307, "/charges/v2"), path="/charges")
    async with shop.client() as client:
        await charge(client)

    assert await shop.state() == ("claimed", None)


async def test_redirect_303(shop: Shop) -> None:
    """The 303 is the answer that is recorded; the GET after it belongs to nobody, and is made again."""
    shop.server.script(faults.redirect(303, "/receipt"), path="/charges")
    async with shop.client(follow_redirects=True) as client:
        response = await charge(client)
        again = await charge(client)

    assert response.status_code == again.status_code == 200
    assert [request.method for request in shop.server.requests] == ["POST", "GET", "GET"]
    assert await shop.state() == ("executed", 303)
    assert (await shop.row()).headers != ()
    assert shop.server.requests[-1].key is None


async def test_redirect_303_whose_get_is_retried(shop: Shop) -> None:
    """The name was let go of with the 303: the GET's retries need no lease."""
    log: list[str] = []
    shop.server.script(faults.redirect(303, "/receipt"), path="/charges")
    shop.server.script(faults.status(503), path="/receipt")
    async with shop.client(journal=shop.faulty(log), follow_redirects=True) as client:
        response = await charge(client)

    assert (response.status_code, log) == (200, ["claim", "record"])


async def test_redirect_302(shop: Shop) -> None:
    """Nobody knows what a 302 means for the effect."""
    shop.server.script(faults.redirect(302, "/elsewhere"))
    await shop.charge()

    assert await shop.state() == ("unknown", None)


async def test_redirect_to_an_origin_that_was_not_named(shop: Shop) -> None:
    """The hop is refused, and nothing was executed: the name is free."""
    shop.server.script(faults.redirect(307, "http://127.0.0.2:9/charges"))
    async with shop.client(follow_redirects=True) as client:
        with pytest.raises(samekey.NotSent):
            await charge(client)

    assert await shop.state() == ("claimed", None)


async def test_spent_key(shop: Shop) -> None:
    """The server burnt the key: a rerun gets that answer, and `retry_rejected` starts anew."""
    shop.server.script(faults.status(409, json={"code": "idempotency_previous_attempt_failed"}))
    with pytest.raises(KeySpent):
        await shop.charge()
    again = await shop.charge()
    assert (again.status_code, await shop.state()) == (409, ("rejected", 409))
    response = await shop.charge(operation={"retry_rejected": True})

    assert response.status_code == 201
    assert len(shop.server.keys) == 2


async def test_key_not_accepted(shop: Shop) -> None:
    """A fault of settings: nothing was executed, and the rerun with the right dialect goes on."""
    shop.server.script(faults.status(400, json={"error": "Idempotency-Key header is required"}))
    with pytest.raises(KeyNotAccepted):
        await shop.charge()
    assert await shop.state() == ("claimed", None)
    assert (await shop.charge()).status_code == 201
    assert len(shop.server.keys) == 1


async def test_bare_conflict_of_a_fresh_key(shop: Shop) -> None:
    """An empty 409 is polled; what stays is a refusal."""
    shop.server.script(then=faults.status(409))
    response = await shop.charge(policy=QUICK)

    assert response.status_code == 409
    assert await shop.state() == ("rejected", 409)


async def test_server_in_progress_until_time_is_up(shop: Shop) -> None:
    """StillInProgress leaves the name unknown: the next process polls on."""
    shop.server.script(then=faults.in_progress())
    async with shop.client(policy=samekey.RetryPolicy(poll_wait=wait_fixed(40), unresolved_ttl=0)) as client:
        with pytest.raises(samekey.StillInProgress):
            await charge(client)
    assert await shop.state() == ("unknown", None)

    shop.server.script(faults.in_progress(), faults.ok())
    assert (await shop.charge()).status_code == 201
    assert len(shop.server.keys) == 1
