"""`RetryPolicy`: its defaults, what it refuses, and what its default strategies give."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import pytest
import tenacity

import samekey
from samekey import policy
from samekey.policy import DEFAULT_POLL_WAIT, DEFAULT_STOP, DEFAULT_WAIT, RetryPolicy


def after(attempt: int) -> tenacity.RetryCallState:
    """What a strategy sees after the *attempt*."""
    state = tenacity.RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = attempt
    return state


def test_defaults() -> None:
    """Those of the documentation."""
    found = RetryPolicy()

    assert (found.total_timeout, found.max_retry_after, found.unresolved_ttl) == (60.0, 60.0, 120.0)
    assert (found.max_request_buffer, found.max_response_buffer) == (64 * 1024**2, 8 * 1024**2)
    assert found.on_unresolved == "raise"
    assert found == policy.DEFAULT
    assert samekey.RetryPolicy is RetryPolicy


def test_default_stop_allows_five_network_attempts() -> None:
    """After the fifth it says stop."""
    assert [DEFAULT_STOP(after(attempt)) for attempt in (1, 4, 5, 6)] == [False, False, True, True]


def test_default_wait_is_full_jitter_up_to_ten_seconds() -> None:
    """Between zero and 0.2 s doubled each time, at most 10 s."""
    for attempt, top in ((1, 0.2), (2, 0.4), (4, 1.6), (7, 10.0), (50, 10.0)):
        delays = [DEFAULT_WAIT(after(attempt)) for _ in range(300)]
        assert all(0 <= delay <= top for delay in delays)
        assert max(delays) > top * 0.8
        assert min(delays) < top * 0.2


def test_default_poll_wait_doubles_to_five_seconds_and_is_jittered_at_its_cap() -> None:
    """0.2 s at first; half of it fixed and half of it random, so that polls neither hammer nor march in step."""
    for poll, top in ((1, 0.2), (2, 0.4), (3, 0.8), (6, 5.0), (50, 5.0)):
        delays = [DEFAULT_POLL_WAIT(after(poll)) for _ in range(300)]
        assert all(top / 2 <= delay <= top for delay in delays)
        assert len(set(delays)) > 250
        assert max(delays) - min(delays) > top / 3


@pytest.mark.parametrize("wait", [DEFAULT_WAIT, DEFAULT_POLL_WAIT], ids=["wait", "poll_wait"])
def test_delays_are_spread_also_at_the_cap(wait: Any) -> None:
    """BR-44: a thousand delays at attempt 50 are spread, and attempt 5000 does not overflow."""
    delays = sorted(wait(after(50)) for _ in range(1000))
    top = 10.0 if wait is DEFAULT_WAIT else 5.0

    assert len(set(delays)) > 900
    assert sum(delay >= top * 0.999 for delay in delays) < 50
    middle = sum(delays) / 1000
    assert delays[250] < middle < delays[750]
    assert 0 <= wait(after(5000)) <= top


@pytest.mark.parametrize("strategy", [DEFAULT_STOP, DEFAULT_WAIT, DEFAULT_POLL_WAIT], ids=repr)
def test_default_strategies_say_what_they_are(strategy: Any) -> None:
    """Before their first use too, when tenacity need not be loaded yet; copies and pickles are the same object."""
    assert repr(strategy).startswith(("stop_after_attempt(5)", "wait_"))
    assert pickle.loads(pickle.dumps(strategy)) is strategy
    assert copy.copy(strategy) is copy.deepcopy(strategy) is strategy


def test_policies_are_frozen_and_travel() -> None:
    """Safe to share between clients, threads and processes."""
    found = RetryPolicy(stop=tenacity.stop_after_attempt(2), total_timeout=None)
    back = pickle.loads(pickle.dumps(found))

    assert (back.total_timeout, back.stop.max_attempt_number, back.wait) == (None, 2, DEFAULT_WAIT)
    assert pickle.loads(pickle.dumps(RetryPolicy())) == RetryPolicy()
    with pytest.raises(FrozenInstanceError):
        found.total_timeout = 5  # type: ignore[misc]


def test_times_may_be_timedeltas() -> None:
    """They are kept as seconds."""
    found = RetryPolicy(
        total_timeout=timedelta(minutes=2), max_retry_after=timedelta(seconds=1), unresolved_ttl=timedelta(0)
    )

    assert (found.total_timeout, found.max_retry_after, found.unresolved_ttl) == (120.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        *(
            ({what: value}, error, what)
            for what in ("total_timeout", "max_retry_after", "unresolved_ttl")
            for value, error in (
                (-1, ValueError),
                (-0.001, ValueError),
                (math.inf, ValueError),
                (math.nan, ValueError),
                (timedelta(seconds=-1), ValueError),
                ("60", TypeError),
                (True, TypeError),
            )
        ),
        ({"total_timeout": 0}, ValueError, "above zero"),
        ({"max_retry_after": None}, TypeError, "max_retry_after"),
        ({"unresolved_ttl": None}, TypeError, "unresolved_ttl"),
        *(
            ({what: value}, error, what)
            for what in ("max_request_buffer", "max_response_buffer")
            for value, error in ((-1, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError))
        ),
        *(
            ({what: value}, TypeError, f"{what} must be a tenacity strategy such as")
            for what, of in (
                ("stop", tenacity.stop_after_attempt), ("wait", tenacity.wait_fixed), ("poll_wait", tenacity.wait_none)
            )
            for value in (5, None, "5", of)
        ),
        ({"on_unresolved": "ignore"}, ValueError, "on_unresolved"),
        ({"on_unresolved": None}, ValueError, "on_unresolved"),
    ],
)  # fmt: skip
def test_bad_settings(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """Each is refused where it is made, and the message names it; a strategy's bare class is no strategy."""
    with pytest.raises(error, match=words):
        RetryPolicy(**settings)


def test_settings_are_keyword_only() -> None:
    """Two numbers in a row would say nothing."""
    with pytest.raises(TypeError):
        RetryPolicy(tenacity.stop_never)  # type: ignore[call-arg]
