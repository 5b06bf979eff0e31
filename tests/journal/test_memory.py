"""What is left to say of the reference, and of what journals are asked and answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest

from samekey.journal import AsyncMemoryJournal, Entry, MemoryJournal, RowState
from samekey.postgres import AsyncPostgresJournal, PostgresJournal
from samekey.sqlite import SQLiteJournal
from tests.journal.workers import claim, executed


def test_threads() -> None:
    """Many threads share one journal, and one of them gets the name."""
    with MemoryJournal() as journal, ThreadPoolExecutor(8) as pool:
        owners = {entry.owner for entry in pool.map(journal.claim, [claim("order-1", str(n)) for n in range(100)])}

    assert len(owners) == 1


def test_awaited() -> None:
    """The async face is closed by its own context manager, and says what it is."""

    async def main() -> None:
        async with AsyncMemoryJournal(scope="tenant", store_body=False) as journal:
            assert (journal.scope, journal.store_body) == ("tenant", False)
            assert repr(journal) == "AsyncMemoryJournal(scope='tenant')"

    anyio.run(main)


def test_no_key_is_shown() -> None:
    """Neither by the journal nor by a row: a digest tells one key from another."""
    journal = MemoryJournal()
    entry = journal.claim(claim("order-1", "SECRET"))

    assert "SECRET" not in repr(journal)
    assert repr(entry) == (
        "Entry(scope='', name='order-1', key=<21d56c39>, state='in_flight', status=None, sends=1, age=0)"
    )


@pytest.mark.parametrize("executed", [None, 1, "yes"])
def test_a_decision_is_a_decision(executed: bool) -> None:
    """Executed or not; nothing in between."""
    with pytest.raises(TypeError, match="executed must be True or False"):
        MemoryJournal().resolve("order-1", executed=executed)


def test_nothing_was_made() -> None:
    """A resource of something that was not executed is a slip."""
    with pytest.raises(ValueError, match="made nothing"):
        MemoryJournal().resolve("order-1", executed=False, resource="/r/1")


def test_refusals_are_told() -> None:
    """Which operation, and what is in the way."""
    journal = MemoryJournal(scope="tenant")
    with pytest.raises(KeyError, match="the journal has no operation 'order-1' in scope 'tenant'"):
        journal.resolve("order-1", executed=True)
    journal.claim(claim("order-1", "a"))
    with pytest.raises(ValueError, match="somebody is at operation 'order-1': the lease runs for another 600 s"):
        journal.resolve("order-1", scope="", executed=True)
    journal.record(executed("order-1", "a"))
    with pytest.raises(ValueError, match="operation 'order-1' has ended already: executed"):
        journal.resolve("order-1", scope="", executed=True)


def test_a_clock_that_goes_back() -> None:
    """Ages stop at zero."""
    now = 1000.0
    journal = MemoryJournal(clock=lambda: now)
    journal.claim(claim("order-1", "a"))
    now = 900.0
    entry = journal.get("", "order-1")

    assert isinstance(entry, Entry)
    assert (entry.age, entry.updated, entry.lease_left) == (0.0, 0.0, 700.0)
    assert entry.state is RowState.IN_FLIGHT


@pytest.mark.parametrize("kind", [SQLiteJournal, PostgresJournal, AsyncPostgresJournal])
def test_a_journal_that_was_never_made(kind: type) -> None:
    """Nothing is left to be said when it is collected."""
    with pytest.raises(TypeError, match="missing 1 required"):
        kind()
