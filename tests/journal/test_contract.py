"""The contract suite over every adapter, sync and async."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from samekey.journal import AsyncJournal, AsyncMemoryJournal, Journal, MemoryJournal
from samekey.postgres import AsyncPostgresJournal, PostgresJournal
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal
from samekey.testing.journal_contract import AsyncJournalContract, JournalContract
from tests.journal.servers import Server, new_table, pass_time


class Movable:
    """A clock that is moved by hand."""

    tick = 60.0
    now = 1_700_000_000.0

    def clock(self) -> float:
        return self.now


class SyncMovable(Movable, JournalContract):
    """Sync adapters that take a clock."""

    def advance(self, seconds: float) -> None:
        self.now += seconds


class AsyncMovable(Movable, AsyncJournalContract):
    """Async adapters that take a clock."""

    async def advance(self, seconds: float) -> None:
        self.now += seconds


class OnTrio(AsyncJournalContract):
    """The same on the other event loop."""

    backend = "trio"


class InFolder:
    """Adapters that need a place."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "journal.db"


class TestMemory(SyncMovable):
    """The reference."""

    def make_journal(self) -> Journal:
        return MemoryJournal(clock=self.clock)


class TestAsyncMemory(AsyncMovable):
    """The reference, awaited."""

    async def make_journal(self) -> AsyncJournal:
        return AsyncMemoryJournal(scope="tenant", clock=self.clock)


class TestAsyncMemoryOnTrio(OnTrio, TestAsyncMemory):
    """And on trio."""


class TestSQLite(InFolder, SyncMovable):
    """The embedded default."""

    def make_journal(self) -> Journal:
        return SQLiteJournal(self.path, scope="tenant", clock=self.clock)


class TestAsyncSQLite(InFolder, AsyncMovable):
    """The same in a thread."""

    async def make_journal(self) -> AsyncJournal:
        return AsyncSQLiteJournal(self.path, clock=self.clock)


class TestAsyncSQLiteOnTrio(OnTrio, TestAsyncSQLite):
    """And on trio."""


class OnServer:
    """Adapters that need a PostgreSQL server; its clock is moved by putting the table's moments back."""

    tick = 60.0

    @pytest.fixture(autouse=True)
    def place(self, server: Server) -> None:
        self.server = server
        self.table = new_table()

    def advance_table(self, seconds: float) -> None:
        pass_time(self.server, self.table, seconds)


class TestPostgres(OnServer, JournalContract):
    """For several machines."""

    def make_journal(self) -> Journal:
        journal = PostgresJournal(self.server.uri, scope="tenant", table=self.table)
        journal.migrate()
        return journal

    def advance(self, seconds: float) -> None:
        self.advance_table(seconds)


class TestAsyncPostgres(OnServer, AsyncJournalContract):
    """The same on asyncio."""

    async def make_journal(self) -> AsyncJournal:
        journal = AsyncPostgresJournal(self.server.uri, table=self.table)
        await journal.migrate()
        return journal

    async def advance(self, seconds: float) -> None:
        self.advance_table(seconds)


class Asleep:
    """A clock that goes on while somebody sleeps, and only then."""

    now = 1_700_000_000.0

    @pytest.fixture(autouse=True)
    def sleep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def sleep(seconds: float) -> None:
            self.now += seconds

        async def async_sleep(seconds: float) -> None:
            self.now += seconds

        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(anyio, "sleep", async_sleep)

    def clock(self) -> float:
        return self.now


class TestWithoutMovableClock(Asleep, JournalContract):
    """An adapter whose clock the contract cannot move is tested by waiting."""

    def make_journal(self) -> Journal:
        return MemoryJournal(clock=self.clock)


class TestAsyncWithoutMovableClock(Asleep, AsyncJournalContract):
    """The same, awaited."""

    tick = 0.2

    async def make_journal(self) -> AsyncJournal:
        return AsyncMemoryJournal(clock=self.clock)
