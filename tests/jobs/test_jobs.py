"""What needs no runner."""

from __future__ import annotations

import subprocess
import sys

import pytest

from samekey import jobs


@pytest.mark.parametrize(("function", "module"), [("celery_job", "celery"), ("rq_job", "rq")])
def test_runner_not_installed(monkeypatch: pytest.MonkeyPatch, function: str, module: str) -> None:
    """No runner, no job."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RuntimeError, match="is not installed"):
        getattr(jobs, function)()


def test_import_brings_no_runner() -> None:
    """Importing `samekey.jobs` imports none of them."""
    code = "import sys, samekey.jobs; print(*[n for n in ('celery', 'rq', 'procrastinate') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("function", ["celery_job", "rq_job"])
def test_no_job_is_running(function: str) -> None:
    """A plain call has no identity that a second delivery would have."""
    with pytest.raises(RuntimeError, match="is running here"):
        getattr(jobs, function)()
