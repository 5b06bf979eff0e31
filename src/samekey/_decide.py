"""The decision: what one finished attempt means for the call, and when the next one may follow.

Pure functions over plain facts. The tables of the documentation ("What happens after an attempt") are these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from ._model import ABOUT_THE_KEY, Failure, GaveUp, Outcome, Reading, Verdict

MAX_CONFLICT_POLLS = 5
"""How often a bare 409 is asked about again; it may be a copy of our own request that is still running."""

IDEMPOTENT_RETRY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which an unkeyed request with an idempotent method is repeated."""


class Facts(NamedTuple):
    """What is known when an attempt has ended.

    Attributes:
        keyed: The attempt carried a key.
        repeatable: Without a key: the method is idempotent by definition, so it may be repeated all the same.
        fresh: Made by samekey, and no attempt of another call may have reached the server.
        open: Another attempt of the operation may have run and has no final answer.
        at_the_door: No attempt of this call got further than failing to send or being turned away.
        same_bytes: Everything sent under the key had these very bytes.
        settles: An ordinary refusal with this status is made behind the server's key lookup.
        believe_done: The dialect says that "already done" speaks of this very operation.
        ignored: An earlier answer of this call said that the server ignores keys.
    """

    keyed: bool = True
    repeatable: bool = False
    fresh: bool = True
    open: bool = False
    at_the_door: bool = True
    same_bytes: bool = True
    settles: bool = True
    believe_done: bool = False
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand the answer to the caller."""

    outcome: Outcome
    gave_up: GaveUp | None = None


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise one of samekey's errors; *error* is its class name, *cause* that of an error to chain it from."""

    error: str
    outcome: Outcome
    cause: str | None = None
    gave_up: GaveUp | None = None


@dataclass(frozen=True, slots=True)
class Reraise:
    """Raise the exception of the attempt as it is."""

    outcome: Outcome
    gave_up: GaveUp | None = None


Ending: TypeAlias = Deliver | Raise | Reraise


@dataclass(frozen=True, slots=True)
class Again:
    """Send once more if the limits allow it; *ending* is what happens if they do not."""

    ending: Ending
    poll: bool = False
    """A poll: asked by `poll_wait`, not counted as a network attempt."""
    conflict: bool = False
    """A poll after a bare 409, of which there are at most `MAX_CONFLICT_POLLS`."""


Decision: TypeAlias = Ending | Again

UNKNOWN = Raise("OutcomeUnknown", Outcome.UNKNOWN)
UNKNOWN_YET = Again(UNKNOWN)


def after_answer(reading: Reading, status: int, facts: Facts) -> Decision:
    """What an answer means for the call."""
    decision = _keyed_answer(reading, status, facts) if facts.keyed else _unkeyed_answer(reading, status, facts)
    if status >= 400 and reading.should_retry is not None and (facts.keyed or facts.repeatable):
        decision = _heed_hint(decision, reading)
    ignored = facts.keyed and (facts.ignored or reading.supported is False)
    return decision.ending if ignored and isinstance(decision, Again) else decision


def _keyed_answer(reading: Reading, status: int, facts: Facts) -> Decision:
    unsettled = facts.open or not facts.fresh
    match reading.verdict:
        case Verdict.OK:
            return Deliver(Outcome.EXECUTED)
        case Verdict.TRANSIENT:
            return UNKNOWN_YET
        case Verdict.IN_PROGRESS:
            return Again(Raise("StillInProgress", Outcome.UNKNOWN), poll=True)
        case Verdict.MISMATCH:
            if facts.open and facts.same_bytes:
                # Our own open attempt claimed the key with these bytes; the refusal must not hide that.
                return replace(UNKNOWN, cause="KeyMismatch")
            return Raise("KeyMismatch", Outcome.UNKNOWN if unsettled else Outcome.REJECTED)
        case Verdict.ALREADY_DONE:
            return Raise("AlreadyExecuted", Outcome.EXECUTED) if facts.believe_done and facts.same_bytes else UNKNOWN
        case Verdict.KEY_SPENT:
            return Raise("KeySpent", Outcome.REJECTED)
        case Verdict.KEY_EXPIRED:
            return Raise("KeyExpired", Outcome.UNKNOWN)
        case Verdict.KEY_MISSING | Verdict.KEY_REFUSED:
            return UNKNOWN if facts.open else Raise("KeyNotAccepted", _turned_away(facts))
        case Verdict.CONFLICT if unsettled:
            return Again(UNKNOWN, poll=True, conflict=True)
        case Verdict.CONFLICT if reading.empty:
            return Again(Deliver(Outcome.REJECTED), poll=True, conflict=True)
        case Verdict.RATE_LIMITED:
            return Again(UNKNOWN if facts.open else Deliver(_turned_away(facts)))
        case Verdict.CHALLENGE | Verdict.REDIRECT:
            return Deliver(_turned_away(facts))
        case Verdict.MOVED:
            return Deliver(Outcome.UNKNOWN)
        case Verdict.STORED_ERROR:
            return UNKNOWN if broke(status) else Deliver(Outcome.REJECTED)
        case _:
            return _refused(facts)


def _turned_away(facts: Facts) -> Outcome:
    return Outcome.UNKNOWN if facts.open or not facts.fresh else Outcome.REJECTED


def _refused(facts: Facts) -> Decision:
    if facts.settles:
        return Deliver(Outcome.REJECTED)
    return UNKNOWN if facts.open else Deliver(_turned_away(facts))


def broke(status: int) -> bool:
    """Whether an answer with this status, a stored one too, only says that the server broke: it may have run."""
    return status >= 500 or status == 408


def _unkeyed_answer(reading: Reading, status: int, facts: Facts) -> Decision:
    if status < 300 or status in (303, 304):
        outcome = Outcome.EXECUTED
    elif broke(status) or facts.open or reading.verdict is Verdict.MOVED:
        outcome = Outcome.UNKNOWN
    else:
        outcome = Outcome.REJECTED
    if facts.repeatable and status in IDEMPOTENT_RETRY:
        return Again(Deliver(outcome))
    return Deliver(outcome)


def _heed_hint(decision: Decision, reading: Reading) -> Decision:
    if reading.verdict in ABOUT_THE_KEY or reading.verdict is Verdict.CHALLENGE:
        return decision
    if not reading.should_retry:
        return decision.ending if isinstance(decision, Again) else decision
    return Again(decision.ending if isinstance(decision, Again) else decision)


def after_failure(failure: Failure, facts: Facts) -> Decision:
    """What an attempt without a complete answer means for the call."""
    if failure in (Failure.UNFORESEEN, Failure.CANCELLED):
        return Reraise(Outcome.UNKNOWN)
    untouched = facts.at_the_door and facts.fresh and not facts.open
    ending: Ending = UNKNOWN
    if untouched and failure is not Failure.UNKNOWN:
        ending = Raise("NotSent", Outcome.NOT_SENT)
    if facts.repeatable and not facts.keyed:
        ending = Reraise(ending.outcome)
    heeded = facts.repeatable or (facts.keyed and not facts.ignored)
    return Again(ending) if failure is Failure.NEVER_SENT or (failure is Failure.UNKNOWN and heeded) else ending


def leaves_open(reading: Reading, status: int, facts: Facts) -> bool:
    """Whether an answered attempt may have run and is still without a final answer."""
    if not facts.keyed:
        return broke(status)
    return (
        reading.verdict in (Verdict.TRANSIENT, Verdict.IN_PROGRESS)
        or (reading.verdict is Verdict.STORED_ERROR and broke(status))
        or (reading.verdict is Verdict.CONFLICT and (facts.open or not facts.fresh))
    )


TURNED_AWAY = frozenset({401, 407, 429, 307, 308})
"""Statuses that prove that the server did not act on the request."""


FOREVER = 1e9
"""Seconds, some thirty years: nobody waits longer, and no timer can."""


class Limits(NamedTuple):
    """What bounds the next attempt: numbers that the driver has measured or asked for, in seconds."""

    stopped: bool
    """The stop strategy says that the network attempts are used up."""
    backoff: float
    """What the wait strategy asks for."""
    floor: float = 0.0
    """What the server asks for at least (Retry-After)."""
    longest_floor: float = 60.0
    remaining: float | None = None
    """What is left of the total timeout; None without one."""
    conflict_polls: int = 0
    """Polls after a bare 409 so far."""


def pace(again: Again, limits: Limits) -> float | GaveUp:
    """Seconds to wait before the next attempt, or the limit that forbids it.

    A server's Retry-After is a floor: neither shortened nor overslept, so one that does not fit ends the call.
    """
    if again.conflict and limits.conflict_polls >= MAX_CONFLICT_POLLS:
        return GaveUp.ATTEMPTS
    if limits.stopped and not again.poll:
        return GaveUp.ATTEMPTS
    if limits.floor > limits.longest_floor:
        return GaveUp.RETRY_AFTER
    remaining = FOREVER if limits.remaining is None else limits.remaining
    if limits.floor > 0 and limits.floor >= remaining:
        return GaveUp.RETRY_AFTER
    seconds = max(limits.backoff, limits.floor)
    return GaveUp.DEADLINE if seconds >= remaining else seconds
