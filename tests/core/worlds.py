"""A small world for properties: calls of one operation, a server that executes a key at most once, and faults.

Everything that may turn out one way or another is asked of `choose`, so the same world runs under Hypothesis (which
shrinks it) and under a seeded random source (which is fast). While it runs, each report is compared with the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from samekey._decide import Again, Deliver, Ending, Facts, Raise, Reraise
from samekey._exchange import Exchange
from samekey._model import Failure, GaveUp, Outcome, Reading, Verdict
from samekey._state import KeyState
from samekey._steps import SEND, Send, Step, Wait
from tests.core.playing import ERRORS

T = TypeVar("T")
V = Verdict

KEY = "the one key"
RETENTION = 60.0
"""Seconds for which the server of some worlds keeps a key."""
MARGIN = 10.0
CALM = 14
"""After so many requests nothing goes wrong any longer, so that every world ends."""
LONGEST_FLOOR = 60.0

NETWORK = {"never": Failure.NEVER_SENT, "permanent": Failure.PERMANENT, "lost before": Failure.UNKNOWN}
AT_THE_DOOR: dict[str, tuple[Verdict, tuple[int, ...]]] = {
    "challenge": (V.CHALLENGE, (401, 407)),
    "redirect": (V.REDIRECT, (307, 308)),
    "limited": (V.RATE_LIMITED, (429,)),
    "early": (V.RATE_LIMITED, (425,)),
    "refused at the door": (V.REFUSED, (404, 403, 422)),
    "key refused": (V.KEY_REFUSED, (400,)),
    "key missing": (V.KEY_MISSING, (400,)),
    "overloaded": (V.TRANSIENT, (503, 408, 500)),
    "mismatch": (V.MISMATCH, (422, 409)),
    "expired": (V.KEY_EXPIRED, (410,)),
}
BEHIND = ("broken", "refused", "slow", "copied", "conflict", "burnt", "moved", "unforeseen", "cancelled")
WHAT = (("ok",), tuple(NETWORK), BEHIND, tuple(AT_THE_DOOR))
TURNED_AWAY = {"challenge", "redirect", "limited"}


@dataclass
class Reply:
    """What the client hears of one request."""

    verdict: Verdict | None = None
    status: int | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    settles: bool = True
    retry_after: float | None = None
    failure: Failure | None = None


class World:
    """One operation and all that happens to it."""

    def __init__(self, choose: Callable[[Sequence[Any]], Any]) -> None:
        self.choose = choose
        self.now = 1000.0
        self.requests = 0
        # The server.
        self.effects = 0
        self.stored: str | None = None
        self.running = False
        self.arrived = False
        self.first_seen: float | None = None
        # The contract it keeps.
        self.interleaved: bool = choose((False, True))
        self.stores: bool = self.interleaved or choose((True, False))
        self.believe: bool = choose((False, True))
        self.forgets: bool = not self.interleaved and choose((False, True))
        self.stubborn: bool = choose((False, True))
        """What runs goes on running, and whoever asks is told so."""
        self.in_words: bool = choose((True, False))
        """It says in words that a request runs; or it answers with a bare 409."""
        self.plain = False
        """Nothing unexpected happens to the request in hand."""
        self.moved = False
        self.said_yes = False
        """An answer that said "done" was heard by this process."""

    def run(self) -> None:
        """Let it happen."""
        choose = self.choose
        state = KeyState(KEY, made_here=choose((True, False)))
        calls = [self.call(state) for _ in range(choose((1, 2, 3)))]
        if self.interleaved:
            while calls:
                going = choose(calls)
                if next(going, None) is None:
                    calls.remove(going)
            return
        for number in range(len(calls)):
            self.now += choose((0.0, 45.0, 70.0)) if number else 0.0
            if number and not self.forgets and choose((False, True)):  # another process takes over
                state = KeyState(KEY, made_here=False)
                self.said_yes = False
            for _ in self.call(state):
                pass

    # -- the client

    def call(self, state: KeyState) -> Iterator[str]:
        """One call, as a driver makes it."""
        choose = self.choose
        limit, total, retry = choose((2, 1, 3)), choose((60.0, 8.0, None)), choose((True, True, True, False))
        exchange = Exchange(state, keyed=True, repeatable=False, retry=retry)
        exchange.start(self.now, total)
        deadline = None if total is None else self.now + total
        network = conflicts = 0
        again: Again | None = None
        reply = Reply()
        step = self.age(exchange)
        while True:
            if isinstance(step, Send):
                assert retry or again is None, "repeated although retries are off"
                if again is None or not again.poll:
                    assert again is None or network < limit, "more network attempts than the stop strategy allows"
                    network += 1
                elif again.conflict:
                    conflicts += 1
                    assert conflicts <= 5, "more polls after a bare conflict than allowed"
                exchange.sending(self.now, self.now)
                assert state.key == KEY, "another key"
                yield "sent"
                reply = self.serve()
                yield "served"
                self.now += 0.5
                step = self.hear(exchange, reply)
            elif isinstance(step, Again):
                again, backoff = step, choose((1.0, 0.0, 20.0))
                step = exchange.paced(
                    again,
                    self.now,
                    stopped=network >= limit,
                    backoff=backoff,
                    longest_floor=LONGEST_FLOOR,
                    least=0.0,
                )
            elif isinstance(step, Wait):
                assert step.seconds >= (reply.retry_after or 0.0), "shorter than Retry-After"
                assert step.seconds <= LONGEST_FLOOR, "longer than the longest Retry-After"
                assert deadline is None or self.now + step.seconds < deadline, "past the total timeout"
                self.now += step.seconds
                yield "waited"
                step = self.age(exchange)
            else:
                assert isinstance(step, Deliver | Raise | Reraise)
                self.over(exchange, step, reply)
                follows = isinstance(step, Deliver) and reply.verdict in (V.CHALLENGE, V.REDIRECT)
                if not (follows and choose((True, False))):
                    return
                yield "returned"
                exchange.start(self.now, total)
                deadline = None if total is None else self.now + total
                again = None
                step = self.age(exchange)

    def age(self, exchange: Exchange) -> Step:
        limit = RETENTION - MARGIN if self.forgets else None
        return exchange.check_age(limit, exchange.state.age(self.now, self.now)) or SEND

    def hear(self, exchange: Exchange, reply: Reply) -> Step:
        if reply.failure is not None:
            error = ERRORS[reply.failure]
            return exchange.failed(reply.failure, error, "", self.now, Facts(), reply.status, reply.retry_after)
        assert reply.verdict is not None
        assert reply.status is not None
        reading = Reading(reply.verdict, **reply.reading)
        if reply.verdict is V.OK or (reply.verdict is V.ALREADY_DONE and self.believe):
            self.said_yes = True
        self.moved = self.moved or reply.verdict is V.MOVED
        if reply.verdict is V.OK and self.choose((True, False)):
            return exchange.succeeded(reply.status, self.now, reading)
        facts = Facts(settles=reply.settles, believe_done=self.believe)
        return exchange.answered(reply.status, reading, self.now, facts, reply.retry_after)

    # -- the truth

    def over(self, exchange: Exchange, ending: Ending, reply: Reply) -> None:
        """Compare what the call says with what has happened."""
        state, report = exchange.state, exchange.report(self.now)
        assert report.key == KEY, "another key"
        assert self.effects <= 1, "executed twice"
        assert report.gave_up is None or report.gave_up in GaveUp
        match report.outcome:
            case Outcome.NOT_SENT:
                assert not self.arrived, "not_sent, but a request got past the door"
                assert isinstance(ending, Raise)
                assert ending.error == "NotSent"
            case Outcome.REJECTED:
                assert not self.effects, "rejected, but it was executed"
                assert not self.running, "rejected, but it is being executed"
            case Outcome.EXECUTED:
                assert self.said_yes, "executed, but nobody said so"
                assert self.effects == 1, "executed, but it was not"
            case Outcome.UNKNOWN if isinstance(ending, Deliver):
                turned_away = reply.verdict in (V.CHALLENGE, V.REDIRECT, V.MOVED)
                used = not state.fresh(exchange.number) and not state.open and not reply.settles
                assert turned_away or used, "returned with an unknown outcome"
        if self.effects and not state.executed and state.made_here and not self.moved:
            assert state.open, "executed, but nothing is open"

    # -- the server

    def serve(self) -> Reply:
        """What becomes of one request."""
        self.requests += 1
        calm = self.requests > CALM
        self.plain = calm or (self.running and self.stubborn)
        what = "ok" if self.plain else self.choose(self.choose(WHAT))
        if what in NETWORK:
            return Reply(failure=NETWORK[what])
        self.arrived = self.arrived or what not in TURNED_AWAY
        if what in AT_THE_DOOR:
            verdict, statuses = AT_THE_DOOR[what]
            reply = self.says(verdict, self.choose(statuses), settles=False)
        elif what in ("unforeseen", "cancelled"):
            if self.choose((True, False)):
                self.execute("ok")
            return Reply(failure=Failure(what))
        else:
            reply = self.execute(what, calm=calm)
        return reply if self.plain or reply.failure is not None else self.on_the_way_back(reply)

    def on_the_way_back(self, reply: Reply) -> Reply:
        way = self.choose(("arrives", "arrives", "lost", "cut"))
        if way == "arrives":
            return reply
        status, retry_after = (None, None) if way == "lost" else (reply.status, reply.retry_after)
        self.arrived = True  # as far as the client can tell
        return Reply(failure=Failure.UNKNOWN, status=status, retry_after=retry_after)

    def says(self, verdict: Verdict, status: int, *, settles: bool = True, **reading: Any) -> Reply:
        retry_after = None
        if verdict is not V.OK and not self.plain:
            retry_after = self.choose((None, None, 3.0, 0.0, 30.0, 90.0))
            if status >= 400 and status not in (401, 407):
                reading["should_retry"] = self.choose((None, None, True, False))
        return Reply(verdict, status, reading, settles, retry_after)

    def execute(self, what: str, *, calm: bool = False) -> Reply:
        """Look the key up, and execute if it is new."""
        choose = self.choose
        self.arrived = True
        if self.first_seen is None:
            self.first_seen = self.now
        if self.forgets and self.now >= self.first_seen + RETENTION:
            self.stored, self.first_seen = None, self.now
        if self.running and (calm or not (self.stubborn or choose((True, False)))):
            self.running = False
            if choose((True, False)):
                self.perform("done")
        if self.running:
            if self.in_words:
                return self.says(V.IN_PROGRESS, choose((409, 202)))
            return self.says(V.CONFLICT, 409, empty=choose((True, False)))
        match self.stored:
            case "done":
                if choose((True, False)):
                    return self.says(V.OK, 200, replayed=choose((True, None)))
                return self.says(V.ALREADY_DONE, 409)
            case "refused":
                if choose((True, False)):
                    return self.says(V.STORED_ERROR, 402, replayed=True)
                return self.says(V.REFUSED, 402)
            case "broken":
                return self.says(V.STORED_ERROR, 500, replayed=True)
            case "burnt":
                return self.says(V.KEY_SPENT, 409)
        return self.first_time(what)

    def first_time(self, what: str) -> Reply:
        choose = self.choose
        match what:
            case "refused":
                self.stored = "refused" if self.stores else None
                return self.says(V.REFUSED, 402)
            case "burnt":
                self.stored = "burnt"
                return self.says(V.TRANSIENT, 500)
            case "broken":
                if choose((True, False)):
                    self.perform(choose(("done", "broken")))
                return self.says(V.TRANSIENT, choose((500, 408, 503)))
            case "slow":
                self.running = True
                return Reply(failure=Failure.UNKNOWN)
            case "copied":  # something on the way sent it twice, and we hear the second answer
                self.running = choose((True, False))
                if self.running:
                    return self.says(V.IN_PROGRESS, 409)
                self.perform("broken")
                return self.says(V.STORED_ERROR, 500, replayed=True)
            case "conflict":
                return self.says(V.CONFLICT, 409, empty=choose((False, True)))
            case "moved":
                if choose((True, False)):
                    self.perform("done")
                return self.says(V.MOVED, 302)
        self.perform("done")
        return self.says(V.OK, 201)

    def perform(self, stored: str) -> None:
        self.effects += 1
        self.stored = stored
