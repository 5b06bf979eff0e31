"""The truth after a storm: what the API and the card processor have in their books."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg


@dataclass(frozen=True, slots=True)
class Charge:
    """Money that moved; *at* is when."""

    id: str
    amount: int
    at: float
    status: str = "captured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """All books.

    Attributes:
        charges: By order.
        captured: What the processor was told to capture: amounts, by charge.
        keys: How many keys the API has seen and kept.
    """

    charges: dict[str, list[Charge]] = field(default_factory=dict)
    captured: dict[str, list[int]] = field(default_factory=dict)
    keys: int = 0


def read_books(database: str, processor: Path | None = None) -> Books:
    """What is in the books of the API at *database*, and in those of the processor."""
    charges: dict[str, list[Charge]] = defaultdict(list)
    with psycopg.connect(database) as connection:
        for order, name, amount, at, status in connection.execute(
            "SELECT order_ref, id, amount, extract(epoch from created_at)::float8, status FROM charges"
        ):
            charges[order].append(Charge(name, amount, at, status))
        count = connection.execute("SELECT count(*) FROM idempotency_keys").fetchone()
    captured: dict[str, list[int]] = defaultdict(list)
    if processor is not None:
        with closing(sqlite3.connect(processor)) as books:
            for charge, amount in books.execute("SELECT subject, amount FROM instructions"):
                captured[charge].append(amount)
    return Books(charges=dict(charges), captured=dict(captured), keys=count[0] if count else 0)


def outbox_left(database: str) -> int:
    """How many intents the processor has not been told yet."""
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT count(*) FROM outbox WHERE state = 'waiting'").fetchone()
    return found[0] if found else 0
