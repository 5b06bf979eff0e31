"""How the cases of the journal contract speak, and what plays them: sync and async adapters alike."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from samekey.journal import AsyncJournal, Claim, Ended, Entry, RowState

if TYPE_CHECKING:
    from typing import Concatenate

C = TypeVar("C", bound="Cases")

CLAIMED, IN_FLIGHT, UNKNOWN = RowState.CLAIMED, RowState.IN_FLIGHT, RowState.UNKNOWN
EXECUTED, REJECTED = RowState.EXECUTED, RowState.REJECTED

LONG = 100_000
"""Ticks that no case outlasts."""


def case(body: Callable[Concatenate[C, AsyncJournal, ...], Coroutine[Any, Any, None]]) -> Callable[[C], None]:
    """Make a plain test method of a case: runners need no plugin for async tests."""

    @functools.wraps(body)
    def test(self: C) -> None:
        self._play(functools.partial(body, self))

    del test.__wrapped__  # pytest would take the case's argument for a fixture
    return test


class Cases(ABC):
    """The vocabulary of the cases; `JournalContract` and `AsyncJournalContract` play them."""

    tick: ClassVar[float] = 0.25

    @abstractmethod
    def _play(self, case: Callable[[AsyncJournal], Coroutine[Any, Any, None]]) -> None:
        """Run *case* with a journal without rows."""

    @abstractmethod
    async def _wait(self, seconds: float) -> None:
        """Let time pass by the journal's clock."""

    @abstractmethod
    async def _race(self, journal: AsyncJournal, claims: list[Claim]) -> list[Entry]:
        """Make all *claims* at once."""

    # How cases speak

    def asked(
        self, owner: str = "a", *, name: str = "order-1", fingerprint: str = "f", ticks: float = LONG, **more: Any
    ) -> Claim:
        """A claim; its key tells its owner."""
        scope = more.pop("scope", "")
        lease = ticks * self.tick
        return Claim(
            scope=scope, name=name, key=f"key-{owner}", fingerprint=fingerprint, owner=owner, lease=lease, **more
        )

    def left(self, state: RowState, owner: str = "a", *, name: str = "order-1", **more: Any) -> Ended:
        """How the owner leaves the row."""
        return Ended(scope=more.pop("scope", ""), name=name, owner=owner, state=state, **more)

    async def row(self, journal: AsyncJournal, name: str = "order-1", scope: str = "") -> Entry:
        """The row, which is there."""
        entry = await journal.get(scope, name)
        assert entry is not None
        return entry

    async def ended(self, journal: AsyncJournal, state: RowState, **more: Any) -> None:
        """Claim "order-1" for "a" and leave it in *state*."""
        name = more.pop("name", "order-1")
        assert (await journal.claim(self.asked(name=name))).owner == "a"
        assert await journal.record(self.left(state, name=name, **more))

    async def refused(self, journal: AsyncJournal, claim: Claim) -> None:
        """The claim is not granted, and nothing changes but the time."""
        before = await self.row(journal, claim.name, claim.scope)
        answer = await journal.claim(claim)
        after = await self.row(journal, claim.name, claim.scope)
        assert answer.owner != claim.owner
        assert still(before) == still(answer) == still(after)
        assert after.lease_left <= before.lease_left
        assert after.updated >= before.updated
        assert after.age >= before.age


def still(entry: Entry) -> Entry:
    """*entry* without what moves by itself."""
    return replace(entry, lease_left=0.0, age=0.0, updated=0.0)
