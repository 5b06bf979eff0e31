"""Sections G, H and I of the bug reports: connections, redirects and auth, cancellation (BR-45 to BR-54)."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import NotSent, OutcomeUnknown, RetryPolicy
from samekey._straight import First
from samekey.events import WaitScheduled
from samekey.testing import Fault, faults
from tests.transport.harness import (
    Api,
    Client,
    cancelled_once,
    counting,
    cut_off,
    eventually,
    kinds,
    leaves_streams,
    on_async,
    on_sync,
    raises,
    statuses,
    the,
)

QUICK = RetryPolicy(wait=wait_none())
ONE: dict[str, Any] = {"connections": 1, "timeouts": {"timeout": 30, "pool": 0.1}}


@leaves_streams
@pytest.mark.parametrize("size", [0, 500, 60_000, 500_000])
@pytest.mark.parametrize("status", [503, 409, 429])
async def test_br_45_a_discarded_answer_frees_its_connection(api: Api, status: int, size: int) -> None:
    """With a pool of one, the next attempt gets the connection; small answers keep it alive."""
    step = faults.status(status, body="x" * size, headers={"x-should-retry": "true"})
    api.server.script(step, step, step)
    opened: list[str] = []
    async with api.client(**ONE) as client:
        response = await client.post(extensions=counting(api, opened))
        assert client.connections == 1
        again = await client.post()

    assert (response.status_code, again.status_code) == (201, 201)
    assert len(api.server.requests) == 5
    # At most 64 KiB are drained; of more, closing is cheaper than reading.
    assert len(opened) == (1 if size < 64 * 1024 else 4)


async def test_br_45_a_running_request_frees_its_connection(api: Api) -> None:
    """409 "in progress" in a row, through a pool of one, on one TCP connection."""
    api.server.script(*[faults.in_progress()] * 3)
    opened: list[str] = []
    async with api.client(**ONE) as client:
        response = await client.post(extensions=counting(api, opened))

    assert kinds(samekey.report(response)) == ["first", "poll", "poll", "poll"]
    assert len(opened) == 1


@leaves_streams
async def test_br_45_an_unkeyed_request_frees_its_connection(api: Api) -> None:
    """The answers of a GET are not read before they are judged, but drained when they are discarded."""
    api.server.script(*[faults.status(503, body="x" * 1000)] * 2, faults.status(503, body="x" * 200_000))
    opened: list[str] = []
    async with api.client(**ONE) as client:
        response = await client.get(extensions=counting(api, opened))

    assert statuses(samekey.report(response)) == [503, 503, 503, 200]
    assert len(opened) == 2


async def test_br_45_trouble_while_discarding_is_no_error(api: Api) -> None:
    """An answer that nobody gets may break off or never end."""
    api.server.script(
        faults.status(503, body="x" * 1000),
        _broken(faults.status(503, body="x" * 1000), "close"),
        _broken(faults.status(503, body="x" * 1000), "stall"),
    )
    async with api.client(**ONE, hurry={3: "body"}) as client:
        response = await client.get()

    assert response.status_code == 200
    assert statuses(samekey.report(response)) == [503, 503, 503, 200]


def _broken(step: Fault, end: Any) -> Fault:
    """A canned answer of which half is sent."""
    cut = faults.cut(end=end)
    return Fault("cut", step.source, executes=False, reply=step.reply, delivery=cut.delivery)


async def test_br_45_an_error_at_the_end_frees_the_connection(api: Api) -> None:
    """The last answer is inside the error, and its connection is free."""
    api.server.script(*[faults.status(503, body="busy")] * 5)
    async with api.client(**ONE, policy=QUICK) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post(json={"n": 1})
        assert (await client.post(json={"n": 2})).status_code == 201

    assert caught.value.response.text == "busy"


async def test_br_47_a_full_pool_is_never_sent(api: Api) -> None:
    """PoolTimeout says that nothing left: NotSent, and safe to repeat."""
    done = threading.Event()
    api.server.script(faults.hold(done), path="/slow")
    results: list[BaseException | httpx.Response] = []

    async with api.client(**ONE, policy=QUICK) as client:

        async def slow() -> None:
            results.append(await client.post("/slow"))

        async def refused() -> None:
            while not api.server.requests:
                await api.sleep(0.005)
            try:
                await client.post("/fast")
            except NotSent as error:
                results.append(error)
            finally:
                done.set()

        await api.together(slow, refused)
        assert (await client.post("/fast")).status_code == 201

    assert isinstance(results[0], api.httpx.PoolTimeout)
    assert statuses(samekey.report(results[0])) == ["PoolTimeout"] * 5
    assert len(api.server.keys) == len(api.server.effects) == 2


@on_async
@pytest.mark.real_time
async def test_br_47_cancellation_leaks_nothing_of_ours(api: Api) -> None:
    """Cancelled while sending, while reading the answer, while waiting: the pool of one is free each time.

    httpcore itself loses a slot when a *queued* request is cancelled before it was connected; that is below us.
    """
    steps = (
        faults.never(),
        faults.cut(3, end="stall"),
        _broken(faults.status(503, body="x" * 100), "stall"),
        faults.status(503),
    )
    patience = Patience()
    async with api.client(**ONE, policy=patience.policy) as c:
        for number, step in enumerate(steps):
            api.server.script(step)
            async with cancelled_once(patience.meets(api, step)) as scope:
                await c.post(json={"n": number})
            assert scope.cancelled_caught
            assert (await c.post(json={"ok": number})).status_code == 201


# -- auth and redirects


async def test_br_48_an_auth_refresh_keeps_the_key(api: Api) -> None:
    """401, refresh, the resend is lost, then answered: one key over all three; the token request has none."""
    api.server.script(faults.status(401), faults.lost(), path="/charges")
    async with api.client(auth=api.refreshing()) as client:
        response = await client.post()

    charges = [request for request in api.server.requests if request.path == "/charges"]
    tokens = [request for request in api.server.requests if request.path == "/token"]
    assert samekey.is_replayed(response)
    assert len({request.key for request in charges}) == 1
    assert [request.header("authorization") for request in charges] == ["Bearer old"] + ["Bearer new-201"] * 2
    assert [request.key for request in tokens] == [None]
    told = the(samekey.report(response))
    assert (kinds(told), told.outcome) == (["first", "follow_up", "retry"], "executed")


async def test_br_48_the_bytes_are_the_same_after_a_refresh(api: Api) -> None:
    """A generator as body is read once, before the first leg."""
    api.server.script(faults.status(401), faults.lost(), path="/charges")
    async with api.client(auth=api.refreshing()) as client:
        await client.post(content=api.body_of(b"ab", b"c"))

    assert [request.body for request in api.server.requests if request.path == "/charges"] == [b"abc"] * 3


@pytest.mark.parametrize("status", [307, 308])
async def test_br_50_a_redirect_keeps_the_key(api: Api, status: int) -> None:
    """The second hop is lost and repeated: one key on every hop and attempt."""
    api.server.script(faults.redirect(status, "/b"), path="/a")
    api.server.script(faults.lost(), path="/b")
    async with api.client(follow_redirects=True) as client:
        response = await client.post("/a")

    assert samekey.is_replayed(response)
    assert [request.path for request in api.server.requests] == ["/a", "/b", "/b"]
    assert kinds(samekey.report(response)) == ["first", "follow_up", "retry"]
    api.seen(wire=3, effects=1)


# -- cancellation


class Patience:
    """A policy whose waits are long, and that counts them."""

    def __init__(self) -> None:
        self.waits = 0
        self.policy = RetryPolicy(wait=self.wait)

    def wait(self, state: object) -> float:
        self.waits += 1
        return 30.0

    def meets(self, api: Api, step: Fault) -> Callable[[], object]:
        """Whether the next request has met *step*: it waits for the next attempt, or for what never comes."""
        requests, waits = len(api.server.requests), self.waits
        if step.name == "status":
            return lambda: self.waits > waits
        return lambda: len(api.server.requests) > requests


@on_async
@pytest.mark.real_time
@pytest.mark.parametrize(
    "step", [faults.never(), faults.cut(3, end="stall"), faults.status(503)], ids=["sending", "reading", "waiting"]
)
async def test_br_52_cancellation_is_never_swallowed(api: Api, step: Fault) -> None:
    """The scope around the call ends at once, nothing more is sent, and the operation is remembered as unknown."""
    api.server.script(step)
    patience = Patience()
    async with api.client(policy=patience.policy, timeout=30) as client:
        began = time.monotonic()
        async with cancelled_once(patience.meets(api, step)) as scope:
            await client.post()
        assert time.monotonic() - began < 15
        assert scope.cancelled_caught
        with raises(OutcomeUnknown) as caught:
            await client.post()

    assert caught.value.key == api.server.keys[0]
    assert len(api.server.requests) == 1


@on_async
@pytest.mark.real_time
async def test_br_52_the_operation_tells_of_a_cancelled_call(api: Api) -> None:
    """`op.key` and `op.report` are readable afterwards, and the same call again goes on with the key."""
    api.server.script(faults.never())
    async with api.client() as client:
        with samekey.operation() as op:
            async with cancelled_once(lambda: api.server.effects):
                await client.post()
            told = the(op.report)
            response = await client.post()

    assert (told.key, told.outcome, told.attempts[-1].failure) == (op.key, "unknown", "cancelled")
    assert samekey.is_replayed(response)
    assert the(op.report).outcome == "executed"
    api.seen(wire=2, effects=1)


@on_async
@pytest.mark.real_time
async def test_br_52_a_timeout_of_the_caller_stays_his(api: Api) -> None:
    """The `fail_after` of anyio raises TimeoutError, which is not an answer of the network and not retried."""
    api.server.script(faults.never())
    async with api.client(timeout=30) as client, anyio.create_task_group() as group:
        with pytest.raises(TimeoutError):  # noqa: PT012
            with anyio.fail_after(15) as scope:
                group.start_soon(cut_off, scope, lambda: api.server.requests)
                await client.post()

    assert len(api.server.requests) == 1


@on_sync
@pytest.mark.real_time
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    "step", [faults.never(), faults.cut(3, end="stall"), faults.status(503)], ids=["sending", "reading", "waiting"]
)
async def test_br_52_interrupts_are_never_swallowed(api: Api, step: Fault, kind: type[BaseException]) -> None:
    """Ctrl-C and SystemExit in the sync client, on a real socket: the same as a cancellation."""
    api.server.script(step)
    async with api.client(policy=RetryPolicy(wait=wait_fixed(30)), **ONE) as client:
        began = time.monotonic()
        with pytest.raises(kind), interrupted(kind, lambda: bool(api.server.requests)):
            await client.post()
        assert time.monotonic() - began < 15
        with raises(OutcomeUnknown) as caught:
            await client.post()
        assert len(api.server.requests) == 1
        with samekey.operation(key=caught.value.key):
            response = await client.post()

    assert response.status_code == 201
    assert len(api.server.keys) == len(api.server.effects) == 1


async def test_br_52_an_interrupt_while_the_answer_is_judged(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller never got the answer: an equal call is told so, and not sent."""

    def interrupt(self: First) -> None:
        raise KeyboardInterrupt

    async with api.client() as client:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(First, "answered", interrupt)
            await client.post()
        with raises(OutcomeUnknown):
            await client.post()

    api.seen(wire=1, effects=1)


class interrupted:  # noqa: N801 - reads like a function
    """Raise *kind* in the main thread soon after *when* is true, whatever that thread waits for."""

    def __init__(self, kind: type[BaseException], when: Callable[[], bool]) -> None:
        self.kind = kind
        self.when = when
        self.thread = threading.Thread(target=self.strike)

    def strike(self) -> None:
        eventually(self.when)
        time.sleep(0.1)
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGUSR1)

    def __enter__(self) -> None:
        def handler(*_: object) -> None:
            raise self.kind

        self.before = signal.signal(signal.SIGUSR1, handler)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.thread.join()
        signal.signal(signal.SIGUSR1, self.before)


async def test_br_52_an_interrupt_from_below_is_raised_as_it_is(api: Api) -> None:
    """Whatever is no Exception passes, with the attempt left open."""
    api.server.script()

    def handle(request: httpx.Request) -> Any:
        raise KeyboardInterrupt

    async with api.client(transport=api.inner(handle)) as client:
        with samekey.operation() as op, pytest.raises(KeyboardInterrupt):
            await client.post()

    told = the(op.report)
    assert (told.outcome, told.attempts[0].failure, told.attempts[0].open) == ("unknown", "cancelled", True)


@on_async
@pytest.mark.real_time
async def test_br_53_cancelled_while_backing_off(api: Api) -> None:
    """The next attempt is never sent, not even when its time has come."""
    api.server.script(faults.status(503))

    async def cancel() -> None:
        scope.cancel()

    def listen(event: object) -> None:
        if isinstance(event, WaitScheduled):
            group.start_soon(cancel)

    async with (
        api.client(policy=RetryPolicy(wait=wait_fixed(0.3)), listeners=[listen]) as client,
        anyio.create_task_group() as group,
    ):
        with anyio.CancelScope() as scope:
            await client.post()
        assert scope.cancelled_caught
        await anyio.sleep(0.4)

    assert len(api.server.requests) == 1


@on_async
@pytest.mark.real_time
async def test_br_54_the_loop_goes_on_during_a_backoff(api: Api) -> None:
    """Another task gets its turns while half a minute is waited, for a retry and for a poll."""
    policy = RetryPolicy(wait=wait_fixed(30), poll_wait=wait_fixed(30))
    async with api.client(policy=policy, listen=True) as client:
        for number, step in enumerate((faults.status(503), faults.in_progress())):
            api.server.script(step)
            began = time.monotonic()
            async with anyio.create_task_group() as group:
                group.start_soon(partial(client.post, json={"n": number}))
                while len(api.waits) == number:  # noqa: ASYNC110 - told by a listener
                    await anyio.sleep(0.01)
                for _ in range(20):
                    await anyio.sleep(0.01)
                group.cancel_scope.cancel()
            assert time.monotonic() - began < 15

    assert api.waits == [30, 30]
    assert len(api.server.requests) == 2


@on_async
@pytest.mark.real_time
async def test_br_54_many_calls_share_the_loop(api: Api) -> None:
    """Fifty calls that all wait are done after one wait."""
    api.server.script(*[faults.status(503)] * 50)
    async with api.client(policy=RetryPolicy(wait=wait_fixed(0.3), budget=None), connections=20, timeout=10) as client:
        began = time.monotonic()
        await api.together(*[lambda: quietly(client)] * 50)
        took = time.monotonic() - began

    assert took < 10  # one after the other: 15
    assert len(api.server.effects) == len(api.server.keys) == 50


async def quietly(client: Client) -> None:
    with suppress(samekey.NotSent):
        await client.post()


async def test_stop_strategies_count_network_attempts(api: Api) -> None:
    api.server.script(then=faults.status(503))
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(3), wait=wait_none())) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError):
            await client.post()

    api.seen(wire=3, effects=0)
