"""The retry budget: its settings, its tokens, and what it does to an outage (BR-62)."""

from __future__ import annotations

import asyncio
import copy
import math
import os
import pickle
import random
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samekey
from samekey import RetryBudget, RetryPolicy, SharedBudget
from samekey.budget import MAX_ORIGINS
from tests.core.outage import simulate

HERE, THERE = "https://a.example", "https://b.example"


def spend(budget: SharedBudget, now: float = 0.0, origin: object = HERE) -> int:
    """Take all tokens; how many there were."""
    taken = 0
    while budget.withdraw(origin, now):
        taken += 1
    return taken


def pot(**settings: Any) -> SharedBudget:
    return SharedBudget(RetryBudget(**{"capacity": 10, "per_success": 0.5, "per_second": 0.0, **settings}))


# -- settings


def test_defaults() -> None:
    """Those of the documentation; frozen, and on by default."""
    found = RetryBudget()

    assert (found.capacity, found.per_success, found.per_second) == (50.0, 0.5, 1.0)
    assert RetryPolicy().budget == found
    assert pickle.loads(pickle.dumps(found)) == found
    with pytest.raises(AttributeError):
        found.capacity = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", ["capacity", "per_success", "per_second"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "9", None])
def test_wrong_settings(name: str, value: Any) -> None:
    """Refused where they are made, by name."""
    with pytest.raises((ValueError, TypeError), match=rf"RetryBudget\.{name} must be"):
        RetryBudget(**{name: value})


def test_a_bucket_that_holds_no_token_is_no_budget() -> None:
    """Who wants no retries says so elsewhere."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        RetryBudget(capacity=0)


def test_zero_refills_are_allowed() -> None:
    """Successes alone, or time alone."""
    assert RetryBudget(per_success=0, per_second=0).per_second == 0


@pytest.mark.parametrize("wrong", [10, RetryBudget, "budget"])
def test_a_shared_budget_wants_settings(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a samekey\.RetryBudget"):
        SharedBudget(wrong)


@pytest.mark.parametrize("wrong", [10, RetryBudget, True])
def test_a_policy_wants_a_budget(wrong: Any) -> None:
    with pytest.raises(TypeError, match="budget must be a RetryBudget, a SharedBudget or None"):
        RetryPolicy(budget=wrong)


def test_the_shared_one_says_what_it_is() -> None:
    assert repr(SharedBudget()) == f"SharedBudget({RetryBudget()!r})"
    assert samekey.SharedBudget is SharedBudget


def test_another_process_counts_for_itself() -> None:
    """Pickling a policy for a worker does not fail, and takes the settings along."""
    budget = pot()
    spend(budget)

    other = pickle.loads(pickle.dumps(RetryPolicy(budget=budget))).budget

    assert other.settings == budget.settings
    assert spend(other) == 10
    assert copy.deepcopy(budget).settings == budget.settings


# -- tokens


def test_a_full_bucket_is_spent_once() -> None:
    budget = pot()

    assert spend(budget) == 10
    assert not budget.withdraw(HERE, 1e9)


def test_successes_put_back_a_part() -> None:
    """Two of them pay for one retry, and never more than fits."""
    budget = pot()
    spend(budget)
    budget.deposit(HERE, 0)
    assert spend(budget) == 0
    budget.deposit(HERE, 0)
    assert spend(budget) == 1
    for _ in range(100):
        budget.deposit(HERE, 0)
    assert budget.tokens(HERE, 0) == 10


def test_time_puts_back_a_little() -> None:
    """So that a quiet client can always retry; what would overflow is lost."""
    budget = pot(per_second=2)
    spend(budget, 100.0)

    assert budget.tokens(HERE, 100.5) == 1
    assert spend(budget, 101.0) == 2
    assert budget.tokens(HERE, 1e6) == 10


def test_each_origin_has_its_own() -> None:
    budget = pot()

    assert spend(budget, origin=HERE) == spend(budget, origin=THERE) == 10
    budget.deposit(THERE, 0)
    budget.deposit(THERE, 0)
    assert (budget.tokens(HERE, 0), budget.tokens(THERE, 0)) == (0, 1)


def test_a_full_bucket_is_not_kept() -> None:
    """A client without faults pays nothing for the budget, and an old bucket goes away."""
    budget = pot()
    seen = []
    for step in (budget.deposit, budget.withdraw, budget.deposit, budget.deposit):
        step(HERE, 0)
        seen.append(budget.in_use)

    assert seen == [False, True, True, False]


def test_the_number_of_origins_is_bounded() -> None:
    """The one longest unused gives way, and is full again."""
    budget = pot()
    spend(budget, origin=0)
    for origin in range(1, MAX_ORIGINS):
        budget.withdraw(origin, 0)
    spend(budget, origin=0)  # used just now
    budget.withdraw(MAX_ORIGINS, 0)

    assert len(budget._tokens) == MAX_ORIGINS
    assert budget.tokens(0, 0) == 0
    assert budget.tokens(1, 0) == 10


def test_a_clock_that_lags_gives_nothing() -> None:
    """Of two threads that have read the clock, the later one may come first: no second is counted twice."""
    budget = pot(per_second=1)
    spend(budget, 100.0)
    for _ in range(50):
        budget.withdraw(HERE, 99.0)
        budget.withdraw(HERE, 100.0)

    assert budget.tokens(HERE, 100.0) == 0
    assert budget.tokens(HERE, 101.0) == 1


@given(
    st.floats(1, 100), st.floats(0, 2), st.floats(0, 50),
    st.lists(st.tuples(st.sampled_from(["withdraw", "deposit"]), st.floats(0, 100)), max_size=200),
)  # fmt: skip
def test_what_was_granted_is_what_was_there(
    capacity: float, per_success: float, per_second: float, steps: list[tuple[str, float]]
) -> None:
    """Whatever the order and the clocks: never more than capacity, deposits and elapsed time, never below zero."""
    budget = SharedBudget(RetryBudget(capacity=capacity, per_success=per_success, per_second=per_second))
    granted = deposits = 0
    for what, now in steps:
        if what == "deposit":
            budget.deposit(HERE, now)
            deposits += 1
        else:
            granted += budget.withdraw(HERE, now)
        assert 0 <= budget.tokens(HERE, now) <= capacity
    assert granted <= capacity + deposits * per_success + 100 * per_second + 1e-6


# -- threads, forks, event loops


def test_many_threads() -> None:
    """No token is lost or spent twice."""
    budget = pot(capacity=1000, per_success=1)
    granted: list[int] = []

    def work() -> None:
        mine = 0
        for number in range(500):
            mine += budget.withdraw(HERE, 0.0)
            if number % 5 == 0:
                budget.deposit(HERE, 0.0)
        granted.append(mine)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # 16 x 100 deposits; those that met a full bucket were lost.
    assert sum(granted) + budget.tokens(HERE, 0.0) <= 1000 + 1600
    assert sum(granted) >= 2000


def test_a_forked_child_starts_with_full_buckets() -> None:
    """And with a lock that is free, whoever held it in the parent."""
    budget = pot()
    spend(budget)
    with budget._lock:
        child = os.fork()
        if child == 0:
            os._exit(spend(budget))
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 10
    assert spend(budget) == 0


def test_any_event_loop_may_use_it() -> None:
    """There is nothing in it that belongs to one."""
    budget = pot()

    async def take() -> bool:
        return budget.withdraw(HERE, 0.0)

    assert all([asyncio.run(take()), asyncio.run(take()), anyio.run(take, backend="trio")])
    assert budget.tokens(HERE, 0.0) == 7


# -- outages, on a fake clock


def dead(now: float) -> bool:
    return False


@pytest.mark.parametrize("rate", [1000, 100, 10])
def test_a_total_outage_costs_a_fifth_at_most(rate: int) -> None:
    """A minute against a dead server, with everything by default: at most 1.2 requests per operation."""
    record = simulate(dead, rate=rate, seconds=60)

    assert record.calls == rate * 60
    assert 1 < record.each <= 1.2
    assert record.refused > record.calls / 2


def test_without_a_budget_it_costs_five_times() -> None:
    """So it is the budget that does it."""
    assert simulate(dead, rate=20, seconds=60, budget=None).each == 5


def test_a_quiet_client_is_not_touched() -> None:
    """One call a minute may use all of its attempts, also in an outage."""
    record = simulate(dead, rate=1 / 60, seconds=3600)

    assert (record.each, record.refused) == (5, 0)


@pytest.mark.parametrize("rate", [200, 10])
def test_recovery_within_seconds(rate: int) -> None:
    """The server comes back after half a minute: from the first second on, calls go through; then the bucket fills."""
    record = simulate(lambda now: now >= 30, rate=rate, seconds=60)

    assert record.share(0, 25) < 0.2
    assert record.share(30, 31) == 1
    assert max(record.per_second[second] for second in range(30, 60)) <= rate + 60
    blips = random.Random(5)
    record = simulate(lambda now: now >= 30 and blips.random() > 0.1, rate=rate, seconds=90)
    # A tenth of the requests fail from then on; within seconds there are tokens for nearly all of them.
    assert record.share(40, 90) > 0.99


@pytest.mark.parametrize("rate", [200, 10])
def test_a_quarter_of_faults_starves_nobody(rate: int) -> None:
    """Successes pay for the retries that 25 % faults need: hardly any call is given up for want of tokens."""
    faults = random.Random(7)
    record = simulate(lambda now: faults.random() >= 0.25, rate=rate, seconds=60)

    assert record.refused <= record.calls * 0.002
    assert record.share(0, 60) > 0.996
    assert 1.25 < record.each < 1.4


def test_above_a_third_the_budget_limits() -> None:
    """Half of the requests fail: then retries are bounded by half the successes, and a request is never sent thrice."""
    faults = random.Random(9)
    record = simulate(lambda now: faults.random() >= 0.5, rate=200, seconds=60)

    assert record.refused > 0
    assert record.each < 1.45
    assert simulate(lambda now: faults.random() >= 0.5, rate=50, seconds=60, budget=None).each > 1.8


def test_a_deposit_of_a_tenth_would_starve_healthy_traffic() -> None:
    """Why the default is a half: at 25 % faults a tenth per success ends nearly a fifth of the calls early."""
    faults = random.Random(7)
    small = RetryBudget(per_success=0.1)
    record = simulate(lambda now: faults.random() >= 0.25, rate=200, seconds=60, budget=small)

    assert record.share(0, 60) < 0.9
