"""What is known of one key, shared by every call that sends it."""

from __future__ import annotations

from itertools import count

from ._model import Outcome

OTHERS = 0
"""Stands in `KeyState.reached` for calls that have ended, and for those of other processes."""

serial = count(1)
"""Numbers for calls and attempts, unlike in one process."""


class KeyState:
    """One key with its binding, its freshness and its open attempts.

    The rule that everything else leans on: an attempt is *open* from the moment it is sent until an answer closes it.
    Whatever breaks off (a cancellation, an exception nobody foresaw) therefore leaves it open.
    """

    __slots__ = (
        "_bound",
        "answer",
        "executed",
        "first_sent",
        "key",
        "made_here",
        "name",
        "open",
        "reached",
        "same_bytes",
        "scope",
        "snapshot",
    )

    def __init__(self, key: str, *, made_here: bool, name: str | None = None, scope: str | None = None) -> None:
        self.key = key
        self.name = name
        self.scope = scope
        self.made_here = made_here
        """Made by samekey for this operation, not given by the caller."""
        self._bound: dict[str, str] = {}
        self.first_sent: tuple[float, float] | None = None
        """(monotonic, wall clock) of the first attempt that may have reached the server, in seconds."""
        self.open: dict[int, str] = {}
        """Open attempts, oldest first: number -> name of the HTTP library's exception class ("" while in flight)."""
        self.reached: set[int] = set()
        """Calls of which an attempt may have reached the server."""
        self.executed = False
        self.same_bytes = True
        """False if earlier attempts may have had other bytes for the same request (a form built again elsewhere)."""
        self.answer: str | None = None
        """Digest of the first successful answer, where the key may come back; a second one should equal it."""
        self.snapshot: tuple[str, bytes] | None = None
        """Content type and body first sent, where building the request again gives other bytes (multipart)."""

    @property
    def fingerprint(self) -> str | None:
        """Of the first request sent with the key; every later one must match."""
        return self._bound.get("to")

    def bind(self, fingerprint: str) -> str:
        """Bind the key unless it is bound, in one atomic step, and return what it stands for."""
        return self._bound.setdefault("to", fingerprint)

    def absorb(self, other: KeyState) -> bool:
        """Take over what *other* knows of the same key; False if it stands for another request there."""
        if other.fingerprint is not None and self.bind(other.fingerprint) != other.fingerprint:
            return False
        self.open.update(other.open)
        self.reached |= other.reached
        self.executed |= other.executed
        self.first_sent = min(filter(None, (self.first_sent, other.first_sent)), default=None)
        return True

    def fresh(self, call: int) -> bool:
        """Whether no attempt of a call other than *call* may have reached the server under this key."""
        reached = self.reached
        return self.made_here and (not reached or (call in reached and len(reached) == 1))

    def open_besides(self, attempt: int) -> bool:
        """Whether an attempt other than *attempt* may have run and has no final answer."""
        return len(self.open) > (attempt in self.open)

    def in_flight_besides(self, attempt: int) -> bool:
        """Whether another attempt is on its way right now."""
        return any(number != attempt and not name for number, name in list(self.open.items()))

    def last_open(self) -> str:
        """Class name of the newest open attempt that has ended; "" if there is none."""
        return next((name for name in reversed(list(self.open.values())) if name), "")

    def settle(self) -> None:
        """A definitive answer speaks for every attempt that has ended; those in flight will end by themselves."""
        for number, name in list(self.open.items()):
            if name:
                self.open.pop(number, None)

    def age(self, monotonic: float, wall: float) -> float:
        """Seconds since the first send: by the clock that says more, since either may stand still or be set back."""
        if self.first_sent is None:
            return 0.0
        return max(0.0, monotonic - self.first_sent[0], wall - self.first_sent[1])

    def outcome(self) -> Outcome:
        """What is known between two calls."""
        if self.executed:
            return Outcome.EXECUTED
        if self.open or self.reached or not self.made_here:
            return Outcome.UNKNOWN
        return Outcome.NOT_SENT
