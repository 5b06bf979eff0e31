"""tenacity's strategies, and anybody's own: what they see, and what is made of what they say."""

from __future__ import annotations

import math
import random
import threading
from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
import tenacity as t

import samekey
from samekey._decide import Again, Raise
from samekey._model import Failure, Outcome, Verdict
from samekey._strategies import ask
from tests.core.playing import Play

RETRY = Again(Raise("OutcomeUnknown", Outcome.UNKNOWN))
POLL = Again(RETRY.ending, poll=True)
ERROR = httpx.ReadTimeout("slow")


def status_error(status: int = 503, **headers: str) -> httpx.HTTPStatusError:
    """An answer as strategies see it."""
    response = httpx.Response(status, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return httpx.HTTPStatusError("it broke", request=httpx.Request("POST", "https://h/"), response=response)


def asked(
    after: int = 1,
    error: BaseException = ERROR,
    again: Again = RETRY,
    *,
    polls: int = 0,
    elapsed: float = 0.0,
    **policy: Any,
) -> tuple[float, bool]:
    """What the strategies say after so many network attempts and polls."""
    play = Play()
    play.exchange.tries, play.exchange.polls = after, polls
    return ask(samekey.RetryPolicy(**policy), again, play.exchange, lambda: error, play.now + elapsed)


WAITS: list[tuple[Any, list[float], float]] = [
    # a strategy, the least it gives after attempts 1, 2 and 3, and by how much more it may
    (t.wait_none(), [0, 0, 0], 0),
    (t.wait_fixed(1.5), [1.5, 1.5, 1.5], 0),
    (t.wait_fixed(timedelta(seconds=2)), [2, 2, 2], 0),
    (t.wait_incrementing(start=1, increment=2), [1, 3, 5], 0),
    (t.wait_exponential(multiplier=0.5), [0.5, 1, 2], 0),
    (t.wait_random(1, 2), [1, 1, 1], 1),
    (t.wait_random_exponential(multiplier=1, max=8), [0, 0, 0], 8),
    (t.wait_full_jitter(multiplier=1, max=8), [0, 0, 0], 8),
    (t.wait_exponential_jitter(initial=1, jitter=1), [1, 2, 4], 1),
    (t.wait_chain(t.wait_fixed(1), t.wait_fixed(3)), [1, 3, 3], 0),
    (t.wait_combine(t.wait_fixed(1), t.wait_incrementing(1, 1)), [2, 3, 4], 0),
    (t.wait_fixed(1) + t.wait_random(0, 1), [1, 1, 1], 1),
    (t.wait_fixed(1) + t.wait_fixed(2) + t.wait_fixed(3), [6, 6, 6], 0),
    (sum([t.wait_fixed(1), t.wait_fixed(2)]), [3, 3, 3], 0),
    (t.wait_exception(lambda error: 7.0 if isinstance(error, httpx.ReadTimeout) else 0.0), [7, 7, 7], 0),
    (lambda state: state.attempt_number * 2, [2, 4, 6], 0),
    (lambda state: Decimal("0.5"), [0.5, 0.5, 0.5], 0),
]  # fmt: skip


@pytest.mark.parametrize(("strategy", "least", "more"), WAITS, ids=[type(row[0]).__name__ for row in WAITS])
def test_every_wait_strategy_is_asked_as_in_tenacity_s_own_loop(strategy: Any, least: list[float], more: float) -> None:
    """All of tenacity's, composed ones, and plain functions; as `wait` and as `poll_wait`."""
    for attempt, low in enumerate(least, 1):
        for seconds, _ in (
            asked(attempt, wait=strategy),
            asked(1, again=POLL, polls=attempt - 1, poll_wait=strategy),
        ):
            assert low <= seconds <= low + more
            assert type(seconds) is float


def test_all_of_tenacity_s_waits_and_stops_are_in_the_tables() -> None:
    """One that tenacity adds needs its row."""
    offered = {getattr(t, name) for name in dir(t) if name.startswith(("wait_", "stop_"))}
    shown = {type(row[0]) for row in WAITS} | {type(row[0]) for row in STOPS}

    assert {one if isinstance(one, type) else type(one) for one in offered} - shown == set()


EVENT = threading.Event()
EVENT.set()

STOPS: list[tuple[Any, list[bool]]] = [
    # a strategy, and whether it stops after attempts 1, 2 and 3, which take 10 s each; the next wait is 2 s
    (t.stop_never, [False, False, False]),
    (t.stop_after_attempt(2), [False, True, True]),
    (t.stop_after_delay(20), [False, True, True]),
    (t.stop_after_delay(timedelta(seconds=20)), [False, True, True]),
    (t.stop_before_delay(21), [False, True, True]),
    (t.stop_when_event_set(EVENT), [True, True, True]),
    (t.stop_when_event_set(threading.Event()), [False, False, False]),
    (t.stop_any(t.stop_after_attempt(3), t.stop_after_delay(20)), [False, True, True]),
    (t.stop_all(t.stop_after_attempt(3), t.stop_after_delay(20)), [False, False, True]),
    (t.stop_after_attempt(3) | t.stop_after_delay(20), [False, True, True]),
    (t.stop_after_attempt(3) & t.stop_after_delay(20), [False, False, True]),
    (lambda state: state.attempt_number > 2, [False, False, True]),
    (lambda state: None, [False, False, False]),
]


@pytest.mark.parametrize(("strategy", "expected"), STOPS, ids=[type(row[0]).__name__ for row in STOPS])
def test_every_stop_strategy_is_asked_as_in_tenacity_s_own_loop(strategy: Any, expected: list[bool]) -> None:
    """They see the attempt's number, the time since the start and the wait that would come; a poll is never stopped."""
    policy: dict[str, Any] = {"stop": strategy, "wait": t.wait_fixed(2), "poll_wait": t.wait_fixed(2)}

    found = [asked(attempt, elapsed=10.0 * attempt, **policy)[1] for attempt in (1, 2, 3)]

    assert found == expected
    assert [type(one) for one in found] == [bool] * 3
    assert not asked(3, again=POLL, elapsed=30.0, **policy)[1]


class TestWhatTheySee:
    """The state of a call, as in tenacity's own loop."""

    def seen(self, error: BaseException = ERROR, again: Again = RETRY, **more: Any) -> t.RetryCallState:
        states: list[t.RetryCallState] = []

        def strategy(state: t.RetryCallState) -> float:
            states.append(state)
            return 0.0

        asked(error=error, again=again, wait=strategy, poll_wait=strategy, **more)
        return states[0]

    def test_an_answer_is_an_http_status_error(self) -> None:
        """So a strategy for its status or its headers works on both."""
        error = status_error(429, retry_after="7")
        outcome = self.seen(error).outcome

        assert outcome is not None
        assert outcome.failed
        assert outcome.exception() is error

        def retry_after(state: t.RetryCallState) -> float:
            assert state.outcome is not None
            shown = state.outcome.exception()
            assert isinstance(shown, httpx.HTTPStatusError)
            return float(shown.response.headers["retry-after"])

        assert asked(error=error, wait=retry_after)[0] == 7.0
        of_status = t.wait_exception(lambda shown: 9.0 if shown.response.status_code == 429 else 0.0)  # type: ignore[attr-defined]
        assert asked(error=error, wait=of_status)[0] == 9.0

    def test_the_count_is_that_of_attempts_or_of_polls(self) -> None:
        """Each counted from one."""
        assert self.seen(after=3, polls=5).attempt_number == 3
        assert self.seen(again=POLL, after=3, polls=5).attempt_number == 6

    def test_time_is_that_of_the_call(self) -> None:
        """Since its start, and how much of it was spent waiting."""
        play = Play()
        play.loses()
        play.exchange.waited_for = 4.5
        states: list[t.RetryCallState] = []

        def stop(state: t.RetryCallState) -> bool:
            states.append(state)
            return False

        policy = samekey.RetryPolicy(stop=stop, wait=t.wait_fixed(2))
        ask(policy, RETRY, play.exchange, lambda: ERROR, play.now)

        (state,) = states
        assert state.seconds_since_start == 1.5
        assert (state.idle_for, state.upcoming_sleep) == (4.5, 2.0)

    def test_their_draws_can_be_repeated(self) -> None:
        """The strategies draw from `random`, which a test may seed (BR-44)."""
        draws = []
        for _ in range(2):
            random.seed(7)
            draws.append([asked(attempt)[0] for attempt in (1, 2, 3)])

        assert draws[0] == draws[1]


class TestBadValues:
    """A strategy of a user's own may say anything."""

    @pytest.mark.parametrize("value", [math.nan, -1, -0.001, -math.inf])
    def test_negative_and_nan_are_refused(self, value: float) -> None:
        """Neither is a time to wait; the message says which strategy it was."""
        with pytest.raises(ValueError, match=r"wait strategy .*must give seconds"):
            asked(wait=lambda _: value)
        with pytest.raises(ValueError, match="wait strategy"):
            asked(again=POLL, poll_wait=lambda _: value)

    @pytest.mark.parametrize("value", [None, "soon", timedelta(seconds=1), [1]])
    def test_what_is_no_number_is_refused(self, value: Any) -> None:
        """With Python's own error."""
        with pytest.raises((TypeError, ValueError)):
            asked(wait=lambda _: value)

    def test_what_a_strategy_raises_comes_out(self) -> None:
        """Whoever asked decides what it means."""

        def broken(state: t.RetryCallState) -> bool:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            asked(wait=broken)
        with pytest.raises(ZeroDivisionError):
            asked(stop=broken)

    @pytest.mark.parametrize("total", [60.0, None])
    def test_an_endless_wait_ends_the_call(self, total: float | None) -> None:
        """No timer takes it, and nobody waits for ever."""
        play = Play(total=total)
        step = play.fails(Failure.UNKNOWN)
        backoff, _ = ask(samekey.RetryPolicy(wait=lambda _: math.inf), RETRY, play.exchange, lambda: ERROR, play.now)
        play.pace(step, backoff)

        assert play.report.gave_up == "deadline"

    def test_zero_is_a_wait(self) -> None:
        """At once, but it still counts an attempt."""
        assert asked(wait=lambda _: 0) == (0.0, False)


def test_default_strategies_stop_after_five_network_attempts_and_never_a_poll() -> None:
    """Those of the policy, asked as they are."""
    assert [asked(after)[1] for after in (1, 4, 5)] == [False, False, True]
    assert not asked(5, again=POLL)[1]
    play = Play()
    play.answers(Verdict.IN_PROGRESS)
    assert 0.1 <= ask(samekey.RetryPolicy(), POLL, play.exchange, lambda: status_error(409), play.now)[0] <= 0.2
