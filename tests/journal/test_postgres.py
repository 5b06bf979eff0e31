"""What is PostgreSQL's own: the schema, pools, lost connections, and claims in the caller's own transaction."""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import anyio
import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from samekey import KeyMismatch
from samekey._journal_awaited import Awaited
from samekey._sql import Row, Values, values_of_claim, values_of_end
from samekey.journal import Ended, RowState
from samekey.postgres import AsyncPostgresJournal, ClaimNotCommitted, PostgresJournal
from tests.journal.servers import Server, new_table
from tests.journal.workers import ROOT, claim, executed


@pytest.fixture
def table() -> str:
    return new_table()


@pytest.fixture
def journal(server: Server, table: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(server.uri, table=table, lock_timeout=1.0) as journal:
        journal.migrate()
        yield journal


def test_schema(server: Server, table: str) -> None:
    """What `schema` prints makes the table, with an index for each of the two listings; twice does no harm."""
    with PostgresJournal(server.uri, table=table) as journal, server.connect() as connection:
        connection.execute(journal.schema())
        connection.execute(journal.schema())
        connection.commit()
        journal.migrate()
        assert journal.claim(claim("order-1", "a")).owner == "a"
        found = connection.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", (table,))

        assert {name for (name,) in found} == {f"{table}_pkey", f"{table}_unresolved", f"{table}_sweep"}


@pytest.mark.parametrize(
    ("listing", "index"),
    [
        (lambda journal: (journal._statements.sweep, {"older_than": 9.0, "limit": 5}), "sweep"),
        (lambda journal: (journal._statements.unresolved, {"older_than": 9.0, "limit": 5}), "unresolved"),
    ],
)
def test_indexes_are_used(
    journal: PostgresJournal, table: str, listing: Callable[[PostgresJournal], tuple[str, Values]], index: str
) -> None:
    """The sweep and the listing of what is unresolved read no other rows."""
    statement, values = listing(journal)
    plan = journal._fetch(f"EXPLAIN {statement}", values)

    assert f"{table}_{index}" in "\n".join(line for (line,) in plan)


def test_one_schema(server: Server, table: str) -> None:
    """Both colours print the same, and its version is in it."""
    sync, asynchronous = (kind(server.uri, table=table).schema() for kind in (PostgresJournal, AsyncPostgresJournal))

    assert sync == asynchronous
    assert f"COMMENT ON TABLE \"{table}\" IS 'samekey journal, schema 1';" in sync


def test_migrating_at_once(server: Server, table: str) -> None:
    """Several machines start at the same time."""

    def migrate(_: int) -> None:
        with PostgresJournal(server.uri, table=table) as journal:
            journal.migrate()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(migrate, range(6)))


def test_a_newer_table_is_refused(journal: PostgresJournal, server: Server, table: str) -> None:
    """And other people's comments are none of ours."""
    for comment, works in (("samekey journal, schema 2", False), ("samekey journal, schema 1", True), ("ours", True)):
        with server.connect() as connection:
            connection.execute(f"COMMENT ON TABLE {table} IS '{comment}'")
        if works:
            journal.migrate()
        else:
            with pytest.raises(RuntimeError, match="has schema 2, this samekey knows 1"):
                journal.migrate()


def test_in_a_schema_of_its_own(server: Server, table: str) -> None:
    """`schema.name` is a table, too, and letters keep their case."""
    with server.connect() as connection:
        connection.execute(f'CREATE SCHEMA "S{table}"')
    with PostgresJournal(server.uri, table=f"S{table}.Operations") as journal:
        journal.migrate()
        assert journal.claim(claim("order-1", "a")).owner == "a"


@pytest.mark.parametrize("table", ["", "a b", "a.b.c", 'a"b', "1a", "x" * 49, "a;--"])
def test_names_of_tables(table: str) -> None:
    """A name that cannot be one is refused where it is given."""
    with pytest.raises(ValueError, match="table must be"):
        PostgresJournal("", table=table)


@pytest.mark.parametrize("kind", [PostgresJournal, AsyncPostgresJournal])
def test_no_password_is_shown(kind: type[Any], caplog: pytest.LogCaptureFixture) -> None:
    """Neither by `repr`, nor in the error and the logs of a server that is not there."""
    caplog.set_level(logging.DEBUG)
    uri = "postgresql://user:PLANTED@127.0.0.1:1/nothing?connect_timeout=1"
    journal = kind(uri)
    pool = journal._pools._make
    journal._pools._make = lambda: _impatient(pool())
    journal = Awaited(journal) if kind is PostgresJournal else journal

    async def main() -> str:
        with pytest.raises(psycopg.OperationalError) as caught:
            await journal.get("", "order-1")
        await journal.aclose()
        return repr(caught.value)

    shown = anyio.run(main) + repr(journal) + caplog.text
    assert "PLANTED" not in shown
    assert "samekey_operations" in repr(journal)


def _impatient(pool: Any) -> Any:
    pool.timeout = 0.2
    return pool


def test_without_psycopg() -> None:
    """The error says what to install."""
    code = "import sys; sys.modules['psycopg_pool'] = None; import samekey.postgres"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert "pip install 'samekey[postgres]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_pool_of_yours(server: Server, table: str, autocommit: bool, caplog: pytest.LogCaptureFixture) -> None:
    """It is used as it is, even if it has one connection and makes dictionaries, and is not closed.

    Its connections come back in good order, after an error, too.
    """
    settings = {"autocommit": autocommit, "row_factory": dict_row}
    with ConnectionPool(server.uri, min_size=1, max_size=1, kwargs=settings, open=True) as pool:
        with PostgresJournal(pool, table=table) as journal:
            with pytest.raises(psycopg.errors.UndefinedTable):
                journal.get("", "order-1")
            journal.migrate()
            assert journal.claim(claim("order-1", "a")).owner == "a"
            assert journal.record(executed("order-1", "a"))
        assert not pool.closed
        assert not caplog.records
        with PostgresJournal(pool, table=table) as journal:
            assert len(journal.entries()) == 1


def test_an_async_pool_of_yours(server: Server, table: str) -> None:
    """The same on asyncio."""

    async def main() -> None:
        async with AsyncConnectionPool(server.uri, open=False) as pool:
            async with AsyncPostgresJournal(pool, table=table) as journal:
                await journal.migrate()
                assert (await journal.claim(claim("order-1", "a"))).owner == "a"
            assert not pool.closed

    anyio.run(main)


def test_a_pool_of_yours_after_a_fork(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child must not use its parent's connections."""
    with ConnectionPool(server.uri, open=False) as pool:
        journal = PostgresJournal(pool)
        monkeypatch.setattr("os.getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="after the fork"):
            journal.get("", "order-1")
        monkeypatch.undo()


def test_a_closed_journal(journal: PostgresJournal) -> None:
    """It may be closed twice, and is not opened again by a step that comes late."""
    journal.get("", "order-1")
    journal.close()
    journal.close()

    with pytest.raises(ValueError, match="is closed"):
        journal.get("", "order-1")


def test_an_unclosed_journal(server: Server, table: str) -> None:
    """It is told when it is collected; not if it was never used."""
    journals = [PostgresJournal(server.uri, table=table)]
    journals.clear()
    journals.append(PostgresJournal(server.uri, table=table))
    journals[0].migrate()
    pool = journals[0]._pools.here()
    with pytest.warns(ResourceWarning, match="unclosed PostgresJournal"):
        journals.clear()
    pool.close()


def test_not_on_trio(server: Server) -> None:
    """Psycopg runs on asyncio only; the error says what to do."""
    journal = AsyncPostgresJournal(server.uri)
    with pytest.raises(RuntimeError, match="on asyncio only"):
        anyio.run(journal.get, "", "order-1", backend="trio")


def test_one_loop(server: Server, table: str) -> None:
    """In another event loop the connections would wait for ever."""
    journal = AsyncPostgresJournal(server.uri, table=table)

    async def main() -> None:
        await journal.migrate()

        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="another event loop"):
                anyio.run(journal.get, "", "order-1")

        await anyio.to_thread.run_sync(elsewhere)
        assert await journal.get("", "order-1") is None
        await journal.aclose()

    anyio.run(main)


def test_left_between_two_statements(server: Server, table: str) -> None:
    """A claim that was refused, and finds the name free when it looks whom it went to, is made again."""

    class Interrupted(AsyncPostgresJournal):
        async def _fetch(self, statement: str, values: Values) -> Sequence[Row]:
            if statement == self._statements.look:
                left = Ended(scope="", name="order-1", owner="a", state=RowState.UNKNOWN)
                await super()._fetch(self._statements.record, values_of_end(left))
            return await super()._fetch(statement, values)

    async def main() -> None:
        async with Interrupted(server.uri, table=table) as journal:
            await journal.migrate()
            await journal.claim(claim("order-1", "a"))
            entry = await journal.claim(claim("order-1", "b"))
            assert (entry.owner, entry.key, entry.sends) == ("b", "key-a", 2)

    anyio.run(main)


def test_many_tasks(server: Server, table: str) -> None:
    """Two hundred at once."""

    async def work(journal: AsyncPostgresJournal, name: str) -> None:
        assert (await journal.claim(claim(name, "a"))).owner == "a"
        assert await journal.record(executed(name, "a"))

    async def main() -> None:
        async with AsyncPostgresJournal(server.uri, table=table) as journal:
            await journal.migrate()
            async with anyio.create_task_group() as group:
                for number in range(200):
                    group.start_soon(work, journal, str(number))
            assert len(await journal.entries(states=[RowState.EXECUTED])) == 200

    anyio.run(main)


@pytest.mark.parametrize("step", ["insert", "take"])
def test_a_claim_waits_for_the_disk(server: Server, table: str, step: str) -> None:
    """Even where the database was told not to: a claim that is forgotten executes twice."""
    uri = f"{server.uri}&options=-csynchronous_commit%3Doff"
    with PostgresJournal(uri, table=table) as journal:
        journal.migrate()
        if step == "take":
            journal.claim(claim("order-1", "a"))
        statement = getattr(journal._statements, step) + ", current_setting('synchronous_commit')"
        rows = journal._fetch(statement, _claim_values())
        assert rows[0][-1] == "on"
        assert journal._fetch("SELECT current_setting('synchronous_commit')", {}) == [("off",)]


def test_a_refused_claim_writes_nothing(journal: PostgresJournal, server: Server, table: str) -> None:
    """Not even a lock in the row: whoever waits for a name asks for it again and again."""

    def row() -> list[Any]:
        with server.connect() as connection:
            return connection.execute(f"SELECT ctid, xmin, xmax FROM {table}").fetchall()

    journal.claim(claim("order-1", "a"))
    before = row()
    assert journal.claim(claim("order-1", "b")).owner == "a"

    assert row() == before


def _claim_values() -> Values:
    return values_of_claim(claim("order-1", "a"))


@pytest.mark.parametrize("name", ["Authorization", "cookie", "SET-COOKIE", "Proxy-Authorization"])
def test_no_credentials_in_the_rows(journal: PostgresJournal, server: Server, table: str, name: str) -> None:
    """Should a client forget to leave them out, they go no further than this."""
    journal.claim(claim("order-1", "a"))
    headers = ((name, "PLANTED"), ("x-kept", "KEPT"))
    journal.record(Ended(scope="", name="order-1", owner="a", state=RowState.EXECUTED, status=200, headers=headers))
    with server.connect() as connection:
        rows = str(connection.execute(f"SELECT * FROM {table}").fetchall())

    assert "PLANTED" not in rows
    assert "KEPT" in rows


# Both colours


class Both:
    """A sync and an async journal, each with the caller's connections, seen through awaits."""

    def __init__(self, server: Server, table: str, kind: str) -> None:
        self.server = server
        self.kind = kind
        self.settings: dict[str, Any] = {"table": table, "scope": "tenant", "lock_timeout": 1.0}

    def play(self, case: Callable[[Any, Any], Any]) -> None:
        """Run *case* with a journal and a connection."""
        anyio.run(self._sync if self.kind == "sync" else self._async, case)

    async def _sync(self, case: Callable[[Any, Any], Any]) -> None:
        with PostgresJournal(self.server.uri, **self.settings) as journal, self.server.connect() as connection:
            journal.migrate()
            await case(_SyncFace(journal), _SyncConnection(connection))

    async def _async(self, case: Callable[[Any, Any], Any]) -> None:
        connection = await psycopg.AsyncConnection.connect(self.server.uri)
        async with AsyncPostgresJournal(self.server.uri, **self.settings) as journal, connection:
            await journal.migrate()
            await case(journal, connection)


class _SyncFace(Awaited[PostgresJournal]):
    async def claim_in(self, connection: Any, name: str, **more: Any) -> str:
        return self.wrapped.claim_in(getattr(connection, "connection", connection), name, **more)


class _SyncConnection:
    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def execute(self, statement: Any) -> None:
        self.connection.execute(statement)


@pytest.fixture(params=["sync", "async"])
def both(request: pytest.FixtureRequest, server: Server, table: str) -> Both:
    return Both(server, table, request.param)


# Lost connections


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that a test may stop."""
    server = Server()
    yield server
    server.start()
    server.remove()


def test_a_restarted_server_loses_nothing(own_server: Server, table: str) -> None:
    """Stopped in good order or crashed, while it is worked on: the steps go on, and all of them count."""
    done: list[str] = []
    over = threading.Event()

    def work(number: int) -> None:
        for index in range(10_000):
            if over.is_set():
                break
            name = f"{number}-{index}"
            assert shared.claim(claim(name, "a")).owner == "a"
            assert shared.record(executed(name, "a"))
            done.append(name)

    with PostgresJournal(own_server.uri, table=table) as shared:
        shared.migrate()
        with ThreadPoolExecutor(3) as pool:
            working = [pool.submit(work, number) for number in range(3)]
            for kind in (signal.SIGINT, signal.SIGQUIT):
                time.sleep(0.3)
                before = len(done)
                own_server.stop(kind)
                own_server.start()
                until = time.monotonic() + 30
                while len(done) < before + 10 and time.monotonic() < until:
                    time.sleep(0.01)
            over.set()
            for future in working:
                future.result()
        entries = shared.entries(limit=100_000)

    assert {entry.name for entry in entries} == set(done)
    assert {(entry.state, entry.sends) for entry in entries} == {(RowState.EXECUTED, 1)}


def test_a_restarted_server_and_an_idle_async_journal(own_server: Server, table: str) -> None:
    """The first step afterwards notices, and is done on a new connection."""

    async def main() -> None:
        async with AsyncPostgresJournal(own_server.uri, table=table) as journal:
            await journal.migrate()
            await journal.claim(claim("order-1", "a"))
            own_server.stop()
            own_server.start()
            assert await journal.record(executed("order-1", "a"))

    anyio.run(main)


@pytest.mark.parametrize("step", ["insert", "take", "record", "renew"])
def test_a_connection_that_is_lost_after_the_commit(server: Server, table: str, step: str) -> None:
    """The step is done again, and recognised as one's own."""

    class Cut(PostgresJournal):
        def _fetch_once(self, pool: ConnectionPool[Any], statement: str, values: Values) -> Sequence[Row]:
            rows = super()._fetch_once(pool, statement, values)
            if statement == getattr(self._statements, step) and not lost:
                lost.append(statement)
                raise psycopg.errors.AdminShutdown
            return rows

    lost: list[str] = []
    with Cut(server.uri, table=table) as journal:
        journal.migrate()
        if step == "take":
            journal.claim(claim("order-1", "z"))
            journal.record(Ended(scope="", name="order-1", owner="z", state=RowState.UNKNOWN))
        entry = journal.claim(claim("order-1", "a"))
        assert (entry.owner, entry.sends) == ("a", 2 if step == "take" else 1)
        assert journal.renew("", "order-1", "a", 60)
        assert journal.record(executed("order-1", "a"))
        assert len(lost) == 1


@pytest.mark.parametrize("error", [psycopg.errors.AdminShutdown, psycopg.OperationalError, psycopg.InterfaceError])
def test_connections_that_are_lost_all_the_time(both: Both, error: type[psycopg.Error]) -> None:
    """In the end the error comes out."""

    async def case(journal: Any, connection: Any) -> None:
        tries = []

        def lose(*_: object) -> None:
            tries.append(1)
            raise error

        getattr(journal, "wrapped", journal)._fetch_once = lose
        with pytest.raises(error):
            await journal.get("tenant", "order-1")
        assert len(tries) == 11

    both.play(case)


def test_other_errors_come_out(server: Server) -> None:
    """A table that is not there is no lost connection; nor is a pool that has nothing left."""
    with PostgresJournal(server.uri, table="missing") as journal, pytest.raises(psycopg.errors.UndefinedTable):
        journal.get("", "order-1")
    with ConnectionPool(server.uri, min_size=1, max_size=1, timeout=0.1, open=True) as pool:
        journal = PostgresJournal(pool)
        with pool.connection(timeout=30), pytest.raises(psycopg.OperationalError):
            journal.get("", "order-1")


def test_other_errors_come_out_of_an_async_journal(server: Server) -> None:
    """The same on asyncio."""

    async def main() -> None:
        async with AsyncConnectionPool(server.uri, min_size=1, max_size=1, timeout=0.1, open=False) as pool:
            journal = AsyncPostgresJournal(pool)
            async with pool.connection(timeout=30):
                with pytest.raises(psycopg.OperationalError):
                    await journal.get("", "order-1")

    anyio.run(main)


# Claims in the caller's own transaction


def tenants(name: str, owner: str) -> Any:
    """A claim in the journal's own scope."""
    return replace(claim(name, owner), scope="tenant")


def test_claiming_in_a_transaction(both: Both) -> None:
    """Committed, the name is claimed with the key that was told; whoever sends takes it up."""

    async def case(journal: Any, connection: Any) -> None:
        key = await journal.claim_in(connection, "order-1")
        assert await journal.get("tenant", "order-1") is None
        await connection.commit()

        entry = await journal.get("tenant", "order-1")
        assert (entry.state, entry.key, entry.sends, entry.fingerprint) == (RowState.CLAIMED, key, 0, None)
        entry = await journal.claim(tenants("order-1", "a"))
        assert (entry.owner, entry.key, entry.sends, entry.fingerprint) == ("a", key, 1, "f")

    both.play(case)


def test_rolling_back(both: Both) -> None:
    """No order, no claim."""

    async def case(journal: Any, connection: Any) -> None:
        await journal.claim_in(connection, "order-1", key="k-1", scope="other")
        await connection.rollback()

        assert await journal.get("other", "order-1") is None

    both.play(case)


def test_claiming_again(both: Both) -> None:
    """In the same transaction, in a later one, after the end: the key stays; another key is a mismatch."""

    async def case(journal: Any, connection: Any) -> None:
        for _ in range(2):
            assert await journal.claim_in(connection, "order-1", key="k-1") == "k-1"
        await connection.commit()
        assert await journal.claim_in(connection, "order-1") == "k-1"
        with pytest.raises(KeyMismatch, match="has another key"):
            await journal.claim_in(connection, "order-1", key="k-2")
        await connection.commit()

    both.play(case)


def test_sending_before_the_commit(both: Both) -> None:
    """The process that claimed the name is told at once; after the commit, and in a later transaction, it is free."""

    async def case(journal: Any, connection: Any) -> None:
        await journal.claim_in(connection, "order-1")
        await journal.claim_in(connection, "order-2")
        for name in ("order-1", "order-2"):
            with pytest.raises(ClaimNotCommitted, match=f"{name}' in scope 'tenant' has not been committed") as caught:
                await journal.claim(tenants(name, "a"))
            assert caught.value.__cause__ is None  # nothing was waited for
        assert (await journal.claim(tenants("order-3", "a"))).owner == "a"

        await connection.commit()
        await connection.execute("SELECT 1")
        assert (await journal.claim(tenants("order-1", "a"))).owner == "a"
        await journal.claim_in(connection, "order-4")
        assert (await journal.claim(tenants("order-2", "a"))).owner == "a"

    both.play(case)


def test_another_process_sends_before_the_commit(both: Both) -> None:
    """It cannot know of the transaction, and is told after the lock timeout."""

    async def case(journal: Any, connection: Any) -> None:
        await journal.claim_in(connection, "order-1")
        journal_claims = getattr(journal, "wrapped", journal)._claims
        journal_claims._claims.clear()
        with pytest.raises(ClaimNotCommitted, match="commit it before") as caught:
            await journal.claim(tenants("order-1", "a"))
        assert isinstance(caught.value.__cause__, psycopg.errors.LockNotAvailable)
        await connection.rollback()
        assert (await journal.claim(tenants("order-1", "a"))).owner == "a"

    both.play(case)


def test_a_row_that_somebody_has_locked(both: Both, table: str) -> None:
    """It is waited for no longer than one that is not committed."""

    async def case(journal: Any, connection: Any) -> None:
        await journal.claim_in(connection, "order-1")
        await connection.commit()
        await connection.execute(f"SELECT 1 FROM {table} FOR UPDATE")
        with pytest.raises(ClaimNotCommitted) as caught:
            await journal.claim(tenants("order-1", "a"))
        assert isinstance(caught.value.__cause__, psycopg.errors.LockNotAvailable)
        await connection.rollback()
        assert (await journal.claim(tenants("order-1", "a"))).owner == "a"

    both.play(case)


def test_a_name_that_vanishes(both: Both, table: str) -> None:
    """Deleted by hand between the two statements, the name is new."""

    async def case(journal: Any, connection: Any) -> None:
        statements = getattr(journal, "wrapped", journal)._statements
        await connection.execute(
            f"INSERT INTO {table} (scope, name, key, state, sends, updated) "
            "VALUES ('tenant', 'order-1', 'k', 'claimed', 0, now())"
        )
        statements.claimed_in = f"WITH gone AS (DELETE FROM {table}) SELECT NULL, NULL WHERE FALSE"
        assert await journal.claim_in(connection, "order-1", key="new") == "new"

    both.play(case)


@pytest.mark.parametrize("name", ["", " "])
def test_names_are_checked(both: Both, name: str) -> None:
    """As those of operations are."""

    async def case(journal: Any, connection: Any) -> None:
        with pytest.raises(ValueError, match="name must not be empty"):
            await journal.claim_in(connection, name)

    both.play(case)


def test_it_must_be_a_connection(both: Both) -> None:
    """SQLAlchemy's and Django's have one inside."""

    async def case(journal: Any, connection: Any) -> None:
        with pytest.raises(TypeError, match="driver_connection"):
            await journal.claim_in("postgresql://", "order-1")

    both.play(case)


def test_the_error_travels() -> None:
    """Through a job queue, for instance."""
    error = pickle.loads(pickle.dumps(ClaimNotCommitted("", "order-1")))

    assert "operation 'order-1' has not been committed" in str(error)
