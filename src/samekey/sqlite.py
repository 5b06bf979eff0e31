"""The journal in a SQLite file, from the standard library: for one machine, any number of processes and threads."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from ._journal_awaited import Awaited
from ._settings import check_number_of_seconds
from ._sql import VERSION, Database, Row, Statements, Values
from ._sql_sync import SQLJournal

P = ParamSpec("P")
T = TypeVar("T")

_SQLITE = Database(
    now="samekey_now()",
    later="samekey_now() + :lease",
    before="samekey_now() - :older_than",
    left="lease_until - samekey_now()",
    age="samekey_now() - began",
    idle="samekey_now() - updated",
    moment="real",
    bytes="blob",
)
_STATEMENTS = Statements(_SQLITE, table="samekey_operations", index="samekey_operations")
_SCHEMA = f"BEGIN IMMEDIATE; {_STATEMENTS.schema} PRAGMA user_version = {VERSION}; COMMIT;"

_PATIENCE = 30.0
_PAUSE = 0.01


class _Handle:
    """What one process has open."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: sqlite3.Connection | None = None


# Connections of a parent process: not used, not closed and not freed by its child, which would drop the parent's locks.
_inherited: list[_Handle] = []
# One lock a process: closing a new file must not coincide with another connection's first lock on it.
_opening: dict[int, threading.Lock] = {}


class SQLiteJournal(SQLJournal):
    """A journal in a file that survives a crash, and a power cut as far as the disk tells the truth.

    Any number of processes and threads of one machine may share the file; it must be on a local disk. It is made, for
    its owner's eyes only (mode 0600), with the first step. After a fork the child opens it anew.

    A `sqlite3.Error` or `OSError` of a step comes out as it is; a client reports it as `JournalError`.

    Args:
        path: The file. Its folder must exist.
        scope: The scope of names that an operation gives none for.
        store_body: Whether bodies of answers are kept; otherwise only their digest.
        busy_timeout: Seconds for which a step waits for other processes.
        clock: Tells the time in seconds. All users of the file must agree on it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        scope: str = "",
        store_body: bool = True,
        busy_timeout: float = _PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if os.fspath(path) in {"", ":memory:"}:
            raise ValueError("SQLiteJournal needs a file: without one nothing is durable. For tests: MemoryJournal()")
        super().__init__(_STATEMENTS, scope=scope, store_body=store_body)
        self._handles: dict[int, _Handle] = {}
        self._path = Path(path).absolute()
        self._busy_timeout = check_number_of_seconds("busy_timeout", busy_timeout, zero=True)
        self._clock = clock
        self._closed = False

    def close(self) -> None:
        """Close the file. A step after that is a ValueError."""
        self._closed = True
        handle = self._handle()
        with handle.lock:
            if handle.connection is not None:
                handle.connection.close()
                handle.connection = None

    def _fetch(self, statement: str, values: Values) -> list[Row]:
        handle = self._handle()
        # One connection and a lock: SQLite lets one write at a time anyway, and its own queue is a sleep.
        with handle.lock:
            if self._closed:
                raise ValueError(f"the journal {self._path} is closed; close it after the clients that use it")
            if handle.connection is None:
                handle.connection = self._open()
            # Fetching all of it ends the statement, and so its transaction.
            return handle.connection.execute(statement, values).fetchall()

    def _handle(self) -> _Handle:
        process = os.getpid()
        handle = self._handles.get(process)
        if handle is None:
            _inherited.extend(self._handles.values())
            handle = self._handles.setdefault(process, _Handle())
        return handle

    def _open(self) -> sqlite3.Connection:
        with _opening.setdefault(os.getpid(), threading.Lock()):
            _make(self._path)
            connection = sqlite3.connect(
                self._path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.create_function("samekey_now", 0, self._clock)
        _write_ahead(connection, time.monotonic() + self._busy_timeout)
        connection.execute("PRAGMA synchronous = FULL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise RuntimeError(
                f"{self._path} has schema {version}, this samekey knows {VERSION}: "
                "it was written by a newer samekey, or it is another program's database"
            )
        if version < VERSION:
            connection.executescript(_SCHEMA)

    def __del__(self) -> None:
        handles: dict[int, _Handle] = getattr(self, "_handles", {})  # not there if it could not be made
        handle = handles.get(os.getpid())
        if handle is not None and handle.connection is not None:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            handle.connection.close()

    def __repr__(self) -> str:
        return f"SQLiteJournal({str(self._path)!r}, scope={self.scope!r})"


def _make(path: Path) -> None:
    """Make the file, if it is not there, so that nobody else can read it; SQLite gives its side files the same mode.

    An existing file is not touched: closing it would drop every lock that this process holds on it.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    os.close(file)


def _write_ahead(connection: sqlite3.Connection, until: float) -> None:
    """Change to WAL. SQLite does not wait for others here, though they are as good as gone."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE)
        else:
            return


class AsyncSQLiteJournal(Awaited[SQLiteJournal]):
    """As `SQLiteJournal`, for async clients, on asyncio and trio: its steps run in a thread, one after the other.

    A step that has begun is finished even if its task is cancelled.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        scope: str = "",
        store_body: bool = True,
        busy_timeout: float = _PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            SQLiteJournal(path, scope=scope, store_body=store_body, busy_timeout=busy_timeout, clock=clock)
        )
        self._limiter = anyio.lowlevel.RunVar[anyio.CapacityLimiter](f"samekey.sqlite.{id(self)}")

    async def _run(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = anyio.CapacityLimiter(1)
            self._limiter.set(limiter)
        return await anyio.to_thread.run_sync(partial(step, *args, **kwargs), limiter=limiter)
