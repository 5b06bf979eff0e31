"""samekey against the API, over real sockets and a faulty network: both stores, both articles' flavours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import tenacity

import samekey
from samekey import Outcome
from samekey.sqlite import SQLiteJournal
from tests.e2e.api import CHARGES, Api, First, Gate, Stores, api_on, body
from tests.e2e.network import Network, network_before
from tests.storm.weather import Fault

POLICY = samekey.RetryPolicy(
    wait=tenacity.wait_fixed(0.02), poll_wait=tenacity.wait_fixed(0.05), stop=tenacity.stop_after_attempt(4)
)
DAY = 24 * 3600.0
RETENTION = replace(samekey.GENERIC, retention=DAY)


class Pair:
    """The API, a network before it, and samekey's clients."""

    def __init__(self, api: Api, network: Network, stack: ExitStack) -> None:
        self.api = api
        self.network = network
        self._stack = stack

    def client(self, *, read: float = 30.0, **settings: Any) -> httpx.Client:
        """A client whose requests go through the network, and that waits for an answer for *read* seconds."""
        plain = httpx.Client(base_url=self.network.url, timeout=httpx.Timeout(30.0, read=read), trust_env=False)
        return self._stack.enter_context(samekey.wrap(plain, **{"policy": POLICY, **settings}))

    def async_client(self) -> httpx.AsyncClient:
        """Its async twin; the caller closes it."""
        plain = httpx.AsyncClient(base_url=self.network.url, timeout=10.0, trust_env=False)
        return samekey.wrap(plain, policy=POLICY)


@pytest.fixture(params=["article-1", "article-2"])
def pair(request: pytest.FixtureRequest, stores: Stores) -> Iterator[Pair]:
    """Both flavours."""
    with ExitStack() as stack:
        api = stack.enter_context(api_on(stores.new(), flavour=request.param, retry_after=0, lease_seconds=1.0))
        network = stack.enter_context(network_before(api.url))
        yield Pair(api, network, stack)


def ids(answers: list[httpx.Response]) -> set[str]:
    """What the answers say was made."""
    return {answer.json()["id"] for answer in answers}


def charges(pair: Pair) -> set[str]:
    """What was made."""
    return {row["id"] for row in pair.api.rows("SELECT id FROM charges")}


def test_concurrent_duplicates(pair: Pair) -> None:
    """Twenty equal requests at once in one operation: one effect, and twenty times its answer."""

    async def send_all() -> list[httpx.Response]:
        async with pair.async_client() as client:
            with samekey.operation():
                return list(await asyncio.gather(*(client.post(CHARGES, json=body()) for _ in range(20))))

    answers = asyncio.run(send_all())

    assert {answer.status_code for answer in answers} == {201}
    assert ids(answers) == charges(pair)
    assert len(charges(pair)) == 1
    assert sum(not samekey.is_replayed(answer) for answer in answers) == 1


def test_double_click(pair: Pair) -> None:
    """The second click, from another process with the same key, waits for the first and gets its answer."""
    gate = pair.api.hooks["claimed"] = Gate()
    key = samekey.new_key()

    def click() -> httpx.Response:
        with samekey.operation(key=key):
            return pair.client(policy=replace(POLICY, total_timeout=30.0)).post(CHARGES, json=body(), timeout=30)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(click)
        gate.wait()
        second = pool.submit(click)
        seen = pair.network.requests
        while pair.network.requests < seen + 2:  # it has been told to wait, and asks again
            time.sleep(0.01)
        gate.open()
        answers = [first.result(), second.result()]

    assert ids(answers) == charges(pair)
    assert sorted(map(samekey.is_replayed, answers)) == [False, True]
    told = samekey.report(answers[1])
    assert told is not None
    assert str(told.attempts[0].verdict) == "in_progress"


@pytest.mark.parametrize(
    "fault",
    [
        Fault.DROP_AFTER,
        Fault.RESET_AFTER,
        Fault.CUT,
        Fault.STALL_AFTER,
        Fault.BAD_GATEWAY_AFTER,
        Fault.UNAVAILABLE_AFTER,
        Fault.GATEWAY_TIMEOUT,
    ],
)
def test_lost_answer(pair: Pair, fault: Fault) -> None:
    """The charge was made and its answer did not arrive whole: the retry brings it."""
    pair.network.script(fault)

    response = pair.client(read=1.0 if fault is Fault.STALL_AFTER else 30.0).post(CHARGES, json=body())

    told = samekey.report(response)
    assert told is not None
    assert (response.status_code, told.replayed, len(told.attempts)) == (201, True, 2)
    assert ids([response]) == charges(pair)


@pytest.mark.parametrize(
    "fault", [Fault.DROP_BEFORE, Fault.RESET_BEFORE, Fault.STALL_BEFORE, Fault.BAD_GATEWAY, Fault.UNAVAILABLE]
)
def test_lost_request(pair: Pair, fault: Fault) -> None:
    """The request did not arrive: the retry is the first that the server sees."""
    pair.network.script(fault)

    response = pair.client(read=1.0 if fault is Fault.STALL_BEFORE else 30.0).post(CHARGES, json=body())

    assert (response.status_code, samekey.is_replayed(response)) == (201, False)
    assert ids([response]) == charges(pair)


@pytest.mark.parametrize("fault", [Fault.TWICE, Fault.LATE_COPY, Fault.DRIP])
def test_copies(pair: Pair, fault: Fault) -> None:
    """A network that copies requests, or lets answers drip, changes nothing."""
    pair.network.script(then=fault)

    response = pair.client().post(CHARGES, json=body())

    assert response.status_code == 201
    assert ids([response]) == charges(pair)


def test_refusal_after_lost_answer(pair: Pair) -> None:
    """A declined card stays a refusal when its first answer is lost."""
    pair.network.script(Fault.DROP_AFTER)

    response = pair.client().post(CHARGES, json=body(card="tok_declined"))

    told = samekey.report(response)
    assert told is not None
    assert (response.status_code, told.outcome, told.replayed) == (402, Outcome.REJECTED, True)
    assert charges(pair) == set()


def test_mismatch(pair: Pair) -> None:
    """Another request under a used key is an error of its own, and is not executed."""
    client = pair.client()
    with samekey.operation(key="order-1"):
        client.post(CHARGES, json=body())

    with pytest.raises(samekey.KeyMismatch) as told, samekey.operation(key="order-1"):
        pair.client().post(CHARGES, json=body(amount=1))

    assert told.value.response.json()["code"] == "idempotency_key_mismatch"
    assert len(charges(pair)) == 1


def test_unknown_is_resolved(pair: Pair) -> None:
    """As long as no answer arrives the outcome is unknown; with its key, the operation ends well."""
    client = pair.client()
    pair.network.script(then=Fault.DROP_AFTER)
    with pytest.raises(samekey.OutcomeUnknown) as unknown:
        client.post(CHARGES, json=body())
    assert len(charges(pair)) == 1

    pair.network.script()
    with samekey.operation(key=unknown.value.key):
        response = client.post(CHARGES, json=body())

    assert samekey.is_replayed(response)
    assert ids([response]) == charges(pair)


def test_expired_key(pair: Pair, tmp_path: Path) -> None:
    """An unknown operation that is older than the server keeps keys is not sent again: it would be charged twice."""
    hours = [0.0]
    journal = SQLiteJournal(tmp_path / "journal.db", clock=lambda: time.time() + 3600 * hours[0])
    client = pair.client(journal=journal, dialect=RETENTION)
    pair.network.script(then=Fault.DROP_AFTER)
    with pytest.raises(samekey.OutcomeUnknown), samekey.operation("order-1:charge"):
        client.post(CHARGES, json=body())
    # A day later: the server has forgotten the key, and the network is well.
    hours[0] = 25.0
    pair.api.rows("DELETE FROM idempotency_keys RETURNING id")
    pair.network.script()

    with pytest.raises(samekey.KeyExpired), samekey.operation("order-1:charge"):
        client.post(CHARGES, json=body())

    journal.close()
    assert len(charges(pair)) == 1


def test_server_outstays_its_lease(pair: Pair) -> None:
    """A worker that hangs is taken over while samekey asks on; the money moves once."""
    gate = Gate()
    pair.api.hooks["claimed"] = First(gate)
    policy = replace(POLICY, stop=tenacity.stop_after_delay(30))

    response = pair.client(read=1.0, policy=policy).post(CHARGES, json=body())
    gate.open()

    assert response.status_code == 201
    assert pair.api.charge("another-key").status_code == 201
    assert ids([response]) < charges(pair)
    assert len(charges(pair)) == 2


def test_many_orders_through_any_weather(pair: Pair) -> None:
    """Each fault in turn, many orders at once: as many charges as orders, and each caller has its own."""
    faults = [fault for fault in Fault if fault not in {Fault.UNAUTHORIZED, Fault.TOO_MANY}] * 3
    pair.network.script(*faults)

    async def send_all() -> list[httpx.Response]:
        async with pair.async_client() as client:
            return list(
                await asyncio.gather(*(client.post(CHARGES, json=body(f"order-{n}"), timeout=2) for n in range(40)))
            )

    answers = asyncio.run(send_all())

    assert [answer.json()["order"] for answer in answers] == [f"order-{n}" for n in range(40)]
    assert ids(answers) == charges(pair)
    assert len(charges(pair)) == 40


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.TOO_MANY])
def test_turned_away(pair: Pair, fault: Fault) -> None:
    """A gateway that turns requests away executes nothing, and what is told leaves no doubt."""
    pair.network.script(then=fault)
    policy = replace(POLICY, max_retry_after=0.5)

    response = pair.client(policy=policy).post(CHARGES, json=body())

    told = samekey.report(response)
    assert told is not None
    assert (response.status_code, told.outcome) == (int(fault[:3]), Outcome.REJECTED)
    assert charges(pair) == set()
