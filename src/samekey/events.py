"""Events: what an operator sees of each call, as typed values handed to listeners.

A listener is any callable that takes one event. It is called in the thread or task of the call, between two steps, so
it must be quick; what it raises is logged and never harms the call. Events hold no bodies, no headers and no keys:
keys appear as a short digest, URLs without their query.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._model import GaveUp, Outcome
    from ._report import Attempt

logger = logging.getLogger("samekey")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have.

    Attributes:
        key: Short digest of the key; None for an unkeyed request.
        name: Name of the operation, or None.
        method: HTTP method.
        url: Scheme, host and path; no query.
    """

    key: str | None
    name: str | None
    method: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(Event):
    """A call is about to send its first attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(Event):
    """An attempt was answered or has failed."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitScheduled(Event):
    """The call waits *seconds* before the next attempt; *poll* if the server said that it is still at it."""

    seconds: float
    poll: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MismatchFound(Event):
    """The key stands for another request; *local* if this was found before anything was sent."""

    local: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedRepeated(Event):
    """A request equal to one that ended unknown came without an operation: stopped, or *resumed* with the first key."""

    resumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateSuspected(Event):
    """The server may have executed twice under one key; *reason* says why it looks so."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStepped(Event):
    """The journal was asked to claim, renew or record a named operation.

    *state* is that of its row now (or the class of the error), *granted* whether this call holds (held) the name.
    """

    step: str
    state: str
    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished(Event):
    """The call is over."""

    outcome: Outcome
    replayed: bool | None
    attempts: int
    elapsed: float
    gave_up: GaveUp | None
    error: str | None


class Listener(Protocol):
    """Anything that can be called with an event."""

    def __call__(self, event: Event, /) -> None:
        """Take note of *event*."""


def log_events(event: Event, /) -> None:
    """A listener that writes each event to the logger "samekey", its fields as ``extra`` (prefixed ``samekey_``).

    Trouble (a suspected duplicate, a mismatch, an unknown outcome) is logged as a warning, the rest as debug.
    """
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    trouble = isinstance(event, DuplicateSuspected | MismatchFound | UnresolvedRepeated)
    if isinstance(event, CallFinished):
        trouble = str(event.outcome) == "unknown"
    extra = {f"samekey_{name}": value for name, value in values.items()}
    text = " ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    level = logging.WARNING if trouble else logging.DEBUG
    logger.log(level, "%s %s", type(event).__name__, text, extra={"samekey_event": type(event).__name__, **extra})


def tell(listeners: tuple[Listener, ...], event: Event) -> None:
    """Hand *event* to every listener; one that raises is logged and passed over."""
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("a samekey listener failed on %s", type(event).__name__)
