"""What does not grow: memory with the operations, cost with the attempts; and without a listener nothing is told."""

from __future__ import annotations

import gc
import sys
from itertools import pairwise
from typing import Any

import pytest
from tenacity import stop_after_attempt, stop_never, wait_none

import samekey
from samekey import OutcomeUnknown, RetryPolicy, events
from samekey._memory import MAX_KEYS, MAX_UNRESOLVED
from samekey.testing import LedgerServer
from tests.transport.harness import Api, Client, on, raises

OPERATIONS = 20_000


def answering(api: Api, status: int = 201) -> Any:
    """A transport without a network."""
    stream = api.httpx.ByteStream(b'{"id": "ch_1"}')
    return api.inner(lambda request: api.httpx.Response(status, stream=stream))


async def held_after(client: Client, count: int) -> int:
    """Blocks of memory that are held after so many operations."""
    for _ in range(count):
        await client.post(content=b"x")
    gc.collect()
    return sys.getallocatedblocks()


@on("sync", "asyncio", libraries=["httpx"])
async def test_memory_is_constant_in_the_number_of_operations(api: Api) -> None:
    """Nothing is kept of an operation that is over: what grows by less than a block for each is noise."""
    async with api.client(transport=answering(api)) as client:
        before = await held_after(client, 500)
        after = await held_after(client, OPERATIONS)

    assert after - before < OPERATIONS / 20


@on("sync", libraries=["httpx"])
async def test_memory_of_what_is_unresolved_is_bounded(api: Api) -> None:
    """Unknown outcomes and the caller's own keys are remembered, but not for ever more of them."""
    policy = RetryPolicy(stop=stop_after_attempt(1))
    transport = api.transport(answering(api, 503), policy=policy)
    async with api.client(transport=api.inner(lambda _: None)) as client:
        client.raw._transport = transport
        for number in range(MAX_UNRESOLVED + 500):
            with raises(OutcomeUnknown):
                await client.post(content=b"%d" % number)
        for number in range(MAX_KEYS + 500):
            with raises(OutcomeUnknown):
                await client.post(content=b"x", extensions=samekey.options(key=f"key-{number}"))

    memory = transport.engine.memory
    assert sum(map(len, memory.unresolved.values())) == MAX_UNRESOLVED
    assert len(memory.keys) == MAX_KEYS


@on("sync", libraries=["httpx"])
@pytest.mark.parametrize("listen", [False, True])
async def test_each_attempt_costs_the_same(api: Api, listen: bool) -> None:
    """Counted in function calls: the two-hundredth attempt is no dearer than the second."""
    counts: list[int] = []
    seen = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal seen
        seen += event == "call"

    def answer(request: Any) -> Any:
        counts.append(seen)
        return api.httpx.Response(503 if len(counts) < 200 else 201, stream=api.httpx.ByteStream(b"{}"))

    policy = RetryPolicy(stop=stop_never, wait=wait_none(), budget=None)
    async with api.client(transport=api.inner(answer), policy=policy, listen=listen) as client:
        sys.setprofile(count)
        try:
            await client.post()
        finally:
            sys.setprofile(None)

    costs = [after - before for before, after in pairwise(counts[2:])]
    assert max(costs) <= min(costs) * 1.2


async def test_without_a_listener_nothing_is_told(
    api: Api, server: LedgerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one event is made, whatever happens."""
    from samekey.testing import faults

    def fail(*_: Any) -> None:
        raise AssertionError("told")

    monkeypatch.setattr(events, "tell", fail)
    server.script(faults.status(503), faults.in_progress(), faults.ok(), faults.mismatch())
    async with api.client(policy=RetryPolicy(wait=wait_none(), poll_wait=wait_none())) as client:
        await client.post()
        with raises(samekey.KeyMismatch):
            await client.post()
