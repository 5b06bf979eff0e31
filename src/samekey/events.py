"""Events: what an operator sees of each call, as typed values handed to listeners.

A listener is any callable that takes one event. It is called in the thread or task of the call, between two steps, so
it must be quick; what it raises is logged and never harms the call. Events hold no bodies, no headers and no keys:
keys appear as a short digest, URLs without their query.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from ._model import GaveUp, Kind, Outcome
    from ._report import Attempt

logger = logging.getLogger("samekey")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have.

    Attributes:
        call: Number of the call, unlike in one process; the legs of a redirect or of an auth flow share it.
        key: Short digest of the key; None for an unkeyed request.
        name: Name of the operation, or None.
        method: HTTP method.
        url: Scheme, host and path; no query.
    """

    call: int
    key: str | None
    name: str | None
    method: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(Event):
    """A call is about to send its first attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(Event):
    """An attempt is about to be sent; *number* counts from 1, *kind* says why it is sent."""

    number: int
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(Event):
    """An attempt was answered or has failed."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitScheduled(Event):
    """The call waits *seconds* before the next attempt.

    *why*: ``"backoff"``, ``"retry_after"`` (the server asked for that much), or one of the polls (*poll* is True):
    ``"in_progress"`` (the server is still at it), ``"conflict"`` (a bare 409), ``"held"`` (another process has the
    name).
    """

    seconds: float
    poll: bool
    why: Literal["backoff", "retry_after", "in_progress", "conflict", "held"]


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

    *state* is that of its row now (or the class of the error), *granted* whether this call holds (held) the name,
    *elapsed* the seconds that it took.
    """

    step: str
    state: str
    granted: bool
    elapsed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp(Event):
    """The call would have gone on, but a limit forbids it; *why* names it. `CallFinished` follows."""

    why: GaveUp


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished(Event):
    """The call is over.

    Attributes:
        outcome: Of the operation, earlier calls included.
        replayed: As in the report: True, False, or None if the server said nothing.
        attempts: How many, those of earlier legs included.
        elapsed: Seconds since the call began.
        gave_up: Which limit ended it, if one did.
        error: Name of the exception's class, if one is raised.
        source: Where the answer came from: "network" or "journal".
        pending: The answer is a 401, a 407 or a redirect, with which httpx may go on: then the next leg follows, with
            a start and an end of its own.
    """

    outcome: Outcome
    replayed: bool | None
    attempts: int
    elapsed: float
    gave_up: GaveUp | None
    error: str | None
    source: Literal["network", "journal"]
    pending: bool


class Listener(Protocol):
    """Anything that can be called with an event."""

    def __call__(self, event: Event, /) -> None:
        """Take note of *event*."""


def as_dict(event: Event, /) -> dict[str, Any]:
    """*event* as plain key-values, for structured logs: ``"event"`` is its class, an attempt's fields stand beside it.

    Values are strings, numbers, booleans or None; with structlog::

        log = structlog.get_logger()
        client = samekey.wrap(client, listeners=[lambda event: log.info(**samekey.events.as_dict(event))])
    """
    values: dict[str, Any] = {"event": type(event).__name__}
    for name, value in _values(event):
        values[name] = value.value if isinstance(value, Enum) else value
    return values


def _values(thing: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(thing):
        value = getattr(thing, field.name)
        if is_dataclass(value):
            yield from _values(value)
        else:
            yield field.name, value


def _is_trouble(event: Event, /) -> bool:
    """Whether somebody should look at *event*: a suspected duplicate, a mismatch, an outcome that is not known."""
    if isinstance(event, CallFinished):
        return event.outcome.value == "unknown" and not event.pending
    return isinstance(event, DuplicateSuspected | MismatchFound | UnresolvedRepeated)


def log_events(event: Event, /) -> None:
    """A listener that writes each event to the logger "samekey", its fields as ``extra`` (prefixed ``samekey_``).

    Trouble (a suspected duplicate, a mismatch, an unknown outcome) is logged as a warning, the rest as debug.
    """
    level = logging.WARNING if _is_trouble(event) else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    values = as_dict(event)
    extra = {f"samekey_{name}": value for name, value in values.items()}
    kind = values.pop("event")
    text = " ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    logger.log(level, "%s %s", kind, text, extra=extra)


def tell(listeners: tuple[Listener, ...], event: Event) -> None:
    """Hand *event* to every listener; one that raises is logged and passed over."""
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("a samekey listener failed on %s", type(event).__name__)
