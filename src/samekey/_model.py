"""The vocabulary of the core: what an answer means, what became of an operation.

Nothing here (or in `_decide` and `_exchange`) reads a clock, draws a random number, does I/O or knows httpx.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What became of an operation, folded over all its attempts, those of earlier calls included."""

    EXECUTED = "executed"
    """The server said that it has done it."""
    REJECTED = "rejected"
    """A definitive no: the server refused and did not do it."""
    NOT_SENT = "not_sent"
    """No attempt can have been executed: each failed before sending, or was turned away at the door."""
    UNKNOWN = "unknown"
    """It may have been executed, once; nobody on this side can tell."""


class Verdict(StrEnum):
    """What one answer of a server means for the key it was sent with."""

    OK = "ok"
    """2xx or 303: done."""
    IN_PROGRESS = "in_progress"
    """The first request with this key is still running."""
    MISMATCH = "mismatch"
    """The key was used before with another request."""
    ALREADY_DONE = "already_done"
    """Done earlier; this server says so instead of replaying its answer."""
    KEY_SPENT = "key_spent"
    """The server burnt the key on a failed try; only a new key can succeed."""
    KEY_EXPIRED = "key_expired"
    """The server no longer accepts this key because of its age."""
    KEY_MISSING = "key_missing"
    """The server wants a key and saw none."""
    KEY_REFUSED = "key_refused"
    """The server does not accept the form of the key."""
    STORED_ERROR = "stored_error"
    """A 4xx or 5xx with a replay marker: the stored answer of the first request."""
    CONFLICT = "conflict"
    """A 409 that says nothing of a key or of a running request."""
    RATE_LIMITED = "rate_limited"
    """429 or 425: not now."""
    TRANSIENT = "transient"
    """408 or any 5xx: it may have run."""
    REFUSED = "refused"
    """Any other 4xx, an ordinary 422 included."""
    CHALLENGE = "challenge"
    """401 or 407: turned away until credentials are shown."""
    REDIRECT = "redirect"
    """307 or 308: turned away to another place, method and body kept."""
    MOVED = "moved"
    """Any other 3xx: says nothing certain about the effect."""


ABOUT_THE_KEY = frozenset(
    {
        Verdict.IN_PROGRESS,
        Verdict.MISMATCH,
        Verdict.ALREADY_DONE,
        Verdict.KEY_SPENT,
        Verdict.KEY_EXPIRED,
        Verdict.KEY_MISSING,
        Verdict.KEY_REFUSED,
    }
)
"""Verdicts that speak of the key; no retry hint overrules them."""


class Failure(StrEnum):
    """How an attempt ended without a complete answer."""

    NEVER_SENT = "never_sent"
    """Not one byte of the request left: worth trying again."""
    PERMANENT = "permanent"
    """Never sent, and trying again cannot help."""
    UNKNOWN = "unknown"
    """The request, or a part of it, left; it may have been executed."""
    UNFORESEEN = "unforeseen"
    """An exception that is not the HTTP library's: raised on as it is."""
    CANCELLED = "cancelled"
    """Cancellation, KeyboardInterrupt, SystemExit."""


class Kind(StrEnum):
    """Why an attempt was sent."""

    FIRST = "first"
    """The first attempt of the call."""
    RETRY = "retry"
    """The attempt before it failed, or its answer said nothing final."""
    POLL = "poll"
    """The server said, or its bare 409 may mean, that the first request is still running."""
    FOLLOW_UP = "follow_up"
    """httpx's own next leg: after a 401 or 407, or a redirect."""


class GaveUp(StrEnum):
    """Which limit ended a call that would otherwise have gone on."""

    ATTEMPTS = "attempts"
    """`RetryPolicy.stop` said so, or a bare 409 was asked about five times."""
    DEADLINE = "deadline"
    """The next wait does not fit into what is left of `total_timeout`."""
    RETRY_AFTER = "retry_after"
    """The server asks for a longer wait than `max_retry_after`, or than the time left."""
    BUDGET = "budget"
    """The origin's retry budget is empty."""
    RETRY_OFF = "retry_off"
    """`options(retry=False)`, or a body longer than `max_request_buffer`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The facts of one HTTP answer, without the HTTP library.

    *headers* are (lower-case name, value) pairs, repeated lines kept. *body* is the decoded body, or its first part;
    *complete* is False when more was sent than is shown here (or the end was lost).
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    complete: bool = True

    def header(self, name: str) -> str | None:
        """The first value of the header *name* (lower case), or None."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Reading:
    """What the classifier read from an `Answer`."""

    verdict: Verdict
    replayed: bool | None = None
    """True/False only when a replay marker says so."""
    supported: bool | None = None
    """False when the server says that it ignores keys."""
    should_retry: bool | None = None
    """An explicit hint of the server (`x-should-retry` and the like)."""
    delay: float | None = None
    """Seconds to wait at least, when the *body* names them; headers are read elsewhere."""
    resource: str | None = None
    """The resource an "already done" answer names."""
    evidence: str | None = None
    """The code, title or header that decided, for people; never more than a short token of the answer."""
    empty: bool = False
    """The answer had no body at all."""
