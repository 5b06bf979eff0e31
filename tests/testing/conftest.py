from __future__ import annotations

from collections.abc import Iterator

import pytest

from samekey.testing import LedgerServer


@pytest.fixture
def server() -> LedgerServer:
    return LedgerServer()


@pytest.fixture
def url(server: LedgerServer) -> Iterator[str]:
    with server.listen() as url:
        yield url
