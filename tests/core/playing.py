"""Plays a driver's part to an `Exchange`: a clock that stands still unless it is told to move, and no network."""

from __future__ import annotations

from typing import Any

from samekey._decide import Again, Deliver, Facts, Raise, Reraise
from samekey._exchange import Exchange
from samekey._model import Failure, Reading, Verdict
from samekey._report import Report
from samekey._state import KeyState
from samekey._steps import Step, Wait

STATUS = {
    Verdict.OK: 201,
    Verdict.IN_PROGRESS: 409,
    Verdict.MISMATCH: 422,
    Verdict.ALREADY_DONE: 409,
    Verdict.KEY_SPENT: 409,
    Verdict.KEY_EXPIRED: 410,
    Verdict.KEY_MISSING: 400,
    Verdict.KEY_REFUSED: 400,
    Verdict.STORED_ERROR: 402,
    Verdict.CONFLICT: 409,
    Verdict.RATE_LIMITED: 429,
    Verdict.TRANSIENT: 503,
    Verdict.REFUSED: 402,
    Verdict.CHALLENGE: 401,
    Verdict.REDIRECT: 307,
    Verdict.MOVED: 302,
}
"""A status with which each verdict may come."""

ERRORS = {
    Failure.NEVER_SENT: "ConnectError",
    Failure.PERMANENT: "UnsupportedProtocol",
    Failure.UNKNOWN: "ReadTimeout",
    Failure.UNFORESEEN: "ZeroDivisionError",
    Failure.CANCELLED: "CancelledError",
}
"""An exception with which each failure may come."""


def made(key: str = "key-1") -> KeyState:
    """The state of a key that samekey made."""
    return KeyState(key, made_here=True)


def given(key: str = "key-1") -> KeyState:
    """The state of a key that the caller gave."""
    return KeyState(key, made_here=False)


class Play:
    """One call."""

    def __init__(
        self,
        state: KeyState | None = None,
        *,
        keyed: bool = True,
        repeatable: bool = False,
        retry: bool = True,
        replayable: bool = True,
        total: float | None = 60.0,
        tries: int = 5,
    ) -> None:
        self.exchange = Exchange(
            made() if state is None else state, keyed=keyed, repeatable=repeatable, retry=retry, replayable=replayable
        )
        self.tries = tries
        self.total = total
        self.now = 100.0
        self.exchange.start(self.now, total)

    @property
    def state(self) -> KeyState:
        return self.exchange.state

    @property
    def report(self) -> Report:
        return self.exchange.report(self.now)

    def send(self, *, takes: float = 0.5) -> None:
        """An attempt leaves; its end is to be told next."""
        self.exchange.sending(self.now, 1e9 + self.now)
        self.now += takes

    def answer(
        self,
        verdict: Verdict,
        status: int | None = None,
        *,
        retry_after: float | None = None,
        facts: Facts = Facts(),  # noqa: B008 - frozen
        **reading: Any,
    ) -> Step:
        """The attempt that runs is answered."""
        status = STATUS[verdict] if status is None else status
        return self.exchange.answered(status, Reading(verdict, **reading), self.now, facts, retry_after)

    def fail(self, failure: Failure = Failure.UNKNOWN, error: str | None = None, **more: Any) -> Step:
        """The attempt that runs has failed."""
        return self.exchange.failed(failure, error or ERRORS[failure], "it broke", self.now, Facts(), **more)

    def pace(self, step: Step, backoff: float = 1.0, *, longest_floor: float = 60.0, least: float = 0.0) -> Step:
        """The strategies speak; a wait passes at once."""
        assert isinstance(step, Again)
        step = self.exchange.paced(
            step,
            self.now,
            stopped=self.exchange.tries >= self.tries,
            backoff=backoff,
            longest_floor=longest_floor,
            least=least,
        )
        if isinstance(step, Wait):
            self.now += step.seconds
        return step

    def answers(self, verdict: Verdict, status: int | None = None, **more: Any) -> Step:
        """Send, and be answered."""
        self.send()
        return self.answer(verdict, status, **more)

    def fails(self, failure: Failure = Failure.UNKNOWN, error: str | None = None, **more: Any) -> Step:
        """Send, and fail."""
        self.send()
        return self.fail(failure, error, **more)

    def loses(self) -> None:
        """An attempt is lost, and the next one is due."""
        assert isinstance(self.pace(self.fails()), Wait)

    def follows(self) -> None:
        """Httpx sends its next leg."""
        self.exchange.start(self.now, self.total)


def told(step: Step) -> str:
    """An ending in a word or two."""
    match step:
        case Deliver():
            return f"return {step.outcome}"
        case Raise():
            return f"{step.error} {step.outcome}"
        case Reraise():
            return f"as it is {step.outcome}"
    return type(step).__name__
