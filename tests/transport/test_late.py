"""Time that runs out between two attempts, on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import httpx
import pytest
from tenacity import stop_after_attempt, wait_fixed

import samekey
import samekey.testing
from samekey import RetryPolicy, _pause
from samekey.dialects import Dialect
from samekey.journal import Claim, Ended, Entry, MemoryJournal


class Clock:
    """Stands still unless somebody waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def oversleep(self, seconds: float) -> float:
        """Wait five seconds longer than asked."""
        self.now += seconds + 5
        return 0.0


class SlowBody(httpx.SyncByteStream):
    """Takes its time, and is all there in the end."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock = clock
        self.seconds = seconds

    def __iter__(self) -> Iterator[bytes]:
        self.clock.now += self.seconds
        yield b"later"


class Slow(httpx.BaseTransport):
    """Answers 503, or what it is told, with a slow body."""

    def __init__(self, clock: Clock, seconds: float, status: int = 503) -> None:
        self.clock = clock
        self.seconds = seconds
        self.status = status
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        return httpx.Response(self.status, stream=SlowBody(self.clock, self.seconds))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the drivers."""
    made = Clock()
    monkeypatch.setattr(_pause, "monotonic", made)
    return made


def client(inner: Slow) -> httpx.Client:
    policy = RetryPolicy(total_timeout=1.0, wait=wait_fixed(0.2))
    return httpx.Client(transport=samekey.IdempotentTransport(inner, policy=policy), base_url="http://test")


def test_an_answer_that_took_the_time_is_handed_on(clock: Clock) -> None:
    """Draining a 503 left no time for the next attempt: the caller gets the 503, and nothing more is sent."""
    inner = Slow(clock, 0.9)
    with samekey.testing.no_waiting(), client(inner) as api:
        response = api.get("/")

    assert (response.status_code, response.text, inner.sent) == (503, "later", 1)
    report = samekey.report(response)
    assert report is not None
    assert report.gave_up == "deadline"


def test_an_answer_that_never_came_whole_is_a_timeout(clock: Clock) -> None:
    """It could not even be drained in time: there is nothing to hand on."""
    inner = Slow(clock, 1.5)
    with samekey.testing.no_waiting(), client(inner) as api, pytest.raises(httpx.ReadTimeout, match="total timeout"):
        api.get("/")

    assert inner.sent == 1


def test_an_operation_that_ran_out_of_time_stays_unknown(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyed request that waited longer than it meant to sends nothing more, and is not called failed."""
    inner = Slow(clock, 0.1)

    monkeypatch.setattr("samekey._sync.sleep", clock.oversleep)
    with client(inner) as api, pytest.raises(samekey.OutcomeUnknown) as caught:
        api.post("/", json={})

    assert (inner.sent, caught.value.report.gave_up, caught.value.response.status_code) == (1, "deadline", 503)


def test_a_refusal_that_ran_out_of_time_is_handed_on(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 429 with time left for one more attempt, had the wait not taken longer."""
    inner = Slow(clock, 0.1, status=429)
    monkeypatch.setattr("samekey._sync.sleep", clock.oversleep)
    with client(inner) as api:
        response = api.post("/", json={})

    assert (response.status_code, response.text, inner.sent) == (429, "later", 1)


def test_waiting_at_least_as_long_as_the_dialect_asks(clock: Clock) -> None:
    """`min_wait` is waited for, and is no Retry-After: it may be longer than `max_retry_after`."""
    inner = Slow(clock, 0.0)
    policy = RetryPolicy(total_timeout=None, max_retry_after=1, wait=wait_fixed(0))
    transport = samekey.IdempotentTransport(inner, policy=policy, dialect=Dialect(min_wait=5))
    with (
        samekey.testing.no_waiting(),
        httpx.Client(transport=transport, base_url="http://test") as api,
        pytest.raises(samekey.OutcomeUnknown) as caught,
    ):
        api.post("/", json={})

    assert (inner.sent, caught.value.report.gave_up) == (5, "attempts")


def test_an_attempt_that_was_cut_off_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only happens to the async twin is judged alike here."""

    class Cut:
        cancelled_caught = True

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *details: object) -> None:
            """Let all through."""

    monkeypatch.setattr("samekey._sync.time_box", lambda _: Cut())
    inner = httpx.MockTransport(lambda _: httpx.Response(201))
    transport = samekey.IdempotentTransport(inner, policy=RetryPolicy(stop=stop_after_attempt(1)))
    with httpx.Client(transport=transport, base_url="http://test") as api, pytest.raises(samekey.OutcomeUnknown) as got:
        api.post("/", json={})

    assert "total timeout" in str(got.value.__cause__)


class Suspended(MemoryJournal):
    """The machine sleeps while the claim is granted, for longer than the lease."""

    renewals = 0

    def __init__(self, wall: Clock) -> None:
        super().__init__()
        self.wall = wall

    def claim(self, claim: Claim) -> Entry:
        granted = super().claim(claim)
        self.wall.now += 1000
        return granted

    def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        self.renewals += 1
        return super().renew(scope, name, owner, lease)


class AsyncSuspended:
    """The same, awaited."""

    scope = ""
    store_body = True

    def __init__(self, journal: Suspended) -> None:
        self.journal = journal

    async def claim(self, claim: Claim) -> Entry:
        return self.journal.claim(claim)

    async def renew(self, scope: str, name: str, owner: str, lease: float) -> bool:
        return self.journal.renew(scope, name, owner, lease)

    async def record(self, ended: Ended) -> bool:
        return self.journal.record(ended)


def test_whoever_slept_through_the_lease_asks_before_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else might be sending by now."""
    wall = Clock()
    monkeypatch.setattr(_pause, "wall", wall)
    journal = Suspended(wall)
    transport = samekey.IdempotentTransport(httpx.MockTransport(lambda _: httpx.Response(201)), journal=journal)
    with httpx.Client(transport=transport, base_url="http://test") as api, samekey.operation("one"):
        answer = api.post("/", json={})

    assert (answer.status_code, journal.renewals) == (201, 1)


@pytest.mark.anyio
async def test_the_async_twin_asks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same on asyncio and trio."""
    wall = Clock()
    monkeypatch.setattr(_pause, "wall", wall)
    journal = Suspended(wall)
    inner = httpx.MockTransport(lambda _: httpx.Response(201))
    transport = samekey.AsyncIdempotentTransport(inner, journal=AsyncSuspended(journal))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as api:
        with samekey.operation("one"):
            answer = await api.post("/", json={})

    assert (answer.status_code, journal.renewals) == (201, 1)
