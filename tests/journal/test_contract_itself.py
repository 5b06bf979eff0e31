"""The contract suite is not blind: each fault below fails a case of it, in both colours."""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from samekey.journal import AsyncMemoryJournal, Claim, Ended, Entry, MemoryJournal, RowState
from samekey.testing.journal_contract import AsyncJournalContract, JournalContract, _drive


class Right(MemoryJournal):
    """No fault."""


class CountsTwice(MemoryJournal):
    """Does not recognise its own claim."""

    def claim(self, claim: Claim) -> Entry:
        before = self.get(claim.scope, claim.name)
        entry = super().claim(claim)
        again = before is not None and before.owner == claim.owner
        return replace(entry, sends=entry.sends + again)


class ForgetsLeases(MemoryJournal):
    """Lets nobody take over."""

    def claim(self, claim: Claim) -> Entry:
        return super().claim(replace(claim, lease=claim.lease * 1000))


class MixesScopes(MemoryJournal):
    """Has one namespace."""

    def claim(self, claim: Claim) -> Entry:
        return super().claim(replace(claim, scope=""))


class TakesAnyRequest(MemoryJournal):
    """Does not look at the fingerprint."""

    def claim(self, claim: Claim) -> Entry:
        return super().claim(replace(claim, fingerprint="f"))


class RetriesRefusals(MemoryJournal):
    """Starts again after a refusal, asked or not."""

    def claim(self, claim: Claim) -> Entry:
        return super().claim(replace(claim, retry_rejected=True))


class KeepsTheRequest(MemoryJournal):
    """Keeps what it should drop."""

    def record(self, ended: Ended) -> bool:
        before = self.get(ended.scope, ended.name)
        recorded = super().record(ended)
        if before is not None and recorded:
            row = self._rows[ended.scope, ended.name]
            self._rows[ended.scope, ended.name] = replace(row, entry=replace(row.entry, request=before.request))
        return recorded


class BelievesAnybody(MemoryJournal):
    """Lets a stranger record."""

    def record(self, ended: Ended) -> bool:
        entry = self.get(ended.scope, ended.name)
        return entry is not None and super().record(replace(ended, owner=entry.owner or ""))


class RenewsNothing(MemoryJournal):
    """Says it did."""

    def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        return super().renew(scope, name, owner, 0.0)


class LosesHeaders(MemoryJournal):
    """Makes a dictionary of them."""

    def record(self, ended: Ended) -> bool:
        return super().record(replace(ended, headers=tuple(dict(ended.headers).items())))


class SweepsEverything(MemoryJournal):
    """Sweeps what is new, too."""

    def sweep(self, *, older_than: float, limit: int = 1000) -> int:
        return super().sweep(older_than=0)


class ListsBackwards(MemoryJournal):
    """Newest first."""

    def entries(self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        return super().entries(states=states, older_than=older_than, limit=limit)[::-1]


class TakesNegatives(MemoryJournal):
    """Does not check."""

    def entries(self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        return super().entries(states=states, older_than=max(older_than, 0), limit=max(limit, 0))


class ResolvesAnything(MemoryJournal):
    """Is talked into whatever."""

    def resolve(self, name: str, *, executed: bool, scope: str | None = None, resource: str | None = None) -> Entry:
        scope = self.scope if scope is None else scope
        row = self._rows[scope, name]
        self._rows[scope, name] = replace(row, entry=replace(row.entry, state=RowState.UNKNOWN), lease_until=None)
        return super().resolve(name, executed=executed, scope=scope, resource=resource)


def failures(kind: type[MemoryJournal], *, asynchronous: bool) -> list[str]:
    """The cases that *kind* fails."""
    now = [1_700_000_000.0]

    class Sync(JournalContract):
        tick = 60.0

        def make_journal(self) -> MemoryJournal:
            return kind(clock=lambda: now[0])

        def advance(self, seconds: float) -> None:
            now[0] += seconds

    class Async(AsyncJournalContract):
        tick = 60.0

        async def make_journal(self) -> AsyncMemoryJournal:
            journal = AsyncMemoryJournal()
            journal.wrapped = kind(clock=lambda: now[0])
            return journal

        async def advance(self, seconds: float) -> None:
            now[0] += seconds

    contract: Any = Async() if asynchronous else Sync()
    return [name for name in dir(contract) if name.startswith("test_") and not _passes(getattr(contract, name))]


def _passes(test: Callable[[], None]) -> bool:
    try:
        test()
    except (AssertionError, KeyError, ValueError):
        return False
    return True


FAULTS = [kind for kind in MemoryJournal.__subclasses__() if kind.__module__ == __name__ and kind is not Right]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found(kind: type[MemoryJournal]) -> None:
    """By the same cases in both colours."""
    found = failures(kind, asynchronous=False)

    assert found != []
    assert failures(kind, asynchronous=True) == found


def test_no_fault_is_invented() -> None:
    """The reference passes, and there are cases."""
    assert failures(Right, asynchronous=False) == []
    assert len([name for name in dir(JournalContract) if name.startswith("test_")]) >= 39


def test_it_needs_a_journal() -> None:
    """A contract without one is told at once."""
    with pytest.raises(TypeError, match="make_journal"):
        JournalContract()  # type: ignore[abstract]


def test_a_sync_journal_does_not_wait() -> None:
    """A case over a sync journal that awaits an event loop is a mistake of the suite."""

    @types.coroutine
    def pause() -> Generator[None, None, None]:
        yield

    async def waiting() -> None:
        await pause()

    case = waiting()
    with pytest.raises(AssertionError, match="must not wait"):
        _drive(case)
    case.close()
