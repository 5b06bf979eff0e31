"""The figures of a storm."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .books import Books
from .checker import Verdict
from .contenders import CONTENDERS
from .plan import Plan
from .statements import Statement

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one contender made of the storm.

    Attributes:
        contender: Its name.
        title: For people.
        operations: Payments there were.
        declined: Those of them that the bank declines.
        effects: Charges in the books.
        doubled: Payments charged more than once.
        lost: Payments that should have been charged and were not.
        false: Statements that were not so.
        failed_but_charged: Those of them that said "failed".
        unresolved: Payments without a final answer.
        processor: Findings in the books of the card processor; None if it took no part.
        reports: Final statements by outcome.
        calls: All statements by outcome.
        unknown: Payments of which at least one call said "unknown".
        resolved: Those of them that had a final answer in the end.
        resumed: Payments that were under way when their client was killed, and were taken up again from the journal.
        keys: Keys in the books of the API.
        from_journal: Final answers that came from the journal.
        replays: Final answers that the server marked as stored ones.
        requests: Requests that reached the relay.
        p50, p95, p99: Seconds to the final answer, within the process that got it.
        seconds: The whole storm.
        met: Requests by fault.
        kills: What was killed, how often.
        seed: What chance was drawn from.
        findings: The first of everything that was found.
    """

    contender: str
    title: str
    operations: int
    declined: int
    effects: int
    doubled: int
    lost: int
    false: int
    failed_but_charged: int
    unresolved: int
    processor: int | None
    reports: dict[str, int]
    calls: dict[str, int]
    unknown: int
    resolved: int
    resumed: int
    keys: int
    from_journal: int
    replays: int
    requests: int
    p50: float
    p95: float
    p99: float
    seconds: float
    met: dict[str, int]
    kills: dict[str, int]
    seed: int
    findings: list[str]

    @property
    def clean(self) -> bool:
        """The promise was kept."""
        return not (self.doubled or self.lost or self.false or self.unresolved or self.processor)

    def to_json(self) -> dict[str, Any]:
        """For the file."""
        return asdict(self)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that *share* of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def summary(
    plan: Plan,
    statements: Sequence[Statement],
    books: Books,
    verdict: Verdict,
    *,
    relay: dict[str, Any],
    seconds: float,
    kills: dict[str, int],
    resumed: int,
) -> Result:
    """Count everything."""
    by_order: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        by_order[statement.order].append(statement)
    final = [statement for statement in statements if statement.final]
    unknown = {statement.order for statement in statements if statement.outcome == "unknown"}
    times = [statement.seconds for statement in final]
    findings = [verdict.doubled, verdict.lost, verdict.false, verdict.unresolved, verdict.processor]
    return Result(
        contender=plan.contender,
        title=CONTENDERS[plan.contender].title,
        operations=plan.operations,
        declined=sum(payment.declined for payment in plan.payments()),
        effects=sum(map(len, books.charges.values())),
        doubled=len(verdict.doubled),
        lost=len(verdict.lost),
        false=len(verdict.false),
        failed_but_charged=verdict.failed_but_charged,
        unresolved=len(verdict.unresolved),
        processor=len(verdict.processor) if CONTENDERS[plan.contender].resumes else None,
        reports=dict(sorted(Counter(statement.outcome for statement in final).items())),
        calls=dict(sorted(Counter(statement.outcome for statement in statements).items())),
        unknown=len(unknown),
        resolved=sum(any(statement.final for statement in by_order[order]) for order in unknown),
        resumed=resumed,
        keys=books.keys,
        from_journal=sum(statement.journal for statement in final),
        replays=sum(statement.replayed for statement in final),
        requests=relay["requests"],
        p50=percentile(times, 0.50),
        p95=percentile(times, 0.95),
        p99=percentile(times, 0.99),
        seconds=seconds,
        met=relay["met"],
        kills=kills,
        seed=plan.seed,
        findings=[text for found in findings for text in found[:_SHOWN]],
    )
