"""The bound on an async attempt: its own deadline becomes a timeout, every other cancellation passes through."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from samekey import _deadlines
from samekey._deadlines import Watch, bounded

SHORT = 0.02


def on_asyncio(scenario: Callable[[], Any]) -> None:
    asyncio.run(scenario())


def test_it_ends_what_takes_too_long(anyio_backend: str) -> None:
    async def scenario() -> None:
        began = time.monotonic()
        with bounded(SHORT) as box:
            await anyio.sleep(10)
        assert box.cancelled_caught
        assert time.monotonic() - began < 5
        await anyio.lowlevel.checkpoint()  # nothing is left over

    anyio.run(scenario, backend=anyio_backend)


def test_it_leaves_alone_what_is_quick(anyio_backend: str) -> None:
    async def scenario() -> None:
        began = time.monotonic()
        with bounded(SHORT) as box:
            await anyio.lowlevel.checkpoint()
        quick = time.monotonic() - began < SHORT
        assert not (quick and box.cancelled_caught)
        await anyio.sleep(SHORT * 2)

    anyio.run(scenario, backend=anyio_backend)


def test_without_a_limit_there_is_no_deadline(anyio_backend: str) -> None:
    async def scenario() -> None:
        with bounded(None) as box:
            assert anyio.current_effective_deadline() == math.inf
        assert not box.cancelled_caught

    anyio.run(scenario, backend=anyio_backend)


def test_errors_pass(anyio_backend: str) -> None:
    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError), bounded(60):
            raise ZeroDivisionError
        assert _deadlines._here.watch is None or not _deadlines._here.watch.boxes

    anyio.run(scenario, backend=anyio_backend)


def test_a_scope_around_it_stays_the_callers(anyio_backend: str) -> None:
    """Its cancellation is not turned into our timeout, whichever deadline comes first."""

    async def scenario() -> None:
        with anyio.move_on_after(SHORT) as outer:
            with bounded(60) as box:
                await anyio.sleep(10)
            raise AssertionError("the outer scope's cancellation was swallowed")
        assert outer.cancelled_caught
        assert not box.cancelled_caught
        with anyio.move_on_after(60) as outer:
            with bounded(SHORT) as box:
                await anyio.sleep(10)
            assert box.cancelled_caught
        assert not outer.cancelled_caught

    anyio.run(scenario, backend=anyio_backend)


def test_a_scope_inside_it_keeps_its_own(anyio_backend: str) -> None:
    """As httpcore's timeouts are; and a shield inside holds until it ends, as httpcore's do when it closes."""

    async def scenario() -> None:
        with bounded(60) as box:
            with anyio.move_on_after(SHORT) as inner:
                await anyio.sleep(10)
            assert inner.cancelled_caught
        assert not box.cancelled_caught
        finished = False
        with bounded(SHORT) as box:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(SHORT * 5)
                finished = True
            await anyio.sleep(10)
        assert finished
        assert box.cancelled_caught

    anyio.run(scenario, backend=anyio_backend)


def test_what_swallows_a_cancellation_is_cancelled_again(anyio_backend: str) -> None:
    """It is a scope, not a single blow."""

    async def scenario() -> None:
        swallowed = 0
        with bounded(SHORT) as box:
            while swallowed < 3:
                try:
                    await anyio.sleep(10)
                except BaseException:  # noqa: BLE001 - badly behaved on purpose
                    swallowed += 1
            await anyio.sleep(10)
        assert box.cancelled_caught

    anyio.run(scenario, backend=anyio_backend)


def test_tasks_inside_end_with_it(anyio_backend: str) -> None:
    async def scenario() -> None:
        with bounded(SHORT) as box:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 10)
        assert box.cancelled_caught

    anyio.run(scenario, backend=anyio_backend)


def test_task_cancel_passes_and_is_counted() -> None:
    """A cancellation of asyncio's own is the caller's; the count that `asyncio.timeout` lives by is as it was."""

    async def work() -> None:
        with bounded(60):
            await asyncio.sleep(10)

    async def scenario() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert task.cancelling() == 1

    on_asyncio(scenario)


def test_after_a_timeout_nothing_is_counted() -> None:
    async def scenario() -> None:
        with bounded(SHORT):
            await asyncio.sleep(10)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        async with asyncio.timeout(60):
            with bounded(SHORT) as box:
                await asyncio.sleep(10)
        assert box.cancelled_caught

    on_asyncio(scenario)


def test_the_callers_own_timeout_is_theirs() -> None:
    """`asyncio.timeout` and `wait_for` around it raise TimeoutError."""

    async def work() -> None:
        with bounded(60):
            await asyncio.sleep(10)

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT):
                await work()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), SHORT)

    on_asyncio(scenario)


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("outside", ["task", "asyncio.timeout", "scope"])
def test_both_at_once(outside: str, first: str) -> None:
    """Our deadline and a cancellation from outside in the same turn of the loop: the one from outside wins."""
    told: list[str] = []

    async def work(cancels: list[Callable[[], object]]) -> None:
        with anyio.CancelScope() as scope:
            async with asyncio.timeout(60) as timeout:
                task = asyncio.current_task()
                assert task is not None
                ways: dict[str, Callable[[], object]] = {
                    "task": task.cancel,
                    "asyncio.timeout": lambda: timeout.reschedule(0),
                    "scope": scope.cancel,
                }
                cancels.append(ways[outside])
                with bounded(60):
                    await asyncio.sleep(10)
                await asyncio.sleep(10)
        told.append("scope" if scope.cancelled_caught else "nothing")

    async def scenario() -> None:
        cancels: list[Callable[[], object]] = []
        task = asyncio.create_task(work(cancels))
        await asyncio.sleep(0)
        watch = _deadlines._here.watch
        assert watch is not None
        (box,) = watch.boxes
        steps = [box.cancel, *cancels]
        for step in steps if first == "ours" else reversed(steps):
            step()
        if outside == "scope":
            await task
            assert (told, task.cancelling()) == (["scope"], 0)
        else:
            with pytest.raises(asyncio.CancelledError if outside == "task" else TimeoutError):
                await task

    on_asyncio(scenario)


def test_one_timer_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many ends at its own time, in whatever order they began; then there is no timer any more.

    The loop's clock is moved by the test.
    """
    monkeypatch.setattr(_deadlines, "SLACK", 0.0)
    ended: list[int] = []
    clock = [0.0]

    async def work(number: int, seconds: float) -> None:
        with bounded(seconds) as box:
            await asyncio.sleep(10)
        assert box.cancelled_caught
        ended.append(number)

    async def scenario() -> None:
        delays = [3, 1, 5, 1, 2, 4]
        asyncio.get_running_loop().time = lambda: clock[0]  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as group:
            for number, seconds in enumerate(delays):
                group.create_task(work(number, seconds))
            group.create_task(quick())
            for clock[0] in range(6):
                for _ in range(20):  # turns of the loop
                    await asyncio.sleep(0)
                assert len(ended) == sum(seconds <= clock[0] for seconds in delays)
        watch = _deadlines._here.watch
        assert watch is not None
        assert (watch.boxes, watch.earliest, watch._timer) == ({}, math.inf, None)

    async def quick() -> None:
        with bounded(60):
            await asyncio.sleep(0)

    on_asyncio(scenario)
    assert ended == [1, 3, 4, 0, 5, 2]


def test_a_timer_that_finds_nobody_goes_to_sleep() -> None:
    """What has ended is not kept, and the next block wakes the timer again."""

    async def scenario() -> None:
        with bounded(SHORT):
            pass
        watch = _deadlines._here.watch
        assert watch is not None
        assert not watch.boxes
        first = watch._timer
        with bounded(SHORT):  # does not need another timer
            pass
        assert watch._timer is first
        await asyncio.sleep(SHORT * 3)
        assert watch._timer is None
        with bounded(SHORT) as box:
            await asyncio.sleep(10)
        assert box.cancelled_caught

    on_asyncio(scenario)


def test_loops_after_and_beside_each_other() -> None:
    """Each loop has a watch of its own; one that is gone is not kept alive."""
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def scenario() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        with bounded(SHORT) as box:
            await asyncio.sleep(10)
        assert box.cancelled_caught

    threads = [threading.Thread(target=on_asyncio, args=(scenario,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_asyncio(scenario)
    on_asyncio(scenario)
    gc.collect()
    assert len(loops) == 6
    assert [loop() for loop in loops] == [None] * 6


def test_an_unknown_kind_of_loop_gets_the_general_scope() -> None:
    """Who knows what a task is there."""

    class Loop(asyncio.SelectorEventLoop):
        pass

    async def scenario() -> None:
        box = bounded(SHORT)
        with box:
            await asyncio.sleep(10)
        assert type(box).__module__ != _deadlines.__name__
        assert box.cancelled_caught

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(scenario())


def test_the_fast_way_is_taken_on_asyncio() -> None:
    """Else the tests above show nothing about it."""

    async def scenario() -> None:
        with bounded(60) as box:
            assert type(box).__module__ == _deadlines.__name__
        assert isinstance(_deadlines._here.watch, Watch)

    on_asyncio(scenario)


def test_without_a_task_anyio_says_what_is_wrong() -> None:
    """Outside of any event loop."""
    with pytest.raises(BaseException, match="async"):
        bounded(60)
