"""The tables of design 6.1 and 6.2, written down from the design, against the pure decision."""

from __future__ import annotations

import math
from typing import Any

import pytest

from samekey._decide import (
    Again,
    Deliver,
    Ending,
    Facts,
    Limits,
    Raise,
    Reraise,
    after_answer,
    after_failure,
    leaves_open,
    pace,
)
from samekey._model import Failure, GaveUp, Outcome, Reading, Verdict

FRESH = Facts()
OPEN = Facts(open=True, at_the_door=False)
GIVEN = Facts(fresh=False)
SITUATIONS = {"nothing open": FRESH, "something open": OPEN, "not fresh": GIVEN}


def said(decision: Ending | Again) -> str:
    """A decision in the words of the tables."""
    match decision:
        case Deliver():
            return f"return {decision.outcome}"
        case Raise():
            chained = f" from {decision.cause}" if decision.cause else ""
            return f"{decision.error} {decision.outcome}{chained}"
        case Reraise():
            return f"as it is {decision.outcome}"
        case Again():
            how = "poll 5x" if decision.conflict else "poll" if decision.poll else "retry"
            return f"{how} > {said(decision.ending)}"


V = Verdict
UNKNOWN = "OutcomeUnknown unknown"
DONE = ("return executed",) * 3
NO = ("return rejected",) * 3

# What the server said, its status, more of the reading, what the dialect says;
# then what follows with nothing open, with something open, and with a key that is not fresh.
ANSWERS: list[tuple[str, Verdict, int, dict[str, Any], dict[str, Any], tuple[str, str, str]]] = [
    ("done", V.OK, 200, {}, {}, DONE),
    ("done, look there", V.OK, 303, {}, {}, DONE),
    ("done, said to be no replay", V.OK, 201, {"replayed": False}, {}, DONE),
    ("done, key ignored", V.OK, 201, {"supported": False}, {}, DONE),
    ("replayed success", V.OK, 201, {"replayed": True}, {}, DONE),
    ("replayed refusal", V.STORED_ERROR, 402, {"replayed": True}, {}, NO),
    ("replayed 404", V.STORED_ERROR, 404, {"replayed": True}, {"settles": False}, NO),
    ("replayed 500", V.STORED_ERROR, 500, {"replayed": True}, {}, (UNKNOWN,) * 3),
    ("in progress, 409", V.IN_PROGRESS, 409, {}, {}, ("poll > StillInProgress unknown",) * 3),
    ("in progress, 202", V.IN_PROGRESS, 202, {}, {}, ("poll > StillInProgress unknown",) * 3),
    (
        "mismatch",
        V.MISMATCH,
        422,
        {},
        {},
        ("KeyMismatch rejected", "OutcomeUnknown unknown from KeyMismatch", "KeyMismatch unknown"),
    ),
    (
        "mismatch, and other bytes went out",
        V.MISMATCH,
        422,
        {},
        {"same_bytes": False},
        ("KeyMismatch rejected", "KeyMismatch unknown", "KeyMismatch unknown"),
    ),
    ("already done, nobody vouches", V.ALREADY_DONE, 409, {}, {}, (UNKNOWN,) * 3),
    ("already done, the dialect vouches", V.ALREADY_DONE, 409, {}, {"believe_done": True}, (
        "AlreadyExecuted executed",) * 3),
    ("already done, other bytes went out", V.ALREADY_DONE, 409, {}, {"believe_done": True, "same_bytes": False}, (
        UNKNOWN,) * 3),
    ("spent", V.KEY_SPENT, 409, {}, {}, ("KeySpent rejected",) * 3),
    ("expired", V.KEY_EXPIRED, 410, {}, {}, ("KeyExpired unknown",) * 3),
    # "Not fresh" is no row of the design here; a gateway can say this of a key that has been used.
    ("key missing", V.KEY_MISSING, 400, {}, {}, ("KeyNotAccepted rejected", UNKNOWN, "KeyNotAccepted unknown")),
    ("key refused", V.KEY_REFUSED, 400, {}, {}, ("KeyNotAccepted rejected", UNKNOWN, "KeyNotAccepted unknown")),
    ("conflict", V.CONFLICT, 409, {}, {}, ("return rejected", f"poll 5x > {UNKNOWN}", f"poll 5x > {UNKNOWN}")),
    ("empty conflict", V.CONFLICT, 409, {"empty": True}, {}, (
        "poll 5x > return rejected", f"poll 5x > {UNKNOWN}", f"poll 5x > {UNKNOWN}")),
    ("slow down", V.RATE_LIMITED, 429, {}, {"settles": False}, (
        "retry > return rejected", f"retry > {UNKNOWN}", "retry > return unknown")),
    ("too early", V.RATE_LIMITED, 425, {}, {"settles": False}, (
        "retry > return rejected", f"retry > {UNKNOWN}", "retry > return unknown")),
    *(
        (f"broken, {status}", V.TRANSIENT, status, {}, {}, (f"retry > {UNKNOWN}",) * 3)
        for status in (408, 500, 502, 503, 504, 599)
    ),
    ("refused behind the lookup", V.REFUSED, 402, {}, {}, NO),
    ("refused, the dialect stores it", V.REFUSED, 422, {}, {"settles": True}, NO),
    *(
        (f"refused at the door, {status}", V.REFUSED, status, {}, {"settles": False}, (
            "return rejected", UNKNOWN, "return unknown"))
        for status in (400, 403, 404, 405, 413, 415, 421, 422, 426, 428, 431, 451)
    ),
    *(
        (f"challenge, {status}", V.CHALLENGE, status, {}, {"settles": False}, (
            "return rejected", "return unknown", "return unknown"))
        for status in (401, 407)
    ),
    # The design leaves 307 under a key that is not fresh open; an earlier process may have been served.
    *((f"redirect, {status}", V.REDIRECT, status, {}, {}, ("return rejected", "return unknown", "return unknown"))
      for status in (307, 308)),
    ("moved, 302", V.MOVED, 302, {}, {}, ("return unknown",) * 3),
]  # fmt: skip


@pytest.mark.parametrize("column", range(3), ids=list(SITUATIONS))
@pytest.mark.parametrize("row", ANSWERS, ids=[row[0] for row in ANSWERS])
def test_answer_to_a_keyed_request(row: tuple[Any, ...], column: int) -> None:
    """Design 6.2: what follows from every verdict, whatever else is known of the key."""
    _, verdict, status, more, dialect, expected = row
    facts = list(SITUATIONS.values())[column]._replace(**dialect)

    assert said(after_answer(Reading(verdict, **more), status, facts)) == expected[column]


@pytest.mark.parametrize("row", ANSWERS, ids=[row[0] for row in ANSWERS])
def test_what_is_open_weighs_more_than_where_the_key_is_from(row: tuple[Any, ...]) -> None:
    """Something open under a key that is not fresh: as something open."""
    _, verdict, status, more, dialect, expected = row
    facts = OPEN._replace(fresh=False, **dialect)

    assert said(after_answer(Reading(verdict, **more), status, facts)) == expected[1]


def test_the_table_has_every_verdict() -> None:
    """A verdict that is added needs its row."""
    assert {row[1] for row in ANSWERS} == set(Verdict)


@pytest.mark.parametrize(
    ("verdict", "status", "hint", "expected"),
    [
        # Both ways over the table (BR-19).
        (V.TRANSIENT, 503, False, UNKNOWN),
        (V.RATE_LIMITED, 429, False, "return rejected"),
        (V.CONFLICT, 409, True, "retry > return rejected"),
        (V.REFUSED, 402, True, "retry > return rejected"),
        (V.REFUSED, 402, False, "return rejected"),
        (V.STORED_ERROR, 500, True, f"retry > {UNKNOWN}"),
        (V.TRANSIENT, 503, True, f"retry > {UNKNOWN}"),
        # Never over a verdict about the key.
        (V.MISMATCH, 422, True, "KeyMismatch rejected"),
        (V.KEY_SPENT, 409, True, "KeySpent rejected"),
        (V.KEY_EXPIRED, 410, True, "KeyExpired unknown"),
        (V.KEY_MISSING, 400, True, "KeyNotAccepted rejected"),
        (V.KEY_REFUSED, 400, True, "KeyNotAccepted rejected"),
        (V.ALREADY_DONE, 409, True, UNKNOWN),
        (V.IN_PROGRESS, 409, False, "poll > StillInProgress unknown"),
        # Never on 401 and 407, never below 400.
        (V.CHALLENGE, 401, True, "return rejected"),
        (V.CHALLENGE, 407, True, "return rejected"),
        (V.OK, 200, True, "return executed"),
        (V.MOVED, 302, True, "return unknown"),
        (V.REDIRECT, 307, True, "return rejected"),
        (V.IN_PROGRESS, 202, False, "poll > StillInProgress unknown"),
    ],
)
def test_hint_of_the_server(verdict: Verdict, status: int, hint: bool, expected: str) -> None:
    """An explicit hint beats the table in both directions, but no verdict about the key."""
    assert said(after_answer(Reading(verdict, should_retry=hint), status, FRESH)) == expected


def test_hint_to_stop_with_something_open_leaves_the_outcome_unknown() -> None:
    """A hint "do not retry" says nothing of what the lost attempt did."""
    for verdict, status in ((V.TRANSIENT, 503), (V.RATE_LIMITED, 429), (V.CONFLICT, 409)):
        assert said(after_answer(Reading(verdict, should_retry=False), status, OPEN)) == UNKNOWN


@pytest.mark.parametrize(
    ("verdict", "status", "expected"),
    [
        (V.TRANSIENT, 503, UNKNOWN),
        (V.RATE_LIMITED, 429, "return rejected"),
        (V.IN_PROGRESS, 409, "StillInProgress unknown"),
        (V.CONFLICT, 409, "return rejected"),
        (V.OK, 200, "return executed"),
    ],
)
def test_server_that_ignores_keys_is_not_asked_again(verdict: Verdict, status: int, expected: str) -> None:
    """It would execute each repeat; whether it said so now or in an earlier answer."""
    now = Reading(verdict, supported=False, empty=True)
    before = Reading(verdict, empty=True)

    assert said(after_answer(now, status, FRESH)) == expected
    assert said(after_answer(before, status, Facts(ignored=True))) == expected
    assert said(after_answer(Reading(verdict, supported=False, should_retry=True), status, FRESH)) == expected


PUT = Facts(keyed=False, repeatable=True)
POST = Facts(keyed=False)


@pytest.mark.parametrize(
    ("status", "verdict", "put", "put_after_open", "post"),
    [
        (200, V.OK, "return executed", "return executed", "return executed"),
        (204, V.OK, "return executed", "return executed", "return executed"),
        (303, V.OK, "return executed", "return executed", "return executed"),
        (304, V.MOVED, "return executed", "return executed", "return executed"),
        (302, V.MOVED, "return unknown", "return unknown", "return unknown"),
        (400, V.REFUSED, "return rejected", "return unknown", "return rejected"),
        (401, V.CHALLENGE, "return rejected", "return unknown", "return rejected"),
        (404, V.REFUSED, "return rejected", "return unknown", "return rejected"),
        (409, V.IN_PROGRESS, "return rejected", "return unknown", "return rejected"),
        (412, V.REFUSED, "return rejected", "return unknown", "return rejected"),
        (408, V.TRANSIENT, "retry > return unknown", "retry > return unknown", "return unknown"),
        (425, V.RATE_LIMITED, "retry > return rejected", "retry > return unknown", "return rejected"),
        (429, V.RATE_LIMITED, "retry > return rejected", "retry > return unknown", "return rejected"),
        (500, V.TRANSIENT, "retry > return unknown", "retry > return unknown", "return unknown"),
        (501, V.TRANSIENT, "return unknown", "return unknown", "return unknown"),
        (502, V.TRANSIENT, "retry > return unknown", "retry > return unknown", "return unknown"),
        (503, V.TRANSIENT, "retry > return unknown", "retry > return unknown", "return unknown"),
        (504, V.TRANSIENT, "retry > return unknown", "retry > return unknown", "return unknown"),
        (505, V.TRANSIENT, "return unknown", "return unknown", "return unknown"),
    ],
)
def test_answer_to_an_unkeyed_request(status: int, verdict: Verdict, put: str, put_after_open: str, post: str) -> None:
    """Idempotent methods are repeated after seven statuses; an answer to a POST is returned untouched."""
    reading = Reading(verdict)

    assert said(after_answer(reading, status, PUT)) == put
    assert said(after_answer(reading, status, PUT._replace(open=True))) == put_after_open
    assert said(after_answer(reading, status, POST)) == post


def test_hint_never_makes_an_unkeyed_post_repeat() -> None:
    """A hint may repeat a PUT, never a POST without a key."""
    again = Reading(V.TRANSIENT, should_retry=True)
    no_more = Reading(V.TRANSIENT, should_retry=False)

    assert said(after_answer(again, 501, POST)) == "return unknown"
    assert said(after_answer(again, 501, PUT)) == "retry > return unknown"
    assert said(after_answer(no_more, 503, PUT)) == "return unknown"
    assert said(after_answer(Reading(V.TRANSIENT, supported=False), 503, PUT)) == "retry > return unknown"


BEYOND = Facts(at_the_door=False)
NOT_SENT = "NotSent not_sent"
F = Failure

# Then: keyed with nothing open, something open, not fresh, an answer from behind the door; unkeyed PUT; unkeyed POST.
FAILURES: list[tuple[Failure, tuple[str, str, str, str, str, str]]] = [
    (F.NEVER_SENT, (
        f"retry > {NOT_SENT}", f"retry > {UNKNOWN}", f"retry > {UNKNOWN}", f"retry > {UNKNOWN}",
        "retry > as it is not_sent", f"retry > {NOT_SENT}")),
    (F.UNKNOWN, (*(f"retry > {UNKNOWN}",) * 4, "retry > as it is unknown", UNKNOWN)),
    (F.PERMANENT, (NOT_SENT, UNKNOWN, UNKNOWN, UNKNOWN, "as it is not_sent", NOT_SENT)),
    (F.UNFORESEEN, ("as it is unknown",) * 6),
    (F.CANCELLED, ("as it is unknown",) * 6),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "expected"), FAILURES, ids=[row[0] for row in FAILURES])
def test_attempt_without_an_answer(failure: Failure, expected: tuple[str, ...]) -> None:
    """Design 6.1: what follows from every way to fail."""
    columns = (FRESH, OPEN, GIVEN, BEYOND, PUT, POST)

    assert tuple(said(after_failure(failure, facts)) for facts in columns) == expected


def test_the_table_has_every_failure() -> None:
    """A failure that is added needs its row."""
    assert {row[0] for row in FAILURES} == set(Failure)


def test_unkeyed_repeats_that_fail_keep_the_library_s_own_error() -> None:
    """After an attempt that may have run, the report of a PUT or DELETE says so."""
    facts = PUT._replace(open=True, at_the_door=False)

    assert said(after_failure(F.NEVER_SENT, facts)) == "retry > as it is unknown"


def test_lost_answer_of_a_server_that_ignores_keys_is_final() -> None:
    """A key that is ignored protects nobody; what was never sent, and what is idempotent, may still be repeated."""
    ignored = Facts(ignored=True)

    assert said(after_failure(F.UNKNOWN, ignored)) == UNKNOWN
    assert said(after_failure(F.NEVER_SENT, ignored)) == f"retry > {NOT_SENT}"
    assert said(after_failure(F.UNKNOWN, ignored._replace(repeatable=True))) == f"retry > {UNKNOWN}"


@pytest.mark.parametrize(
    ("verdict", "status", "facts", "expected"),
    [
        (V.TRANSIENT, 503, FRESH, True),
        (V.TRANSIENT, 408, FRESH, True),
        (V.STORED_ERROR, 500, FRESH, True),
        (V.STORED_ERROR, 402, FRESH, False),
        (V.IN_PROGRESS, 409, FRESH, True),
        (V.IN_PROGRESS, 202, FRESH, True),
        (V.CONFLICT, 409, FRESH, False),
        (V.CONFLICT, 409, OPEN, True),
        (V.CONFLICT, 409, GIVEN, True),
        (V.OK, 200, OPEN, False),
        (V.MISMATCH, 422, OPEN, False),
        (V.RATE_LIMITED, 429, OPEN, False),
        (V.REFUSED, 404, OPEN, False),
        (V.CHALLENGE, 401, OPEN, False),
        (V.REDIRECT, 307, OPEN, False),
        (V.TRANSIENT, 503, PUT, True),
        (V.TRANSIENT, 408, POST, True),
        (V.IN_PROGRESS, 409, PUT, False),
        (V.REFUSED, 404, PUT, False),
    ],
)
def test_which_answers_leave_their_attempt_open(verdict: Verdict, status: int, facts: Facts, expected: bool) -> None:
    """Design 2: 408, any 5xx, in progress, and a bare 409 where another attempt may be running."""
    assert leaves_open(Reading(verdict), status, facts) is expected


RETRY = Again(Raise("OutcomeUnknown", Outcome.UNKNOWN))
POLL = Again(RETRY.ending, poll=True)
CONFLICT_POLL = Again(RETRY.ending, poll=True, conflict=True)
G = GaveUp


def limits(**values: Any) -> Limits:
    """Limits that allow everything, but for *values*."""
    return Limits(**{"stopped": False, "backoff": 2.0, "remaining": 60.0, **values})


@pytest.mark.parametrize(
    ("again", "values", "expected"),
    [
        (RETRY, {}, 2.0),
        (RETRY, {"backoff": 0.0}, 0.0),
        # Retry-After is a floor, never shortened and never overslept.
        (RETRY, {"floor": 5.0}, 5.0),
        (RETRY, {"floor": 1.0}, 2.0),
        (POLL, {"floor": 5.0}, 5.0),
        (RETRY, {"floor": 60.0, "remaining": 100.0}, 60.0),
        (RETRY, {"floor": 60.5, "remaining": 100.0}, G.RETRY_AFTER),
        (RETRY, {"floor": 9.0, "longest_floor": 9.0}, 9.0),
        (RETRY, {"floor": 9.1, "longest_floor": 9.0}, G.RETRY_AFTER),
        (POLL, {"floor": 9.1, "longest_floor": 9.0}, G.RETRY_AFTER),
        (RETRY, {"floor": 0.1, "longest_floor": 0.0}, G.RETRY_AFTER),
        (RETRY, {"floor": 3.0, "remaining": 3.0}, G.RETRY_AFTER),
        (RETRY, {"floor": 3.0, "backoff": 0.0, "remaining": 2.0}, G.RETRY_AFTER),
        # A backoff longer than the time left means stop.
        (RETRY, {"remaining": 2.1}, 2.0),
        (RETRY, {"remaining": 2.0}, G.DEADLINE),
        (RETRY, {"remaining": 1.0}, G.DEADLINE),
        (RETRY, {"floor": 1.0, "remaining": 1.5}, G.DEADLINE),
        (POLL, {"remaining": 1.0}, G.DEADLINE),
        (RETRY, {"backoff": 0.0, "remaining": 0.0}, G.DEADLINE),
        (RETRY, {"backoff": 0.0, "remaining": -1.0}, G.DEADLINE),
        # Without a deadline all that a timer can wait.
        (RETRY, {"backoff": 1e6, "remaining": None}, 1e6),
        (RETRY, {"backoff": math.inf, "remaining": None}, G.DEADLINE),
        (RETRY, {"backoff": 1e300, "remaining": None}, G.DEADLINE),
        (RETRY, {"floor": 1e300, "longest_floor": 1e301, "remaining": None}, G.RETRY_AFTER),
        # `stop` counts network attempts; polls have a count of their own.
        (RETRY, {"stopped": True}, G.ATTEMPTS),
        (RETRY, {"stopped": True, "floor": 100.0}, G.ATTEMPTS),
        (POLL, {"stopped": True}, 2.0),
        (POLL, {"conflict_polls": 99}, 2.0),
        (CONFLICT_POLL, {"stopped": True, "conflict_polls": 4}, 2.0),
        (CONFLICT_POLL, {"conflict_polls": 5}, G.ATTEMPTS),
        (RETRY, {"conflict_polls": 5}, 2.0),
    ],
)
def test_pace(again: Again, values: dict[str, Any], expected: float | GaveUp) -> None:
    """How long to wait before the next attempt, or which limit forbids it."""
    found = pace(again, limits(**values))

    assert found == expected
    assert type(found) is type(expected)
