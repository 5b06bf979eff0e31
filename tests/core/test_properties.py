"""Whatever happens to an operation, its reports are true; and a decision that is wrong in one cell is found out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekey import _decide, _exchange
from samekey._decide import Again, Deliver, Facts, Limits, Raise
from samekey._exchange import Exchange
from samekey._model import Failure, GaveUp, Outcome, Reading, Verdict
from samekey._state import KeyState
from tests.core.worlds import World

V = Verdict


@given(st.data())
def test_reports_are_true(data: st.DataObject) -> None:
    """One or several calls of one operation, in turn, interleaved or in another process, against generated faults.

    Never more attempts than allowed, one key, `not_sent` only when nothing got past the door, `rejected` never when it
    was or is being executed, `executed` only when an answer said so, waits as long as asked and within the time.
    """
    World(lambda options: data.draw(st.sampled_from(options))).run()


def first_lie(worlds: int) -> str | None:
    """The first of so many random worlds in which a report is not true."""
    for seed in range(worlds):
        try:
            World(random.Random(seed).choice).run()
        except AssertionError as error:
            return f"{seed}: {error}"
    return None


def test_reports_are_true_in_many_worlds() -> None:
    """The same, many times and fast."""
    assert first_lie(10_000) is None


def test_the_worlds_are_worth_something() -> None:
    """Every verdict, failure, outcome and limit occurs in them, each at least some times."""
    seen: dict[object, int] = {}

    class Watched(World):
        def over(self, exchange: Exchange, ending: Any, reply: Any) -> None:
            super().over(exchange, ending, reply)
            report = exchange.report(self.now)
            for thing in (report.outcome, report.gave_up, getattr(ending, "error", type(ending).__name__)):
                seen[thing] = seen.get(thing, 0) + 1
            for attempt in report.attempts:
                for part in (attempt.verdict, attempt.failure, attempt.kind):
                    seen[part] = seen.get(part, 0) + 1

    for seed in range(3000):
        Watched(random.Random(seed).choice).run()

    wanted = [*Verdict, *Failure, *Outcome, *(limit for limit in GaveUp if limit is not GaveUp.BUDGET)]
    errors = [
        "OutcomeUnknown",
        "StillInProgress",
        "KeyMismatch",
        "KeyExpired",
        "KeySpent",
        "NotSent",
        "AlreadyExecuted",
    ]
    assert {thing: seen.get(thing, 0) for thing in [*wanted, *errors, "Reraise"] if seen.get(thing, 0) < 10} == {}


# -- planted bugs

REJECTED = Deliver(Outcome.REJECTED)
DONE = Deliver(Outcome.EXECUTED)
NOT_SENT = Raise("NotSent", Outcome.NOT_SENT)
Patch = Callable[[pytest.MonkeyPatch], None]


def answers_wrong(verdict: Verdict, decision: Any, when: Callable[[int, Facts], bool] = lambda *_: True) -> Patch:
    """One cell of table 6.2 is wrong."""

    def wrong(reading: Reading, status: int, facts: Facts) -> Any:
        if reading.verdict is verdict and when(status, facts):
            return decision
        return _decide.after_answer(reading, status, facts)

    return lambda patch: patch.setattr(_exchange, "after_answer", wrong)


def fails_wrong(failure: Failure, decision: Any, when: Callable[[Facts], bool]) -> Patch:
    """One cell of table 6.1 is wrong."""

    def wrong(found: Failure, facts: Facts) -> Any:
        return decision if found is failure and when(facts) else _decide.after_failure(found, facts)

    return lambda patch: patch.setattr(_exchange, "after_failure", wrong)


def paces_wrong(**changes: Any) -> Patch:
    """One limit is not looked at."""

    def wrong(again: Again, limits: Limits) -> Any:
        return _decide.pace(again, limits._replace(**changes))

    return lambda patch: patch.setattr(_exchange, "pace", wrong)


def closes(verdict: Verdict) -> Patch:
    """An answer with this verdict is taken for final."""

    def wrong(reading: Reading, status: int, facts: Facts) -> bool:
        return reading.verdict is not verdict and _decide.leaves_open(reading, status, facts)

    return lambda patch: patch.setattr(_exchange, "leaves_open", wrong)


def opened(_: int, facts: Facts) -> bool:
    return facts.open


def used(_: int, facts: Facts) -> bool:
    return not facts.fresh and not facts.open


def sends_another_key(self: Exchange, now: float, wall: float, right: Any = Exchange.sending) -> None:
    right(self, now, wall)
    self.state.key = f"key {len(self.attempts)}"


PLANTED: dict[str, Patch] = {
    "a refusal at the door settles": answers_wrong(V.REFUSED, REJECTED, opened),
    "a refusal at the door speaks for other processes": answers_wrong(V.REFUSED, REJECTED, used),
    "429 settles": answers_wrong(V.RATE_LIMITED, Again(REJECTED), opened),
    "429 speaks for other processes": answers_wrong(V.RATE_LIMITED, Again(REJECTED), used),
    "401 settles": answers_wrong(V.CHALLENGE, REJECTED, opened),
    "401 speaks for other processes": answers_wrong(V.CHALLENGE, REJECTED, used),
    "307 settles": answers_wrong(V.REDIRECT, REJECTED, opened),
    "302 is done": answers_wrong(V.MOVED, DONE),
    "a mismatch settles": answers_wrong(V.MISMATCH, Raise("KeyMismatch", Outcome.REJECTED), opened),
    "a mismatch speaks for other processes": answers_wrong(V.MISMATCH, Raise("KeyMismatch", Outcome.REJECTED), used),
    "a conflict settles": answers_wrong(V.CONFLICT, REJECTED, opened),
    "a conflict speaks for other processes": answers_wrong(V.CONFLICT, REJECTED, used),
    "a conflict is a network attempt": answers_wrong(V.CONFLICT, Again(REJECTED), opened),
    "a refused key settles": answers_wrong(V.KEY_REFUSED, Raise("KeyNotAccepted", Outcome.REJECTED), opened),
    "a missing key settles": answers_wrong(V.KEY_MISSING, Raise("KeyNotAccepted", Outcome.REJECTED), opened),
    "a refused key speaks for other processes": answers_wrong(
        V.KEY_REFUSED, Raise("KeyNotAccepted", Outcome.REJECTED), used
    ),
    "an expired key was refused": answers_wrong(V.KEY_EXPIRED, Raise("KeyExpired", Outcome.REJECTED)),
    "503 is a refusal": answers_wrong(V.TRANSIENT, REJECTED),
    "503 is returned": answers_wrong(V.TRANSIENT, Deliver(Outcome.UNKNOWN)),
    "a stored 500 is a refusal": answers_wrong(V.STORED_ERROR, REJECTED, lambda status, _: status == 500),
    "a stored 402 is a success": answers_wrong(V.STORED_ERROR, DONE, lambda status, _: status == 402),
    "in progress is done": answers_wrong(V.IN_PROGRESS, DONE),
    "in progress is a refusal": answers_wrong(V.IN_PROGRESS, REJECTED),
    "already done is believed unasked": answers_wrong(V.ALREADY_DONE, Raise("AlreadyExecuted", Outcome.EXECUTED)),
    "already done is a refusal": answers_wrong(V.ALREADY_DONE, REJECTED),
    "a spent key is done": answers_wrong(V.KEY_SPENT, DONE),
    "lost is not sent": fails_wrong(Failure.UNKNOWN, Again(NOT_SENT), lambda _: True),
    "not reached is not sent, something open": fails_wrong(
        Failure.NEVER_SENT, Again(NOT_SENT), lambda facts: facts.open
    ),
    "not reached is not sent, key used": fails_wrong(
        Failure.NEVER_SENT, Again(NOT_SENT), lambda facts: not facts.fresh and not facts.open
    ),
    "not reached is not sent, answered before": fails_wrong(
        Failure.NEVER_SENT, Again(NOT_SENT), lambda facts: not facts.at_the_door and facts.fresh and not facts.open
    ),
    "unsupported is not sent, something open": fails_wrong(Failure.PERMANENT, NOT_SENT, lambda facts: facts.open),
    "an unforeseen error is not sent": fails_wrong(Failure.UNFORESEEN, NOT_SENT, lambda _: True),
    "cancelled is not sent": fails_wrong(Failure.CANCELLED, NOT_SENT, lambda _: True),
    "503 is final": closes(V.TRANSIENT),
    "a stored 500 is final": closes(V.STORED_ERROR),
    "in progress is final": closes(V.IN_PROGRESS),
    "stop is not asked": paces_wrong(stopped=False),
    "Retry-After is ignored": paces_wrong(floor=0.0),
    "Retry-After has no limit": paces_wrong(longest_floor=1e6),
    "the deadline is ignored": paces_wrong(remaining=None),
    "conflicts are polled for ever": paces_wrong(conflict_polls=0),
    "retries cannot be turned off": lambda patch: patch.setattr(Exchange, "limited", lambda self, step: (
        step if isinstance(step, Again) else self.end(step))),
    "409 is the door": lambda patch: patch.setattr(_exchange, "TURNED_AWAY", frozenset({401, 409, 429})),
    "each attempt has a key": lambda patch: patch.setattr(Exchange, "sending", sends_another_key),
    "age is not checked": lambda patch: patch.setattr(Exchange, "check_age", lambda *_: None),
    "calls do not see each other": lambda patch: patch.setattr(KeyState, "fresh", lambda self, _: self.made_here),
    "attempts do not see each other": lambda patch: patch.setattr(KeyState, "open_besides", lambda *_: False),
    "an attempt is open only once it has failed": lambda patch: patch.setattr(
        KeyState, "open_besides", lambda self, attempt: any(
            name and number != attempt for number, name in self.open.items())),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_bug_is_found(planted: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The property would fail: each cell that is wrong makes a report that is not true."""
    planted(monkeypatch)

    assert first_lie(60_000) is not None
