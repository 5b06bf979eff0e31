"""The journal: a durable record of named operations, so that a restarted process sends the same key.

`Journal` (and its async twin) is the port: each method is *one atomic step*, so an adapter needs no locks and no
read-modify-write. `MemoryJournal` is the reference; `samekey.sqlite` and `samekey.postgres` are durable. An adapter of
your own passes the contract suite in `samekey.testing.journal_contract`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ._journal_memory import AsyncMemoryJournal, MemoryJournal
from ._journal_rows import Claim, Ended, Entry, RowState

__all__ = [
    "AsyncJournal",
    "AsyncMemoryJournal",
    "Claim",
    "Ended",
    "Entry",
    "Journal",
    "MemoryJournal",
    "RowState",
]


class Journal(Protocol):
    """The port that sync clients use. Every method is one atomic, durable step.

    Whatever a method raises is reported as `JournalError` if nothing was sent yet, and otherwise noted in the report.

    Attributes:
        scope: The scope of names that an operation gives none for; "" for none.
        store_body: Whether bodies of answers are kept; otherwise only their digest.
    """

    scope: str
    store_body: bool

    def claim(self, claim: Claim) -> Entry:
        """Take the name, or learn who has it: one upsert that returns the row as it stands afterwards.

        The claim is granted (``entry.owner == claim.owner``) if

        - the name is new: the row is made with the claim's key;
        - it is CLAIMED or UNKNOWN, or IN_FLIGHT with its lease run out, and the fingerprint is the same (a CLAIMED row
          without a fingerprint takes the claim's): the row keeps its key, age, request and answers to the new owner;
        - it is REJECTED, and the fingerprint differs, or `retry_rejected` is set, or it has no status: the row starts
          anew with the claim's key, as if the name were new.

        A granted row is IN_FLIGHT; its lease runs from now, and `sends` has grown by one. Its age counts from the first
        granted claim. A claim whose owner holds the row already is granted again without counting: a step that was
        committed and then reported an error is recognised as one's own. In every other case the row is not changed.
        """

    def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        """Let the lease run from now again, if *owner* still holds the row; False if it has lost it."""

    def record(self, ended: Ended) -> bool:
        """Leave the row in its new state and without an owner, if *owner* still holds it; False if it has lost it.

        EXECUTED and REJECTED drop the stored request. CLAIMED takes the owner's send back (`sends` shrinks by one, and
        the age starts again if none is left).
        """

    def get(self, scope: str, name: str) -> Entry | None:
        """The row, or None."""

    def entries(self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """Rows in any of *states* (all if empty) not written for *older_than* seconds, oldest first."""

    def unresolved(self, *, older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """Operations that nobody is at and nobody knows the end of: UNKNOWN, or IN_FLIGHT with the lease run out."""

    def resolve(self, name: str, *, executed: bool, scope: str | None = None, resource: str | None = None) -> Entry:
        """Decide an unresolved operation by hand; one that is only claimed may be decided too.

        Executed: a rerun raises `AlreadyExecuted` (with *resource*). Not executed: a rerun starts with a new key.

        Raises:
            KeyError: No such operation.
            ValueError: Somebody is at it (a live lease), it has ended already, or *resource* is given for something
                that was not executed.
        """

    def sweep(self, *, older_than: float, limit: int = 1000) -> int:
        """Drop headers and bodies of rows that ended more than *older_than* seconds ago; at most *limit* rows.

        What is left is a tombstone: name, key, fingerprint, state, status, resource. Unresolved rows are never swept.

        Returns:
            How many rows were swept.
        """

    def close(self) -> None:
        """Let go of connections and files."""


class AsyncJournal(Protocol):
    """The port that async clients use: the methods of `Journal`, awaited."""

    scope: str
    store_body: bool

    async def claim(self, claim: Claim) -> Entry:
        """See `Journal.claim`."""

    async def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        """See `Journal.renew`."""

    async def record(self, ended: Ended) -> bool:
        """See `Journal.record`."""

    async def get(self, scope: str, name: str) -> Entry | None:
        """See `Journal.get`."""

    async def entries(
        self, *, states: Sequence[RowState] = (), older_than: float = 0.0, limit: int = 1000
    ) -> list[Entry]:
        """See `Journal.entries`."""

    async def unresolved(self, *, older_than: float = 0.0, limit: int = 1000) -> list[Entry]:
        """See `Journal.unresolved`."""

    async def resolve(
        self, name: str, *, executed: bool, scope: str | None = None, resource: str | None = None
    ) -> Entry:
        """See `Journal.resolve`."""

    async def sweep(self, *, older_than: float, limit: int = 1000) -> int:
        """See `Journal.sweep`."""

    async def aclose(self) -> None:
        """See `Journal.close`."""
