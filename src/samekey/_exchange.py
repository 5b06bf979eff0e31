"""The order of steps of one call: answers in, commands out.

One object per call, without I/O: the drivers tell it what happened (`start`, `answered`, `failed`, `paced`)
and do what it says next. Everything that must not be done in another order is ordered here: an attempt is open before
it is sent, its age is checked before every send, an answer is judged before anything else is sent.
"""

from __future__ import annotations

from typing import Any, Literal

from ._decide import (
    TURNED_AWAY,
    Again,
    Deliver,
    Ending,
    Facts,
    Limits,
    Raise,
    after_answer,
    after_failure,
    leaves_open,
    pace,
)
from ._holding import Holding
from ._model import Failure, GaveUp, Kind, Outcome, Reading
from ._report import Attempt, Report
from ._state import OTHERS, KeyState, serial
from ._steps import SEND, Step, Wait


class Exchange:
    """One call: its attempts, and what is known of its operation."""

    holding: Holding | None = None
    """The hold on a named operation; see `NamedExchange`."""
    outcome: Outcome | None = None
    replayed: bool | None = None
    supported: bool | None = None
    gave_up: GaveUp | None = None
    retry_after: float | None = None
    recorded: bool | None = None
    source: Literal["network", "journal"] = "network"
    tries = 0
    """Network attempts so far, the running one included."""
    polls = 0
    repeat = False
    """An attempt before the running one may have reached the server with this key."""
    waited_for = 0.0
    at_the_door = True
    """No attempt of this call got further than failing to send, or being turned away."""
    began = 0.0
    _sent_at = 0.0
    _conflict_polls = 0
    _answered = False
    _otherwise: Ending | None = None
    _kind = Kind.FIRST
    _known: Outcome | None = None
    _number = 0
    _deadline: float | None = None

    def __init__(self, state: KeyState, *, keyed: bool, repeatable: bool, retry: bool, replayable: bool = True) -> None:
        self.state = state
        self.keyed = keyed
        self.repeatable = repeatable
        self.retry = retry
        self.replayable = replayable
        self.number = next(serial)
        self._log: list[tuple[Any, ...]] = []

    def start(self, now: float, total_timeout: float | None) -> None:
        """Begin the call, or go on with it when httpx sends its next leg (then the total time starts again)."""
        if self._log:
            self._kind = Kind.FOLLOW_UP
            self.outcome = self.gave_up = self.retry_after = None
        else:
            self.began = now
        self._deadline = None if total_timeout is None else now + total_timeout

    def without_key(self) -> None:
        """Httpx goes on with a request that carries no key (the GET after a 303); the operation's outcome stands."""
        operation = self.state
        self._known = self.outcome
        self.keyed = False
        self.repeatable = True
        self.state = KeyState(operation.key, made_here=True, name=operation.name, scope=operation.scope)

    def remaining(self, now: float) -> float | None:
        """Seconds left of the total timeout; None without one."""
        return None if self._deadline is None else self._deadline - now

    def sending(self, now: float, wall: float) -> None:
        """An attempt is about to be sent; from here on it is open."""
        self._number = next(serial)
        self._sent_at = now
        if self._kind is Kind.POLL:
            self.polls += 1
        else:
            self.tries += 1
        state = self.state
        state.open[self._number] = ""
        self.repeat = bool(state.reached)
        state.reached.add(self.number)
        if state.first_sent is None:
            state.first_sent = (now, wall)

    def answered(self, status: int, reading: Reading, now: float, facts: Facts, retry_after: float | None) -> Step:
        """A complete answer was read. *facts* has what the dialect says; the rest is filled in here."""
        self._answered = True
        if status not in TURNED_AWAY:
            self.at_the_door = False
        facts = self._facts(facts)
        still_open = leaves_open(reading, status, facts)
        self._close("HTTPStatusError" if still_open else None)
        self._note(now, status, reading.verdict, None, None, None, still_open)
        self._heard(reading, retry_after)
        return self.limited(after_answer(reading, status, facts))

    def succeeded(self, status: int, now: float, reading: Reading) -> Step:
        """The short way through `answered` for a plain success."""
        self.at_the_door = False
        self.state.open.pop(self._number, None)
        self._note(now, status, reading.verdict)
        self._heard(reading, None)
        return self.end(_EXECUTED)

    def _heard(self, reading: Reading, retry_after: float | None) -> None:
        if self._known is None:  # else this answer is not about the operation
            self.replayed = reading.replayed
        self.retry_after = retry_after
        if reading.supported is not None:
            self.supported = reading.supported

    def failed(
        self,
        failure: Failure,
        error: str,
        message: str | None,
        now: float,
        facts: Facts,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> Step:
        """The attempt ended without a complete answer; *status* is that of an answer that was cut."""
        sent = failure not in (Failure.NEVER_SENT, Failure.PERMANENT)
        if sent:
            self.at_the_door = False
        facts = self._facts(facts)
        self._close((error if failure is Failure.UNKNOWN else "TransportError") if sent else None)
        if not sent and self.at_the_door and not self._answered:
            self._unsend()
        self._note(now, status, None, failure, error, message, sent)
        self.retry_after = retry_after
        return self.limited(after_failure(failure, facts))

    def _unsend(self) -> None:
        """Nothing of this call has left: the key is as it was before."""
        self.state.reached.discard(self.number)
        if not self.state.reached:
            self.state.first_sent = None

    def _facts(self, said: Facts) -> Facts:
        state = self.state
        return Facts(
            self.keyed,
            self.repeatable,
            state.fresh(self.number),
            state.open_besides(self._number),
            self.at_the_door,
            state.same_bytes,
            said.settles,
            said.believe_done,
            self.supported is False,
        )

    def _close(self, still_open: str | None) -> None:
        # Taken out first, so that the newest ended attempt stands last.
        self.state.open.pop(self._number, None)
        if still_open is not None:
            self.state.open[self._number] = still_open

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The attempts that have ended, oldest first; made when somebody asks."""
        return tuple(Attempt(number, *row) for number, row in enumerate(self._log, 1))

    @property
    def last_attempt(self) -> Attempt:
        """The newest of them."""
        return Attempt(len(self._log), *self._log[-1])

    def _note(self, now: float, *what: Any) -> None:
        self._log.append((self._kind, self._sent_at - self.began, now - self._sent_at, *what))

    def limited(self, step: Again | Ending) -> Step:
        """*step*, unless the call must not repeat anything at all."""
        if not isinstance(step, Again):
            return self.end(step)
        if not self.retry:
            return self.end(step.ending, GaveUp.RETRY_OFF)
        if not self.replayable:
            return self.end(step.ending)
        return step

    def paced(
        self, again: Again, now: float, *, stopped: bool, backoff: float, longest_floor: float, least: float
    ) -> Step:
        """The strategies have spoken: *stopped* and *backoff* are theirs, *least* is the dialect's shortest wait."""
        backoff = max(backoff, least)
        limits = Limits(
            stopped, backoff, self.retry_after or 0.0, longest_floor, self.remaining(now), self._conflict_polls
        )
        verdict = pace(again, limits)
        if isinstance(verdict, GaveUp):
            return self.end(again.ending, verdict)
        self._otherwise = again.ending
        self.next_kind(Kind.POLL if again.poll else Kind.RETRY)
        self._conflict_polls += again.conflict
        return Wait(verdict)

    def too_late(self, now: float) -> Step | None:
        """Draining an answer and waiting may have used up the time after all; then nothing more is sent."""
        left = self.remaining(now)
        if left is None or left > 0 or self._otherwise is None:
            return None
        return self.end(self._otherwise, GaveUp.DEADLINE)

    @property
    def last_status(self) -> int | None:
        """Status of the last attempt, if it was answered."""
        return self._log[-1][3] if self._log else None

    def next_kind(self, kind: Kind) -> None:
        """Why the next attempt is sent."""
        self._kind = kind

    @property
    def kind(self) -> Kind:
        """Why the newest attempt was sent, or the next one will be."""
        return self._kind

    @property
    def running(self) -> int:
        """The number of the newest attempt among all of the process."""
        return self._number

    def check_age(self, age_limit: float | None, age: float) -> Step | None:
        """Refuse to send a key that the server may have forgotten: it would execute again."""
        if age_limit is None or age <= age_limit or not self.keyed:
            return None
        return self.end(Raise("KeyExpired", Outcome.UNKNOWN))

    def first_step(self) -> Step:
        """What comes before the first send of a leg: nothing."""
        return SEND

    def next_step(self) -> Step:
        """What comes after a wait."""
        return SEND

    def forget_number(self) -> None:
        """The call is over: for all that come after it, it is one of the others."""
        if self.number in self.state.reached:
            self.state.reached.add(OTHERS)
            self.state.reached.discard(self.number)

    def reopen(self, error: str) -> None:
        """The answer was handed on, and then broke off: the caller has it in part, so it counts as open again."""
        self.state.open[self._number] = error

    def refuse_hop(self) -> Raise:
        """A redirect leads where the request must not be repeated."""
        untouched = self.at_the_door and self.state.fresh(self.number) and not self.state.open
        refused = Raise("NotSent", Outcome.NOT_SENT) if untouched else Raise("OutcomeUnknown", Outcome.UNKNOWN)
        self.end(refused)
        return refused

    def end(self, ending: Ending, gave_up: GaveUp | None = None) -> Step:
        """Close the call: settle the operation if the ending does, and fold the outcome."""
        state = self.state
        if ending.outcome is Outcome.EXECUTED:
            state.executed = True
        if ending.outcome is Outcome.UNKNOWN and isinstance(ending, Raise) and self.keyed:
            self._keep_open()
        if state.open and ending.outcome in (Outcome.EXECUTED, Outcome.REJECTED):
            state.settle()
        self.gave_up = gave_up
        self.outcome = self._known or (Outcome.EXECUTED if state.executed else ending.outcome)
        return ending

    def _keep_open(self) -> None:
        """An unknown outcome leaves something open, so that it is remembered: here, an answer that proved nothing."""
        state = self.state
        if state.made_here and state.reached and not state.open:
            state.open[self._number] = "TransportError" if self.last_status is None else "HTTPStatusError"

    def report(self, now: float) -> Report:
        """Everything known about the call so far."""
        state = self.state
        return Report(
            key=state.key or None,
            name=state.name,
            outcome=self.outcome or self._known or state.outcome(),
            replayed=self.replayed,
            source=self.source,
            recorded=self.recorded,
            supported=self.supported,
            attempts=self.attempts,
            elapsed=max(0.0, now - self.began),
            gave_up=self.gave_up,
            retry_after=self.retry_after,
        )


_EXECUTED = Deliver(Outcome.EXECUTED)
