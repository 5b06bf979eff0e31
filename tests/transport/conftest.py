"""The `api` fixture: a server on a socket, and one colour; a test that takes it is an `async def` for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from samekey.testing import LedgerServer
from tests.transport.harness import COLOURS, LIBRARIES, Api, Clock, virtual_time


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_time: waits between attempts take their time (else they are skipped)")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in the colour of its `api`."""
    api = pyfuncitem.funcargs.get("api")
    if not isinstance(api, Api) or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    api.run(lambda: pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def server() -> LedgerServer:
    return LedgerServer()


@pytest.fixture(params=[f"{library}-{colour}" for library in LIBRARIES for colour in COLOURS])
def api(request: pytest.FixtureRequest, server: LedgerServer) -> Iterator[Api]:
    library, colour = request.param.split("-")
    waits = nullcontext(Clock()) if request.node.get_closest_marker("real_time") else virtual_time()
    with server.listen() as url, waits as clock:
        yield Api(colour, LIBRARIES[library], server, url, clock)
