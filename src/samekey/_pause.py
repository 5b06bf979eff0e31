"""Waiting and bounding what waits, in both colours; `samekey.testing.no_waiting` turns the waiting off."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from anyio import CancelScope


T = TypeVar("T")

skipped = 0
"""How many `no_waiting()` blocks are open in this process."""

skipped_seconds = 0.0
"""How many seconds they have skipped, of all calls."""

monotonic = time.monotonic
wall = time.time


def common() -> float:
    """Monotonic seconds for what calls share; whatever any of them has skipped counts as waited."""
    return monotonic() + skipped_seconds


def _skip(seconds: float) -> float:
    global skipped_seconds  # noqa: PLW0603 - a clock of the process
    skipped_seconds += seconds
    return seconds


def sleep(seconds: float) -> float:
    """Wait, and return how many seconds were skipped instead of waited."""
    if skipped:
        return _skip(seconds)
    time.sleep(seconds)
    return 0.0


async def async_sleep(seconds: float) -> float:
    """Wait on asyncio or trio, and return how many seconds were skipped instead of waited."""
    import anyio

    if skipped:
        await anyio.lowlevel.checkpoint()
        return _skip(seconds)
    await anyio.sleep(seconds)
    return 0.0


class _Unbounded:
    """Stands where the async twin has a cancel scope: a blocking call ends by its socket timeouts alone."""

    cancelled_caught = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """Let everything through."""


_UNBOUNDED = _Unbounded()


def time_box(seconds: float | None) -> _Unbounded:
    """Bound what is inside to *seconds*."""
    return _UNBOUNDED


def shield() -> _Unbounded:
    """Let what is inside finish although the task is cancelled."""
    return _UNBOUNDED


_bounded: Callable[[float | None], CancelScope] | None = None


def async_time_box(seconds: float | None) -> CancelScope:
    """Bound what is inside to *seconds*."""
    global _bounded  # noqa: PLW0603 - imported with the first call, not with samekey
    if _bounded is None:
        from ._deadlines import bounded

        _bounded = bounded
    return _bounded(seconds)


def async_shield() -> CancelScope:
    """Let what is inside finish although the task is cancelled."""
    from anyio import CancelScope

    return CancelScope(shield=True)


def finished(step: T) -> T:
    """The result of *step*, which is done."""
    return step


_struck: dict[Any, int] = {}
"""Tasks that were cancelled while a step had to be finished first, and how often."""


async def async_finished(step: Awaitable[T]) -> T:
    """The result of *step*, which is finished whatever cancels the task meanwhile.

    A shield holds off cancel scopes, but not `asyncio.Task.cancel`, which `asyncio.timeout` and `wait_for` call.
    """
    asyncio = sys.modules.get("asyncio")
    try:
        task: Any = asyncio and asyncio.current_task()
    except RuntimeError:  # another event loop
        task = None
    if asyncio is None or task is None:
        return await step
    work = asyncio.ensure_future(step)
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            task.uncancel()  # counted again when it strikes
            _struck[task] = _struck.get(task, 0) + 1
    result: T = work.result()
    return result


def strike() -> None:
    """Nothing was held off."""


async def async_strike() -> None:
    """Let a cancellation strike that was held off while a step was finished."""
    if not _struck:
        return
    asyncio = sys.modules["asyncio"]
    task = asyncio.current_task()
    times = _struck.pop(task, 0)
    for _ in range(times):
        task.cancel()
    if times:
        await asyncio.sleep(0)
