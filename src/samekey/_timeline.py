"""A report as people read it: a line and a bar for each attempt, as plain text or as a table of rich."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ._keys import digest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ._report import Attempt, Report

WIDTH = 24
"""Of the bars in plain text, in characters."""
HEADINGS = ("", "why", "began", "took", "", "what came of it")


class Bar(NamedTuple):
    """The pieces of one bar, in characters: before its wait, the wait, the attempt itself, and the rest."""

    before: int
    wait: int
    busy: int
    after: int


def bar(started: float, elapsed: float, ended_before: float, total: float, width: int) -> Bar:
    """The bar of an attempt, when the one before it ended at *ended_before* and the whole took *total* seconds."""
    total = max(total, 1e-6)
    first, last = (round(moment / total * width) for moment in (started, started + elapsed))
    first = min(max(first, 0), width - 1)
    busy = min(max(1, last - first), width - first)
    before = min(max(round(ended_before / total * width), 0), first)
    return Bar(before, first - before, busy, width - first - busy)


def bars(report: Report, width: int) -> Iterator[tuple[Attempt, Bar]]:
    """Each attempt with its bar."""
    attempts = report.attempts
    total = max((attempt.started + attempt.elapsed for attempt in attempts), default=0.0)
    end = 0.0
    for attempt in attempts:
        yield attempt, bar(attempt.started, attempt.elapsed, end, total, width)
        end = attempt.started + attempt.elapsed


def headline(report: Report) -> str:
    """What became of the call."""
    who = report.name or ("call" if report.key else "call without a key")
    key = f" [key {digest(report.key)}]" if report.key else ""
    said = [{True: "replayed", False: "not a replay"}.get(report.replayed)] if report.replayed is not None else []
    notes = [
        report.outcome.value.replace("_", " "),
        *filter(None, said),
        *(["from the journal"] if report.source == "journal" else []),
        *(["not recorded in the journal"] if report.recorded is False else []),
        *(["the server ignores keys"] if report.supported is False else []),
    ]
    count = len(report.attempts)
    attempts = "nothing sent" if not count else "1 attempt" if count == 1 else f"{count} attempts"
    return f"{who}{key}: {', '.join(notes)}; {attempts} in {report.elapsed:.2f} s"


def ending(report: Report) -> str | None:
    """Why there was no more."""
    notes = [f"gave up: {report.gave_up.value.replace('_', ' ')}"] if report.gave_up is not None else []
    if report.retry_after is not None:
        notes.append(f"the server asked to wait {report.retry_after:g} s")
    return "; ".join(notes) or None


def came_of(attempt: Attempt) -> str:
    """What an attempt brought."""
    words = [str(attempt.status)] if attempt.status is not None else []
    if attempt.error is not None:
        words.append(attempt.error)
    elif attempt.verdict is not None:
        words.append(attempt.verdict.value.replace("_", " "))
    return " ".join(words) + (" (may have run)" if attempt.open else "")


def cells(attempt: Attempt) -> tuple[str, str, str, str]:
    """Number, reason, beginning and duration."""
    why = attempt.kind.value.replace("_", " ")
    return str(attempt.number), why, f"{attempt.started:.2f} s", f"{attempt.elapsed:.2f} s"


def as_text(report: Report) -> str:
    """The timeline in plain ASCII, without a newline at its end."""
    lines = [headline(report)]
    for attempt, (before, wait, busy, after) in bars(report, WIDTH):
        number, why, began, took = cells(attempt)
        drawn = f"{' ' * before}{'.' * wait}{'#' * busy}{' ' * after}"
        lines.append(f"{number:>3} {why:9} {began:>8} {took:>8} |{drawn}| {came_of(attempt)}")
    if (why_not := ending(report)) is not None:
        lines.append(f"    {why_not}")
    return "\n".join(lines)


OUTCOMES = {"executed": "bold green", "rejected": "bold yellow", "not_sent": "bold yellow", "unknown": "bold red"}


def as_table(report: Report, width: int, *, ascii_only: bool) -> Iterator[RenderableType]:
    """The timeline for rich, *width* characters wide at most."""
    from rich.table import Table
    from rich.text import Text

    yield Text(headline(report), style=OUTCOMES[report.outcome.value])
    if report.attempts:
        full, dot = ("#", ".") if ascii_only else ("█", "·")
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in HEADINGS:
            table.add_column(heading, justify="right" if heading in ("began", "took") else "left", no_wrap=True)
        for attempt, (before, wait, busy, after) in bars(report, min(max(width - 62, 10), 40)):
            good = not attempt.open and attempt.error is None
            drawn = Text(" " * before).append(dot * wait, "dim").append(full * busy, "green" if good else "yellow")
            table.add_row(*cells(attempt), drawn.append(" " * after), Text(came_of(attempt), "green" if good else ""))
        yield table
    if (why_not := ending(report)) is not None:
        yield Text(why_not, style="dim")
