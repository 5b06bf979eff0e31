"""The contract of a journal as tests: subclass one of two classes, and pytest (or unittest) finds the cases.

    import pytest
    from samekey.testing.journal_contract import JournalContract

    class TestMyJournal(JournalContract):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path / "journal"

        def make_journal(self):
            return MyJournal(self.path)

An adapter that takes a clock is tested without waiting:

        tick = 60.0
        now = 1_700_000_000.0

        def make_journal(self):
            return MyJournal(self.path, clock=lambda: self.now)

        def advance(self, seconds):
            self.now += seconds

`AsyncJournalContract` is the same with ``async def make_journal`` and ``async def advance``, played on ``backend``.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import anyio

from samekey._journal_awaited import Awaited

from ._journal_claims import ClaimCases
from ._journal_ends import EndCases

if TYPE_CHECKING:
    from samekey.journal import AsyncJournal, Claim, Entry, Journal

__all__ = ["AsyncJournalContract", "JournalContract"]


class JournalContract(ClaimCases, EndCases):
    """What a `samekey.journal.Journal` must do.

    Attributes:
        tick: A span of time, in seconds, much longer than a step takes. The cases wait for up to ten of them in all,
            by `advance`.
    """

    @abstractmethod
    def make_journal(self) -> Journal:
        """Make a journal without rows; it is closed after the case."""

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass by the journal's clock. Override this if that can be done without waiting."""
        time.sleep(seconds)

    def _play(self, case: Callable[[AsyncJournal], Coroutine[Any, Any, None]]) -> None:
        journal = self.make_journal()
        try:
            _drive(case(Awaited(journal)))
        finally:
            journal.close()

    async def _wait(self, seconds: float) -> None:
        self.advance(seconds)

    async def _race(self, journal: AsyncJournal, claims: list[Claim]) -> list[Entry]:
        assert isinstance(journal, Awaited)
        with ThreadPoolExecutor(len(claims)) as pool:
            return list(pool.map(journal.wrapped.claim, claims))


class AsyncJournalContract(ClaimCases, EndCases):
    """What a `samekey.journal.AsyncJournal` must do.

    Attributes:
        tick: As in `JournalContract`.
        backend: The event loop that the cases are played on: "asyncio" or "trio".
    """

    backend: ClassVar[str] = "asyncio"

    @abstractmethod
    async def make_journal(self) -> AsyncJournal:
        """Make a journal without rows; it is closed after the case."""

    async def advance(self, seconds: float) -> None:
        """Let *seconds* pass by the journal's clock. Override this if that can be done without waiting."""
        await anyio.sleep(seconds)

    def _play(self, case: Callable[[AsyncJournal], Coroutine[Any, Any, None]]) -> None:
        async def play() -> None:
            journal = await self.make_journal()
            try:
                await case(journal)
            finally:
                await journal.aclose()

        anyio.run(play, backend=self.backend)

    async def _wait(self, seconds: float) -> None:
        await self.advance(seconds)

    async def _race(self, journal: AsyncJournal, claims: list[Claim]) -> list[Entry]:
        entries: list[Entry] = []

        async def run(claim: Claim) -> None:
            entries.append(await journal.claim(claim))

        async with anyio.create_task_group() as group:
            for claim in claims:
                group.start_soon(partial(run, claim))
        return entries


def _drive(case: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that awaits nothing which waits."""
    try:
        case.send(None)
    except StopIteration:
        return
    raise AssertionError("a case over a sync journal must not wait")
