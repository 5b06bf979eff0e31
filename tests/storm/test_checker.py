"""The judge finds what is planted: a double, a loss, a false report, and what the card processor did wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.storm.books import Books, Charge
from tests.storm.checker import Verdict, judge
from tests.storm.statements import Statement
from tests.storm.weather import Payment

GOOD = Payment("order-1", 100, declined=False, work=0.0)
DECLINED = Payment("order-2", 200, declined=True, work=0.0)
CHARGE = Charge("ch_1", 100, at=1000.0)
EXECUTED = Statement(order="order-1", outcome="executed", final=True, charge="ch_1", amount=100, at=1001.0)
REJECTED = Statement(order="order-2", outcome="rejected", final=True, status=402, at=1001.0)
BOOKS = Books(charges={"order-1": [CHARGE]}, captured={"ch_1": [100]})


def verdict(*statements: Statement, books: Books = BOOKS) -> Verdict:
    """Judge one payment that goes through, and one that is declined."""
    return judge([GOOD, DECLINED], [*statements, REJECTED], books, processor=True)


def executed(**changes: Any) -> Statement:
    """The good payment's statement, changed."""
    return replace(EXECUTED, **changes)


def test_all_is_well() -> None:
    """Nothing is found where nothing is wrong."""
    assert verdict(EXECUTED).clean


def test_double() -> None:
    """Charged twice, though only one charge was told of."""
    found = verdict(EXECUTED, books=replace(BOOKS, charges={"order-1": [CHARGE, Charge("ch_2", 100, at=1002.0)]}))

    assert found.doubled == ["order-1: charged 2 times"]
    assert (found.lost, found.false, found.unresolved) == ([], [], [])
    assert not found.clean


@pytest.mark.parametrize("told", ["rejected", "failed", "not_sent"])
def test_loss(told: str) -> None:
    """Wanted, not declined, and never charged, whatever was told."""
    found = verdict(executed(outcome=told, charge=None, amount=None), books=Books())

    assert found.lost == ["order-1: never charged"]
    assert (found.doubled, found.false) == ([], [])
    assert not found.clean


@pytest.mark.parametrize(
    ("statement", "books", "wrong"),
    [
        (EXECUTED, Books(), "told executed, but it was not charged"),
        (executed(charge="ch_9"), BOOKS, "told executed, but the charge ch_9 of the answer is not in the books"),
        (
            executed(amount=1),
            BOOKS,
            "told executed, but the amount was 100, 1 was answered and 100 charged",
        ),
        (executed(outcome="rejected"), BOOKS, "told rejected, but it was charged"),
        (executed(outcome="failed"), BOOKS, "told failed, but it was charged"),
        (executed(outcome="not_sent", final=False), BOOKS, "told not_sent, but it had been charged by then"),
        (executed(outcome="rejected", final=False), BOOKS, "told rejected, but it had been charged by then"),
        (executed(outcome="maybe"), BOOKS, "told maybe, but 'maybe' is no outcome"),
    ],
)
def test_false_report(statement: Statement, books: Books, wrong: str) -> None:
    """A statement that the books contradict."""
    found = verdict(statement, books=books)

    assert found.false == [f"order-1: {wrong}"]
    assert found.failed_but_charged == (statement.outcome == "failed")
    assert not found.clean


def test_early_word_is_true() -> None:
    """Told "not sent", and charged by a later try: both are true."""
    early = executed(outcome="not_sent", final=False, charge=None, at=999.0)

    assert verdict(early, EXECUTED).clean


def test_false_word_on_the_way() -> None:
    """A false report counts although a later one is true."""
    assert verdict(executed(outcome="not_sent", final=False, at=1000.5), EXECUTED).false


def test_unknown_is_true_and_has_to_be_resolved() -> None:
    """The word "unknown" is never false, but must not be the last word."""
    unknown = executed(outcome="unknown", final=False, charge=None, amount=None)

    assert verdict(unknown, EXECUTED).clean
    assert verdict(unknown).unresolved == ["order-1: no final answer"]
    assert verdict().unresolved == ["order-1: no final answer"]


def test_declined_and_charged() -> None:
    """A charge of a card that the bank declines, and one that nobody asked for."""
    found = verdict(
        EXECUTED,
        books=replace(
            BOOKS, charges={**BOOKS.charges, "order-2": [Charge("ch_2", 200, 1.0)], "order-9": [Charge("ch_9", 9, 1.0)]}
        ),
    )

    assert found.false == ["order-2: told rejected, but it was charged", "order-9: charged, and nobody asked"]


@pytest.mark.parametrize(
    ("captured", "status", "wrong"),
    [
        ({}, "captured", "ch_1: 100 charged, [] captured"),
        ({"ch_1": [100, 100]}, "captured", "ch_1: 100 charged, [100, 100] captured"),
        ({"ch_1": [99]}, "captured", "ch_1: 100 charged, [99] captured"),
        ({"ch_1": [100]}, "authorized", "ch_1: captured, but marked authorized"),
        ({"ch_1": [100], "ch_9": [5]}, "captured", "ch_9: captured, never charged"),
    ],
)
def test_processor(captured: dict[str, list[int]], status: str, wrong: str) -> None:
    """What the processor did twice, not at all, or for nobody."""
    books = Books(charges={"order-1": [replace(CHARGE, status=status)]}, captured=captured)

    assert verdict(EXECUTED, books=books).processor == [wrong]
