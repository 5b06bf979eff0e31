"""Print each Python from 3.11 to 3.13 that this machine has, as `version path`: from PATH, or installed by pyenv."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")


def runs(python: str | Path, version: str) -> bool:
    """Whether *python* is there and is that version (a shim of pyenv may be neither)."""
    code = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != ({version.replace('.', ', ')}))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def found(version: str) -> str | Path | None:
    """The first interpreter of *version*."""
    installed = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
    candidates = [shutil.which(f"python{version}"), *installed]
    return next((python for python in candidates if python and runs(python, version)), None)


if __name__ == "__main__":
    for wanted in VERSIONS:
        if python := found(wanted):
            print(wanted, python)
