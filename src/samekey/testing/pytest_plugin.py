"""Fixtures for pytest, for those who ask: ``pytest_plugins = ["samekey.testing.pytest_plugin"]`` in ``conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import LedgerServer
from . import no_waiting as skip_waits


@pytest.fixture
def ledger_server() -> Iterator[LedgerServer]:
    """A fresh `LedgerServer` that listens on ``ledger_server.url`` until the test ends."""
    server = LedgerServer()
    with server.listen():
        yield server


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """The waits of samekey between attempts take no time in this test."""
    with skip_waits():
        yield
