"""A service and its callers on a fake clock: the pure core with the default policy, thousands of calls, no I/O.

Calls start evenly; each attempt is answered at once. What counts is who may retry, and when.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from samekey import RetryBudget, RetryPolicy, SharedBudget
from samekey._decide import UNKNOWN, Again, Facts
from samekey._exchange import Exchange
from samekey._model import GaveUp, Outcome, Reading, Verdict
from samekey._state import KeyState
from samekey._steps import Wait
from samekey._strategies import ask

OK = Reading(Verdict.OK)
BROKEN = Reading(Verdict.TRANSIENT)
ORIGIN = (b"https", b"api.example.com", None)
UNAVAILABLE = RuntimeError("503")


@dataclass
class Record:
    """What was seen: (second, requests) and how the calls ended."""

    calls: int = 0
    requests: int = 0
    per_second: dict[int, int] = field(default_factory=dict)
    executed: dict[int, int] = field(default_factory=dict)
    """Calls that were executed, by the second in which they began."""
    began: dict[int, int] = field(default_factory=dict)
    refused: int = 0
    """Calls that the budget ended."""

    @property
    def each(self) -> float:
        """Requests per call."""
        return self.requests / self.calls

    def share(self, first: int, last: int) -> float:
        """Of the calls that began in these seconds, how many were executed."""
        begun = sum(self.began.get(second, 0) for second in range(first, last))
        return sum(self.executed.get(second, 0) for second in range(first, last)) / begun


def simulate(
    healthy: Callable[[float], bool],
    *,
    rate: float,
    seconds: float,
    budget: RetryBudget | None = RetryBudget(),  # noqa: B008 - frozen
    policy: RetryPolicy | None = None,
) -> Record:
    """*rate* calls a second for so many seconds; a request at time t is answered 201 if ``healthy(t)``, else 503."""
    policy = policy or RetryPolicy()
    tokens = None if budget is None else SharedBudget(budget)
    record = Record()
    order = count()
    queue: list[tuple[float, int, Exchange]] = []

    def start(now: float) -> None:
        exchange = Exchange(KeyState("key", made_here=True), keyed=True, repeatable=False, retry=True)
        exchange.start(now, 60.0)
        record.calls += 1
        record.began[int(now)] = record.began.get(int(now), 0) + 1
        heapq.heappush(queue, (now, next(order), exchange))

    def send(now: float, exchange: Exchange) -> None:
        exchange.sending(now, now)
        record.requests += 1
        record.per_second[int(now)] = record.per_second.get(int(now), 0) + 1
        if healthy(now):
            exchange.succeeded(201, now, OK)
            record.executed[int(exchange.began)] = record.executed.get(int(exchange.began), 0) + 1
            if tokens is not None:
                tokens.deposit(ORIGIN, now)
            return
        again = exchange.answered(503, BROKEN, now, Facts(), None)
        assert isinstance(again, Again)
        backoff, stopped = ask(policy, again, exchange, lambda: UNAVAILABLE, now)
        step: Any = exchange.paced(again, now, stopped=stopped, backoff=backoff, longest_floor=60.0, least=0.0)
        if isinstance(step, Wait) and tokens is not None and not tokens.withdraw(ORIGIN, now):
            exchange.end(UNKNOWN, GaveUp.BUDGET)
            assert exchange.outcome is Outcome.UNKNOWN
            record.refused += 1
        elif isinstance(step, Wait):
            heapq.heappush(queue, (now + step.seconds, next(order), exchange))

    for number in range(int(rate * seconds)):
        now = number / rate
        while queue and queue[0][0] <= now:
            moment, _, exchange = heapq.heappop(queue)
            send(moment, exchange)
        start(now)
    while queue:
        moment, _, exchange = heapq.heappop(queue)
        send(moment, exchange)
    return record
