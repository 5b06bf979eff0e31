"""What a call tells afterwards: one record per attempt, one report per call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._keys import digest
from ._options import EXTENSION

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from ._model import Failure, GaveUp, Kind, Outcome, Verdict

CALL = "samekey.call"
"""Where a request's extensions keep its call, so that redirects and auth legs find it."""


@dataclass(frozen=True, slots=True, repr=False)
class Attempt:
    """One exchange with the server.

    Attributes:
        number: Counted from 1 over the whole call.
        kind: Why it was sent: first, retry, poll, or a follow-up of httpx's own (auth, redirect).
        started: Seconds after the call began.
        elapsed: Seconds until the answer was read or the attempt had failed.
        status: HTTP status, or None without an answer. A cut answer has both a status and an error.
        verdict: What the answer means for the key; None without a complete answer.
        failure: How it failed; None with a complete answer.
        error: Name of the exception class.
        message: Text of the exception.
        open: Whether it may have run and has no final answer.
    """

    number: int
    kind: Kind
    started: float
    elapsed: float
    status: int | None = None
    verdict: Verdict | None = None
    failure: Failure | None = None
    error: str | None = None
    message: str | None = None
    open: bool = False

    def __repr__(self) -> str:
        parts = (self.kind, self.status, self.error or self.verdict, f"{self.elapsed:.3f} s", self.open and "open")
        return f"Attempt({self.number}, {', '.join(str(part) for part in parts if part)})"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """Everything known about one call.

    Attributes:
        key: The key that was sent; None for an unkeyed request.
        name: Name of the operation, if it has one.
        outcome: What became of the operation, earlier calls included.
        replayed: True or False if the server marked its answer; None if it said nothing.
        source: Where the answer came from: "network" or "journal".
        recorded: Whether the journal has the answer; None without a journal.
        supported: False if the server said that it ignores keys; None if it said nothing.
        attempts: The attempts of this call, oldest first; empty if nothing was sent.
        elapsed: Seconds the call took.
        gave_up: Which limit ended the call: "attempts", "deadline", "retry_after", "budget" or "retry_off".
        retry_after: Seconds the server's last answer asked to wait, if it did.
    """

    key: str | None
    name: str | None
    outcome: Outcome
    replayed: bool | None = None
    source: Literal["network", "journal"] = "network"
    recorded: bool | None = None
    supported: bool | None = None
    attempts: tuple[Attempt, ...] = ()
    elapsed: float = 0.0
    gave_up: GaveUp | None = None
    retry_after: float | None = None

    def __repr__(self) -> str:
        key = f"<{digest(self.key)}>" if self.key else None
        gave_up = f", gave_up={str(self.gave_up)!r}" if self.gave_up else ""
        return (
            f"Report(key={key}, name={self.name!r}, outcome={str(self.outcome)!r}, replayed={self.replayed}, "
            f"attempts={len(self.attempts)}{gave_up})"
        )

    def __str__(self) -> str:
        """A timeline of the call for people, one line for each attempt; the key is shown as a digest."""
        from ._timeline import as_text

        return as_text(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The same as a table, for `rich.print`."""
        from ._timeline import as_table

        return as_table(self, options.max_width, ascii_only=options.ascii_only)


def report(response_or_error: Any) -> Report | None:
    """What samekey knows about a response or an error.

    Args:
        response_or_error: A response of httpx or httpx2, one of samekey's errors, any error of httpx
            (`HTTPStatusError` included) that a samekey request ended in. A response that was redirected or
            authenticated on the way reports the whole call.

    Returns:
        The report, or None if the thing did not come from a samekey request.
    """
    for attribute in ("report", "samekey_report"):
        found = getattr(response_or_error, attribute, None)
        if isinstance(found, Report):
            return found
    response = getattr(response_or_error, "response", response_or_error)
    told = (getattr(response, "extensions", None) or {}).get(EXTENSION)
    if told is None:
        # Not `.request`, which raises while it is unset.
        request = getattr(response_or_error, "_request", None)
        told = (getattr(request, "extensions", None) or {}).get(CALL)
    return told.report() if told is not None and hasattr(told, "report") else None


def is_replayed(response: Any) -> bool:
    """Whether the server marked *response* as the stored answer of an earlier attempt (still a normal success).

    False also when the server said nothing, or when the response did not come from a samekey request.
    """
    found = report(response)
    return found is not None and found.replayed is True
