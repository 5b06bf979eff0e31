"""The scripts in `examples/`, run as their first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("quickstart", ["it had been done by an earlier attempt: True", "charges made: 1"]),
        ("quickstart_async", ["order 1: unknown after 5 attempts", "order 1: 201, replayed", "charges made: 10"]),
    ],
)
def test_example(name: str, told: list[str]) -> None:
    """It runs by one command, and shows that each payment was charged once."""
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py"], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )

    assert done.stderr == ""
    assert [line for line in told if line not in done.stdout] == []
    assert done.stdout.rstrip().endswith(told[-1])
