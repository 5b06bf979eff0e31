"""A shop that charges by named operations: its journals, and the processes (clients) that share them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tenacity import stop_after_attempt, wait_none

import samekey
from samekey import RetryPolicy
from samekey.journal import AsyncMemoryJournal, Entry, MemoryJournal, RowState
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal
from samekey.testing import LedgerServer
from tests.transport.harness import Api, Client, now

NAME = "order-4821:charge"
ONCE = RetryPolicy(stop=stop_after_attempt(1), unresolved_ttl=0)
QUICK = RetryPolicy(wait=wait_none(), poll_wait=wait_none(), unresolved_ttl=0)
SECOND = RetryPolicy(stop=stop_after_attempt(2), wait=wait_none(), unresolved_ttl=0)
LEASE = 75.0
"""Of a call with the default total timeout."""
DAY = 24 * 3600.0

on_sync = pytest.mark.parametrize("api", ["sync"], indirect=True)
on_async = pytest.mark.parametrize("api", ["asyncio", "trio"], indirect=True)
in_memory = pytest.mark.parametrize("shop", ["memory"], indirect=True)
in_file = pytest.mark.parametrize("shop", ["sqlite"], indirect=True)


class Clock:
    """The journal's clock, which a test can set forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Faulty:
    """A journal whose steps fail on demand, and which remembers them.

    *fails* maps a step to how often it fails from now on; *late* steps are done before they fail.
    """

    def __init__(self, inner: Any, log: list[str] | None = None) -> None:
        self.inner = inner
        self.fails: dict[str, int] = {}
        self.late = False
        self.log: list[str] = [] if log is None else log

    def __getattr__(self, name: str) -> Any:
        if name == "aclose":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def begin(self, step: str) -> None:
        self.log.append(step)
        if not self.late:
            self.fail(step)

    def fail(self, step: str) -> None:
        if self.fails.get(step, 0) > 0:
            self.fails[step] -= 1
            raise OSError(28, "No space left on device")

    def claim(self, claim: Any) -> Any:
        return self.do("claim", claim)

    def renew(self, *row: Any) -> Any:
        return self.do("renew", *row)

    def record(self, ended: Any) -> Any:
        return self.do("record", ended)

    def do(self, step: str, *what: Any) -> Any:
        self.begin(step)
        done = getattr(self.inner, step)(*what)
        self.fail(step)
        return done


class AsyncFaulty(Faulty):
    """The same, awaited."""

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def claim(self, claim: Any) -> Any:
        return await self.do("claim", claim)

    async def renew(self, *row: Any) -> Any:
        return await self.do("renew", *row)

    async def record(self, ended: Any) -> Any:
        return await self.do("record", ended)

    async def do(self, step: str, *what: Any) -> Any:
        self.begin(step)
        done = await getattr(self.inner, step)(*what)
        self.fail(step)
        return done


@dataclass
class Shop:
    """One journal, one server, any number of processes."""

    api: Api
    kind: str
    path: Path
    clock: Clock = field(default_factory=Clock)
    made: list[Any] = field(default_factory=list)

    @property
    def server(self) -> LedgerServer:
        return self.api.server

    def new_journal(self, **settings: Any) -> Any:
        """One more journal over the same rows, as another process has it (in memory: with rows of its own)."""
        settings = {"clock": self.clock, **settings}
        if self.kind == "memory":
            return MemoryJournal(**settings) if self.api.sync else AsyncMemoryJournal(**settings)
        kind = SQLiteJournal if self.api.sync else AsyncSQLiteJournal
        return kind(self.path, **settings)

    @property
    def journal(self) -> Any:
        """The journal that all processes use unless they are given another."""
        if not self.made:
            self.made.append(self.new_journal())
        return self.made[0]

    def faulty(self, log: list[str] | None = None) -> Any:
        """The journal, with steps that fail on demand."""
        return (Faulty if self.api.sync else AsyncFaulty)(self.journal, log)

    @asynccontextmanager
    async def client(
        self, *, journal: Any = None, policy: RetryPolicy = QUICK, **settings: Any
    ) -> AsyncIterator[Client]:
        """A process of the shop."""
        journal = self.journal if journal is None else journal
        async with self.api.client(journal=journal, policy=policy, **settings) as client:
            yield client

    async def charge(self, *, policy: RetryPolicy = QUICK, journal: Any = None, **body: Any) -> Any:
        """A process starts, charges, and ends."""
        async with self.client(policy=policy, journal=journal) as client:
            return await charge(client, **body)

    async def row(self, name: str = NAME, scope: str = "") -> Entry:
        """The row, which must be there."""
        entry = await now(self.journal.get(scope, name))
        assert entry is not None
        return entry  # type: ignore[no-any-return]

    async def state(self, name: str = NAME) -> tuple[str, int | None]:
        """State and status of the row."""
        entry = await self.row(name)
        return str(entry.state), entry.status

    def no_connection(self) -> Any:
        """A transport that reaches nobody."""

        def fail(request: Any) -> Any:
            raise self.api.httpx.ConnectError("nobody listens", request=request)

        return self.api.inner(fail)

    async def killed(self, *steps: Any, **settings: Any) -> str:
        """A process is killed in a charge whose request met *steps*, and its lease runs out. Gives the key."""
        self.server.script(*steps)
        journal = self.faulty()
        journal.fails["record"] = 9
        with pytest.raises(samekey.OutcomeUnknown) as caught:
            await self.charge(policy=ONCE, journal=journal, **settings)
        entry = await self.row()
        assert entry.state is RowState.IN_FLIGHT
        assert entry.key == caught.value.key
        self.clock.ahead += LEASE + 1
        return entry.key

    def close(self) -> None:
        """Close the file, in whatever colour."""
        for journal in self.made:
            if self.api.sync:
                journal.close()
            else:
                anyio.run(journal.aclose, backend=self.api.colour)


async def charge(client: Client, name: str = NAME, *, operation: dict[str, Any] | None = None, **settings: Any) -> Any:
    """The usual charge as a named operation."""
    with samekey.operation(name, **(operation or {})):
        return await client.post(**settings)
