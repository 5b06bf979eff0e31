"""The reference journal, in memory. Public in `samekey.journal`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

from ._journal_awaited import Awaited
from ._journal_rows import ENDED, Claim, Ended, Entry, RowState, check_decision, check_page, first_entry, refusal

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry, and the moments from which its times are counted."""

    entry: Entry
    updated: float
    began: float | None = None
    lease_until: float | None = None

    def lapsed(self, now: float) -> bool:
        return self.lease_until is None or self.lease_until <= now

    def seen(self, now: float) -> Entry:
        return replace(
            self.entry,
            lease_left=0.0 if self.lease_until is None else self.lease_until - now,
            age=0.0 if self.began is None else max(now - self.began, 0.0),
            updated=max(now - self.updated, 0.0),
        )


class MemoryJournal:
    """A journal that ends with its process: the reference for adapters, and for tests.

    It may be used from many threads. It does not survive a crash; `samekey.sqlite` does.

    Args:
        scope: The scope of names that an operation gives none for.
        store_body: Whether bodies of answers are kept; otherwise only their digest.
        clock: Tells the time in seconds.
    """

    def __init__(self, *, scope: str = "", store_body: bool = True, clock: Callable[[], float] = time.time) -> None:
        self.scope = scope
        self.store_body = store_body
        self._clock = clock
        self._rows: dict[tuple[str, str], _Row] = {}
        self._lock = threading.RLock()

    def claim(self, claim: Claim) -> Entry:
        """See `Journal.claim`."""
        with self._lock:
            now = self._clock()
            row = self._rows.get((claim.scope, claim.name))
            if row is None or _starts_anew(row.entry, claim):
                row = _Row(first_entry(claim), updated=now, began=now, lease_until=now + claim.lease)
            elif row.entry.owner == claim.owner:
                row = replace(row, updated=now, lease_until=now + claim.lease)
            elif _may_take(row, claim, now):
                began = now if row.began is None else row.began
                row = _Row(_taken(row.entry, claim), updated=now, began=began, lease_until=now + claim.lease)
            self._rows[claim.scope, claim.name] = row
            return row.seen(now)

    def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        """See `Journal.renew`."""
        with self._lock:
            row = self._owned(scope, name, owner)
            if row is not None:
                now = self._clock()
                self._rows[scope, name] = replace(row, updated=now, lease_until=now + lease)
            return row is not None

    def record(self, ended: Ended) -> bool:
        """See `Journal.record`."""
        with self._lock:
            row = self._owned(ended.scope, ended.name, ended.owner)
            if row is None:
                return False
            sends = row.entry.sends - (ended.state is RowState.CLAIMED)
            entry = replace(
                row.entry,
                state=ended.state,
                owner=None,
                sends=sends,
                status=ended.status,
                headers=ended.headers,
                body=ended.body,
                body_digest=ended.body_digest,
                resource=ended.resource,
            )
            if ended.state in ENDED:
                entry = replace(entry, content_type=None, request=None)
            began = row.began if sends else None
            self._rows[ended.scope, ended.name] = _Row(entry, updated=self._clock(), began=began)
            return True

    def get(self, scope: str, name: str) -> Entry | None:
        """See `Journal.get`."""
        with self._lock:
            row = self._rows.get((scope, name))
            return None if row is None else row.seen(self._clock())

    def entries(self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """See `Journal.entries`."""
        wanted = {RowState(state) for state in states} or set(RowState)
        with self._lock:
            now = self._clock()
            return [row.seen(now) for row in self._page(lambda row: row.entry.state in wanted, now, older_than, limit)]

    def unresolved(self, *, older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """See `Journal.unresolved`."""
        wanted = (RowState.UNKNOWN, RowState.IN_FLIGHT)
        with self._lock:
            now = self._clock()
            rows = self._page(lambda row: row.entry.state in wanted and row.lapsed(now), now, older_than, limit)
            return [row.seen(now) for row in rows]

    def resolve(self, name: str, *, executed: bool, scope: str | None = None, resource: str | None = None) -> Entry:
        """See `Journal.resolve`."""
        check_decision(executed=executed, resource=resource)
        scope = self.scope if scope is None else scope
        with self._lock:
            now = self._clock()
            row = self._rows.get((scope, name))
            if row is None or row.entry.state in ENDED or not row.lapsed(now):
                raise refusal(scope, name, None if row is None else row.seen(now))
            before = row.entry
            entry = Entry(
                scope=scope,
                name=name,
                key=before.key,
                fingerprint=before.fingerprint,
                state=RowState.EXECUTED if executed else RowState.REJECTED,
                sends=before.sends,
                resource=(resource or before.resource) if executed else None,
            )
            row = self._rows[scope, name] = _Row(entry, updated=now, began=row.began)
            return row.seen(now)

    def sweep(self, *, older_than: float, limit: int = 1000) -> int:
        """See `Journal.sweep`."""
        with self._lock:
            due = self._page(
                lambda row: row.entry.state in ENDED and not row.entry.swept, self._clock(), older_than, limit
            )
            for row in due:
                entry = replace(row.entry, headers=(), body=None, body_digest=None, swept=True)
                self._rows[entry.scope, entry.name] = replace(row, entry=entry)
            return len(due)

    def close(self) -> None:
        """Nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"MemoryJournal(scope={self.scope!r})"

    def _owned(self, scope: str, name: str, owner: str) -> _Row | None:
        row = self._rows.get((scope, name))
        return row if row is not None and row.entry.owner == owner else None

    def _page(self, wanted: Callable[[_Row], bool], now: float, older_than: float, limit: int) -> list[_Row]:
        latest = now - check_page(older_than, limit)
        rows = [row for row in self._rows.values() if row.updated <= latest and wanted(row)]
        return sorted(rows, key=lambda row: row.updated)[:limit]


def _starts_anew(entry: Entry, claim: Claim) -> bool:
    refused_by_server = entry.status is not None
    another = entry.fingerprint != claim.fingerprint
    return entry.state is RowState.REJECTED and (another or claim.retry_rejected or not refused_by_server)


def _may_take(row: _Row, claim: Claim, now: float) -> bool:
    entry = row.entry
    unbound = entry.state is RowState.CLAIMED and entry.fingerprint is None
    same = unbound or entry.fingerprint == claim.fingerprint
    return same and entry.state not in ENDED and row.lapsed(now)


def _taken(entry: Entry, claim: Claim) -> Entry:
    stored = claim if entry.request is None else entry
    return replace(
        entry,
        fingerprint=claim.fingerprint,
        state=RowState.IN_FLIGHT,
        owner=claim.owner,
        sends=entry.sends + 1,
        content_type=stored.content_type,
        request=stored.request,
    )


class AsyncMemoryJournal(Awaited[MemoryJournal]):
    """As `MemoryJournal`, for async clients; it never waits."""

    def __init__(self, *, scope: str = "", store_body: bool = True, clock: Callable[[], float] = time.time) -> None:
        super().__init__(MemoryJournal(scope=scope, store_body=store_body, clock=clock))
