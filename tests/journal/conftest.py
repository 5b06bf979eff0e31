"""What the tests of the journals share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journal.servers import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The PostgreSQL server of this process of the test run."""
    server = Server()
    yield server
    server.remove()
