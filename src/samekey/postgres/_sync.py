"""The sync journal in PostgreSQL; `_async` is its twin, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from samekey._journal_rows import Claim, Entry
from samekey._sql import Row, Values
from samekey._sql_sync import SQLJournal

from ._common import (
    MAX_CONNECTIONS,
    ClaimNotCommitted,
    OpenClaims,
    Pools,
    PostgresStatements,
    check_connection,
    check_same_key,
    check_version,
    is_lost,
    values_of_claim_in,
)


class PostgresJournal(SQLJournal):
    """A journal in a table that any number of machines may share. Its clock is the server's.

    A step whose connection is lost is done again on another one, also while the server starts again; other errors of
    psycopg come out as they are, and a client reports them as `JournalError`. After a fork the child opens
    connections of its own.

    Args:
        conninfo_or_pool: A connection string or URI, for which the journal keeps a pool of up to ten connections; or
            a pool of yours, which is not closed. With ``kwargs={"autocommit": True}`` it saves two round trips a step.
        scope: The scope of names that an operation gives none for.
        store_body: Whether bodies of answers are kept; otherwise only their digest.
        table: Name of the table, or ``schema.name``.
        lock_timeout: Seconds for which a claim waits for a transaction that has claimed the name by `claim_in`.
    """

    _statements: PostgresStatements

    def __init__(
        self,
        conninfo_or_pool: str | ConnectionPool[Any],
        *,
        scope: str = "",
        store_body: bool = True,
        table: str = "samekey_operations",
        lock_timeout: float = 2.0,
    ) -> None:
        def make() -> ConnectionPool[Any]:
            settings = {"autocommit": True}
            return ConnectionPool(
                str(conninfo_or_pool), min_size=1, max_size=MAX_CONNECTIONS, open=False, kwargs=settings, name="samekey"
            )

        self._pools = Pools(make, None if isinstance(conninfo_or_pool, str) else conninfo_or_pool)
        super().__init__(PostgresStatements(table, lock_timeout), scope=scope, store_body=store_body)
        self._table = table
        self._claims = OpenClaims()

    def schema(self) -> str:
        """The statements that make the table and its indexes, for a migration of yours; they may be run again."""
        return self._statements.schema

    def migrate(self) -> None:
        """Make the table and its indexes, if they are not there. Any number of processes may do so at once."""
        pool = self._pool()
        with pool.connection() as connection, connection.transaction():
            cursor = connection.cursor(row_factory=tuple_row)
            cursor.execute(self._statements.migrating)
            cursor.execute(self._statements.version)
            for row in cursor.fetchall():
                check_version(self._table, row[0])
            cursor.execute(self._statements.schema)

    def claim(self, claim: Claim) -> Entry:
        """See `Journal.claim`.

        Raises:
            ClaimNotCommitted: The name was claimed by `claim_in`, in a transaction that is still open.
        """
        for transaction in self._claims.transactions(claim.scope, claim.name):
            if self._fetch(self._statements.in_progress, {"transaction": transaction}):
                raise ClaimNotCommitted(claim.scope, claim.name)
        try:
            return super().claim(claim)
        except psycopg.errors.LockNotAvailable as error:
            raise ClaimNotCommitted(claim.scope, claim.name) from error

    def claim_in(
        self, connection: psycopg.Connection[Any], name: str, *, key: str | None = None, scope: str | None = None
    ) -> str:
        """Claim *name* in the caller's own transaction: the claim is there if, and only if, the caller's rows are.

        Commit before the request is sent. A name that is there already keeps its key, and nothing is written.

        Args:
            connection: The connection of the open transaction.
            name: Name of the operation that will be sent.
            key: The key to use if the name is new; by default one is made.
            scope: What the name is unique in; by default the journal's.

        Returns:
            The key of the operation.

        Raises:
            KeyMismatch: The name has another key than *key* already.
        """
        check_connection(connection, psycopg.Connection)
        scope = self.scope if scope is None else scope
        values = values_of_claim_in(scope, name, key)
        cursor = connection.cursor(row_factory=tuple_row)
        row = None
        while row is None:
            cursor.execute(self._statements.claim_in, values)
            row = cursor.fetchone()
            if row is None:
                cursor.execute(self._statements.claimed_in, values)
                row = cursor.fetchone()
        self._claims.remember(connection, row[1], scope, name)
        return check_same_key(scope, name, row[0], key)

    def close(self) -> None:
        """Close the journal's own pool. A step after that is a ValueError."""
        pool = self._pools.to_close()
        if pool is not None:
            pool.close()

    def _fetch(self, statement: str, values: Values) -> Sequence[Row]:
        pool = self._pool()
        for _ in range(MAX_CONNECTIONS):
            try:
                return self._fetch_once(pool, statement, values)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if not is_lost(error):
                    raise
            # Each step may be done twice. Where one connection was lost the others were, too, but those in use are
            # not seen by the check.
            pool.check()
        return self._fetch_once(pool, statement, values)

    def _fetch_once(self, pool: ConnectionPool[Any], statement: str, values: Values) -> Sequence[Row]:
        connection = pool.getconn()
        try:
            cursor = connection.cursor(row_factory=tuple_row)
            # In autocommit the statement is the transaction, and there is nothing to end.
            with cursor if connection.autocommit else connection:
                cursor.execute(statement, values)
                rows: list[Row] = cursor.fetchall()
                return rows
        finally:
            pool.putconn(connection)

    def _pool(self) -> ConnectionPool[Any]:
        pool = self._pools.here()
        if pool.closed:
            pool.open()
        return pool

    def __del__(self) -> None:
        if hasattr(self, "_pools"):
            self._pools.collected(self)

    def __repr__(self) -> str:
        return f"PostgresJournal(table={self._table!r}, scope={self.scope!r})"
