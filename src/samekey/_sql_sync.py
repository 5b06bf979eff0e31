"""The sync journal over SQL: the port's steps, in statements that an adapter runs. `_sql_async` is its twin."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from ._journal_rows import Claim, Ended, Entry, RowState, check_decision, check_page, first_entry, refusal
from ._sql import Row, Statements, Values, entry_of, values_of_claim, values_of_decision, values_of_end

if TYPE_CHECKING:
    from typing import Self


class SQLJournal(ABC):
    """Every step of the port; an adapter adds `_fetch` and `close`."""

    def __init__(self, statements: Statements, *, scope: str, store_body: bool) -> None:
        self.scope = scope
        self.store_body = store_body
        self._statements = statements

    @abstractmethod
    def _fetch(self, statement: str, values: Values) -> Sequence[Row]:
        """Run *statement* as a transaction of its own; return its rows once it is durable."""

    def claim(self, claim: Claim) -> Entry:
        """See `Journal.claim`."""
        values = values_of_claim(claim)
        while True:
            for (lease_left,) in self._fetch(self._statements.insert, values):
                return first_entry(claim, lease_left)
            for row in self._fetch(self._statements.take, values):
                return entry_of(row)
            for *row, granted in self._fetch(self._statements.look, values):
                # If it would be granted by now, somebody left the row between two statements: claim it again.
                if not granted:
                    return entry_of(row)

    def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        """See `Journal.renew`."""
        values = {"scope": scope, "name": name, "owner": owner, "lease": lease}
        return bool(self._fetch(self._statements.renew, values))

    def record(self, ended: Ended) -> bool:
        """See `Journal.record`. Recording the same end again is True too, until somebody else claims the name."""
        values = values_of_end(ended)
        return bool(self._fetch(self._statements.record, values) or self._fetch(self._statements.recorded, values))

    def get(self, scope: str, name: str) -> Entry | None:
        """See `Journal.get`."""
        rows = self._fetch(self._statements.get, {"scope": scope, "name": name})
        return entry_of(rows[0]) if rows else None

    def entries(self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """See `Journal.entries`."""
        values = {"older_than": check_page(older_than, limit), "limit": limit}
        return [entry_of(row) for row in self._fetch(self._statements.entries(states), values)]

    def unresolved(self, *, older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """See `Journal.unresolved`."""
        values = {"older_than": check_page(older_than, limit), "limit": limit}
        return [entry_of(row) for row in self._fetch(self._statements.unresolved, values)]

    def resolve(self, name: str, *, executed: bool, scope: str | None = None, resource: str | None = None) -> Entry:
        """See `Journal.resolve`."""
        check_decision(executed=executed, resource=resource)
        scope = self.scope if scope is None else scope
        values = values_of_decision(name, scope, executed=executed, resource=resource)
        rows = self._fetch(self._statements.resolve, values)
        if rows:
            return entry_of(rows[0])
        raise refusal(scope, name, self.get(scope, name))

    def sweep(self, *, older_than: float, limit: int = 1000) -> int:
        """See `Journal.sweep`."""
        values = {"older_than": check_page(older_than, limit), "limit": limit}
        return len(self._fetch(self._statements.sweep, values))

    @abstractmethod
    def close(self) -> None:
        """See `Journal.close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
