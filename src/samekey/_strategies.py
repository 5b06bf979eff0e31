"""Asking tenacity's strategies: how long to wait, and whether to stop. Their loop is not used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._decide import Again
    from ._exchange import Exchange
    from .policy import RetryPolicy


def ask(policy: RetryPolicy, again: Again, exchange: Exchange, error: BaseException, now: float) -> tuple[float, bool]:
    """Seconds to wait, and whether the network attempts are used up, as the strategies of *policy* say.

    A strategy sees what it would see in tenacity's own loop: the number of the attempt (of the poll, for `poll_wait`),
    the time since the start, and the error; an answer is shown as an `HTTPStatusError`.

    Raises:
        ValueError: A strategy gave a negative number or NaN.
        Exception: Whatever else a strategy raises.
    """
    from tenacity import RetryCallState

    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = exchange.polls + 1 if again.poll else exchange.tries
    state.idle_for = exchange.waited_for
    state.start_time = exchange.began
    state.set_exception((type(error), error, error.__traceback__))
    state.outcome_timestamp = now
    strategy: Any = policy.poll_wait if again.poll else policy.wait
    backoff = float(strategy(state))
    if math.isnan(backoff) or backoff < 0:
        raise ValueError(f"the wait strategy {strategy!r} gave {backoff}; it must give seconds, zero or more")
    state.upcoming_sleep = backoff
    return backoff, bool(not again.poll and policy.stop(state))
