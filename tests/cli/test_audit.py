"""The audit of `samekey demo` finds what is planted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samekey import Outcome, Report
from samekey._keys import digest
from samekey.cli._audit import Findings, audit
from samekey.cli._bank import Books, Charge, Payment
from samekey.cli._ways import Statement

PAYMENT = Payment("order-1", 4900)
DECLINED = Payment("order-2", 4900, declined=True)

EXECUTED = Statement("order-1", Outcome.EXECUTED, "ch_1", report=Report("k1", None, Outcome.EXECUTED))
UNKNOWN = Statement("order-1", Outcome.UNKNOWN, report=Report("k1", None, Outcome.UNKNOWN))
REJECTED = Statement("order-2", Outcome.REJECTED, report=Report("k2", None, Outcome.REJECTED))
PAID = Books({"order-1": [Charge("ch_1", "k1")]}, {"order-1": {"k1"}}, {"order-1": ["answer lost", ""]}, 2)
UNPAID = replace(PAID, charges={})
REFUSED = Books({}, {"order-2": {"k2"}}, {"order-2": [""]}, 1)
KEYS = "its requests carried different keys, or none: "
TWICE = {"order-1": [Charge("ch_1", "k1"), Charge("ch_2", "k1")]}


def found(payment: Payment, books: Books, *statements: Statement) -> Findings:
    return audit([payment], statements, books)


@pytest.mark.parametrize(
    ("payment", "books", "statements"),
    [
        (PAYMENT, PAID, [EXECUTED]),
        (PAYMENT, PAID, [replace(EXECUTED, replayed=True)]),
        (PAYMENT, PAID, [UNKNOWN, EXECUTED]),
        (PAYMENT, PAID, [replace(EXECUTED, report=None)]),
        (DECLINED, REFUSED, [REJECTED]),
    ],
)
def test_truth_passes(payment: Payment, books: Books, statements: list[Statement]) -> None:
    """What is as it was told is no finding."""
    assert found(payment, books, *statements).all == ()


def test_double() -> None:
    """A payment with two charges is doubled, whatever was told."""
    assert found(PAYMENT, replace(PAID, charges=TWICE), EXECUTED).doubled == ("order-1: charged 2 times",)


@pytest.mark.parametrize(
    ("books", "statements", "why"),
    [
        (UNPAID, [replace(EXECUTED, outcome=Outcome.REJECTED, charge=None)], "never charged"),
        (UNPAID, [replace(EXECUTED, outcome=Outcome.NOT_SENT, charge=None)], "never charged"),
        (UNPAID, [], "never charged"),
        (PAID, [], "nobody was told how it ended"),
        (PAID, [EXECUTED, UNKNOWN], "nobody was told how it ended"),
        (PAID, [replace(EXECUTED, outcome=None, charge=None)], "nobody was told how it ended"),
    ],
)
def test_loss(books: Books, statements: list[Statement], why: str) -> None:
    """A payment that was never made, or whose end nobody learnt, is lost."""
    assert found(PAYMENT, books, *statements).lost == (f"order-1: {why}",)


@pytest.mark.parametrize(
    ("payment", "books", "statements", "why"),
    [
        (DECLINED, REFUSED, [replace(REJECTED, outcome=Outcome.EXECUTED)], "reported executed, and was not"),
        (
            PAYMENT,
            PAID,
            [replace(EXECUTED, outcome=Outcome.REJECTED), EXECUTED],
            "reported rejected, and was charged",
        ),
        (
            PAYMENT,
            PAID,
            [replace(EXECUTED, outcome=Outcome.NOT_SENT), EXECUTED],
            "reported not_sent, and was charged",
        ),
        (PAYMENT, PAID, [replace(EXECUTED, charge="ch_9")], "the answer names ch_9, which is no charge of it"),
        (
            PAYMENT,
            PAID,
            [replace(EXECUTED, report=Report("k9", None, Outcome.EXECUTED))],
            "the reported key is not the one it was charged under",
        ),
        (
            PAYMENT,
            replace(PAID, met={"order-1": [""]}),
            [replace(EXECUTED, replayed=True)],
            "reported replayed, and was sent once",
        ),
        (
            PAYMENT,
            replace(PAID, keys={"order-1": {"k1", "k9"}}),
            [EXECUTED],
            f"{KEYS}{digest('k1')} and {digest('k9')}",
        ),
        (
            PAYMENT,
            replace(PAID, keys={"order-1": {"k1", None}}),
            [EXECUTED],
            f"{KEYS}{digest('k1')} and none",
        ),
        (PAYMENT, replace(PAID, keys={"order-1": {None}}), [EXECUTED], f"{KEYS}none"),
    ],
)
def test_false_reports(payment: Payment, books: Books, statements: list[Statement], why: str) -> None:
    """A statement that the books contradict is untrue, an earlier one that was put right later included."""
    assert found(payment, books, *statements).untrue == (f"{payment.order}: {why}",)


def test_findings_are_added_up() -> None:
    """Every kind of finding fails the demo."""
    findings = Findings(("a",), ("b",), ("c",))

    assert findings.all == ("a", "b", "c")
    assert Findings().all == ()
