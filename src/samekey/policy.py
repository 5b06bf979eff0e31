"""How often, how long and how patiently a call is repeated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._settings import check_number_of_seconds, check_seconds, check_size
from .budget import RetryBudget, SharedBudget

if TYPE_CHECKING:
    from datetime import timedelta

    from tenacity import RetryCallState

MiB = 1024 * 1024

Wait: TypeAlias = "Callable[[RetryCallState], float]"
Stop: TypeAlias = "Callable[[RetryCallState], bool]"


class _Late:
    """A tenacity strategy made at its first use, so that importing samekey does not import tenacity."""

    __slots__ = ("_make", "_strategy", "_text")

    def __init__(self, text: str, make: Callable[[], Callable[[Any], Any]]) -> None:
        self._text = text
        self._make = make
        self._strategy: Callable[[Any], Any] | None = None

    def __call__(self, state: RetryCallState) -> Any:
        if self._strategy is None:
            self._strategy = self._make()
        return self._strategy(state)

    def __repr__(self) -> str:
        return self._text

    def __reduce__(self) -> str:
        return _NAMES[self._text]


def _stop() -> Stop:
    from tenacity import stop_after_attempt

    return stop_after_attempt(5)


def _wait() -> Wait:
    from tenacity import wait_random_exponential

    return wait_random_exponential(multiplier=0.2, max=10)


def _poll_wait() -> Wait:
    from tenacity import wait_exponential, wait_random_exponential

    # Half of it fixed and half of it random keeps clients apart at the cap too.
    return wait_exponential(multiplier=0.1, max=2.5) + wait_random_exponential(multiplier=0.1, max=2.5)


DEFAULT_BUDGET = RetryBudget()
DEFAULT_STOP = _Late("stop_after_attempt(5)", _stop)
DEFAULT_WAIT = _Late("wait_random_exponential(multiplier=0.2, max=10)", _wait)
DEFAULT_POLL_WAIT = _Late("wait_exponential(0.1, max=2.5) + wait_random_exponential(0.1, max=2.5)", _poll_wait)
_NAMES = {
    repr(DEFAULT_STOP): "DEFAULT_STOP",
    repr(DEFAULT_WAIT): "DEFAULT_WAIT",
    repr(DEFAULT_POLL_WAIT): "DEFAULT_POLL_WAIT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Settings of the retries; frozen, and safe to share between clients, threads and processes.

    Args:
        stop: When to stop repeating: a tenacity ``stop_*`` strategy, asked after each *network attempt* that might be
            repeated (polls are not counted). Default ``stop_after_attempt(5)``.
        wait: Seconds between network attempts: a tenacity ``wait_*`` strategy. Default
            ``wait_random_exponential(multiplier=0.2, max=10)``: full jitter.
        poll_wait: Seconds before the next poll of a request that the server says is still running: a tenacity
            ``wait_*`` strategy. Default: 0.2 s doubling to 5 s, half of it random.
        total_timeout: Seconds for all attempts, polls, waits and body reads of one call. Default 60; None: no limit.
            Each attempt's own timeouts are cut to what is left.
        max_retry_after: The longest ``Retry-After``, in seconds, that is waited for. Default 60. A server that asks
            for more is neither waited for nor bothered early: the call ends, and the report has ``retry_after``.
        max_request_buffer: Bytes of a streamed request body that are kept, so that every attempt sends the same.
            Default 64 MiB. A longer body is sent once and never repeated.
        max_response_buffer: Bytes of a successful answer that are read before it is handed on, so that a connection
            that dies inside them is retried. Default 8 MiB; what comes after streams through.
        budget: How many retries an origin gets over all calls of a client: `RetryBudget` (the default), a
            `SharedBudget` to share its tokens between clients, or None for no such limit.
        unresolved_ttl: Seconds for which a call that ended unknown is remembered, so that an identical request
            without an operation does not become a second one. Default 120; 0 remembers nothing.
        on_unresolved: What that identical request does: ``"raise"`` (default) sends nothing and raises
            `OutcomeUnknown` again with the first key; ``"resume"`` goes on with the first key.

    Raises:
        ValueError: A time or size is out of range.
        TypeError: A setting has the wrong type, such as a number where a strategy is wanted.
    """

    stop: Stop = DEFAULT_STOP
    wait: Wait = DEFAULT_WAIT
    poll_wait: Wait = DEFAULT_POLL_WAIT
    total_timeout: float | timedelta | None = 60.0
    max_retry_after: float | timedelta = 60.0
    max_request_buffer: int = 64 * MiB
    max_response_buffer: int = 8 * MiB
    unresolved_ttl: float | timedelta = 120.0
    on_unresolved: Literal["raise", "resume"] = "raise"
    budget: RetryBudget | SharedBudget | None = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        for what, example in (
            ("stop", "tenacity.stop_after_attempt(5)"),
            ("wait", "tenacity.wait_fixed(1)"),
            ("poll_wait", "tenacity.wait_fixed(1)"),
        ):
            strategy = getattr(self, what)
            if not callable(strategy) or isinstance(strategy, type):
                raise TypeError(f"{what} must be a tenacity strategy such as {example}, not {strategy!r}")
        put = object.__setattr__
        put(self, "total_timeout", check_seconds("total_timeout", self.total_timeout))
        put(self, "max_retry_after", check_number_of_seconds("max_retry_after", self.max_retry_after, zero=True))
        put(self, "unresolved_ttl", check_number_of_seconds("unresolved_ttl", self.unresolved_ttl, zero=True))
        check_size("max_request_buffer", self.max_request_buffer)
        check_size("max_response_buffer", self.max_response_buffer)
        if not isinstance(self.budget, RetryBudget | SharedBudget | None):
            raise TypeError(f"budget must be a RetryBudget, a SharedBudget or None, not {type(self.budget).__name__}")
        if self.on_unresolved not in ("raise", "resume"):
            raise ValueError(f'on_unresolved must be "raise" or "resume", not {self.on_unresolved!r}')


DEFAULT = RetryPolicy()
