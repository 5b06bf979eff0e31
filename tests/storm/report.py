"""The table on the terminal, and the same in Markdown for the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .result import Result

_ROWS: tuple[tuple[str, Callable[[Result], str]], ...] = (
    ("operations", lambda result: f"{result.operations:,}"),
    ("to be declined", lambda result: f"{result.declined:,}"),
    ("charges made", lambda result: f"{result.effects:,}"),
    ("doubled", lambda result: _rate(result.doubled, result)),
    ("lost", lambda result: _rate(result.lost, result)),
    ("false reports", lambda result: _rate(result.false, result)),
    ("  failed, but charged", lambda result: _rate(result.failed_but_charged, result)),
    ("told at the end: executed", lambda result: _count(result.reports, "executed")),
    ("  rejected", lambda result: _count(result.reports, "rejected")),
    ("  failed", lambda result: _count(result.reports, "failed")),
    ("  nothing", lambda result: f"{result.unresolved:,}"),
    ("calls told: unknown", lambda result: _count(result.calls, "unknown")),
    ("  not sent", lambda result: _count(result.calls, "not_sent")),
    ("ever unknown", lambda result: _rate(result.unknown, result)),
    ("  of these resolved", lambda result: f"{result.resolved:,}"),
    ("resumed after a kill", lambda result: f"{result.resumed:,}"),
    ("keys at the API", lambda result: f"{result.keys:,}"),
    ("answered by the journal", lambda result: f"{result.from_journal:,}"),
    ("replays", lambda result: f"{result.replays:,}"),
    ("wrong at the processor", lambda result: "-" if result.processor is None else f"{result.processor:,}"),
    ("requests per operation", lambda result: f"{result.requests / result.operations:.2f}"),
    ("p50 seconds", lambda result: f"{result.p50:.3f}"),
    ("p95 seconds", lambda result: f"{result.p95:.3f}"),
    ("p99 seconds", lambda result: f"{result.p99:.3f}"),
    ("killed: clients", lambda result: f"{result.kills['client']:,}"),
    ("  servers", lambda result: f"{result.kills['server']:,}"),
    ("  outbox and processor", lambda result: f"{result.kills['office']:,}"),
    ("  database crashes", lambda result: f"{result.kills['database']:,}"),
    ("operations per second", lambda result: f"{result.operations / result.seconds:.0f}"),
)


def _rate(count: int, result: Result) -> str:
    """A count, and its share: contenders may have had numbers of payments of their own."""
    return f"{count:,} ({100 * count / result.operations:.2f} %)" if count else "0"


def _count(counts: dict[str, int], name: str) -> str:
    return f"{counts.get(name, 0):,}"


def table(results: Sequence[Result]) -> str:
    """One column per contender; they are set below one another where a line would get too long."""
    parts = [_block(results[start : start + 4]) for start in range(0, len(results), 4)]
    findings = [
        f"{result.title}: {text}" for result in results if result.contender == "samekey" for text in result.findings
    ]
    return "\n\n".join(parts + (["\n".join(findings)] if findings else []))


def _block(results: Sequence[Result]) -> str:
    rows = [("", *(result.title for result in results))]
    rows += [(name, *(show(result) for result in results)) for name, show in _ROWS]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(_padded(row, widths)) for row in rows)


def _padded(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    yield row[0].ljust(widths[0])
    for cell, width in zip(row[1:], widths[1:], strict=True):
        yield cell.rjust(width)


def markdown(results: Sequence[Result]) -> str:
    """The table for the docs: one line per contender, the columns that tell them apart."""
    lines = [
        "| | operations | doubled | lost | false reports | ever unknown, resolved | requests per operation | p95 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        cells = (
            result.title,
            f"{result.operations:,}",
            *(_rate(count, result) for count in (result.doubled, result.lost, result.false)),
            f"{_rate(result.unknown, result)}, {result.resolved:,}" if result.contender == "samekey" else "-",
            f"{result.requests / result.operations:.2f}",
            f"{result.p95:.2f} s",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
