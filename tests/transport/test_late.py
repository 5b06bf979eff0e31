"""Time that runs out between two attempts, on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from tenacity import wait_fixed

import samekey
import samekey.testing
from samekey import RetryPolicy, _pause
from samekey.dialects import Dialect


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
