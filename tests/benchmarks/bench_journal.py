"""What the journal costs: ``python tests/benchmarks/bench_journal.py [operations]``.

1. Claim and record of one operation, against the two bare durable writes (INSERT, UPDATE of the same bytes) in the same
   database, both through one connection, in turns.
2. Two hundred operations at once on asyncio, against the same one after the other.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psycopg
from psycopg_pool import ConnectionPool

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from samekey.journal import AsyncJournal, Claim, Ended, Journal, RowState
from samekey.postgres import AsyncPostgresJournal, PostgresJournal
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal
from tests.journal.servers import Server

BODY = b'{"id": "ch_1", "amount": 4900}' * 8
HEADERS = (("content-type", "application/json"), ("x-request-id", "r" * 36))
BARE = "(name text PRIMARY KEY, key text, body {type}, done {type})"


def claim(name: str) -> Claim:
    return Claim(scope="", name=name, key="k" * 36, fingerprint="f" * 64, owner="o" * 32, lease=90)


def ended(name: str) -> Ended:
    return Ended(scope="", name=name, owner="o" * 32, state=RowState.EXECUTED, status=200, headers=HEADERS, body=BODY)


def in_turns(number: int, journal: Journal, bare: Callable[[str], None]) -> tuple[float, float]:
    """Median seconds of a named operation, and of the two bare writes."""
    named_times, bare_times = [], []
    for index in range(number):
        name = f"order-{index}"
        began = time.perf_counter()
        journal.claim(claim(name))
        journal.record(ended(name))
        between = time.perf_counter()
        bare(name)
        named_times.append(between - began)
        bare_times.append(time.perf_counter() - between)
    return statistics.median(named_times[10:]), statistics.median(bare_times[10:])


def bare_sqlite(folder: str) -> Callable[[str], None]:
    connection = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE bare " + BARE.format(type="blob"))

    def write(name: str) -> None:
        connection.execute("INSERT INTO bare (name, key) VALUES (?, ?)", (name, "k" * 36))
        connection.execute("UPDATE bare SET body = ?, done = ? WHERE name = ?", (BODY, b"h" * 100, name))

    return write


def bare_postgres(uri: str) -> Callable[[str], None]:
    connection = psycopg.connect(uri, autocommit=True)
    connection.execute("CREATE TABLE bare " + BARE.format(type="bytea"))

    def write(name: str) -> None:
        connection.execute("INSERT INTO bare (name, key) VALUES (%s, %s)", (name, "k" * 36))
        connection.execute("UPDATE bare SET body = %s, done = %s WHERE name = %s", (BODY, b"h" * 100, name))

    return write


def at_once(journal: AsyncJournal, prepare: Callable[[], Any], number: int = 200) -> tuple[float, float]:
    """Seconds for *number* operations at once, and one after the other."""

    async def one(name: str) -> None:
        await journal.claim(claim(name))
        await journal.record(ended(name))

    async def main() -> tuple[float, float]:
        await prepare()
        for index in range(20):
            await one(f"warm-{index}")
        began = time.perf_counter()
        for index in range(number):
            await one(f"turn-{index}")
        between = time.perf_counter()
        async with anyio.create_task_group() as group:
            for index in range(number):
                group.start_soon(one, f"once-{index}")
        end = time.perf_counter()
        await journal.aclose()
        return end - between, between - began

    return anyio.run(main)


def main(number: int) -> None:
    print(f"{'claim + record':22}{'journal':>11}{'bare':>11}{'ratio':>8}")
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        with SQLiteJournal(f"{folder}/journal.db") as journal:
            show("SQLite", *in_turns(number, journal, bare_sqlite(folder)))
        with ConnectionPool(server.uri, min_size=1, max_size=1, kwargs={"autocommit": True}) as pool:
            shared = PostgresJournal(pool)
            shared.migrate()
            show("PostgreSQL", *in_turns(number, shared, bare_postgres(server.uri)))
        print(f"{'200 operations, async':22}{'at once':>11}{'in turn':>11}{'ratio':>8}")
        lite = AsyncSQLiteJournal(f"{folder}/async.db")
        show("SQLite", *at_once(lite, lambda: lite.get("", "")))
        postgres = AsyncPostgresJournal(server.uri, table="at_once")
        show("PostgreSQL", *at_once(postgres, postgres.migrate))
    server.remove()


def show(what: str, left: float, right: float) -> None:
    print(f"{what:22}{left * 1000:8.2f} ms{right * 1000:8.2f} ms{left / right:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
