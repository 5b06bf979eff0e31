"""The demo's output as lines of styled text, at most 79 columns wide; how they reach the screen is `_screen`'s."""

from __future__ import annotations

from collections.abc import Mapping

from samekey._timeline import bar

from ._audit import Findings
from ._bank import STEPS, Settings
from ._story import Step, Story

Span = tuple[str, str]
"""Text and its style, in the words of rich; "" for none."""
Line = tuple[Span, ...]

ROWS: tuple[tuple[str, str], ...] = (
    ("payments", "payments asked for"),
    ("declined", "declined by the bank"),
    ("charges", "charges made"),
    ("doubled", "doubled: charged more than once"),
    ("executed_but_reported_failed", "executed, but reported failed"),
    ("reported_unknown_then_settled", "reported unknown, then settled with its key"),
    ("replayed", "answers replayed"),
    ("requests", "requests sent"),
    ("seconds", "time"),
)
HARMFUL = ("doubled", "executed_but_reported_failed")
WIDTH = 79
BAR = 22
SHOWN = 20


def heading(settings: Settings) -> list[Line]:
    """What is about to happen."""
    names = [name for name, _ in STEPS]
    return [
        (
            ("samekey demo", "bold"),
            (f": {settings.payments} payments to a bank on loopback, seed {settings.seed}", ""),
        ),
        ((f"{settings.faults:.0%} of the requests meet a fault: {' · '.join(names[:4])},", "dim"),),
        ((" · ".join(names[4:]), "dim"),),
        (),
    ]


def table(without: Mapping[str, float], keyed: Mapping[str, float]) -> list[Line]:
    """The numbers of the two ways, side by side."""
    lines: list[Line] = [
        ((f"{'':40}{'httpx + tenacity, no key':>24}{'samekey':>15}", "bold"),),
        (("─" * WIDTH, "dim"),),
    ]
    for name, label in ROWS:
        cells = [_cell(name, numbers[name]) for numbers in (without, keyed)]
        lines.append(
            (
                (f"{label:46}", ""),
                (f"{cells[0]:>18}", _style(name, without[name])),
                (f"{cells[1]:>15}", _style(name, keyed[name])),
            )
        )
    return lines


def _cell(name: str, value: float) -> str:
    return f"{value:.1f} s" if name == "seconds" else f"{value:g}"


def _style(name: str, value: float) -> str:
    if name not in HARMFUL:
        return ""
    return "bold red" if value else "bold green"


def story_of(story: Story) -> list[Line]:
    """The timeline of one payment."""
    total = max(step.started + step.elapsed for step in story.steps) or 1.0
    lines: list[Line] = [
        (),
        ((f"{story.order} through samekey, attempt by attempt ({total:.2f} s)", "bold"),),
        ((f"{'':10}{'':{BAR}}  {'the client saw':26}{'the fault':19}", "dim"),),
    ]
    end = 0.0
    for step in story.steps:
        lines.append((*_row(step, end, total),))
        end = step.started + step.elapsed
    lines.append(
        ((f"charged {_times(story.charges)}", "green" if story.charges <= 1 else "red"), (f"; {_without(story)}", ""))
    )
    return lines


def _row(step: Step, before: float, total: float) -> Line:
    drawn = bar(step.started, step.elapsed, before, total, BAR)
    good = step.saw.endswith((" done", " replayed"))
    return (
        (f"{step.number:2} {step.kind:7}", ""),
        (" " * drawn.before, ""),
        ("·" * drawn.wait, "dim"),
        ("█" * drawn.busy, "green" if good else "yellow"),
        (" " * drawn.after, ""),
        (f"  {step.saw:26}", "green" if good else ""),
        (f"{step.met:19}".rstrip(), "dim"),
    )


def _without(story: Story) -> str:
    told = ", and reported failed" if story.plain_failed else ""
    return f"without a key, behind the same faults: {_times(story.plain_charges)}{told}"


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")


def verdict(findings: Findings, reports: int) -> list[Line]:
    """Whether samekey kept its word."""
    if not findings.all:
        text = f"samekey doubled nothing, lost nothing, and each of its {reports} reports was true."
        return [(), ((text, "bold green"),)]
    counts = f"{len(findings.doubled)} doubled, {len(findings.lost)} lost, {len(findings.untrue)} untrue"
    lines: list[Line] = [(), ((f"samekey broke its word: {counts}", "bold red"),)]
    lines += [((f"  {text}", ""),) for text in findings.all[:SHOWN]]
    if len(findings.all) > SHOWN:
        lines.append(((f"  and {len(findings.all) - SHOWN} more", "dim"),))
    return lines
