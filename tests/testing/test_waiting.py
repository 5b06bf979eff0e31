"""`no_waiting`, the pytest plugin, and what importing them costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samekey import _pause
from samekey.testing import no_waiting


def test_no_waiting_counts_its_blocks() -> None:
    """Blocks nest, and the last one out turns waiting on again."""
    assert _pause.skipped == 0
    with no_waiting():
        with no_waiting():
            assert _pause.skipped == 2
        assert _pause.skipped == 1
    assert _pause.skipped == 0


def test_no_waiting_ends_with_an_error() -> None:
    """A failing test does not speed up the others."""
    with pytest.raises(LookupError), no_waiting():
        raise LookupError
    assert _pause.skipped == 0


@pytest.mark.anyio
async def test_no_waiting_in_async_code() -> None:
    """The same block serves async tests."""
    with no_waiting():
        assert await _pause.async_sleep(3600) == 3600


PLUGIN_TEST = """
import urllib.request
from samekey import _pause

def test_fixtures(ledger_server, no_waiting):
    assert _pause.skipped == 1
    with urllib.request.urlopen(urllib.request.Request(ledger_server.url, method="POST")) as answer:
        assert answer.status == 201
    ledger_server.assert_executed_once()

def test_clean_again(ledger_server):
    assert _pause.skipped == 0
    ledger_server.assert_executed(0)
"""


def run(code: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    pytest_run = ["-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    arguments = pytest_run if code is None else ["-W", "error", "-c", code]
    # The folder samekey was imported from, so that this works installed and from the tree.
    environment = os.environ | {"PYTHONPATH": str(Path(_pause.__file__).parent.parent)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=environment, check=False
    )


def test_plugin_gives_fixtures_to_who_asks(tmp_path: Path) -> None:
    """A line in `conftest.py` brings a listening server and a test without waits."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["samekey.testing.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)

    done = run(cwd=tmp_path)

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_plugin_is_not_loaded_unasked(tmp_path: Path) -> None:
    """Having samekey installed changes nobody's test suite."""
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)

    assert "fixture 'ledger_server' not found" in run(cwd=tmp_path).stdout


def test_import_is_without_httpx() -> None:
    """Neither the kit nor its plugin loads httpx by itself."""
    done = run(
        "import sys, samekey; before = 'httpx' in sys.modules; import samekey.testing.pytest_plugin; "
        "assert ('httpx' in sys.modules) == before; assert 'samekey.testing._memory' not in sys.modules"
    )

    assert done.returncode == 0, done.stderr
