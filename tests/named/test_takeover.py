"""Design 7.4 and 7.5: takeover with one open attempt, renewal, waiting for another process, stale owners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tenacity import wait_fixed, wait_none

import samekey
from samekey import AlreadyExecuted, KeyMismatch, OutcomeUnknown, RetryPolicy, StillInProgress
from samekey.events import JournalStepped
from samekey.journal import RowState
from samekey.testing import ReceivedRequest, Reply, faults
from tests.named.shop import DAY, NAME, ONCE, SECOND, Shop, charge, in_memory, on_async, on_sync
from tests.transport.harness import Client, now, statuses, the

LINKS = {"conflicting_resource_id": "PM1"}
REAL = RetryPolicy(wait=wait_none(), poll_wait=wait_fixed(0.02), unresolved_ttl=0)


async def test_takeover_sends_the_same_key(shop: Shop) -> None:
    """The killed process had charged: the next one gets the replay, under the row's key."""
    key = await shop.killed(faults.lost())
    response = await shop.charge()

    assert samekey.is_replayed(response)
    assert shop.server.keys == [key]
    shop.api.seen(wire=2, effects=1)
    assert (await shop.row()).sends == 2


@pytest.mark.parametrize("status", [401, 403, 404, 422, 407, 400, 451])
async def test_front_door_after_takeover_is_no_refusal(shop: Shop, status: int) -> None:
    """A 4xx that a gateway gives says nothing of the first process's request: unknown, and the name stays open."""
    await shop.killed(faults.lost())
    shop.server.script(faults.status(status))
    async with shop.client(policy=ONCE) as client:
        if status in (401, 407):
            response = await charge(client)
            report = the(samekey.report(response))
        else:
            with pytest.raises(OutcomeUnknown) as caught:
                await charge(client)
            assert caught.value.response is not None
            report = caught.value.report

    assert report.outcome == "unknown"
    assert await shop.state() == ("unknown", None)
    assert samekey.is_replayed(await shop.charge())
    assert len(shop.server.effects) == len(shop.server.keys) == 1


async def test_behind_the_lookup_after_takeover_settles(shop: Shop) -> None:
    """A 402 is made behind the key lookup: it is the answer to the first request as well."""
    key = await shop.killed(faults.lost(executes=False))
    shop.server.script(faults.status(402))
    response = await shop.charge()

    assert the(samekey.report(response)).outcome == "rejected"
    assert await shop.state() == ("rejected", 402)
    assert (await shop.row()).key == key


async def test_no_connection_after_takeover(shop: Shop) -> None:
    """Nothing of this process has left, but something of the first may have: unknown, and no connect error."""
    await shop.killed(faults.lost())
    async with shop.client(transport=shop.no_connection()) as client:
        with pytest.raises(OutcomeUnknown) as caught:
            await charge(client)

    assert not isinstance(caught.value, shop.api.httpx.ConnectError)
    assert isinstance(caught.value, shop.api.httpx.TransportError)
    assert await shop.state() == ("unknown", None)


async def test_429_after_takeover(shop: Shop) -> None:
    """Turned away, but the first request is still open."""
    await shop.killed(faults.lost())
    shop.server.script(then=faults.status(429))
    with pytest.raises(OutcomeUnknown):
        await shop.charge(policy=SECOND)

    assert await shop.state() == ("unknown", None)


async def test_conflict_after_takeover_is_polled(shop: Shop) -> None:
    """A bare 409 may be the first request still running."""
    await shop.killed(faults.lost())
    shop.server.script(faults.status(409), faults.status(409))
    response = await shop.charge()

    assert statuses(samekey.report(response)) == [409, 409, 201]
    shop.api.seen(wire=4, effects=1)


async def test_server_told_mismatch_after_takeover(shop: Shop) -> None:
    """Our own open attempt with these bytes holds the key there: unknown, from KeyMismatch."""
    await shop.killed(faults.lost())
    shop.server.script(faults.mismatch())
    with pytest.raises(OutcomeUnknown) as caught:
        await shop.charge()

    assert isinstance(caught.value.__cause__, KeyMismatch)
    assert await shop.state() == ("unknown", None)


async def test_another_process_holds_the_name(shop: Shop) -> None:
    """Waits are polls: nothing is sent, and when time is up it is StillInProgress with the row's key."""
    key = await shop.killed(faults.lost())
    shop.clock.ahead = 0
    with pytest.raises(
        StillInProgress, match=r"another process is at work on the operation 'order-4821:charge'"
    ) as told:
        await shop.charge(policy=RetryPolicy(unresolved_ttl=0))

    assert len(shop.server.requests) == 1
    assert told.value.key == key
    report = told.value.report
    assert (report.attempts, report.gave_up, report.outcome) == ((), "deadline", "unknown")
    assert (await shop.row()).sends == 1


async def test_another_process_holds_the_name_and_retries_are_off(shop: Shop) -> None:
    """`retry=False` does not wait either."""
    await shop.killed(faults.lost())
    shop.clock.ahead = 0
    async with shop.client() as client:
        with pytest.raises(StillInProgress) as caught:
            await charge(client, extensions=samekey.options(retry=False))

    assert caught.value.report.gave_up == "retry_off"


@pytest.mark.real_time
async def test_waiter_gets_the_answer_of_the_other_process(shop: Shop) -> None:
    """Two processes, one name: one sends, the other waits for it and gets the same answer."""
    held = threading.Event()
    shop.server.script(faults.hold(held))
    sources: list[str] = []

    async def first() -> None:
        response = await shop.charge(policy=REAL)
        sources.append(the(samekey.report(response)).source)

    async def second() -> None:
        while not shop.server.requests:
            await shop.api.sleep(0.005)
        async with shop.client(policy=REAL, listen=True) as client:

            async def let_go() -> None:
                while len([event for event in shop.api.events if isinstance(event, JournalStepped)]) < 2:
                    await shop.api.sleep(0.005)
                held.set()

            async def wait() -> None:
                response = await charge(client)
                sources.append(the(samekey.report(response)).source)

            await shop.api.together(wait, let_go)

    await shop.api.together(first, second)

    assert sorted(sources) == ["journal", "network"]
    shop.api.seen(wire=1, effects=1)


@pytest.mark.real_time
async def test_waiter_takes_over_when_the_lease_runs_out(shop: Shop) -> None:
    """It claims again with every poll, so it takes over as soon as it may."""
    key = await shop.killed(faults.lost())
    shop.clock.ahead -= 1.5
    response = await shop.charge(policy=REAL)

    assert samekey.is_replayed(response)
    assert shop.server.keys == [key]


@pytest.mark.real_time
async def test_two_tasks_in_one_operation(shop: Shop) -> None:
    """They share a name: one sends, the other gets the recorded answer."""
    found = []
    shop.server.script(faults.slow(0.1))
    async with shop.client(policy=REAL) as client:
        with samekey.operation(NAME):

            async def task() -> None:
                found.append(await client.post())

            await shop.api.together(task, task)

    assert found[0].content == found[1].content
    assert {the(samekey.report(response)).source for response in found} == {"network", "journal"}
    shop.api.seen(wire=1, effects=1)


async def test_owner_that_lost_the_row_sends_nothing_more(shop: Shop) -> None:
    """Before its second attempt the first owner finds that another process took over: it follows the row."""
    answers = []

    async def meanwhile() -> None:
        shop.clock.ahead += 80
        answers.append(await shop.charge())

    async with shop.client() as client:

        async def between(request: object) -> object:
            response = await now(handle(request))
            if not answers:
                answers.append(response)
                await meanwhile()
            return response

        handle = around_send(shop, client, between)
        shop.server.script(faults.status(503))
        late = await charge(client)

    report = the(samekey.report(late))
    assert (report.source, report.recorded, statuses(report)) == ("journal", True, [503])
    assert late.content == answers[1].content
    shop.api.seen(wire=2, effects=1)


def around_send(shop: Shop, client: Client, around: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Let *around* stand in the way of what the client sends; gives what really sends."""

    def run(request: Any) -> Any:
        if not shop.api.sync:
            return around(request)
        try:
            around(request).send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waits")

    inner = client.raw._transport._inner
    name = "handle_request" if shop.api.sync else "handle_async_request"
    real = getattr(inner, name)
    setattr(inner, name, run)
    return real


async def test_owner_that_lost_the_row_cannot_record(shop: Shop) -> None:
    """A late answer is delivered, and does not touch the row of the new owner."""
    async with shop.client() as client:

        async def slowly(request: object) -> object:
            shop.clock.ahead += 80
            taken = shop.faulty()
            taken.fails["record"] = 9
            shop.server.script(faults.lost(executes=False))
            with pytest.raises(OutcomeUnknown):
                await shop.charge(policy=ONCE, journal=taken)
            return await now(handle(request))

        handle = around_send(shop, client, slowly)
        response = await charge(client)

    assert response.status_code == 201
    assert the(samekey.report(response)).recorded is False
    entry = await shop.row()
    assert (entry.state, entry.sends) == (RowState.IN_FLIGHT, 2)
    assert len(shop.server.keys) == 1


@on_sync
@in_memory
async def test_lease_run_out_unnoticed(shop: Shop) -> None:
    """Between the claim and the first byte the process stood still: the lease is renewed before anything is sent."""
    log: list[str] = []
    from samekey import _pause

    async with shop.client(journal=shop.faulty(log), listen=True) as client:
        clock = _pause.monotonic

        def jump(event: object) -> None:
            if isinstance(event, JournalStepped) and event.step == "claim":
                _pause.monotonic = lambda: clock() + 76

        client.raw._transport._engine.listeners = (jump,)
        try:
            with samekey.operation(NAME):
                await client.post(extensions=samekey.options(total_timeout=60))
        except StillInProgress:
            pass
        except OutcomeUnknown:
            pass
        finally:
            _pause.monotonic = clock

    assert log[:2] == ["claim", "renew"]


@pytest.mark.parametrize("hours", [23, 25])
async def test_br_72_older_than_the_retention(shop: Shop, hours: int) -> None:
    """BR-72: at 23 h the same key goes out; at 25 h nothing does, and never a new key."""
    key = await shop.killed(faults.lost())
    shop.clock.ahead = hours * 3600
    if hours < DAY / 3600:
        assert samekey.is_replayed(await shop.charge())
    else:
        for _ in range(2):
            with pytest.raises(samekey.KeyExpired) as caught:
                await shop.charge()
            assert caught.value.key == key
            assert caught.value.report.attempts == ()
            assert await shop.state() == ("unknown", None)

    assert shop.server.keys == [key]


async def test_br_72_the_clock_moved_back(shop: Shop) -> None:
    """BR-72: an age is never negative; the same key goes out."""
    key = await shop.killed(faults.lost())
    entry = await shop.row()
    assert entry.age > 0
    shop.server.script(faults.lost())
    with pytest.raises(OutcomeUnknown):
        await shop.charge(policy=ONCE)
    shop.clock.ahead = -3600
    assert (await shop.row()).age == 0
    assert samekey.is_replayed(await shop.charge())
    assert shop.server.keys == [key]


async def test_br_72_retention_is_the_origin_s(shop: Shop) -> None:
    """BR-72: a dialect that keeps keys for an hour."""
    from datetime import timedelta

    await shop.killed(faults.lost())
    shop.clock.ahead = 3600
    short = samekey.Dialect(retention=timedelta(hours=1))
    async with shop.client(dialect=short) as client:
        with pytest.raises(samekey.KeyExpired):
            await charge(client)

    assert len(shop.server.requests) == 1


async def test_already_done_after_takeover(shop: Shop) -> None:
    """An API that says "done before" instead of replaying: what it made is recorded, and told to the next run."""
    await shop.killed(faults.lost())
    done = {"error": {"code": 409, "errors": [{"reason": "idempotent_creation_conflict", "links": LINKS}]}}
    shop.server.script(faults.status(409, json=done))
    for _ in range(2):
        async with shop.client(dialect=samekey.dialects.GOCARDLESS) as client:
            with pytest.raises(AlreadyExecuted) as caught:
                await charge(client)
        assert caught.value.resource == "PM1"

    assert await shop.state() == ("executed", None)
    assert (await shop.row()).resource == "PM1"
    assert len(shop.server.requests) == 2


async def test_expires_during_the_call(shop: Shop) -> None:
    """The age is checked before every attempt, after the renewal too."""
    from datetime import timedelta

    await shop.killed(faults.lost())
    shop.clock.ahead = 2000
    shop.server.script(then=faults.status(503, headers={"Retry-After": "30"}))
    short = samekey.Dialect(retention=timedelta(seconds=2100), margin=60)
    async with shop.client(dialect=short, policy=RetryPolicy(wait=wait_none())) as client:
        with pytest.raises(samekey.KeyExpired):
            await charge(client, extensions=samekey.options(total_timeout=600))

    assert 2 <= len(shop.server.requests) <= 3
    assert await shop.state() == ("unknown", None)


async def test_br_73_failure_keeps_the_row(shop: Shop) -> None:
    """BR-73: attempts that end in ReadTimeout leave *unknown*; only a definitive answer closes the name."""
    shop.server.script(faults.never(), faults.never())
    async with shop.client(policy=SECOND, hurry={1: "head", 2: "head"}) as client:
        with pytest.raises(OutcomeUnknown) as caught:
            await charge(client)
    assert isinstance(caught.value, shop.api.httpx.ReadTimeout)
    entry = await shop.row()
    assert (entry.state, entry.key) == (RowState.UNKNOWN, caught.value.key)
    (open_row,) = await now(shop.journal.unresolved())
    assert open_row.name == NAME

    assert samekey.is_replayed(await shop.charge())
    assert len(shop.server.effects) == len(shop.server.keys) == 1


async def test_br_74_another_body_under_the_old_key(shop: Shop) -> None:
    """BR-74: a resumed task that builds another body sends nothing, and is told both digests."""
    key = await shop.killed(faults.lost())
    with pytest.raises(KeyMismatch, match=r"fingerprint [0-9a-f]{8}, this one [0-9a-f]{8}.*nobody knows") as caught:
        await shop.charge(json={"amount": 4900, "currency": "eur", "new": 1})

    assert len(shop.server.requests) == 1
    assert caught.value.key == key
    assert caught.value.report.attempts == ()
    assert await shop.state() == ("in_flight", None)


async def test_br_77_a_claim_that_commits_but_reports_an_error(shop: Shop) -> None:
    """BR-77: the row that was written is recognised as our own by its owner token, not taken for a rival."""
    journal = shop.faulty()
    journal.late = True
    journal.fails = {"claim": 1} if shop.kind == "memory" else {"claim": 1, "renew": 1, "record": 1}
    shop.server.script(faults.status(503))
    response = await shop.charge(journal=journal)

    assert the(samekey.report(response)).recorded is True
    entry = await shop.row()
    assert (entry.state, entry.sends, entry.status) == (RowState.EXECUTED, 1, 201)
    shop.api.seen(wire=2, effects=1)


@in_memory
@on_async
async def test_a_thousand_names_at_once(shop: Shop) -> None:
    """Concurrent operations do not mix."""
    import anyio

    def handler(request: ReceivedRequest) -> Reply:
        return Reply(200, {}, request.body)

    shop.server.script(then=handler)
    async with shop.client(memory=True) as client:

        async def one(number: int) -> None:
            response = await charge(client, f"order-{number}", json={"n": number})
            assert response.json() == {"n": number}

        async with anyio.create_task_group() as group:
            for number in range(300):
                group.start_soon(one, number)

    assert len(shop.server.keys) == 300
