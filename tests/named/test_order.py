"""Design 7.1: the claim is durable before the first byte leaves, the answer before the caller has it."""

from __future__ import annotations

import pytest

import samekey
from samekey import JournalError, NotSent, OutcomeUnknown
from samekey.events import CallFinished, JournalStepped
from samekey.journal import RowState
from samekey.testing import ReceivedRequest, Reply, faults
from tests.named.shop import NAME, ONCE, QUICK, SECOND, Shop, charge, in_memory, on_sync
from tests.transport.harness import closed_port, now, statuses, the


async def test_claim_send_record_deliver(shop: Shop) -> None:
    """The row is in flight while the request is on its way, and has the answer when the caller gets it."""
    log: list[str] = []

    def noting(request: ReceivedRequest) -> Reply:
        log.append("request")
        return Reply.of_json(201, {"id": "ch_1"})

    shop.server.script(noting)
    async with shop.client(journal=shop.faulty(log)) as client:
        response = await charge(client)

    assert log == ["claim", "request", "record"]
    assert response.json() == {"id": "ch_1"}
    report = the(samekey.report(response))
    assert (report.name, report.source, report.recorded, report.outcome) == (NAME, "network", True, "executed")
    entry = await shop.row()
    assert (entry.state, entry.status, entry.body, entry.owner) == (RowState.EXECUTED, 201, response.content, None)
    assert entry.key == report.key == shop.server.keys[0]


async def test_each_later_attempt_renews(shop: Shop) -> None:
    """Two durable writes for a call; one more for every attempt after the first."""
    log: list[str] = []
    shop.server.script(faults.status(503), faults.lost())
    async with shop.client(journal=shop.faulty(log)) as client:
        await charge(client)

    assert log == ["claim", "renew", "renew", "record"]
    shop.api.seen(wire=3, effects=1)


async def test_recorded_answer_is_not_sent_again(shop: Shop) -> None:
    """The second process gets the recorded answer, as it came, and sends nothing."""
    shop.server.script(lambda _: Reply.of_json(201, {"id": "ch_1"}, {"X-Request-Id": "r-1"}))
    first = await shop.charge()
    second = await shop.charge()

    assert len(shop.server.requests) == 1
    assert (second.status_code, second.content, second.headers["x-request-id"]) == (201, first.content, "r-1")
    assert second.request.headers == first.request.headers
    report = the(samekey.report(second))
    assert (report.source, report.recorded, report.outcome, report.attempts) == ("journal", True, "executed", ())
    assert report.key == the(samekey.report(first)).key
    assert report.replayed is None
    assert not samekey.is_replayed(second)


async def test_claim_fails_nothing_is_sent(shop: Shop) -> None:
    """Closed before: no row, no request; the error is a JournalError, and says what the journal said."""
    journal = shop.faulty()
    journal.fails["claim"] = 9
    with pytest.raises(JournalError, match=r"No space left on device.*nothing was sent") as caught:
        await shop.charge(journal=journal)

    assert shop.server.requests == []
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.name == NAME
    assert isinstance(caught.value, shop.api.httpx.RequestError)
    assert (await shop.charge()).status_code == 201


async def test_a_step_is_tried_once_more(shop: Shop) -> None:
    """One hiccup of the journal (a connection that has died) harms nobody."""
    journal = shop.faulty()
    journal.fails = {"claim": 1, "renew": 1, "record": 1}
    shop.server.script(faults.status(503))
    response = await shop.charge(journal=journal)

    assert journal.log == ["claim", "claim", "renew", "renew", "record", "record"]
    assert the(samekey.report(response)).recorded is True
    assert await shop.state() == ("executed", 201)
    assert (await shop.row()).sends == 1


async def test_record_fails_the_answer_is_delivered(shop: Shop) -> None:
    """Open after: the caller gets the answer, the report says that it was not recorded, the row stays in flight."""
    journal = shop.faulty()
    journal.fails["record"] = 9
    response = await shop.charge(journal=journal)

    assert response.status_code == 201
    report = the(samekey.report(response))
    assert (report.recorded, report.outcome) == (False, "executed")
    entry = await shop.row()
    assert (entry.state, entry.key) == (RowState.IN_FLIGHT, report.key)


async def test_record_fails_and_the_next_process_asks_the_server(shop: Shop) -> None:
    """Once the lease has run out, the same key goes out again, and the server replays."""
    journal = shop.faulty()
    journal.fails["record"] = 9
    first = await shop.charge(journal=journal)
    shop.clock.ahead += 80
    second = await shop.charge()

    assert second.json() == first.json()
    assert samekey.is_replayed(second)
    shop.api.seen(wire=2, effects=1)
    assert await shop.state() == ("executed", 201)


async def test_record_of_an_error_fails(shop: Shop) -> None:
    """An unknown outcome that cannot be written is raised all the same; the row is in flight until its lease ends."""
    journal = shop.faulty()
    journal.fails["record"] = 9
    shop.server.script(faults.lost())
    with pytest.raises(OutcomeUnknown) as caught:
        await shop.charge(policy=ONCE, journal=journal)

    assert caught.value.report.recorded is False
    assert await shop.state() == ("in_flight", None)


async def test_renewal_fails_nothing_more_is_sent(shop: Shop) -> None:
    """Without a lease no second attempt; what was sent stays unknown."""
    journal = shop.faulty()
    journal.fails["renew"] = 9
    shop.server.script(faults.lost())
    with pytest.raises(OutcomeUnknown) as caught:
        await shop.charge(journal=journal)

    assert isinstance(caught.value, shop.api.httpx.RemoteProtocolError)
    assert isinstance(caught.value.__cause__, OSError)
    assert statuses(caught.value.report) == ["RemoteProtocolError"]
    assert len(shop.server.requests) == 1
    assert await shop.state() == ("in_flight", None)


async def test_renewal_fails_with_nothing_sent(shop: Shop) -> None:
    """Two failed connects with a broken journal between them: nothing can have been executed."""
    journal = shop.faulty()
    journal.fails["renew"] = 9
    async with shop.client(journal=journal, base_url=closed_port()) as client:
        with pytest.raises(JournalError):
            await charge(client)


async def test_never_sent_keeps_the_key_and_the_name_free(shop: Shop) -> None:
    """No connection: the row is *claimed* with its key, and the next process begins as if it were the first."""
    async with shop.client(transport=shop.no_connection()) as client:
        with pytest.raises(NotSent) as caught:
            await charge(client)
    entry = await shop.row()
    assert (entry.state, entry.sends, entry.age) == (RowState.CLAIMED, 0, 0.0)

    shop.server.script(faults.status(404))
    response = await shop.charge()

    assert shop.server.keys == [caught.value.key]
    assert the(samekey.report(response)).outcome == "rejected"


async def test_lost_is_unknown_then_resumed_with_the_same_key(shop: Shop) -> None:
    """The next process need not wait for a lease: the row says that nobody is at it."""
    shop.server.script(faults.lost())
    with pytest.raises(OutcomeUnknown) as caught:
        await shop.charge(policy=ONCE)
    assert await shop.state() == ("unknown", None)
    assert "samekey.operation('order-4821:charge')" in str(caught.value)
    response = await shop.charge(policy=ONCE)

    assert samekey.is_replayed(response)
    shop.api.seen(wire=2, effects=1)


async def test_server_error_is_unknown(shop: Shop) -> None:
    """A last 503 leaves the name unknown; the attempt counts as open."""
    shop.server.script(then=faults.status(503))
    with pytest.raises(OutcomeUnknown):
        await shop.charge(policy=SECOND)

    assert await shop.state() == ("unknown", None)


@pytest.mark.parametrize("status", [200, 201, 204, 206])
async def test_any_success_is_recorded(shop: Shop, status: int) -> None:
    """The status and the (perhaps empty) body come back from the journal."""
    shop.server.script(lambda _: Reply(status))
    await shop.charge()
    again = await shop.charge()

    assert (again.status_code, again.content) == (status, b"")
    assert len(shop.server.requests) == 1


@in_memory
async def test_compressed_answer(shop: Shop) -> None:
    """The body is kept as it came over the wire, and read the same way."""
    import gzip

    packed = gzip.compress(b'{"id": "ch_1"}')
    shop.server.script(lambda _: Reply(201, {"Content-Encoding": "gzip"}, packed))
    first = await shop.charge()
    again = await shop.charge()

    assert first.json() == again.json() == {"id": "ch_1"}
    assert again.headers["content-encoding"] == "gzip"
    assert (await shop.row()).body == packed


async def test_cut_answer_is_asked_for_again(shop: Shop) -> None:
    """What is recorded is never half an answer."""
    shop.server.script(faults.cut())
    response = await shop.charge()

    assert (await shop.row()).body == response.content
    shop.api.seen(wire=2, effects=1)


@in_memory
async def test_events(shop: Shop) -> None:
    """Listeners see each step; a key only as a digest, and not before it is the row's."""
    shop.server.script(faults.status(503))
    events = shop.api.events
    async with shop.client(listen=True) as client:
        response = await charge(client)

    steps = [(event.step, event.state, event.granted) for event in events if isinstance(event, JournalStepped)]
    assert steps == [("claim", "in_flight", True), ("renew", "in_flight", True), ("record", "executed", True)]
    key = the(samekey.report(response)).key
    assert key is not None
    assert all(key not in repr(event) for event in events)
    assert events[0].key is None
    assert events[-1].key is not None
    assert isinstance(events[-1], CallFinished)


@in_memory
async def test_events_of_a_broken_journal(shop: Shop) -> None:
    """The class of its error is the state."""
    journal = shop.faulty()
    journal.fails["claim"] = 9
    async with shop.client(journal=journal, listen=True) as client:
        with pytest.raises(JournalError):
            await charge(client)

    steps = [(event.step, event.state, event.granted) for event in shop.api.events if isinstance(event, JournalStepped)]
    assert steps == [("claim", "OSError", False)]


async def test_same_operation_twice_in_one_block(shop: Shop) -> None:
    """A loop around the call gets the recorded answer the second time."""
    async with shop.client() as client:
        with samekey.operation(NAME) as op:
            first = await client.post()
            second = await client.post()

    assert second.content == first.content
    assert len(shop.server.requests) == 1
    assert op.report is not None
    assert op.report.source == "journal"
    assert op.key == shop.server.keys[0]


async def test_same_request_object_twice(shop: Shop) -> None:
    """`client.send(request)` again is the same operation, outside the block too."""
    async with shop.client() as client:
        request = client.build(json={"n": 1})
        with samekey.operation(NAME):
            first = await client.send(request)
        second = await client.send(request)

    assert first.content == second.content
    assert len(shop.server.requests) == 1


async def test_options_name(shop: Shop) -> None:
    """`options(name=..., scope=...)` is the same as sending inside the operation."""
    async with shop.client() as client:
        await client.post(extensions=samekey.options(name="a", scope="tenant-1"))
        await client.post(extensions=samekey.options(name="a", scope="tenant-2"))
        with samekey.operation("a", scope="tenant-1"):
            again = await client.post()

    assert len(shop.server.requests) == len(shop.server.keys) == 2
    assert the(samekey.report(again)).source == "journal"
    assert (await shop.row("a", "tenant-1")).key == shop.server.keys[0]


async def test_scope_of_the_journal(shop: Shop) -> None:
    """A journal's scope is that of names which have none."""
    if shop.kind == "memory":
        journal = shop.new_journal(scope="shop-7")
        shop.made.append(journal)
    else:
        journal = shop.new_journal(scope="shop-7")
        shop.made += [shop.journal, journal]
    async with shop.client(journal=journal) as client:
        await charge(client)
        own = await charge(client, operation={"scope": "other"})
    found = await now(journal.entries())

    assert sorted(entry.scope for entry in found) == ["other", "shop-7"]
    assert own.status_code == 201


@on_sync
async def test_unkeyed_requests_are_none_of_its_business(shop: Shop) -> None:
    """A GET or PUT inside a named operation claims nothing."""
    async with shop.client() as client:
        with samekey.operation(NAME):
            await client.get()
            await client.request("PUT", json={})

    assert await now(shop.journal.get("", NAME)) is None


async def test_two_names_two_keys(shop: Shop) -> None:
    """Equal requests under two names are two operations."""
    async with shop.client(policy=QUICK) as client:
        await charge(client, "a")
        await charge(client, "b")

    assert len(shop.server.effects) == len(shop.server.keys) == 2
