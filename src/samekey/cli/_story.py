"""One payment, attempt by attempt: which one is worth showing, and the facts of its timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from samekey import Attempt, Verdict

from ._bank import Books
from ._ways import Statement

MOST_ATTEMPTS = 9


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt as a row: times in seconds, what the client saw, which fault the bank's side met."""

    number: int
    kind: str
    started: float
    elapsed: float
    saw: str
    met: str


@dataclass(frozen=True, slots=True)
class Story:
    """One payment: its timeline through samekey, and how it ended without a key."""

    order: str
    steps: tuple[Step, ...]
    charges: int
    plain_charges: int
    plain_failed: bool

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "order": self.order,
            "attempts": [{name: getattr(step, name) for name in Step.__slots__} for step in self.steps],
            "charges": self.charges,
            "charges_without_key": self.plain_charges,
        }


def pick(
    statements: Iterable[Statement], books: Books, plain_statements: Iterable[Statement], plain_books: Books
) -> Story | None:
    """The most telling payment that took one call; None if nothing was sent twice."""
    statements = list(statements)
    calls = Counter(statement.order for statement in statements)
    plain = {statement.order: statement for statement in plain_statements}
    best: tuple[tuple[int, int], Story] | None = None
    for statement in statements:
        report, order = statement.report, statement.order
        if calls[order] > 1 or report is None or not 2 <= len(report.attempts) <= MOST_ATTEMPTS:
            continue
        met = books.met.get(order, [])
        # A request that never arrived would shift the rows; then the faults are left out.
        met = met if len(met) == len(report.attempts) else [""] * len(report.attempts)
        steps = tuple(
            _step(attempt, fault, replayed=statement.replayed)
            for attempt, fault in zip(report.attempts, met, strict=True)
        )
        charges, plain_charges = (len(kept.charges.get(order, ())) for kept in (books, plain_books))
        told = plain.get(order)
        story = Story(order, steps, charges, plain_charges, told is None or told.outcome is None)
        variety = len({step.saw for step in steps} | {step.kind for step in steps})
        if best is None or (plain_charges, variety) > best[0]:
            best = (plain_charges, variety), story
    return None if best is None else best[1]


def _step(attempt: Attempt, met: str, *, replayed: bool) -> Step:
    saw = _saw(attempt, replayed=replayed)
    return Step(attempt.number, str(attempt.kind), round(attempt.started, 4), round(attempt.elapsed, 4), saw, met)


def _saw(attempt: Attempt, *, replayed: bool) -> str:
    if attempt.error is not None:
        return attempt.error if attempt.status is None else f"{attempt.status}, {attempt.error}"
    if attempt.verdict is Verdict.OK:
        return f"{attempt.status} {'replayed' if replayed else 'done'}"
    return f"{attempt.status} in progress" if attempt.verdict is Verdict.IN_PROGRESS else f"{attempt.status}"
