"""Tests that need not wait for a backoff."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from samekey import _pause

_lock = threading.Lock()


@contextmanager
def no_waiting() -> Iterator[None]:
    """Makes every wait of samekey between attempts take no time while the block runs.

    Works in sync and async tests, may be nested, and holds for the whole process. What waits are computed and reported,
    and all limits on them, stay as they are; only the sleeping is left out. Timeouts of httpx and the steps of a
    `LedgerServer` are not shortened.
    """
    _skip(+1)
    try:
        yield
    finally:
        _skip(-1)


def _skip(change: int) -> None:
    with _lock:
        _pause.skipped += change
