"""The `shop` fixture: a server, a journal and a colour; a test that takes it is an `async def` for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from samekey.testing import LedgerServer
from tests.named.shop import Shop
from tests.transport.conftest import pytest_pyfunc_call as pytest_pyfunc_call  # noqa: PLC0414 - a hook, found by name
from tests.transport.harness import COLOURS, LIBRARIES, Api, Clock, virtual_time


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_time: waits between attempts take their time (else they are skipped)")


@pytest.fixture
def server() -> LedgerServer:
    return LedgerServer()


@pytest.fixture(params=COLOURS)
def api(request: pytest.FixtureRequest, server: LedgerServer) -> Iterator[Api]:
    waits = nullcontext(Clock()) if request.node.get_closest_marker("real_time") else virtual_time()
    with server.listen() as url, waits as clock:
        yield Api(request.param, LIBRARIES["httpx"], server, url, clock)


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, api: Api, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(api, request.param, tmp_path / "journal.db")
    yield made
    made.close()
