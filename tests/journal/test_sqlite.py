"""What is SQLite's own: the file and its modes, its faults, forks and threads, the async face."""

from __future__ import annotations

import os
import resource
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from samekey._sql import Row, Values
from samekey.journal import Claim, Ended, RowState
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal, _write_ahead
from tests.journal.workers import claim, executed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SQLiteJournal]:
    with SQLiteJournal(path) as journal:
        yield journal


def modes(folder: Path) -> dict[str, int]:
    """The permissions of the files in *folder*."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_the_owner_can_read_it(path: Path, umask: int) -> None:
    """The file and its side files have mode 0600, whatever the umask."""
    before = os.umask(umask)
    try:
        with SQLiteJournal(path) as journal:
            journal.claim(claim("order-1", "a"))

            assert modes(path.parent) == dict.fromkeys(["journal.db", "journal.db-wal", "journal.db-shm"], 0o600)
    finally:
        os.umask(before)


def test_an_existing_file_keeps_its_mode(path: Path) -> None:
    """Whoever shares the file with a group decided so."""
    path.touch(0o660)
    path.chmod(0o660)
    with SQLiteJournal(path) as journal:
        journal.claim(claim("order-1", "a"))

        assert set(modes(path.parent).values()) == {0o660}


def test_it_is_durable(journal: SQLiteJournal) -> None:
    """Write-ahead log, and each commit waits for the disk."""
    journal.claim(claim("order-1", "a"))
    connection = journal._handle().connection

    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_nothing_is_made_before_the_first_step(path: Path) -> None:
    """A journal at the top of a module costs nothing, and a fork before the first step is no fork of a connection."""
    SQLiteJournal(path).close()

    assert not path.exists()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_it_needs_a_file(path: str) -> None:
    """A database in memory is not durable."""
    with pytest.raises(ValueError, match="MemoryJournal"):
        SQLiteJournal(path)


def test_it_says_where_it_is(path: Path) -> None:
    """And shows no more."""
    assert repr(SQLiteJournal(path, scope="tenant")) == f"SQLiteJournal({str(path)!r}, scope='tenant')"
    assert repr(AsyncSQLiteJournal(path)) == f"AsyncSQLiteJournal({str(path)!r}, scope='')"


def test_it_stays_where_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the folder at the time it was given."""
    monkeypatch.chdir(path.parent)
    with SQLiteJournal("journal.db") as journal:
        monkeypatch.chdir("/")
        journal.claim(claim("order-1", "a"))

    assert path.exists()


def test_a_closed_journal(journal: SQLiteJournal) -> None:
    """It may be closed twice, and is not opened again by a step that comes late."""
    journal.claim(claim("order-1", "a"))
    journal.close()
    journal.close()

    with pytest.raises(ValueError, match="is closed"):
        journal.get("", "order-1")


def test_an_unclosed_journal(path: Path) -> None:
    """It is told when it is collected."""
    journals = [SQLiteJournal(path)]
    journals[0].claim(claim("order-1", "a"))
    with pytest.warns(ResourceWarning, match="unclosed SQLiteJournal"):
        journals.clear()


def test_it_outlives_its_process(path: Path) -> None:
    """Opened again, everything is there."""
    with SQLiteJournal(path) as journal:
        journal.claim(claim("order-1", "a"))
        journal.record(executed("order-1", "a"))
    with SQLiteJournal(path) as journal:
        entry = journal.get("", "order-1")

    assert entry is not None
    assert (entry.state, entry.status) == (RowState.EXECUTED, 200)


def test_a_newer_file_is_refused(path: Path) -> None:
    """Before anything in it is touched."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with SQLiteJournal(path) as journal, pytest.raises(RuntimeError, match="has schema 2, this samekey knows 1"):
        journal.claim(claim("order-1", "a"))


def test_no_database(path: Path) -> None:
    """Something else under that name is an error, and stays as it is."""
    path.write_bytes(b"precious" * 1000)
    with SQLiteJournal(path) as journal, pytest.raises(sqlite3.DatabaseError):
        journal.claim(claim("order-1", "a"))

    assert path.read_bytes() == b"precious" * 1000


def test_no_folder(path: Path) -> None:
    """A folder that is missing is told."""
    with SQLiteJournal(path / "journal.db") as journal, pytest.raises(FileNotFoundError):
        journal.claim(claim("order-1", "a"))


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write everywhere; be nobody for a moment."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def opened_up(folder: Path) -> None:
    """Let nobody reach *folder*, whose parents pytest keeps to the owner."""
    while folder.stat().st_mode & 0o005 != 0o005 and folder.stat().st_uid == os.geteuid():
        folder.chmod(folder.stat().st_mode | 0o055)
        folder = folder.parent


def test_a_read_only_folder(path: Path) -> None:
    """Nothing can be recorded, so the step fails."""
    opened_up(path.parent)
    path.parent.chmod(0o555)
    with without_privileges(), SQLiteJournal(path) as journal, pytest.raises(PermissionError):
        journal.claim(claim("order-1", "a"))
    path.parent.chmod(0o755)


def test_a_read_only_file(journal: SQLiteJournal, path: Path) -> None:
    """The same with a file that was there before."""
    journal.claim(claim("order-1", "a"))
    journal.close()
    opened_up(path.parent)
    path.parent.chmod(0o555)
    path.chmod(0o444)
    with without_privileges(), SQLiteJournal(path) as other, pytest.raises(sqlite3.OperationalError):
        other.claim(claim("order-2", "a"))
    path.parent.chmod(0o755)


def test_a_full_disk(journal: SQLiteJournal) -> None:
    """The step fails, the row stays as it was, and with room again the next step succeeds."""
    journal.claim(claim("order-1", "a"))
    connection = journal._handle().connection
    assert connection is not None
    connection.execute("PRAGMA max_page_count = 10")
    big = Ended(scope="", name="order-1", owner="a", state=RowState.EXECUTED, status=200, body=b"x" * 100_000)

    with pytest.raises(sqlite3.OperationalError, match="full"):
        journal.record(big)
    entry = journal.get("", "order-1")
    assert entry is not None
    assert (entry.owner, entry.state) == ("a", RowState.IN_FLIGHT)
    connection.execute("PRAGMA max_page_count = 10000")
    assert journal.record(big)


def test_a_disk_that_refuses_to_write(journal: SQLiteJournal) -> None:
    """The operating system's own no comes out as well."""
    journal.claim(claim("order-1", "a"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    try:
        with pytest.raises(sqlite3.OperationalError):
            journal.claim(
                Claim(scope="", name="n", key="k", fingerprint="f", owner="a", lease=9, request=b"x" * 99_999)
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert journal.get("", "n") is None


@contextmanager
def busy(path: Path, *, mode: str, seconds: float, last: Callable[[], object] = int) -> Iterator[Callable[[], object]]:
    """Another program is at the file for some time, or until it is told to let go; *last* is what it does then."""
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE IF NOT EXISTS other (n)")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("INSERT INTO other VALUES (1)")
    over = threading.Event()

    def work() -> None:
        over.wait(seconds)
        last()
        connection.execute("COMMIT")

    thread = threading.Thread(target=work)
    thread.start()
    yield over.set
    over.set()
    thread.join()
    connection.close()


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_it_waits_for_others(path: Path, mode: str) -> None:
    """Also where SQLite itself would not: while it changes to the write-ahead log."""
    with busy(path, mode=mode, seconds=0.2), SQLiteJournal(path) as journal:
        assert journal.claim(claim("order-1", "a")).owner == "a"


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_it_does_not_wait_for_ever(path: Path, mode: str) -> None:
    """The busy timeout is its own setting."""
    with (
        busy(path, mode=mode, seconds=60),
        SQLiteJournal(path, busy_timeout=0.05) as journal,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        journal.claim(claim("order-1", "a"))


def test_others_who_come_and_go(path: Path) -> None:
    """Where SQLite fails at once although the others are as good as gone, the change is tried again."""
    failed: list[str] = []

    class Refused(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if not failed:
                failed.append(arguments[0])
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY_RECOVERY
                raise error
            return super().execute(*arguments)

    connection = sqlite3.connect(path, factory=Refused)
    _write_ahead(connection, time.monotonic() + 60)

    assert failed == ["PRAGMA journal_mode = WAL"]
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_lease_runs_from_the_write(path: Path) -> None:
    """Not from the moment when the claim began to wait for another process."""
    times = [1000.0]
    with SQLiteJournal(path, clock=lambda: times[-1]) as journal:
        journal.get("", "order-1")
        with busy(path, mode="WAL", seconds=0.3, last=lambda: times.append(1300.0)):
            entry = journal.claim(claim("order-1", "a"))

    assert times[-1] == 1300
    assert entry.lease_left == 600


def test_threads(journal: SQLiteJournal) -> None:
    """Many threads share one journal."""

    def work(number: int) -> bool:
        name = f"order-{number}"
        return journal.claim(claim(name, "a")).owner == "a" and journal.record(executed(name, "a"))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(80)))
    assert len(journal.entries(states=[RowState.EXECUTED])) == 80


def test_claimed_between_two_statements(path: Path) -> None:
    """A claim that was refused, and finds the name free when it looks whom it went to, is made again."""

    class Interrupted(SQLiteJournal):
        def _fetch(self, statement: str, values: Values) -> list[Row]:
            if statement == self._statements.look:
                with SQLiteJournal(path) as other:
                    other.record(Ended(scope="", name="order-1", owner="a", state=RowState.UNKNOWN))
            return super()._fetch(statement, values)

    with Interrupted(path) as journal:
        journal.claim(claim("order-1", "a"))
        entry = journal.claim(claim("order-1", "b"))

    assert (entry.owner, entry.key, entry.sends) == ("b", "key-a", 2)


def test_recording_again(journal: SQLiteJournal) -> None:
    """A record that was committed and then reported an error is recognised, until somebody else has the name."""
    unknown = Ended(scope="", name="order-1", owner="a", state=RowState.UNKNOWN)
    journal.claim(claim("order-1", "a"))
    assert journal.record(unknown)
    assert journal.record(unknown)

    journal.claim(claim("order-1", "b"))
    assert not journal.record(unknown)


@pytest.mark.parametrize("name", ["Authorization", "cookie", "SET-COOKIE", "Proxy-Authorization"])
def test_no_credentials_in_the_file(journal: SQLiteJournal, path: Path, name: str) -> None:
    """Should a client forget to leave them out, they go no further than this; the rest is in the file."""
    journal.claim(claim("order-1", "a"))
    headers = ((name, "PLANTED"), ("x-kept", "KEPT"))
    journal.record(Ended(scope="", name="order-1", owner="a", state=RowState.EXECUTED, status=200, headers=headers))

    raw = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"PLANTED" not in raw
    assert b"KEPT" in raw


def test_a_started_write_is_finished(path: Path) -> None:
    """Cancelling the task lets the write end first: the row is there. One that waits for its turn is not begun."""

    async def main() -> None:
        async with AsyncSQLiteJournal(path) as journal:
            await journal.claim(claim("order-1", "a"))
            with busy(path, mode="WAL", seconds=60) as let_go:
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as group:
                        group.start_soon(partial(journal.record, executed("order-1", "a")))
                        await anyio.sleep(0.1)
                        group.start_soon(partial(journal.claim, claim("order-2", "a")))
                        await anyio.sleep(0.1)
                        scope.cancel()
                        let_go()
                assert scope.cancelled_caught

            entry = await journal.get("", "order-1")
            assert entry is not None
            assert entry.state is RowState.EXECUTED
            assert await journal.get("", "order-2") is None

    anyio.run(main)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_many_tasks(path: Path, backend: str) -> None:
    """Two hundred at once, on an event loop of their own each time."""

    async def work(journal: AsyncSQLiteJournal, name: str) -> None:
        assert (await journal.claim(claim(name, "a"))).owner == "a"
        assert await journal.record(executed(name, "a"))

    async def main(journal: AsyncSQLiteJournal, kind: str) -> None:
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(work, journal, f"{kind}-{number}")

    journal = AsyncSQLiteJournal(path)
    anyio.run(main, journal, "first", backend=backend)
    anyio.run(main, journal, "second", backend=backend)
    anyio.run(journal.aclose, backend=backend)
    with SQLiteJournal(path) as other:
        assert len(other.entries(states=[RowState.EXECUTED])) == 200


def test_two_journals_of_one_process(path: Path) -> None:
    """Opening a second one does not take the first one's locks away."""
    with SQLiteJournal(path) as first, SQLiteJournal(path, busy_timeout=0.05) as second:
        first.claim(claim("order-1", "a"))
        connection = first._handle().connection
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        with suppress(sqlite3.OperationalError):
            second.claim(claim("order-2", "a"))
        connection.execute("COMMIT")

        assert second.get("", "order-2") is None
