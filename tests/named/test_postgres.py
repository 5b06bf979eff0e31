"""Named operations over PostgreSQL: the life of a name, a kill, a cancellation, the caller's own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import psycopg
import pytest
from tenacity import wait_none

import samekey
from samekey import JournalError, OutcomeUnknown, RetryPolicy
from samekey.journal import RowState
from samekey.postgres import AsyncPostgresJournal, PostgresJournal
from samekey.testing import LedgerServer, Reply, faults, no_waiting
from tests.journal.servers import Server, pass_time
from tests.named.shop import NAME, ONCE, QUICK
from tests.named.test_kill import killed, said, start
from tests.transport.harness import TLS, cancelled_once, the

TABLE = "samekey_operations"


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    server = Server()
    with PostgresJournal(server.uri) as journal:
        journal.migrate()
    yield server
    server.remove()


@pytest.fixture
def bank(database: Server) -> Iterator[LedgerServer]:
    with database.connect() as connection:
        connection.execute(f"TRUNCATE {TABLE}")
    with no_waiting():
        yield LedgerServer()


@pytest.fixture
def journal(database: Server) -> Iterator[PostgresJournal]:
    with PostgresJournal(database.uri) as journal:
        yield journal


def client(url: str, journal: Any, policy: RetryPolicy = QUICK) -> httpx.Client:
    """A process."""
    raw = httpx.Client(base_url=url, trust_env=False, verify=TLS, timeout=5)
    return samekey.wrap(raw, journal=journal, policy=policy)


def test_the_life_of_a_name(bank: LedgerServer, journal: PostgresJournal, database: Server) -> None:
    """Lost, left in flight by a dead process, taken over, replayed, recorded, recalled."""
    bank.script(faults.lost())
    with bank.listen() as url:
        with client(url, journal, ONCE) as first, samekey.operation(NAME), pytest.raises(OutcomeUnknown):
            first.post("/charges", json={"n": 1})
        with client(url, journal) as second, samekey.operation(NAME):
            replayed = second.post("/charges", json={"n": 1})
        with client(url, journal) as third, samekey.operation(NAME):
            recalled = third.post("/charges", json={"n": 1})

    assert samekey.is_replayed(replayed)
    assert the(samekey.report(recalled)).source == "journal"
    assert recalled.content == replayed.content
    assert len(bank.requests) == 2
    bank.assert_same_key()
    bank.assert_executed_once()


def test_secrets(bank: LedgerServer, journal: PostgresJournal, database: Server) -> None:
    """No credential in any column."""
    headers = {"Authorization": "Bearer s3cret", "Cookie": "a=s3cret"}
    bank.script(lambda _: Reply(201, {"Set-Cookie": "a=s3cret", "X-Id": "1"}))
    with bank.listen() as url, client(url, journal) as sender, samekey.operation(NAME, store_request=True):
        sender.post("/charges", json={"n": 1}, headers=headers)
    with database.connect() as connection:
        ((row,),) = connection.execute(f"SELECT row_to_json(t)::text FROM {TABLE} t").fetchall()

    assert "x-id" in row.lower()
    assert "s3cret" not in row


@pytest.mark.parametrize("point", ["after claim", "before record"])
def test_br_67_killed(bank: LedgerServer, database: Server, point: str) -> None:
    """A killed process, on a machine of its own as far as the journal knows."""
    with bank.listen() as url:
        killed(start(url, database.uri, point))
        pass_time(database, TABLE, 46)
        told = said(start(url, database.uri, "never"))

    assert told["status"] == 201
    bank.assert_executed_once()
    bank.assert_same_key()
    bank.assert_same_body()


def test_the_callers_transaction(bank: LedgerServer, journal: PostgresJournal, database: Server) -> None:
    """The order and the intent to charge commit together; sending before that fails at once, and sends nothing."""
    with bank.listen() as url, client(url, journal) as sender, database.connect() as connection:
        key = journal.claim_in(connection, NAME)
        with samekey.operation(NAME), pytest.raises(JournalError, match="commit"):
            sender.post("/charges", json={"n": 1})
        assert bank.requests == []
        connection.commit()
        with samekey.operation(NAME):
            response = sender.post("/charges", json={"n": 1})

    assert response.status_code == 201
    assert bank.keys == [key]


def test_the_callers_transaction_rolled_back(bank: LedgerServer, journal: PostgresJournal, database: Server) -> None:
    """Neither the order nor the name is there."""
    with database.connect() as connection:
        journal.claim_in(connection, NAME)
        connection.rollback()
    assert journal.get("", NAME) is None


def test_the_database_goes_away(bank: LedgerServer, journal: PostgresJournal, database: Server) -> None:
    """Its connections are cut between two calls: the step is tried once more, and nobody notices."""
    with bank.listen() as url, client(url, journal) as sender:
        with samekey.operation("a"):
            sender.post("/charges", json={"n": 1})
        with psycopg.connect(database.uri, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        with samekey.operation("b"):
            response = sender.post("/charges", json={"n": 2})

    assert the(samekey.report(response)).recorded is True


@asynccontextmanager
async def running(
    bank: LedgerServer, database: Server
) -> AsyncIterator[tuple[httpx.AsyncClient, AsyncPostgresJournal]]:
    """An async process."""
    with bank.listen() as url:
        async with (
            AsyncPostgresJournal(database.uri) as journal,
            samekey.wrap(
                httpx.AsyncClient(base_url=url, trust_env=False, verify=TLS, timeout=5),
                journal=journal,
                policy=RetryPolicy(wait=wait_none(), unresolved_ttl=0),
            ) as client,
        ):
            yield client, journal


@pytest.mark.parametrize("way", ["scope", "timeout"])
def test_cancelled(bank: LedgerServer, database: Server, way: str) -> None:
    """Unknown, and resumed with the same key."""
    bank.script(faults.never())

    async def main() -> None:
        async with running(bank, database) as (sender, journal):

            async def charge() -> httpx.Response:
                with samekey.operation(NAME):
                    return await sender.post("/charges", json={"n": 1})

            async def run_out(limit: asyncio.Timeout) -> None:
                while not bank.effects:  # noqa: ASYNC110 - made in another thread
                    await asyncio.sleep(0.005)
                limit.reschedule(asyncio.get_running_loop().time())

            if way == "scope":
                async with cancelled_once(lambda: bank.effects):
                    await charge()
            else:
                with pytest.raises(TimeoutError):  # noqa: PT012
                    async with asyncio.timeout(None) as limit:
                        running_out = asyncio.ensure_future(run_out(limit))
                        await charge()
                await running_out
            entry = await journal.get("", NAME)
            assert entry is not None
            assert entry.state is RowState.UNKNOWN
            assert samekey.is_replayed(await charge())

    anyio.run(main)
    assert len(bank.keys) == 1
    bank.assert_executed_once()


def test_fifty_at_once(bank: LedgerServer, database: Server) -> None:
    """Concurrent operations, more than the pool has connections."""

    async def main() -> None:
        async with running(bank, database) as (sender, _), anyio.create_task_group() as group:

            async def one(number: int) -> None:
                with samekey.operation(f"order-{number}"):
                    await sender.post("/charges", json={"n": number})

            for number in range(50):
                group.start_soon(one, number)

    anyio.run(main)
    assert len(bank.effects) == len(bank.keys) == 50
