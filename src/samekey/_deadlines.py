"""Bounding what a task does, for less than a timer costs: on asyncio, one timer of the loop serves all that wait.

Each block ends as `asyncio.timeout` ends one: its task is cancelled, and the count of cancellations tells ours from
those of others. What is saved is a timer and a cancel scope for each attempt. Elsewhere (trio) anyio does it all.
"""

from __future__ import annotations

import asyncio
import math
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from anyio import CancelScope, move_on_after

if TYPE_CHECKING:
    from types import TracebackType

SUITED = frozenset({"asyncio", "uvloop", "winloop"})
"""Packages of loops on which a task is a task of asyncio, whatever else runs in the thread."""


class Watch:
    """The blocks of one event loop that may take too long."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.suited = type(loop).__module__.partition(".")[0] in SUITED
        self.loop: Callable[[], Any] = weakref.ref(loop)
        self.boxes: dict[Box, float] = {}
        self.earliest = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, deadline: float) -> None:
        """Wake up at *deadline*."""
        if self._timer is not None:
            self._timer.cancel()
        self.earliest = deadline
        self._timer = self.loop().call_at(deadline, self._wake)

    def _wake(self) -> None:
        """End what has run out; wake up again for what has not."""
        now = self.loop().time()
        self._timer, self.earliest = None, math.inf
        for box, deadline in list(self.boxes.items()):
            if deadline <= now:
                box.strike()
            elif deadline < self.earliest:
                self.earliest = deadline
        if self.earliest < math.inf:
            self.arm(self.earliest)


class Box:
    """A block with a deadline."""

    __slots__ = ("_before", "_deadline", "_struck", "_task", "_watch", "cancelled_caught")

    def __init__(self, watch: Watch, task: asyncio.Task[Any], deadline: float) -> None:
        self._watch = watch
        self._task = task
        self._deadline = deadline
        self._struck = self.cancelled_caught = False

    def strike(self) -> None:
        """The deadline has come."""
        self._struck = True
        del self._watch.boxes[self]
        self._task.cancel()

    def __enter__(self) -> Self:
        self._before = self._task.cancelling()
        watch, deadline = self._watch, self._deadline
        watch.boxes[self] = deadline
        if deadline < watch.earliest:
            watch.arm(deadline)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not self._struck:
            del self._watch.boxes[self]
            return False
        others = self._task.uncancel() > self._before
        self.cancelled_caught = not others and kind is not None and issubclass(kind, asyncio.CancelledError)
        return self.cancelled_caught


class _Here(threading.local):
    watch: Watch | None = None


_here = _Here()

AnyBox: TypeAlias = Box | CancelScope


def bounded(seconds: float | None) -> AnyBox:
    """A block that may take so many seconds; None: any number."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another kind of event loop
        task = None
    if task is None or seconds is None:
        return move_on_after(seconds)
    loop = task.get_loop()
    watch = _here.watch
    if watch is None or watch.loop() is not loop:
        watch = _here.watch = Watch(loop)
    return Box(watch, task, loop.time() + seconds) if watch.suited else move_on_after(seconds)
