"""Which step the next request meets."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from . import faults
from ._faults import Contact, Fault, Step


class Script:
    """One queue of steps per path and one for all other paths, each with the step that follows its end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str | None, tuple[deque[Step], Step]] = {}

    def set(self, path: str | None, steps: Sequence[Step], then: Step) -> None:
        """Replaces what is left of the queue for *path* (None: all paths without their own).

        Raises:
            TypeError: Something is no step.
        """
        for step in (*steps, then):
            if not (isinstance(step, Fault) or callable(step)):
                raise TypeError(f"a step is made by samekey.testing.faults or is a callable, not {step!r}")
            if step in _CONSTRUCTORS:
                raise TypeError(f"call the step: faults.{getattr(step, '__name__', '')}(...)")
        with self._lock:
            self._queues[path] = (deque(steps), then)

    def take(self, path: str) -> Step:
        """The step for a request to *path*."""
        with self._lock:
            steps, then = self._queues.get(path) or self._queues.get(None) or (None, _OK)
            return steps.popleft() if steps else then

    def left(self) -> int:
        """How many steps have not been used."""
        with self._lock:
            return sum(len(steps) for steps, _ in self._queues.values())

    def refuses(self) -> bool:
        """Whether a step left here refuses connections."""
        with self._lock:
            return any(
                isinstance(step, Fault) and step.contact is Contact.REFUSED
                for steps, then in self._queues.values()
                for step in (*steps, then)
            )

    def clear(self) -> None:
        """Back to no script."""
        with self._lock:
            self._queues.clear()


_OK = faults.ok()
_CONSTRUCTORS = [getattr(faults, name) for name in faults.__all__]
