"""What the two PostgreSQL journals share: the dialect, their pools, and claims in transactions that are still open."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from psycopg.pq import TransactionStatus
from psycopg_pool import PoolClosed, PoolTimeout

from samekey._journal_rows import describe
from samekey._keys import check_key, check_name, new_key
from samekey._settings import check_number_of_seconds
from samekey._sql import VERSION, Database, Statements, Values
from samekey.errors import KeyMismatch

if TYPE_CHECKING:
    import psycopg

AnyPool = TypeVar("AnyPool")

MAX_CONNECTIONS = 10
"""Of a pool that the journal makes for itself."""

# A value that the claim writes also limits its wait for a lock, and makes its commit wait for the disk: all in one
# round trip, and only for this one transaction, so that it works behind a connection pooler, too.
_HELD = """
    CASE WHEN
        set_config('lock_timeout', '{patience}', TRUE) || CASE current_setting('synchronous_commit')
            WHEN 'off' THEN set_config('synchronous_commit', 'on', TRUE) ELSE '' END
        IS NOT NULL
    THEN 'in_flight' END"""

_POSTGRES = Database(
    now="clock_timestamp()",
    later="clock_timestamp() + make_interval(secs => :lease)",
    before="statement_timestamp() - make_interval(secs => :older_than)",
    left="date_part('epoch', lease_until - clock_timestamp())",
    age="date_part('epoch', clock_timestamp() - began)",
    idle="date_part('epoch', clock_timestamp() - updated)",
    moment="timestamptz",
    bytes="bytea",
    unlocked="FOR UPDATE SKIP LOCKED",
    mark=r"%(\1)s",
)

_CLAIM_IN = """
INSERT INTO {table} (scope, name, key, state, sends, updated) VALUES (:scope, :name, :key, 'claimed', 0, {now})
ON CONFLICT (scope, name) DO NOTHING
RETURNING key, pg_current_xact_id()::text
"""
_CLAIMED_IN = "SELECT key, NULL FROM {table} WHERE scope = :scope AND name = :name"
_IN_PROGRESS = "SELECT 1 WHERE pg_xact_status(:transaction::text::xid8) = 'in progress'"

_COMMENT = "COMMENT ON TABLE {table} IS 'samekey journal, schema {version}';\n"
_VERSION = "SELECT obj_description(to_regclass('{table}')::oid, 'pg_class')"
# Whoever migrates first does it, the others find it done.
_MIGRATING = "SELECT pg_advisory_xact_lock(hashtext('samekey {table}'))"

# 63 bytes are the limit, and the names of the indexes are longer than that of their table.
_TABLE = re.compile(r"(?:([A-Za-z_][A-Za-z0-9_]{0,62})\.)?([A-Za-z_][A-Za-z0-9_]{0,47})")


class ClaimNotCommitted(RuntimeError):
    """A transaction that claimed this name by `claim_in` is still open; sending would be waiting for oneself."""

    def __init__(self, scope: str, name: str) -> None:
        super().__init__(scope, name)

    def __str__(self) -> str:
        what = describe(*self.args)
        return f"a transaction that claimed {what} has not been committed: commit it before the request is sent"


class PostgresStatements(Statements):
    """The statements for one table, those of `claim_in` and of `migrate` among them."""

    def __init__(self, table: str, lock_timeout: float) -> None:
        parts = _TABLE.fullmatch(table)
        if parts is None:
            raise ValueError(
                f"table must be a name of at most 48 letters, digits and underscores, or schema.name, not {table!r}"
            )
        quoted = ".".join(f'"{part}"' for part in parts.groups() if part is not None)
        # PostgreSQL takes 0 for no limit.
        patience = f"{max(1, round(check_number_of_seconds('lock_timeout', lock_timeout) * 1000))}ms"
        super().__init__(replace(_POSTGRES, held=_HELD.format(patience=patience)), table=quoted, index=parts[2])
        self.schema += self.statement(_COMMENT, version=str(VERSION))
        self.version = self.statement(_VERSION)
        self.migrating = self.statement(_MIGRATING)
        self.claim_in = self.statement(_CLAIM_IN)
        self.claimed_in = self.statement(_CLAIMED_IN)
        self.in_progress = self.statement(_IN_PROGRESS)


def check_version(table: str, comment: str | None) -> None:
    """Refuse a table that a newer samekey made."""
    found = re.search(r"samekey journal, schema (\d+)", comment or "")
    if found is not None and int(found[1]) > VERSION:
        raise RuntimeError(
            f"the table {table} has schema {found[1]}, this samekey knows {VERSION}: it was made by a newer samekey"
        )


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection was lost, so that the step may be tried on another one."""
    if isinstance(error, PoolTimeout | PoolClosed):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


def values_of_claim_in(scope: str, name: str, key: str | None) -> Values:
    """The parameters of the statement `claim_in`."""
    return {"scope": scope, "name": check_name("name", name), "key": new_key() if key is None else check_key(key)}


def check_connection(connection: object, wanted: type[Any]) -> None:
    """Refuse what is no connection of psycopg, and say where it is to be found."""
    if not isinstance(connection, wanted):
        raise TypeError(
            f"claim_in needs the psycopg.{wanted.__name__} of the open transaction, not {type(connection).__name__}. "
            "SQLAlchemy: session.connection().connection.driver_connection; Django: django.db.connection.connection"
        )


def check_same_key(scope: str, name: str, key: str, wanted: str | None) -> str:
    """Return the *key* of the row, unless the caller wants another one."""
    if wanted not in {None, key}:
        raise KeyMismatch(f"{describe(scope, name)} has another key already", key=key, name=name)
    return key


class OpenClaims:
    """Names claimed in transactions of callers, as long as their connections live."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._claims: WeakKeyDictionary[Any, tuple[str, set[tuple[str, str]]]] = WeakKeyDictionary()

    def remember(self, connection: Any, transaction: str | None, scope: str, name: str) -> None:
        """Note the claim; *transaction* is None if the name was there before."""
        if transaction is not None:
            with self._lock:
                known = self._claims.get(connection)
                names = known[1] if known is not None and known[0] == transaction else set()
                names.add((scope, name))
                self._claims[connection] = transaction, names

    def transactions(self, scope: str, name: str) -> list[str]:
        """Those that claimed the name and may still be open: the server knows."""
        if not self._claims:
            return []
        with self._lock:
            return [
                transaction
                for connection, (transaction, names) in self._claims.items()
                if (scope, name) in names and connection.pgconn.transaction_status != TransactionStatus.IDLE
            ]


# Pools of a parent process: its child neither uses nor closes them.
_inherited: list[Any] = []


class Pools(Generic[AnyPool]):
    """One pool a process.

    Args:
        make: Makes a pool, not open yet.
        given: The caller's pool, if there is one; it is not closed.
    """

    def __init__(self, make: Callable[[], AnyPool], given: AnyPool | None) -> None:
        self._make = make
        self._given = given
        self._pools: dict[int, AnyPool] = {} if given is None else {os.getpid(): given}
        self._closed = False

    def here(self) -> AnyPool:
        """The pool of this process."""
        if self._closed:
            raise ValueError("the journal is closed; close it after the clients that use it")
        process = os.getpid()
        pool = self._pools.get(process)
        if pool is None:
            if self._given is not None:
                raise RuntimeError("the connection pool belongs to the parent process: make one after the fork")
            _inherited.extend(self._pools.values())
            pool = self._pools.setdefault(process, self._make())
        return pool

    def to_close(self) -> AnyPool | None:
        """The pool to be closed: one's own, of this process."""
        self._closed = True
        return None if self._given is not None else self._pools.pop(os.getpid(), None)

    def collected(self, journal: object) -> None:
        """Warn of a journal that was not closed."""
        if not self._closed and self._given is None and os.getpid() in self._pools:
            warnings.warn(f"unclosed {journal!r}", ResourceWarning, stacklevel=3, source=journal)


class AsyncPools(Pools[AnyPool]):
    """One pool a process, in the event loop that used it first."""

    _loop: tuple[int, asyncio.AbstractEventLoop] | None = None

    def here(self) -> AnyPool:
        """The pool of this process, if it belongs to this event loop."""
        try:
            place = os.getpid(), asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                "AsyncPostgresJournal runs on asyncio only, as psycopg does; on trio use PostgresJournal in threads"
            ) from None
        if self._loop is None or self._loop[0] != place[0]:
            self._loop = place
        if self._loop != place:
            raise RuntimeError("the journal belongs to another event loop: make one in each loop")
        return super().here()
