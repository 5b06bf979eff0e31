"""Which payment the demo shows, and how its timeline looks."""

from __future__ import annotations

import pytest

from samekey import Attempt, Failure, Kind, Outcome, Report, Verdict
from samekey.cli._audit import Findings
from samekey.cli._bank import Books, Charge
from samekey.cli._show import SHOWN, story_of, verdict
from samekey.cli._story import Step, Story, pick
from samekey.cli._ways import Statement

LOST = Attempt(1, Kind.FIRST, 0.0, 0.3, failure=Failure.UNKNOWN, error="ReadTimeout", open=True)
CUT = Attempt(2, Kind.RETRY, 0.4, 0.1, status=201, failure=Failure.UNKNOWN, error="ReadError", open=True)
BUSY = Attempt(2, Kind.RETRY, 0.4, 0.0, status=409, verdict=Verdict.IN_PROGRESS, open=True)
BROKEN = Attempt(2, Kind.RETRY, 0.4, 0.0, status=503, verdict=Verdict.TRANSIENT, open=True)
DONE = Attempt(3, Kind.POLL, 0.9, 0.1, status=201, verdict=Verdict.OK)
FIRST = Attempt(1, Kind.FIRST, 0.0, 0.1, status=201, verdict=Verdict.OK)


def told(order: str, *attempts: Attempt, replayed: bool = True) -> Statement:
    report = Report("k", None, Outcome.EXECUTED, attempts=attempts)
    return Statement(order, Outcome.EXECUTED, replayed=replayed, report=report)


def books(charges: int, met: list[str] | None = None) -> Books:
    one = Charge("ch", "k")
    return Books({"a": [one] * charges, "b": [one]}, {}, {"a": met or []}, 0)


def text(story: Story) -> list[str]:
    return ["".join(part for part, _ in line).rstrip() for line in story_of(story)]


def test_timeline() -> None:
    """Bars stand where their attempts do, waits are dotted, the fault stands beside what the client saw."""
    story = pick(
        [told("a", LOST, BUSY, DONE)], books(1, ["slow", "", ""]), [Statement("a", Outcome.EXECUTED)], books(2)
    )

    assert story is not None
    assert text(story) == [
        "",
        "a through samekey, attempt by attempt (1.00 s)",
        "                                  the client saw            the fault",
        " 1 first  ███████                 ReadTimeout               slow",
        " 2 retry         ··█              409 in progress",
        " 3 poll            ···········██  201 replayed",
        "charged once; without a key, behind the same faults: twice",
    ]


@pytest.mark.parametrize(
    ("attempt", "replayed", "saw"),
    [
        (LOST, True, "ReadTimeout"),
        (CUT, True, "201, ReadError"),
        (BUSY, True, "409 in progress"),
        (BROKEN, True, "503"),
        (DONE, True, "201 replayed"),
        (DONE, False, "201 done"),
    ],
)
def test_what_the_client_saw(attempt: Attempt, replayed: bool, saw: str) -> None:
    """Each attempt in a word or two."""
    story = pick([told("a", LOST, attempt, replayed=replayed)], books(1), [], books(0))

    assert story is not None
    assert story.steps[-1].saw == saw


def test_the_most_telling_one() -> None:
    """More charges without a key first, then more variety; one call only, and more than one attempt."""
    worse = [told("a", LOST, DONE), told("b", LOST, BUSY, DONE)]

    assert getattr(pick(worse, books(1), [], books(3)), "order", None) == "a"
    assert getattr(pick(worse, books(1), [], books(1)), "order", None) == "b"
    assert pick([told("a", FIRST)], books(1), [], books(1)) is None
    assert pick([told("a", LOST, DONE), told("a", FIRST)], books(1), [], books(1)) is None
    assert pick([Statement("a", None)], books(1), [], books(1)) is None
    assert pick([told("a", *[LOST] * 10)], books(1), [], books(1)) is None


def test_faults_are_left_out_if_rows_would_shift() -> None:
    """A request that never arrived has no fault to show."""
    story = pick([told("a", LOST, DONE)], books(1, ["slow"]), [], books(1))

    assert story is not None
    assert [step.met for step in story.steps] == ["", ""]


def test_bars_stay_inside() -> None:
    """An attempt in the last instant, and one that took no time at all, have a bar of one."""
    late = Step(2, "retry", 1.0, 0.0, "201 done", "")
    lines = text(Story("a", (Step(1, "first", 0.0, 1.0, "503", "503"), late), 2, 0, plain_failed=True))

    assert lines[4] == " 2 retry                       █  201 done"
    assert lines[5] == ("charged twice; without a key, behind the same faults: not at all, and reported failed")
    instant = text(Story("a", (Step(1, "first", 0.0, 0.0, "201 done", ""),), 1, 3, plain_failed=False))
    assert instant[3] == " 1 first  █                       201 done"
    assert instant[4].endswith(": 3 times")


def test_verdict_lists_what_is_wrong() -> None:
    """The first twenty findings are shown, the others counted."""
    lines = verdict(Findings(doubled=tuple(f"order-{number}: x" for number in range(SHOWN + 5))), 25)

    assert lines[1][0][0] == "samekey broke its word: 25 doubled, 0 lost, 0 untrue"
    assert len(lines) == SHOWN + 3
    assert lines[-1][0][0] == "  and 5 more"
    assert verdict(Findings(lost=("order-1: never charged",)), 1)[-1][0][0] == "  order-1: never charged"
