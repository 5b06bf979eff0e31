"""The retry budget on the wire: what it stops, what it leaves alone, and who shares it (BR-62)."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import wait_fixed, wait_none

import samekey
from samekey import OutcomeUnknown, RetryBudget, RetryPolicy, SharedBudget
from samekey.events import CallFinished, GivenUp
from samekey.testing import faults
from tests.transport.harness import Api, Client, closed_port, on_httpx, raises, the

TEN = RetryBudget(capacity=10, per_success=0.5, per_second=0)


def policy(budget: RetryBudget | SharedBudget | None = TEN, **settings: Any) -> RetryPolicy:
    return RetryPolicy(budget=budget, wait=wait_none(), poll_wait=wait_none(), unresolved_ttl=0, **settings)


async def give_up(client: Client, count: int) -> list[OutcomeUnknown]:
    """So many calls, one after the other, all of which end unknown."""
    errors = []
    for number in range(count):
        with raises(OutcomeUnknown) as caught:
            await client.post(json={"n": number})
        errors.append(caught.value)
    return errors


@on_httpx
async def test_br_62_a_hundred_at_once(api: Api) -> None:
    """The server is down: at most 110 requests for 100 operations, and the errors say why there were no more."""
    api.server.script(then=faults.status(503))
    errors: list[OutcomeUnknown] = []
    async with api.client(policy=policy(), listen=True) as client:

        def operation(number: int) -> Any:
            async def call() -> None:
                with raises(OutcomeUnknown) as caught:
                    await client.post(json={"n": number})
                errors.append(caught.value)

            return call

        await api.together(*(operation(number) for number in range(100)))

    assert len(errors) == 100
    assert len(api.server.requests) <= 110
    stopped = [error for error in errors if the(error.report).gave_up == "budget"]
    assert len(stopped) >= 97
    assert all("budget" in str(error) for error in stopped)
    assert {event.why for event in api.events if isinstance(event, GivenUp)} <= {"budget", "attempts"}


@on_httpx
async def test_without_a_budget_the_wire_is_fuller(api: Api) -> None:
    """So it is the budget that has stopped the others."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=policy(None)) as client:
        errors = await give_up(client, 10)

    assert len(api.server.requests) == 50
    assert {the(error.report).gave_up for error in errors} == {"attempts"}


async def test_successes_refill(api: Api) -> None:
    """On the straight path and off it; two of them pay for one retry."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=policy(), listen=True) as slow, api.client(policy=policy()) as straight:
        for client in (slow, straight):
            api.server.script(then=faults.status(503))
            await give_up(client, 5)
            before = len(api.server.requests)
            await give_up(client, 1)
            assert len(api.server.requests) == before + 1
            api.server.script(then=faults.ok())
            for _ in range(4):
                await client.post()
            before = len(api.server.requests)
            api.server.script(then=faults.status(503))
            await give_up(client, 1)
            assert len(api.server.requests) == before + 3


async def test_polls_are_free(api: Api) -> None:
    """The server is at it: asking again costs it little, and the bucket nothing."""
    api.server.script(*[faults.in_progress()] * 20, faults.ok())
    async with api.client(policy=policy(RetryBudget(capacity=1, per_second=0))) as client:
        response = await client.post()

    assert len(the(samekey.report(response)).attempts) == 21


async def test_one_budget_for_two_clients(api: Api) -> None:
    """By hand: what one has spent the other cannot."""
    shared = policy(SharedBudget(TEN))
    api.server.script(then=faults.lost())
    async with api.client(policy=shared) as first, api.client(policy=shared) as second:
        await give_up(first, 3)
        errors = await give_up(second, 1)

    assert len(the(errors[0].report).attempts) == 1
    assert len(api.server.requests) == 3 + 10 + 1


async def test_each_client_has_its_own(api: Api) -> None:
    """Unless it is shared by hand, even under one policy."""
    mine = policy()
    api.server.script(then=faults.lost())
    async with api.client(policy=mine) as first, api.client(policy=mine) as second:
        await give_up(first, 3)
        errors = await give_up(second, 1)

    assert len(the(errors[0].report).attempts) == 5


@on_httpx
async def test_each_origin_has_its_own(api: Api) -> None:
    """One API that is down does not take the retries of another."""
    api.server.script(then=faults.status(503))
    down = closed_port()
    async with api.client(policy=policy(), origins="*") as client:
        for number in range(3):
            with raises(samekey.NotSent):
                await client.post(f"{down}/x", json={"n": number})
        errors = await give_up(client, 1)

    assert len(the(errors[0].report).attempts) == 5


async def test_nothing_sent_is_said_so(api: Api) -> None:
    """A refused connection, and no tokens: nothing can have happened, and that is what the error says."""
    async with api.client(policy=policy(RetryBudget(capacity=1, per_second=0)), base_url=closed_port()) as client:
        with raises(samekey.NotSent) as caught:
            await client.post()

    assert (the(caught.value.report).gave_up, len(the(caught.value.report).attempts)) == ("budget", 2)


async def test_unkeyed_requests_pay_too(api: Api) -> None:
    """A GET loads the server as much; it ends with its last answer."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=policy(RetryBudget(capacity=2, per_second=0)), listen=True) as client:
        response = await client.get()

    assert response.status_code == 503
    assert len(api.server.requests) == 3
    end = api.events[-1]
    assert isinstance(end, CallFinished)
    assert end.gave_up == "budget"


@pytest.mark.parametrize("status", [429, 503])
async def test_refusals_put_nothing_back(api: Api, status: int) -> None:
    """An answer that says "not now" is no success."""
    api.server.script(then=faults.status(status))
    one = RetryBudget(capacity=1, per_success=1, per_second=0)
    async with api.client(policy=policy(one)) as client:
        for _ in range(3):
            try:
                await client.post(extensions=samekey.options(key=samekey.new_key()))
            except OutcomeUnknown:
                assert status == 503

    assert len(api.server.requests) == 4


async def test_skipped_waits_count_as_waited(api: Api) -> None:
    """Under `no_waiting` the bucket fills as it would have while the calls had waited."""
    api.server.script(then=faults.status(503))
    limits = RetryPolicy(wait=wait_fixed(10), budget=RetryBudget(capacity=2, per_success=0, per_second=0.1))
    async with api.client(policy=limits) as client:
        errors = await give_up(client, 3)

    assert [the(error.report).gave_up for error in errors] == ["attempts"] * 3
