"""The one command: database, card processor and API, from nothing to a captured charge, and gone without a trace."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.api import CHARGES, PATIENCE, ROOT, body, key, wait_until
from tests.storm.fleet import free_port


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that another user may enter: started by root, PostgreSQL runs as a user of its own."""
    with tempfile.TemporaryDirectory(prefix="payments-run-", dir="/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_one_command(folder: Path, store: str) -> None:
    """It serves; what is charged is captured; it ends when it is asked to."""
    port = free_port()
    command = [sys.executable, "-m", "examples.payments_api", store, "--data", str(folder), "--port", str(port)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            wait_until(lambda: process.poll() is not None or _answers(client))
            made = client.post(CHARGES, json=body(), headers=key()).json()["id"]
            wait_until(lambda: client.get(f"{CHARGES}/{made}").json()["status"] == "captured")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()

    assert said.decode() == f"payments on {store}: http://127.0.0.1:{port}/openapi.json\n"
    assert not list(folder.rglob("postmaster.pid"))


def _answers(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return client.get("/openapi.json").is_success
    return False
