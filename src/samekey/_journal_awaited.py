"""The awaited face of a sync journal: every method of the port once, whatever runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from ._journal_rows import Claim, Ended, Entry, RowState

if TYPE_CHECKING:
    from typing import Self

    from .journal import Journal

P = ParamSpec("P")
T = TypeVar("T")
J = TypeVar("J", bound="Journal")


class Awaited(Generic[J]):
    """The awaited face of a sync journal: its methods, each run by `_run`."""

    def __init__(self, journal: J) -> None:
        self.wrapped = journal
        self.scope = journal.scope
        self.store_body = journal.store_body

    async def _run(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return step(*args, **kwargs)

    async def claim(self, claim: Claim) -> Entry:
        """See `Journal.claim`."""
        return await self._run(self.wrapped.claim, claim)

    async def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        """See `Journal.renew`."""
        return await self._run(self.wrapped.renew, scope, name, owner, lease)

    async def record(self, ended: Ended) -> bool:
        """See `Journal.record`."""
        return await self._run(self.wrapped.record, ended)

    async def get(self, scope: str, name: str) -> Entry | None:
        """See `Journal.get`."""
        return await self._run(self.wrapped.get, scope, name)

    async def entries(
        self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000
    ) -> list[Entry]:
        """See `Journal.entries`."""
        return await self._run(self.wrapped.entries, states=states, older_than=older_than, limit=limit)

    async def unresolved(self, *, older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """See `Journal.unresolved`."""
        return await self._run(self.wrapped.unresolved, older_than=older_than, limit=limit)

    async def resolve(
        self, name: str, *, executed: bool, scope: str | None = None, resource: str | None = None
    ) -> Entry:
        """See `Journal.resolve`."""
        return await self._run(self.wrapped.resolve, name, executed=executed, scope=scope, resource=resource)

    async def sweep(self, *, older_than: float, limit: int = 1000) -> int:
        """See `Journal.sweep`."""
        return await self._run(self.wrapped.sweep, older_than=older_than, limit=limit)

    async def aclose(self) -> None:
        """See `Journal.close`."""
        await self._run(self.wrapped.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"Async{self.wrapped!r}"
