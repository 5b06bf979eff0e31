"""Waiting and bounding what waits, in both colours; `samekey.testing.no_waiting` turns the waiting off."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from anyio import CancelScope

skipped = 0
"""How many `no_waiting()` blocks are open in this process."""

monotonic = time.monotonic
wall = time.time


def sleep(seconds: float) -> float:
    """Wait, and return how many seconds were skipped instead of waited."""
    if skipped:
        return seconds
    time.sleep(seconds)
    return 0.0


async def async_sleep(seconds: float) -> float:
    """Wait on asyncio or trio, and return how many seconds were skipped instead of waited."""
    import anyio

    if skipped:
        await anyio.lowlevel.checkpoint()
        return seconds
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


_move_on_after: Callable[[float | None], CancelScope] | None = None
SLACK = 0.02
"""Seconds by which the socket's own timeout, which says more, may win over the scope's."""


def async_time_box(seconds: float | None) -> CancelScope:
    """Bound what is inside to *seconds*."""
    global _move_on_after  # noqa: PLW0603 - imported with the first call, not with samekey
    if _move_on_after is None:
        from anyio import move_on_after

        _move_on_after = move_on_after
    return _move_on_after(None if seconds is None else max(seconds, 0.0) + SLACK)


def async_shield() -> CancelScope:
    """Let what is inside finish although the task is cancelled."""
    from anyio import CancelScope

    return CancelScope(shield=True)
