"""(g) Outages, in simulated time: the clients are real and have their own defaults; the server and the clock are not.

The server can answer twice the usual load; everything beyond it gets a 503, as everything does during the outage. So
retries can keep a server down that has come back.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx_retries
import stamina
import tenacity
from httpx_tenacity.async_tenacious_transport import AsyncTenaciousTransport

import samekey
from samekey import _pause

RATE = 20
"""Operations a second."""
SPARE = 2.0
"""How much more the server can answer."""
DEAD = (10.0, 70.0)
"""Seconds of the outage."""
END = 130.0
FAULTS = 0.25


class Selector(selectors.DefaultSelector):
    """Does not wait: it sets the clock forward."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self.now += timeout
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """An event loop in simulated time."""

    def __init__(self) -> None:
        self.clock = Selector()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


@contextmanager
def simulated() -> Iterator[asyncio.Runner]:
    """Everybody who asks for the monotonic time gets the loop's."""
    made = Loop()
    real = time.monotonic, _pause.monotonic
    time.monotonic = _pause.monotonic = made.time
    try:
        with asyncio.Runner(loop_factory=lambda: made) as runner:
            yield runner
    finally:
        time.monotonic, _pause.monotonic = real


@dataclass
class Server(httpx.AsyncBaseTransport):
    """Answers in ten milliseconds, if it can."""

    down: Callable[[float], bool]
    seen: dict[int, int] = field(default_factory=dict)
    """Requests by the second."""
    served: dict[int, int] = field(default_factory=dict)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        second, tick = int(now), int(now * 10)
        self.seen[second] = self.seen.get(second, 0) + 1
        self.served[tick] = self.served.get(tick, 0) + 1
        full = self.served[tick] > RATE * SPARE / 10
        await asyncio.sleep(0.01)
        return httpx.Response(503 if full or self.down(now) else 201, request=request)


class Again(Exception):
    """A 5xx, for those who repeat after exceptions."""


Post = Callable[[int], Any]


def contenders() -> dict[str, Callable[[Server], tuple[httpx.AsyncClient, Post]]]:
    """Each with its defaults, a POST allowed; tenacity has none, so it has what its documentation shows most."""

    def plain(server: httpx.AsyncBaseTransport) -> tuple[httpx.AsyncClient, Post]:
        client = httpx.AsyncClient(transport=server, base_url="https://api.example.com")

        async def post(number: int) -> int:
            response = await client.post("/v1/charges", json={"n": number})
            return response.status_code

        return client, post

    def keyed(budget: Any) -> Callable[[Server], tuple[httpx.AsyncClient, Post]]:
        policy = samekey.RetryPolicy(budget=budget, unresolved_ttl=0)
        return lambda server: plain(samekey.AsyncIdempotentTransport(server, policy=policy))

    def decorated(decorate: Callable[[Any], Any]) -> Callable[[Server], tuple[httpx.AsyncClient, Post]]:
        def make(server: Server) -> tuple[httpx.AsyncClient, Post]:
            client, post = plain(server)

            async def checked(number: int) -> int:
                if (status := await post(number)) >= 500:
                    raise Again
                return int(status)

            return client, decorate(checked)

        return make

    retries = httpx_retries.Retry(allowed_methods=["POST"])
    return {
        "samekey": keyed(samekey.RetryBudget()),
        "samekey without budget": keyed(None),
        "httpx-retries": lambda server: plain(httpx_retries.RetryTransport(server, retry=retries)),
        "httpx-tenacity": lambda server: plain(AsyncTenaciousTransport.create(transport=server)),
        "stamina": decorated(stamina.retry(on=Again)),
        "tenacity": decorated(
            tenacity.retry(
                stop=tenacity.stop_after_attempt(5), wait=tenacity.wait_random_exponential(max=10), reraise=True
            )
        ),
    }


async def play(
    make: Callable[[Server], tuple[httpx.AsyncClient, Post]], server: Server, end: float
) -> dict[int, list[bool]]:
    """Operations begin evenly; by the second in which they began, whether they succeeded."""
    client, post = make(server)
    ended: dict[int, list[bool]] = {}

    async def one(number: int) -> None:
        try:
            done = await post(number) == 201
        except Exception:  # noqa: BLE001 - whichever way it failed
            done = False
        ended.setdefault(int(number / RATE), []).append(done)

    async with client, asyncio.TaskGroup() as group:
        for number in range(int(RATE * end)):
            group.create_task(one(number))
            await asyncio.sleep(1 / RATE)
    return ended


def total(name: str) -> dict[str, float]:
    """A minute without an answer: how much is sent for each operation, and how long it takes to recover."""
    first, last = DEAD
    server = Server(lambda now: first <= now < last)
    with simulated() as runner:
        ended = runner.run(play(contenders()[name], server, END))
    during = sum(server.seen.get(second, 0) for second in range(int(first), int(last)))
    recovered = next(
        (
            second
            for second in range(int(last), int(END))
            if all(all(ended[later]) for later in range(second, int(END)))
        ),
        int(END),
    )
    calm = next(
        second
        for second in range(int(last), int(END) + 300)
        if all(server.seen.get(later, 0) <= RATE * 1.2 for later in range(second, int(END) + 300))
    )
    return {
        "requests_per_operation": round(during / (RATE * (last - first)), 2),
        "peak_requests_a_second": max(server.seen.values()),
        "seconds_until_all_succeed": recovered - last,
        "seconds_until_load_is_usual": calm - last,
    }


def partial(name: str, seconds: float = 60.0) -> dict[str, float]:
    """A quarter of the requests fails, at random: what is sent, and how many operations get through."""
    draw = random.Random(11)
    server = Server(lambda now: draw.random() < FAULTS)
    with simulated() as runner:
        ended = runner.run(play(contenders()[name], server, seconds))
    done = [one for second in ended.values() for one in second]
    return {
        "requests_per_operation": round(sum(server.seen.values()) / len(done), 2),
        "succeeded_percent": round(100 * sum(done) / len(done), 2),
    }


def measure() -> dict[str, dict[str, dict[str, float]]]:
    """Both kinds, for everybody."""
    return {
        "total": {name: total(name) for name in contenders()},
        "partial": {name: partial(name) for name in contenders()},
    }
