"""What the callers were told: one line per call, in a file that survives its writer."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

FINAL = frozenset({"executed", "rejected"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one call told its caller about a payment.

    Attributes:
        order: Which payment.
        outcome: "executed", "rejected", "not_sent" or "unknown" in samekey's words; "failed" for an error that says
            no more than that.
        final: The caller leaves it at that. Otherwise the payment is taken up again.
        status: HTTP status of the answer, or None.
        charge: Id of the charge in the answer.
        amount: Amount in the answer.
        replayed: The server marked its answer as a stored one.
        journal: The answer came from the journal.
        attempts: Requests of this call, as far as the client tells.
        seconds: Since this process first took the payment up.
        at: When the statement was made.
        error: Name of the error's class.
    """

    order: str
    outcome: str
    final: bool
    status: int | None = None
    charge: str | None = None
    amount: int | None = None
    replayed: bool = False
    journal: bool = False
    attempts: int = 0
    seconds: float = 0.0
    at: float = 0.0
    error: str | None = None


class Writer:
    """Appends to a file; a statement that was written is there after the death of the process."""

    def __init__(self, path: Path) -> None:
        # A torn line, left by a process that was killed, must not swallow ours.
        mended = path.exists() and not path.read_bytes().endswith(b"\n")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if mended:
            os.write(self._file, b"\n")

    def write(self, statement: Statement) -> None:
        """Append *statement*."""
        content = {**asdict(statement), "at": time.time()}
        os.write(self._file, json.dumps(content).encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def read(path: Path) -> Iterator[Statement]:
    """All statements in a file; a torn line counts as never made, as it does for the process that comes next."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                content = json.loads(line)
            except ValueError:
                continue
            yield Statement(**content)
