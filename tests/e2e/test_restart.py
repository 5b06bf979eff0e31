"""The database goes away and comes back. A server of its own: to recover one with many databases takes its time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import tenacity

import samekey
from examples.payments_api.embedded import EmbeddedPostgres, temporary_postgres
from tests.e2e.api import CHARGES, Api, Once, Stores, api_on, body, wait_until

POLICY = samekey.RetryPolicy(
    stop=tenacity.stop_after_delay(60), wait=tenacity.wait_fixed(0.1), poll_wait=tenacity.wait_fixed(0.1)
)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that nobody else needs."""
    with temporary_postgres() as running:
        yield running


@pytest.fixture(params=["article-1", "article-2"])
def api(request: pytest.FixtureRequest, server: EmbeddedPostgres) -> Iterator[Api]:
    """The API in both flavours, on that server."""
    with api_on(Stores(Path(), server).new(), flavour=request.param, lease_seconds=1.0) as running:
        yield running


def test_database_away(api: Api, server: EmbeddedPostgres) -> None:
    """Without its database the API says 503 and "try again"; with it again, it goes on."""
    api.charge("k")
    server.stop("immediate")
    try:
        answers = [api.charge("k"), api.client.get(CHARGES, params={"order": "order-1"})]
    finally:
        server.start()

    assert {answer.status_code for answer in answers} == {503}
    assert {answer.headers["Retry-After"] for answer in answers} == {"1"}
    wait_until(lambda: api.charge("k").headers.get("Idempotent-Replay") == "true")
    assert api.count() == 1


@pytest.mark.parametrize("at", ["effect", "recorded"])
def test_restart_in_the_middle(api: Api, server: EmbeddedPostgres, at: str) -> None:
    """The database crashes before the commit, and starts again: samekey's retries end in one charge."""

    def crash() -> None:
        server.stop("immediate")
        server.start()

    api.hooks[at] = Once(crash)
    with samekey.wrap(httpx.Client(base_url=api.url, timeout=50, trust_env=False), policy=POLICY) as client:
        response = client.post(CHARGES, json=body())

    told = samekey.report(response)
    assert told is not None
    assert (response.status_code, told.attempts[0].status) == (201, 503)
    assert [row["id"] for row in api.rows("SELECT id FROM charges")] == [response.json()["id"]]
