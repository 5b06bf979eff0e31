"""Asking tenacity's strategies: how long to wait, and whether to stop. Their loop is not used."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._decide import Again
    from ._exchange import Exchange
    from .policy import RetryPolicy


@cache
def _state_class() -> Any:
    """Tenacity's own, but its `outcome` is made when a strategy looks at it: hardly any does."""
    from tenacity import Future, RetryCallState

    class State(RetryCallState):
        error: Callable[[], BaseException]
        _outcome: Future | None = None

        @property
        def outcome(self) -> Future | None:
            if self._outcome is None:
                self._outcome = Future(self.attempt_number)
                self._outcome.set_exception(self.error())
            return self._outcome

        @outcome.setter
        def outcome(self, made: Future | None) -> None:
            self._outcome = made

    return State


def ask(
    policy: RetryPolicy, again: Again, exchange: Exchange, error: Callable[[], BaseException], now: float
) -> tuple[float, bool]:
    """Seconds to wait, and whether the network attempts are used up, as the strategies of *policy* say.

    A strategy sees what it would see in tenacity's own loop: the number of the attempt (of the poll, for `poll_wait`),
    the time since the start, and the error; an answer is shown as an `HTTPStatusError`.

    Raises:
        ValueError: A strategy gave a negative number or NaN.
        Exception: Whatever else a strategy raises.
    """
    state = _state_class()(None, None, (), {})
    state.attempt_number = exchange.polls + 1 if again.poll else exchange.tries
    state.idle_for = exchange.waited_for
    state.start_time = exchange.began
    state.error = error
    state.outcome_timestamp = now
    strategy: Any = policy.poll_wait if again.poll else policy.wait
    backoff = float(strategy(state))
    if math.isnan(backoff) or backoff < 0:
        raise ValueError(f"the wait strategy {strategy!r} gave {backoff}; it must give seconds, zero or more")
    state.upcoming_sleep = backoff
    return backoff, bool(not again.poll and policy.stop(state))
