"""The server process is killed in the middle of a charge: both of effect and record are left, or neither."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
import tenacity

import samekey
from examples.payments_api.database import Database
from tests.e2e.api import CHARGES, Stores, api_process, body, looking

LEASE = 1.0
POLICY = samekey.RetryPolicy(
    stop=tenacity.stop_after_delay(60), wait=tenacity.wait_fixed(0.1), poll_wait=tenacity.wait_fixed(0.1)
)


@contextmanager
def patient(url: str) -> Iterator[httpx.Client]:
    """A client that does not give up while a server is started again."""
    with samekey.wrap(httpx.Client(base_url=url, timeout=10, trust_env=False), policy=POLICY) as client:
        yield client


def left(database: Database) -> tuple[int, int, list[str]]:
    """Charges, intents, and the states of keys."""
    with database.transaction() as transaction:
        return (
            len(transaction.rows("SELECT id FROM charges")),
            len(transaction.rows("SELECT id FROM outbox")),
            [row["status"] for row in transaction.rows("SELECT status FROM idempotency_keys")],
        )


@pytest.mark.parametrize(
    ("dies_at", "after_death", "replayed"),
    [
        ("claimed", (0, 0, ["in_progress"]), False),
        ("effect", (0, 0, ["in_progress"]), False),
        ("recorded", (0, 0, ["in_progress"]), False),
        ("committed", (1, 1, ["succeeded"]), True),
    ],
)
def test_killed(stores: Stores, dies_at: str, after_death: tuple[int, int, list[str]], replayed: bool) -> None:
    """Killed before the commit it leaves neither effect nor record; a retry through samekey completes it, once."""
    address = stores.new()
    with api_process(address, lease_seconds=LEASE) as server, ThreadPoolExecutor() as pool:
        server.start(dies_at=dies_at)
        with patient(server.url) as client, looking(address) as database:
            answer = pool.submit(client.post, CHARGES, json=body())
            assert server.wait() == -9
            assert left(database) == after_death

            server.start()
            response = answer.result(60)

            assert (response.status_code, samekey.is_replayed(response)) == (201, replayed)
            assert left(database) == (1, 1, ["succeeded"])
        shown = httpx.get(f"{server.url}/metrics", trust_env=False).text
        took_over = 'idempotency_in_progress_timeouts_total{endpoint="POST /v1/charges"} 1.0' in shown
        assert took_over is not replayed
