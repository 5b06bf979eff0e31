"""The scripted steps as frozen data; `samekey.testing.faults` makes them, the transports act on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from ._records import ReceivedRequest, Reply


class Source(Enum):
    """Where the answer comes from."""

    LEDGER = auto()
    CANNED = auto()
    IN_PROGRESS = auto()
    MISMATCH = auto()
    REPLAY = auto()


class Contact(Enum):
    """How far the request gets."""

    READ = auto()
    UNREAD = auto()
    REFUSED = auto()


class End(Enum):
    """What becomes of the connection after what is sent."""

    KEEP = auto()
    CLOSE = auto()
    RESET = auto()
    STALL = auto()


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait before the answer: *seconds*, or until *event* is set, or both; neither waits for ever."""

    seconds: float | None = None
    event: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class Drip:
    """Pieces of *size* bytes, *interval* seconds before each."""

    interval: float
    size: int
    head: bool
    body: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the answer goes on the wire; *cut_after* None with *partial* means half of the body."""

    answered: bool = True
    partial: bool = False
    cut_after: int | None = None
    end: End = End.KEEP
    drip: Drip | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """One step of a script; made by the functions of `samekey.testing.faults`."""

    name: str
    source: Source = Source.LEDGER
    executes: bool = True
    reply: Reply | None = None
    status: int | None = None
    retry_after: float | None = None
    copies: int = 1
    pause: Pause | None = None
    contact: Contact = Contact.READ
    delivery: Delivery = Delivery()


Answer = Reply | Mapping[str, object]
Step = Fault | Callable[[ReceivedRequest], Fault | Answer]
