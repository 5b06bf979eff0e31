"""A report as people read it: as text, and through rich as a table."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from samekey._keys import digest
from samekey._model import Failure, GaveUp, Kind, Outcome, Verdict
from samekey._report import Attempt, Report
from samekey._timeline import WIDTH, bar

KEY = "alice@example.test-1"
LOST = Attempt(1, Kind.FIRST, 0.0, 0.1, failure=Failure.UNKNOWN, error="ReadTimeout", message="a secret", open=True)
BROKEN = Attempt(2, Kind.RETRY, 0.6, 0.05, status=503, verdict=Verdict.TRANSIENT, open=True)
DONE = Attempt(3, Kind.FOLLOW_UP, 0.9, 0.1, status=201, verdict=Verdict.OK)
CUT = Attempt(1, Kind.FIRST, 0.0, 0.0, status=200, failure=Failure.UNKNOWN, error="ReadError", open=True)


def drawn(report: Report, width: int = 100, **settings: Any) -> str:
    """What rich prints."""
    console = Console(file=io.StringIO(), width=width, **settings)
    console.print(report)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_call_with_retries() -> None:
    """Number, reason, beginning, duration, a bar (dots for the wait), and what came of it."""
    report = Report(KEY, None, Outcome.EXECUTED, replayed=True, attempts=(LOST, BROKEN, DONE), elapsed=1.0)

    assert str(report).splitlines() == [
        f"call [key {digest(KEY)}]: executed, replayed; 3 attempts in 1.00 s",
        "  1 first       0.00 s   0.10 s |##                      | ReadTimeout (may have run)",
        "  2 retry       0.60 s   0.05 s |  ............##        | 503 transient (may have run)",
        "  3 follow up   0.90 s   0.10 s |                ......##| 201 ok",
    ]


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (Report(None, None, Outcome.REJECTED), "call without a key: rejected; nothing sent in 0.00 s"),
        (
            Report(KEY, "order-1:charge", Outcome.EXECUTED, source="journal", recorded=True),
            f"order-1:charge [key {digest(KEY)}]: executed, from the journal; nothing sent in 0.00 s",
        ),
        (
            Report(KEY, None, Outcome.EXECUTED, replayed=False, recorded=False, supported=False, attempts=(CUT,)),
            (
                f"call [key {digest(KEY)}]: executed, not a replay, not recorded in the journal, "
                "the server ignores keys; 1 attempt in 0.00 s\n"
                f"  1 first       0.00 s   0.00 s |#{' ' * (WIDTH - 1)}| 200 ReadError (may have run)"
            ),
        ),
        (
            Report(KEY, None, Outcome.NOT_SENT, gave_up=GaveUp.RETRY_OFF),
            f"call [key {digest(KEY)}]: not sent; nothing sent in 0.00 s\n    gave up: retry off",
        ),
        (
            Report(None, None, Outcome.REJECTED, gave_up=GaveUp.RETRY_AFTER, retry_after=300.0),
            (
                "call without a key: rejected; nothing sent in 0.00 s\n"
                "    gave up: retry after; the server asked to wait 300 s"
            ),
        ),
        (
            Report(None, None, Outcome.EXECUTED, retry_after=1.5),
            "call without a key: executed; nothing sent in 0.00 s\n    the server asked to wait 1.5 s",
        ),
    ],
)
def test_what_it_says(report: Report, text: str) -> None:
    assert str(report) == text


def test_an_attempt_without_a_verdict() -> None:
    """Of an unkeyed call that was cancelled."""
    attempt = Attempt(1, Kind.FIRST, 0.0, 0.0)

    assert str(Report(None, None, Outcome.UNKNOWN, attempts=(attempt,))).endswith("| ")


@pytest.mark.parametrize("show", [str, repr, drawn])
def test_no_key_and_no_message_is_shown(show: Any) -> None:
    """BR-66: the digest is enough to find it in a log."""
    report = Report(KEY, None, Outcome.UNKNOWN, attempts=(LOST, BROKEN))

    assert KEY not in show(report)
    assert "secret" not in show(report)
    assert digest(KEY) in show(report)


def test_repr_stays_one_line() -> None:
    report = Report(KEY, None, Outcome.UNKNOWN, attempts=(LOST, BROKEN))

    assert "\n" not in repr(report)
    assert f"{report!r}".startswith("Report(")


def test_attempts_have_a_short_repr() -> None:
    assert repr(LOST) == "Attempt(1, first, ReadTimeout, 0.100 s, open)"
    assert repr(BROKEN) == "Attempt(2, retry, 503, transient, 0.050 s, open)"
    assert repr(DONE) == "Attempt(3, follow_up, 201, ok, 0.100 s)"


def test_plain_text_is_ascii() -> None:
    """Any terminal can show it."""
    assert str(Report(KEY, None, Outcome.EXECUTED, attempts=(LOST, BROKEN, DONE))).isascii()


def test_rich_draws_a_table() -> None:
    report = Report(KEY, None, Outcome.EXECUTED, attempts=(LOST, BROKEN, DONE), elapsed=1.0, gave_up=GaveUp.BUDGET)

    head, columns, first, second, third, end = (line.rstrip() for line in drawn(report).splitlines())
    assert head == f"call [key {digest(KEY)}]: executed; 3 attempts in 1.00 s"
    assert columns.split() == ["why", "began", "took", "what", "came", "of", "it"]
    assert first.startswith("1  first      0.00 s  0.10 s  ████ ")
    assert "·" * 19 + "█" in second
    assert third.endswith("201 ok")
    assert end == "gave up: budget"


def test_rich_without_attempts() -> None:
    """Nothing to draw."""
    assert len(drawn(Report(KEY, None, Outcome.NOT_SENT)).splitlines()) == 1


@pytest.mark.parametrize("outcome", Outcome)
def test_rich_colours_the_outcome(outcome: Outcome) -> None:
    assert "\x1b[1;3" in drawn(Report(KEY, None, outcome), force_terminal=True)


@pytest.mark.parametrize("width", [20, 60, 80, 300])
def test_rich_fits_into_the_terminal(width: int) -> None:
    report = Report(KEY, None, Outcome.EXECUTED, attempts=(LOST, BROKEN, DONE))

    assert all(len(line) <= width for line in drawn(report, width).splitlines())


def test_rich_on_a_terminal_without_drawing_characters() -> None:
    """The bars are ASCII there."""
    report = Report(KEY, None, Outcome.EXECUTED, attempts=(LOST, BROKEN, DONE))
    console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=100)

    console.print(report)
    console.file.flush()
    assert b"....##" in console.file.buffer.getvalue()  # type: ignore[attr-defined]


@given(
    st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.integers(1, 80)
)  # fmt: skip
def test_a_bar_fills_its_width(started: float, elapsed: float, before: float, total: float, width: int) -> None:
    """Whatever the clocks said, and no attempt is too short to be seen."""
    drawn = bar(started, elapsed, before, total, width)

    assert sum(drawn) == width
    assert min(drawn) >= 0
    assert drawn.busy >= 1
