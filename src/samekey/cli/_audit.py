"""The audit: what the callers were told, against the bank's books."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from samekey import Outcome
from samekey._keys import digest

from ._bank import Books, Charge, Payment
from ._ways import Statement


@dataclass(frozen=True, slots=True)
class Findings:
    """What is wrong: each a sentence that begins with the order number."""

    doubled: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    untrue: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that is wrong; empty if nothing is."""
        return self.doubled + self.lost + self.untrue


def audit(payments: Iterable[Payment], statements: Iterable[Statement], books: Books) -> Findings:
    """Compare every statement, and every payment's end, with what the bank really did.

    Doubled is a payment with more than one charge. Lost is one that the bank would take but that was never charged,
    or whose caller was never told how it ended. Untrue is a statement that the books contradict, and a payment whose
    requests did not all carry one key.
    """
    told: dict[str, list[Statement]] = defaultdict(list)
    for statement in statements:
        told[statement.order].append(statement)
    doubled, lost, untrue = [], [], []
    for payment in payments:
        order, mine = payment.order, told[payment.order]
        charges = books.charges.get(order, [])
        if len(charges) > 1:
            doubled.append(f"{order}: charged {len(charges)} times")
        if not charges and not payment.declined:
            lost.append(f"{order}: never charged")
        elif not mine or mine[-1].outcome in (None, Outcome.UNKNOWN):
            lost.append(f"{order}: nobody was told how it ended")
        untrue += [f"{order}: {falsehood}" for statement in mine for falsehood in _falsehoods(statement, charges)]
        if len(books.met.get(order, ())) < 2 and any(statement.replayed for statement in mine):
            untrue.append(f"{order}: reported replayed, and was sent once")
        keys = books.keys.get(order, set())
        if len(keys) > 1 or keys == {None}:
            carried = " and ".join(sorted("none" if key is None else digest(key) for key in keys))
            untrue.append(f"{order}: its requests carried different keys, or none: {carried}")
    return Findings(tuple(doubled), tuple(lost), tuple(untrue))


def _falsehoods(statement: Statement, charges: list[Charge]) -> list[str]:
    said, report = statement.outcome, statement.report
    found = []
    if said is Outcome.EXECUTED and not charges:
        found.append("reported executed, and was not")
    if said in (Outcome.REJECTED, Outcome.NOT_SENT) and charges:
        found.append(f"reported {said}, and was charged")
    if charges and statement.charge not in (None, *(charge.id for charge in charges)):
        found.append(f"the answer names {statement.charge}, which is no charge of it")
    if charges and report is not None and report.key not in {charge.key for charge in charges}:
        found.append("the reported key is not the one it was charged under")
    return found
