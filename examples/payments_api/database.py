"""Transactions on PostgreSQL and SQLite, behind one small face.

Statements are written once, with ``:name`` for values and ``{now}``, ``{later}``, ``{expiry}`` and ``{skip_locked}``
for the words in which the two databases differ.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Protocol, TypeAlias

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from .schema import POSTGRES, SQLITE, Words, tables

Row: TypeAlias = Mapping[str, Any]


class Unavailable(Exception):
    """The database cannot be reached, or went away; whether a commit under way was done is not known."""


class Transaction(Protocol):
    """What can be done inside a transaction."""

    def rows(self, statement: str, **values: object) -> list[Row]:
        """Run *statement*; its rows, if it returns any."""


class Database(Protocol):
    """A database with transactions that are committed at the end of their block, or leave nothing behind."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A transaction.

        Raises:
            Unavailable: The database cannot be reached.
        """

    def close(self) -> None:
        """Let go of it."""


def one(transaction: Transaction, statement: str, **values: object) -> Row | None:
    """The first row of *statement*, or None."""
    rows = transaction.rows(statement, **values)
    return rows[0] if rows else None


def open_database(address: str, *, pool: int = 10) -> Database:
    """The database at *address*, its tables made."""
    if address.startswith("sqlite:///"):
        return SQLite(address.removeprefix("sqlite:///"))
    return Postgres(address, pool)


@cache
def _in_words(statement: str, words: Words) -> str:
    return statement.format(now=words.now, later=words.later, expiry=words.expiry, skip_locked=words.skip_locked)


@cache
def _for_psycopg(statement: str) -> str:
    # Not the second colon of a cast, and nothing that is no name.
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", _in_words(statement, POSTGRES).replace("%", "%%"))


class Postgres:
    """PostgreSQL, through a pool of connections."""

    def __init__(self, address: str, pool: int) -> None:
        self._pool: ConnectionPool[psycopg.Connection[Row]] = ConnectionPool(
            address,
            kwargs={"row_factory": dict_row},
            connection_class=psycopg.Connection[Row],
            min_size=1,
            max_size=pool,
            timeout=5.0,
            reconnect_timeout=60.0,
            open=True,
        )
        with self._translated(), self._pool.connection() as connection:
            # Several workers may start at once, and CREATE IF NOT EXISTS races with itself.
            connection.execute("SELECT pg_advisory_xact_lock(7141)")
            found = connection.execute("SELECT to_regclass('outbox_due') AS last").fetchone()
            if found is None or found["last"] is None:
                # Not otherwise: CREATE INDEX IF NOT EXISTS locks the table first, against those who are at work.
                connection.execute(tables(POSTGRES).encode())

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """See `Database.transaction`."""
        with self._translated(), self._pool.connection() as connection:
            yield _PostgresTransaction(connection)

    def close(self) -> None:
        """See `Database.close`."""
        self._pool.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
            raise Unavailable(str(error)) from error


class _PostgresTransaction:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def rows(self, statement: str, **values: object) -> list[Row]:
        cursor = self._connection.execute(_for_psycopg(statement).encode(), values)
        return cursor.fetchall() if cursor.description else []


class SQLite:
    """SQLite: one connection and a lock, for SQLite lets one write at a time anyway."""

    def __init__(self, path: str, *, clock: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        self._connection.row_factory = sqlite3.Row
        self._connection.create_function("now_seconds", 0, clock)
        with self._translated():
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.executescript("BEGIN IMMEDIATE;" + tables(SQLITE) + "COMMIT;")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """See `Database.transaction`."""
        with self._lock, self._translated():
            # IMMEDIATE: a transaction that reads first and then writes would fail instead of waiting.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield _SQLiteTransaction(self._connection)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """See `Database.close`."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise Unavailable(str(error)) from error


class _SQLiteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, **values: object) -> list[Row]:
        return [dict(row) for row in self._connection.execute(_in_words(statement, SQLITE), values)]
