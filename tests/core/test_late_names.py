"""Names of the package that are loaded on first use are there all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

import samekey
from samekey import events, journal


@pytest.mark.parametrize("name", samekey.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(samekey, name) is not None
    assert name in dir(samekey)


def test_late_names_are_those_of_their_modules() -> None:
    """In a fresh process too, and by `import *`."""
    assert samekey.log_events is events.log_events
    assert samekey.MemoryJournal is journal.MemoryJournal
    code = "import samekey as s; s.events.as_dict; s.journal.Claim; s.Listener; from samekey import *; MemoryJournal"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'samekey' has no attribute 'Retrier'"):
        samekey.Retrier  # type: ignore[attr-defined]  # noqa: B018
