"""The retry budget: how many retries an origin gets for how many successes, over all calls of a client.

Limits per call bound one caller's patience, not the load on a server that is down: a thousand calls with five attempts
each are five thousand requests. The budget bounds their sum. It is a token bucket per origin: a retry takes a token
before it waits, a success puts a part of one back, time puts back a little (so that a quiet client can always retry),
polls of a running request are free. An empty bucket ends a call as if its attempts were used up.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ._forks import forget_after_fork
from ._settings import check_amount

MAX_ORIGINS = 1024
"""Origins whose tokens are counted; the one longest unused gives way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """Settings of a retry budget; frozen, the tokens are counted elsewhere (see `SharedBudget`).

    Args:
        capacity: Tokens of a full bucket: how many retries a healthy client may spend at once. Default 50.
        per_success: Tokens that a success puts back. Default 0.5: up to a third of all requests may fail once
            before the bucket drains (each failure costs 1, each operation that ends well returns 0.5).
        per_second: Tokens that time puts back, whatever happens. Default 1.

    With the defaults a total outage of a minute costs at most 50 + 60 retries per origin, whatever the traffic: at
    ten operations a second that is below 1.2 requests per operation.

    Raises:
        ValueError: A number is negative, not finite, or the capacity is below 1.
        TypeError: A setting is no number.
    """

    capacity: float = 50.0
    per_success: float = 0.5
    per_second: float = 1.0

    def __post_init__(self) -> None:
        for what, least in (("capacity", 1.0), ("per_success", 0.0), ("per_second", 0.0)):
            check_amount(f"RetryBudget.{what}", getattr(self, what), least=least)


class SharedBudget:
    """The tokens of a budget, per origin; one object may serve several clients, threads and event loops.

    Each client counts for itself unless its policy is given one of these::

        budget = samekey.SharedBudget()
        policy = samekey.RetryPolicy(budget=budget)      # the same policy for every client that shares it

    A forked child starts with full buckets.

    Args:
        settings: Default ``RetryBudget()``.
    """

    def __init__(self, settings: RetryBudget | None = None) -> None:
        self.settings = RetryBudget() if settings is None else settings
        if not isinstance(self.settings, RetryBudget):
            raise TypeError(f"settings must be a samekey.RetryBudget, not {type(settings).__name__}")
        self.forget()
        forget_after_fork(self)

    def forget(self) -> None:
        """Fill all buckets."""
        self._lock = threading.RLock()
        self._tokens: dict[object, tuple[float, float]] = {}

    def withdraw(self, origin: object, now: float) -> bool:
        """Take a token for a retry at *now* (monotonic seconds); False if there is none."""
        with self._lock:
            tokens, now = self._level(origin, now)
            granted = tokens >= 1.0
            self._tokens.pop(origin, None)
            self._tokens[origin] = (tokens - 1.0 if granted else tokens, now)
            if len(self._tokens) > MAX_ORIGINS:
                del self._tokens[next(iter(self._tokens))]
            return granted

    def deposit(self, origin: object, now: float) -> None:
        """Put back what a success is worth. A full bucket is not kept, so a client without faults pays nothing."""
        if origin not in self._tokens:
            return
        with self._lock:
            tokens, now = self._level(origin, now)
            tokens += self.settings.per_success
            if tokens >= self.settings.capacity:
                self._tokens.pop(origin, None)
            else:
                self._tokens[origin] = (tokens, now)

    @property
    def in_use(self) -> bool:
        """Whether any bucket is less than full."""
        return bool(self._tokens)

    def tokens(self, origin: object, now: float) -> float:
        """How many retries are left for *origin*."""
        with self._lock:
            return self._level(origin, now)[0]

    def _level(self, origin: object, now: float) -> tuple[float, float]:
        """The tokens at *now*, and the moment up to which time has been counted: never twice for two threads."""
        tokens, then = self._tokens.get(origin, (self.settings.capacity, now))
        now = max(now, then)
        return min(self.settings.capacity, tokens + (now - then) * self.settings.per_second), now

    def __reduce__(self) -> tuple[object, ...]:
        # Another process counts for itself.
        return SharedBudget, (self.settings,)

    def __repr__(self) -> str:
        return f"SharedBudget({self.settings!r})"
