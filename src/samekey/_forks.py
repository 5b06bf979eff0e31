"""What is shared on purpose is the process's own: a forked child starts with its own, and with locks that are free."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forgets(Protocol):
    """Something that can start anew."""

    def forget(self) -> None:
        """Start anew, with a new lock: the old one may be held by a thread that the child does not have."""


_forgetters: weakref.WeakSet[Forgets] = weakref.WeakSet()


def forget_after_fork(thing: Forgets) -> None:
    """Have *thing* start anew in every forked child."""
    _forgetters.add(thing)


def _after_fork() -> None:
    for thing in list(_forgetters):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
