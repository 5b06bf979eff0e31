"""Cancelled during the claim, the send, a wait, the record: the journal's step is finished, the name is never free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import samekey
from samekey import RetryPolicy
from samekey.events import JournalStepped
from samekey.journal import RowState
from samekey.testing import faults
from tests.named.shop import ONCE, AsyncFaulty, Shop, charge, in_memory, on_sync
from tests.transport.harness import the

Cancel = Callable[..., Awaitable[None]]
"""Cancel *work* at a *moment*; *after* is called when it has been struck."""

only_asyncio = pytest.mark.parametrize("api", ["asyncio"], indirect=True)


class Patience:
    """A policy whose waits are long; `waits` tells that one has begun."""

    def __init__(self) -> None:
        self.waits = 0
        self.policy = RetryPolicy(wait=self.wait, poll_wait=self.wait, unresolved_ttl=0)

    def wait(self, state: object) -> float:
        self.waits += 1
        return 30.0


async def until(moment: Callable[[], Any]) -> None:
    """Wait for *moment*, and then a little."""
    while not moment():  # noqa: ASYNC110 - of whatever kind
        await anyio.sleep(0.005)
    await anyio.sleep(0.03)


def nothing() -> None:
    """Nobody waits for the blow."""


async def by_scope(
    work: Callable[[], Awaitable[Any]], moment: Callable[[], Any], after: Callable[[], None] = nothing
) -> None:
    """Cancel by a scope, as anyio and trio do."""
    async with anyio.create_task_group() as group:

        async def cancelled() -> None:
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await work()
                await anyio.sleep(5)

        scopes: list[anyio.CancelScope] = []
        group.start_soon(cancelled)
        await until(moment)
        scopes[0].cancel()
        after()
    assert scopes[0].cancelled_caught


async def by_task(
    work: Callable[[], Awaitable[Any]], moment: Callable[[], Any], after: Callable[[], None] = nothing
) -> None:
    """Cancel the task itself, as asyncio does."""
    task = asyncio.ensure_future(work())
    await until(moment)
    task.cancel()
    after()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_timeout(
    work: Callable[[], Awaitable[Any]], moment: Callable[[], Any], after: Callable[[], None] = nothing
) -> None:
    """`asyncio.timeout`, which cancels the very task that goes on afterwards."""

    async def run_out(limit: asyncio.Timeout) -> None:
        await until(moment)
        limit.reschedule(asyncio.get_running_loop().time())
        while not limit.expired():  # noqa: ASYNC110 - told by nobody
            await asyncio.sleep(0)
        after()

    with pytest.raises(TimeoutError):  # noqa: PT012
        async with asyncio.timeout(None) as limit:
            task = asyncio.ensure_future(run_out(limit))
            await work()
    await task
    await asyncio.sleep(0.01)  # nothing strikes late


WAYS = [
    pytest.param(api, way, id=f"{api}-{way.__name__}")
    for api, ways in (("asyncio", (by_scope, by_task, by_timeout)), ("trio", (by_scope,)))
    for way in ways
]
every_way = pytest.mark.parametrize(("api", "cancel"), WAYS, indirect=["api"])


class Slowly(AsyncFaulty):
    """A journal whose steps take their time: before they are done, until they may go on, and after."""

    def __init__(self, inner: Any, *steps: str) -> None:
        super().__init__(inner)
        self.steps = steps
        self.begun: list[str] = []
        self.done: list[str] = []
        self.may = False

    def go_on(self) -> None:
        self.may = True

    async def do(self, step: str, *what: Any) -> Any:
        if step in self.steps:
            self.begun.append(step)
            while not self.may:  # noqa: ASYNC110 - of whichever loop
                await anyio.sleep(0.005)
        done = await super().do(step, *what)
        if step in self.steps:
            await anyio.sleep(0.02)
        self.done.append(step)
        return done


@every_way
async def test_during_the_send(shop: Shop, cancel: Cancel) -> None:
    """The request is on its way: unknown."""
    shop.server.script(faults.never())
    async with shop.client() as client:
        await cancel(lambda: charge(client), lambda: shop.server.requests)

    assert await shop.state() == ("unknown", None)
    response = await shop.charge()
    assert samekey.is_replayed(response)
    shop.api.seen(wire=2, effects=1)


@every_way
@pytest.mark.real_time
async def test_during_a_wait(shop: Shop, cancel: Cancel) -> None:
    """Between two attempts: the first one is open, and nothing more is sent."""
    shop.server.script(faults.lost())
    patience = Patience()
    async with shop.client(policy=patience.policy) as client:
        await cancel(lambda: charge(client), lambda: patience.waits)

    assert await shop.state() == ("unknown", None)
    shop.api.seen(wire=1, effects=1)


@every_way
@pytest.mark.real_time
async def test_during_a_wait_with_nothing_sent(shop: Shop, cancel: Cancel) -> None:
    """No connection so far: the name keeps its key, and nothing is open."""
    patience = Patience()
    async with shop.client(policy=patience.policy, transport=shop.no_connection()) as client:
        await cancel(lambda: charge(client), lambda: patience.waits)

    entry = await shop.row()
    assert (entry.state, entry.sends) == (RowState.CLAIMED, 0)


@every_way
async def test_during_the_claim(shop: Shop, cancel: Cancel) -> None:
    """The claim is finished, then given back: the key is reserved, nothing was sent."""
    journal = Slowly(shop.journal, "claim")
    async with shop.client(journal=journal) as client:
        await cancel(lambda: charge(client), lambda: journal.begun, journal.go_on)

    assert journal.done[0] == "claim"
    assert shop.server.requests == []
    entry = await shop.row()
    assert entry.state in (RowState.CLAIMED, RowState.UNKNOWN)
    assert (await shop.charge()).status_code == 201
    assert shop.server.keys == [entry.key]


@every_way
async def test_during_the_renewal(shop: Shop, cancel: Cancel) -> None:
    """It is finished; nothing more is sent, and the first attempt stays open."""
    journal = Slowly(shop.journal, "renew")
    shop.server.script(faults.lost())
    async with shop.client(journal=journal) as client:
        await cancel(lambda: charge(client), lambda: journal.begun, journal.go_on)

    assert journal.done == ["claim", "renew", "record"]
    assert await shop.state() == ("unknown", None)
    assert len(shop.server.requests) == 1


@every_way
async def test_during_the_record(shop: Shop, cancel: Cancel) -> None:
    """The answer is written all the same: the next process gets it without asking the server."""
    journal = Slowly(shop.journal, "record")
    async with shop.client(journal=journal) as client:
        await cancel(lambda: charge(client), lambda: journal.begun, journal.go_on)

    assert journal.done[:2] == ["claim", "record"]
    assert await shop.state() == ("executed", 201)
    assert the(samekey.report(await shop.charge())).source == "journal"


@every_way
@pytest.mark.real_time
async def test_while_another_process_is_at_it(shop: Shop, cancel: Cancel) -> None:
    """Who only waited has nothing to give back."""
    await shop.killed(faults.lost())
    shop.clock.ahead = 0
    before = await shop.row()
    patience = Patience()
    async with shop.client(policy=patience.policy) as client:
        await cancel(lambda: charge(client), lambda: patience.waits)

    after = await shop.row()
    assert (after.state, after.owner, after.sends) == (before.state, before.owner, 1)


@only_asyncio
@in_memory
async def test_cancelled_twice(shop: Shop) -> None:
    """A timeout and its owner's cancellation during one step: the outer one wins, as without samekey."""
    journal = Slowly(shop.journal, "record")
    limits: list[asyncio.Timeout] = []

    async def work() -> None:
        async with shop.client(journal=journal) as client:
            async with asyncio.timeout(None) as limit:
                limits.append(limit)
                await charge(client)

    task = asyncio.ensure_future(work())
    await until(lambda: journal.begun)
    limits[0].reschedule(asyncio.get_running_loop().time())
    await asyncio.sleep(0.01)
    task.cancel()
    journal.go_on()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await shop.state() == ("executed", 201)


@every_way
async def test_step_that_fails_while_cancelled(shop: Shop, cancel: Cancel) -> None:
    """An error of the journal does not swallow the cancellation."""
    journal = Slowly(shop.journal, "record")
    journal.fails["record"] = 99
    async with shop.client(journal=journal) as client:
        await cancel(lambda: charge(client), lambda: journal.begun, journal.go_on)

    assert await shop.state() == ("in_flight", None)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
@on_sync
async def test_interrupted_while_sending(shop: Shop, error: type[BaseException]) -> None:
    """Whatever breaks off leaves the name unknown."""

    def send(request: object) -> Any:
        raise error

    async with shop.client(transport=shop.api.inner(send), policy=ONCE) as client:
        with pytest.raises(error):
            await charge(client)

    assert await shop.state() == ("unknown", None)


@on_sync
async def test_interrupted_in_a_wait(shop: Shop) -> None:
    """Ctrl-C between two attempts: unknown."""

    def interrupt(state: object) -> float:
        raise KeyboardInterrupt

    shop.server.script(faults.lost())
    async with shop.client(policy=RetryPolicy(wait=interrupt)) as client:
        with pytest.raises(KeyboardInterrupt):
            await charge(client)

    assert await shop.state() == ("unknown", None)


@only_asyncio
@in_memory
async def test_another_task_was_struck(shop: Shop) -> None:
    """A cancellation that is held off strikes its own task, and no other."""
    journal = Slowly(shop.journal, "record")
    async with shop.client(journal=journal) as client:
        held = asyncio.ensure_future(charge(client))
        await until(lambda: journal.begun)
        held.cancel()
        journal.go_on()
        other = asyncio.ensure_future(charge(client, "another"))
        with pytest.raises(asyncio.CancelledError):
            await held
        assert (await other).status_code == 201

    assert await shop.state() == ("executed", 201)


@on_sync
async def test_interrupted_in_a_listener_of_the_claim(shop: Shop) -> None:
    """Between claim and send: held until the lease runs out, and then the same key is sent."""

    def interrupt(event: object) -> None:
        if isinstance(event, JournalStepped):
            raise KeyboardInterrupt

    async with shop.client(listeners=[interrupt]) as client:
        with pytest.raises(KeyboardInterrupt):
            await charge(client)
    entry = await shop.row()
    assert entry.state is RowState.IN_FLIGHT
    assert shop.server.requests == []
    shop.clock.ahead = 80
    await shop.charge()

    assert shop.server.keys == [entry.key]
