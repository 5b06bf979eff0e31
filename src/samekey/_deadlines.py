"""Bounding what a task does, for less than a timer costs: on asyncio, one timer of the loop serves all that wait.

Each block is a cancel scope of anyio, which tells its own cancellation from others, and lets shields hold: httpcore
needs both to give its connections back. What is saved is the timer of each scope, and asking each time which event loop
runs. Elsewhere (trio) anyio does it all.
"""

from __future__ import annotations

import asyncio
import math
import threading
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from anyio import CancelScope, move_on_after

if TYPE_CHECKING:
    from types import TracebackType

SUITED = frozenset({"asyncio", "uvloop", "winloop"})
"""Packages of loops on which a task is a task of asyncio, whatever else runs in the thread."""

SLACK = 0.02
"""Seconds by which the socket's own timeout, which says more, may win over the scope's."""


class Watch:
    """The blocks of one event loop that may take too long."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.suited = type(loop).__module__.partition(".")[0] in SUITED
        self.loop: Callable[[], Any] = weakref.ref(loop)
        scope: Any = type(CancelScope())
        self.new_box: Callable[[], Any] = box_of(scope)
        self.boxes: dict[Any, float] = {}
        self.earliest = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, deadline: float) -> None:
        """Wake up at *deadline*."""
        if self._timer is not None:
            self._timer.cancel()
        self.earliest = deadline
        self._timer = self.loop().call_at(deadline, self._wake)

    def _wake(self) -> None:
        """Cancel what has run out; wake up again for what has not."""
        now = self.loop().time()
        self._timer, self.earliest = None, math.inf
        for box, deadline in list(self.boxes.items()):
            if deadline <= now:
                box.cancel()
            elif deadline < self.earliest:
                self.earliest = deadline
        if self.earliest < math.inf:
            self.arm(self.earliest)


@cache
def box_of(scope: Any) -> Any:
    """The class of blocks: *scope*, anyio's own for asyncio, with its deadline kept by a watch."""
    enter: Any = scope.__enter__
    leave: Any = scope.__exit__

    class Box(scope):  # type: ignore[misc]
        __new__ = object.__new__  # anyio's own chooses the class for the backend, which is done
        watch: Watch
        ends: float

        def __enter__(self) -> Self:
            enter(self)
            watch, ends = self.watch, self.ends
            watch.boxes[self] = ends
            if ends < watch.earliest:
                watch.arm(ends)
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> Any:
            del self.watch.boxes[self]
            return leave(self, kind, error, traceback)

    return Box


class _Here(threading.local):
    watch: Watch | None = None


_here = _Here()


def bounded(seconds: float | None) -> CancelScope:
    """A block that may take so many seconds and a little more; None: any number."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another kind of event loop
        task = None
    if seconds is not None:
        seconds = max(seconds, 0.0) + SLACK
    if task is None or seconds is None:
        return move_on_after(seconds)
    loop = task.get_loop()
    watch = _here.watch
    if watch is None or watch.loop() is not loop:
        watch = _here.watch = Watch(loop)
    if not watch.suited:
        return move_on_after(seconds)
    box = watch.new_box()
    box.watch, box.ends = watch, loop.time() + seconds
    return box  # type: ignore[no-any-return]
