"""The examples that consist of several processes, each run by its one command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
QUICK = Path(__file__).with_name("quick")
"""On the path of these processes: leases are short there."""


@pytest.mark.parametrize(
    ("example", "told"),
    [
        (
            "mobile_backend",
            [
                "was asked 1 time, and charged 1 time",
                "201 ch_4822",
                "for another order: 422",
                "charges: 4821 4822 4822",
            ],
        ),
        ("job_runner", ["is killed", "the job is done: ch_4821", "charges: 1"]),
    ],
)
def test_example(example: str, told: list[str]) -> None:
    """It says what happened, and asserts it."""
    child = subprocess.Popen(
        [sys.executable, f"examples/{example}/run.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(QUICK)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=100)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()

    assert child.returncode == 0, out + err
    for line in told:
        assert line in out
