"""A short storm with everything in it; `make storm` runs the long one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from examples.payments_api.embedded import EmbeddedPostgres, temporary_postgres
from tests.storm.conduct import conduct
from tests.storm.plan import Plan

SHORT = Plan(
    contender="samekey",
    operations=240,
    seed=7,
    folder="",
    clients=2,
    client_kills=2,
    server_kills=2,
    office_kills=1,
    database_restarts=1,
    total_timeout=2.5,  # a killed client's names are held for so long, and fifteen seconds more
    lease=1.5,
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that may be crashed."""
    with temporary_postgres() as running:
        yield running


@pytest.mark.parametrize(
    ("flavour", "client_kills"),
    [("article-1", 2), ("article-2", 0)],  # without killed clients there are no leases to wait for
)
def test_samekey(server: EmbeddedPostgres, tmp_path: Path, flavour: str, client_kills: int) -> None:
    """Through faults and kills each payment is charged once, each report is true, and each unknown is resolved."""
    result = conduct(replace(SHORT, folder=str(tmp_path), flavour=flavour, client_kills=client_kills), server)

    assert result.findings == []
    assert result.clean
    assert (result.effects, result.keys) == (SHORT.operations - result.declined, SHORT.operations)
    assert result.reports == {"executed": result.effects, "rejected": result.declined}
    assert result.resolved == result.unknown > 0
    assert (result.resumed > 0) is (client_kills > 0)
    assert result.replays > 0
    assert result.kills == {"client": client_kills, "server": 2, "office": 1, "database": 1}
    assert result.requests > SHORT.operations


def test_rival(server: EmbeddedPostgres, tmp_path: Path) -> None:
    """The same weather, and a common retry layer without a key: the judge sees doubles and false reports."""
    plan = replace(
        SHORT,
        contender="tenacity",
        operations=100,
        folder=str(tmp_path),
        client_kills=0,
        server_kills=0,
        database_restarts=0,
    )

    result = conduct(plan, server)

    assert result.doubled > 0
    assert result.false >= result.failed_but_charged > 0
    assert not result.clean
    assert result.findings
