"""The judge: what the callers were told, against what is in the books."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .books import Books, Charge
from .statements import Statement
from .weather import Payment

CLOCKS = 0.005
"""Seconds by which the clocks of database and clients, on one machine, may disagree."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What the judge found; each finding names the payment.

    Attributes:
        doubled: Charged more than once.
        lost: Wanted, not declined by the bank, and not charged.
        false: Told something that is not so.
        unresolved: Never told how it ended.
        processor: What the card processor has done too often, not at all, or for nobody.
        failed_but_charged: Told "failed", which most programs read as "not charged", though it was; also in *false*.
    """

    doubled: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    processor: list[str] = field(default_factory=list)
    failed_but_charged: int = 0

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not (self.doubled or self.lost or self.false or self.unresolved or self.processor)


def judge(
    payments: Sequence[Payment], statements: Iterable[Statement], books: Books, *, processor: bool = False
) -> Verdict:
    """Hold every statement against the books, and every payment too."""
    verdict = Verdict()
    told: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        told[statement.order].append(statement)
    for payment in payments:
        charges = books.charges.get(payment.order, [])
        if len(charges) > 1:
            verdict.doubled.append(f"{payment.order}: charged {len(charges)} times")
        if not charges and not payment.declined:
            verdict.lost.append(f"{payment.order}: never charged")
        if not any(statement.final for statement in told[payment.order]):
            verdict.unresolved.append(f"{payment.order}: no final answer")
        for statement in told[payment.order]:
            if wrong := _falsehood(payment, statement, charges):
                verdict.false.append(f"{payment.order}: told {statement.outcome}, but {wrong}")
                verdict.failed_but_charged += statement.outcome == "failed"
    known = {payment.order for payment in payments}
    verdict.false.extend(f"{order}: charged, and nobody asked" for order in books.charges.keys() - known)
    if processor:
        verdict.processor = _at_the_processor(books)
    return verdict


def _falsehood(payment: Payment, told: Statement, charges: list[Charge]) -> str | None:
    """What is wrong with a statement, or None."""
    match told.outcome:
        case "executed":
            return _wrong_charge(payment, told, charges)
        case "rejected" | "failed" if told.final:
            return "it was charged" if charges else None
        case "rejected" | "not_sent":
            # It was going to be tried again, so a later charge is no contradiction.
            earlier = any(charge.at < told.at - CLOCKS for charge in charges)
            return "it had been charged by then" if earlier else None
        case "unknown":
            return None  # always true; that each is resolved is another question
        case other:
            return f"{other!r} is no outcome"


def _wrong_charge(payment: Payment, told: Statement, charges: list[Charge]) -> str | None:
    if not charges:
        return "it was not charged"
    if not told.final:
        return None  # without an answer in hand
    same = [charge for charge in charges if charge.id == told.charge]
    if not same:
        return f"the charge {told.charge} of the answer is not in the books"
    if {same[0].amount, told.amount} != {payment.amount}:
        return f"the amount was {payment.amount}, {told.amount} was answered and {same[0].amount} charged"
    return None


def _at_the_processor(books: Books) -> list[str]:
    found: list[str] = []
    known: Counter[str] = Counter()
    for charge in (charge for charges in books.charges.values() for charge in charges):
        known[charge.id] += 1
        amounts = books.captured.get(charge.id, [])
        if amounts != [charge.amount]:
            found.append(f"{charge.id}: {charge.amount} charged, {amounts} captured")
        elif charge.status != "captured":
            found.append(f"{charge.id}: captured, but marked {charge.status}")
    found.extend(f"{charge}: captured, never charged" for charge in books.captured.keys() - known.keys())
    return found
