"""What named operations cost.

1. Claim and record of one operation, against the two bare durable writes (INSERT, UPDATE of the same bytes, each its
   own commit) in the same database. The journal serves any number of threads or tasks, so it takes a connection out of
   a pool for each step; so does an application that writes by hand, and that is the comparison. What the writes take on
   a connection that nobody shares stands beside it.
2. Two hundred operations at once on asyncio, against the same one after the other.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import anyio
import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from samekey.journal import AsyncJournal, Claim, Ended, Journal, RowState
from samekey.postgres import AsyncPostgresJournal, PostgresJournal
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal
from tests.journal.servers import Server

from .timing import Timing, async_block, async_turns, block, turns

BODY = b'{"id": "ch_1", "amount": 4900}' * 8
HEADERS = (("content-type", "application/json"), ("x-request-id", "r" * 36))
TABLE = "CREATE TABLE bare (name text PRIMARY KEY, key text, body {type}, done {type})"
INSERT = "INSERT INTO bare (name, key) VALUES (%s, %s)"
UPDATE = "UPDATE bare SET body = %s, done = %s WHERE name = %s"
WARM = 10
AUTOCOMMIT = {"autocommit": True}

BARE = "bare writes"
ALONE = "bare writes, no pool"


def claim(name: str) -> Claim:
    return Claim(scope="", name=name, key="k" * 36, fingerprint="f" * 64, owner="o" * 32, lease=90)


def ended(name: str) -> Ended:
    return Ended(scope="", name=name, owner="o" * 32, state=RowState.EXECUTED, status=200, headers=HEADERS, body=BODY)


def inserted(name: str) -> tuple[str, str]:
    return name, "k" * 36


def updated(name: str) -> tuple[bytes, bytes, str]:
    return BODY, b"h" * 100, name


def named(journal: Journal) -> Callable[[str], None]:
    def write(name: str) -> None:
        journal.claim(claim(name))
        journal.record(ended(name))

    return write


def in_turns(number: int, contenders: Mapping[str, Callable[[str], None]]) -> dict[str, Timing]:
    """One operation of each in every turn."""
    numbers = count()
    blocks = {who: lambda write=write: block(write, [f"order-{next(numbers)}"]) for who, write in contenders.items()}
    return turns(blocks, number, reference=BARE, warm=WARM)


def on_sqlite(number: int) -> dict[str, Timing]:
    """Each on its one connection, as SQLite writes one after the other anyway."""
    with tempfile.TemporaryDirectory() as folder, SQLiteJournal(f"{folder}/journal.db") as journal:
        connection = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(TABLE.format(type="blob"))

        def bare(name: str) -> None:
            connection.execute(INSERT.replace("%s", "?"), inserted(name))
            connection.execute(UPDATE.replace("%s", "?"), updated(name))

        found = in_turns(number, {BARE: bare, "samekey": named(journal)})
        connection.close()
        return found


def on_postgres(number: int) -> dict[str, Timing]:
    """Each with its own pool of one connection, and the bare writes on a connection alone."""
    with (
        server() as uri,
        ConnectionPool(uri, min_size=1, max_size=1, kwargs=AUTOCOMMIT) as ours,
        ConnectionPool(uri, min_size=1, max_size=1, kwargs=AUTOCOMMIT) as theirs,
        psycopg.connect(uri, autocommit=True) as connection,
    ):
        connection.execute(TABLE.format(type="bytea"))
        journal = PostgresJournal(ours)
        journal.migrate()

        def bare(name: str) -> None:
            with theirs.connection() as connection:
                connection.execute(INSERT, inserted(name))
            with theirs.connection() as connection:
                connection.execute(UPDATE, updated(name))

        def alone(name: str) -> None:
            connection.execute(INSERT, inserted(name))
            connection.execute(UPDATE, updated(name))

        return in_turns(number, {BARE: bare, ALONE: alone, "samekey": named(journal)})


def on_async_postgres(number: int) -> dict[str, Timing]:
    """The same on asyncio."""

    async def main(uri: str) -> dict[str, Timing]:
        async with (
            AsyncConnectionPool(uri, min_size=1, max_size=1, open=False, kwargs=AUTOCOMMIT) as ours,
            AsyncConnectionPool(uri, min_size=1, max_size=1, open=False, kwargs=AUTOCOMMIT) as theirs,
            await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection,
        ):
            await connection.execute(TABLE.format(type="bytea"))
            journal = AsyncPostgresJournal(ours)
            await journal.migrate()

            async def bare(name: str) -> None:
                async with theirs.connection() as connection:
                    await connection.execute(INSERT, inserted(name))
                async with theirs.connection() as connection:
                    await connection.execute(UPDATE, updated(name))

            async def alone(name: str) -> None:
                await connection.execute(INSERT, inserted(name))
                await connection.execute(UPDATE, updated(name))

            async def write(name: str) -> None:
                await journal.claim(claim(name))
                await journal.record(ended(name))

            numbers = count()
            contenders: dict[str, Callable[[str], Awaitable[None]]] = {BARE: bare, ALONE: alone, "samekey": write}
            blocks = {
                who: lambda write=write: async_block(write, [f"order-{next(numbers)}"])
                for who, write in contenders.items()
            }
            return await async_turns(blocks, number, reference=BARE, warm=WARM)

    with server() as uri:
        return anyio.run(main, uri)


def at_once(number: int) -> dict[str, dict[str, float]]:
    """So many operations at once against one after the other."""
    with tempfile.TemporaryDirectory() as folder, server() as uri:
        lite = AsyncSQLiteJournal(f"{folder}/async.db")
        postgres = AsyncPostgresJournal(uri)
        return {
            "SQLite": anyio.run(_at_once, lite, lambda: lite.get("", ""), number),
            "PostgreSQL": anyio.run(_at_once, postgres, postgres.migrate, number),
        }


async def _at_once(journal: AsyncJournal, prepare: Callable[[], Awaitable[Any]], number: int) -> dict[str, float]:
    async def one(name: str) -> None:
        await journal.claim(claim(name))
        await journal.record(ended(name))

    await prepare()
    for index in range(2 * WARM):
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
    once, turn = end - between, between - began
    return {"at_once_ms": round(once * 1000, 3), "in_turn_ms": round(turn * 1000, 3), "ratio": round(once / turn, 3)}


@contextmanager
def server() -> Iterator[str]:
    """A PostgreSQL server, by its URI."""
    it = Server()
    try:
        yield it.uri
    finally:
        it.remove()
