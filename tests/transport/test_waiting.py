"""Design 6.3 and 6.5, section F of the bug reports: how long, never too early, never too late (BR-41 to BR-44)."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import httpx
import pytest
from tenacity import (
    RetryCallState,
    stop_after_attempt,
    stop_after_delay,
    stop_any,
    wait_chain,
    wait_fixed,
    wait_none,
)

import samekey
from samekey import Dialect, OutcomeUnknown, RetryPolicy, StillInProgress, _deadlines, _pause
from samekey.policy import DEFAULT_POLL_WAIT, DEFAULT_WAIT
from samekey.testing import faults, no_waiting
from tests.transport.harness import Api, leaves_streams, on_async, on_sync, raises, statuses, the

NOW = 1_800_000_000.0
LONG = faults.status(201, headers={"X-Long": "x" * 1000}, body="x" * 1000, executes=True)
"""An answer that takes twenty seconds and more, in head and in body, when it drips a byte each 0.02 s."""
OWN = 0.25
"""What the client's own strategy asks for."""


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock stands still."""
    monkeypatch.setattr(_pause, "wall", lambda: NOW)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """An async attempt is cut off at its very deadline: before a read that is given as long, however slow we are."""
    monkeypatch.setattr(_deadlines, "SLACK", 0.0)


def date(offset: float) -> str:
    return formatdate(NOW + offset, usegmt=True)


FORMS = [
    ({"Retry-After": "2"}, 2.0),
    ({"Retry-After": " 1 "}, 1.0),
    ({"Retry-After": "1.5"}, 1.5),
    ({"Retry-After": "0"}, OWN),
    ({"retry-after-ms": "1500"}, 1.5),
    ({"retry-after-ms": "1500", "Retry-After": "9"}, 1.5),
    ({"x-ms-retry-after-ms": "700"}, 0.7),
    ({"retry-after-ms": "soon", "Retry-After": "3"}, 3.0),
    # Malformed, negative or endless: as if it were not there.
    *(
        ({"Retry-After": value}, OWN)
        for value in ("-1", "nan", "inf", "-inf", "1e400", "", "2, 3", "garbage", "1_0", "0x10", "+5", b"\xd9\xa3")
    ),
    # Dates.
    ({"Retry-After": date(30), "Date": date(0)}, 30.0),
    ({"Retry-After": date(-30), "Date": date(0)}, OWN),
    ({"Retry-After": date(30).replace("GMT", "-0000"), "Date": date(0)}, 30.0),
    ({"Retry-After": date(30)}, 30.0),
    ({"Retry-After": "2027-01-15T08:00:30Z"}, OWN),
    ({"Retry-After": "Fri, 99 Jan 2027 08:00:30 GMT"}, OWN),
    ({"Retry-After": "Fri, 15 Jan 99999 08:00:30 GMT"}, OWN),
    # The client's clock is an hour fast; the server's own Date mends it.
    ({"Retry-After": date(-3600 + 20), "Date": date(-3600)}, 20.0),
    ({"Retry-After": date(20), "Date": "yesterday"}, 20.0),
]  # fmt: skip


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(("headers", "wait"), FORMS, ids=lambda value: str(value)[:60])
@pytest.mark.parametrize("status", [503, 429])
async def test_br_41_br_42_retry_after(api: Api, headers: dict[str, Any], wait: float, status: int) -> None:
    """A floor under the client's own backoff, in every form that servers use."""
    api.server.script(faults.status(status, headers=_latin(headers)))
    async with api.client(policy=RetryPolicy(wait=wait_fixed(OWN)), listen=True) as client:
        response = await client.post()

    assert response.status_code == 201
    assert api.waits == [pytest.approx(wait, abs=1e-6)]


def _latin(headers: dict[str, Any]) -> dict[str, str]:
    return {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in headers.items()}


async def test_br_41_zero_counts_an_attempt(api: Api) -> None:
    """At once, but not for ever."""
    api.server.script(then=faults.status(503, headers={"Retry-After": "0"}))
    async with api.client(policy=RetryPolicy(wait=wait_none())) as client:
        with raises(OutcomeUnknown):
            await client.post()

    assert len(api.server.requests) == 5


@pytest.mark.parametrize("value", ["61", "99999999999", "86400"])
async def test_br_41_longer_than_allowed(api: Api, value: str) -> None:
    """Neither shortened nor overslept: the call ends, and says how long the server wants."""
    api.server.script(then=faults.status(503, headers={"Retry-After": value}))
    async with api.client() as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    told = the(caught.value.report)
    assert (told.gave_up, told.retry_after, len(told.attempts)) == ("retry_after", float(value), 1)
    assert "longer wait than allowed" in str(caught.value)


@pytest.mark.parametrize(("limit", "attempts"), [(1.9, 1), (2.0, 2), (0, 1)])
async def test_max_retry_after(api: Api, limit: float, attempts: int) -> None:
    api.server.script(faults.status(429, headers={"Retry-After": "2"}))
    async with api.client(policy=RetryPolicy(max_retry_after=limit, wait=wait_none())) as client:
        response = await client.post()

    assert statuses(samekey.report(response)) == [429, 201][:attempts]


async def test_never_shorter_than_retry_after(api: Api) -> None:
    """Polls too; the larger of both is waited."""
    api.server.script(
        faults.status(503, headers={"Retry-After": "3"}), faults.in_progress(retry_after=4), faults.status(503)
    )
    policy = RetryPolicy(wait=wait_fixed(3.5), poll_wait=wait_fixed(1))
    async with api.client(policy=policy, listen=True) as client:
        await client.post()

    assert api.waits == [3.5, 4.0, 3.5]


async def test_hints_in_the_body_and_the_least_wait(api: Api) -> None:
    """What a dialect knows: seconds in the body of an error, and repeats that must be apart."""
    dialect = Dialect(body_delay="retry.after", min_wait=0.5)
    api.server.script(
        faults.status(503, json={"retry": {"after": 2}}),
        faults.status(503, json={"retry": {"after": 1}}, headers={"Retry-After": "3"}),
        faults.status(503),
    )
    async with api.client(dialect=dialect, policy=RetryPolicy(wait=wait_none()), listen=True) as client:
        await client.post()
    assert api.waits == [2.0, 3.0, 0.5]

    api.events.clear()
    api.server.script(faults.status(503))
    async with api.client(dialect=dialect, policy=RetryPolicy(wait=wait_none()), listen=True) as client:
        await client.get()
    assert api.waits == [0.0]


# -- limits


async def test_a_backoff_longer_than_the_time_left(api: Api) -> None:
    api.server.script(then=faults.status(503))
    policy = RetryPolicy(wait=wait_chain(wait_fixed(1), wait_fixed(30)), total_timeout=20)
    async with api.client(policy=policy, listen=True) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    assert the(caught.value.report).gave_up == "deadline"
    assert api.waits == [1.0]


async def test_total_timeout_bounds_polls(api: Api) -> None:
    api.server.script(then=faults.in_progress())
    policy = RetryPolicy(poll_wait=wait_fixed(100), total_timeout=1050)
    async with api.client(policy=policy) as client:
        with raises(StillInProgress) as caught:
            await client.post()

    assert the(caught.value.report).gave_up == "deadline"
    assert len(api.server.requests) == 11


async def test_no_total_timeout_at_all(api: Api) -> None:
    api.server.script(*[faults.in_progress()] * 50)
    policy = RetryPolicy(poll_wait=wait_fixed(1000), total_timeout=None)
    async with api.client(policy=policy, timeout=None) as client:
        assert (await client.post()).status_code == 201


@pytest.mark.parametrize(
    ("own", "total", "expected"),
    [
        (50.0, 600.0, {"connect": 50.0, "read": 50.0, "write": 50.0, "pool": 50.0}),
        (50.0, 20.0, {"connect": 20.0, "read": 20.0, "write": 20.0, "pool": 20.0}),
        (None, 20.0, {"connect": 20.0, "read": 20.0, "write": 20.0, "pool": 20.0}),
        ({"timeout": 10.0, "read": None}, 20.0, {"connect": 10.0, "read": 20.0, "write": 10.0, "pool": 10.0}),
        (None, None, {"connect": None, "read": None, "write": None, "pool": None}),
    ],
)
async def test_timeouts_are_clipped(api: Api, own: Any, total: Any, expected: dict[str, float | None]) -> None:
    """Each attempt's own timeouts are cut to what is left, and the caller's request keeps his."""
    seen: list[dict[str, float | None]] = []

    def handle(request: httpx.Request) -> Any:
        seen.append(request.extensions["timeout"])
        return api.httpx.Response(201)

    settings = {"timeouts": own} if isinstance(own, dict) else {"timeout": own}
    async with api.client(transport=api.inner(handle), **settings) as client:
        request = client.build(extensions=samekey.options(total_timeout=total))
        before = dict(request.extensions["timeout"])
        await client.send(request)
        partial = client.build(extensions={**samekey.options(total_timeout=20.0), "timeout": {"read": 10.0}})
        await client.send(partial)

    assert seen[0] == {name: value and pytest.approx(value, abs=0.001) for name, value in expected.items()}
    assert request.extensions["timeout"] == before
    assert seen[1] == {name: pytest.approx(10.0 if name == "read" else 20.0, abs=0.001) for name in expected}


async def test_timeouts_are_never_zero(api: Api) -> None:
    """What is left may be next to nothing; zero would mean "do not wait at all" to a socket."""
    seen: list[float] = []

    def handle(request: httpx.Request) -> Any:
        seen.append(request.extensions["timeout"]["read"])
        api.clock.now += 0.03
        raise api.httpx.ReadTimeout("slow")

    policy = RetryPolicy(wait=wait_none(), total_timeout=0.0001)
    async with api.client(transport=api.inner(handle), policy=policy) as client:
        with raises(OutcomeUnknown):
            await client.post()

    assert seen == [pytest.approx(0.001, abs=0.0002)]


async def test_a_request_without_any_timeout_is_clipped(api: Api) -> None:
    """An empty mapping says that nothing is bounded; also on a client that has sent nothing yet."""
    seen: list[dict[str, float | None]] = []

    def handle(request: httpx.Request) -> Any:
        seen.append(request.extensions["timeout"])
        return api.httpx.Response(201)

    async with api.client(transport=api.inner(handle), policy=RetryPolicy(total_timeout=2.0)) as client:
        for _ in range(2):
            await client.post(extensions={"timeout": {}})

    parts = ("connect", "read", "write", "pool")
    assert seen == [{part: pytest.approx(2.0, abs=0.1) for part in parts}] * 2


# -- strategies


async def test_strategies_of_the_user(api: Api) -> None:
    """They see the attempt, the error or the answer as an HTTPStatusError, and the times."""
    seen: list[tuple[int, str, float, float]] = []

    def wait(state: RetryCallState) -> float:
        assert state.outcome is not None
        error = state.outcome.exception()
        seen.append((state.attempt_number, type(error).__name__, state.idle_for, round(state.seconds_since_start or 0)))
        status = getattr(getattr(error, "response", None), "status_code", None)
        return 2.0 if status == 503 else 1.0

    api.server.script(faults.lost(), faults.status(503), faults.status(429))
    policy = RetryPolicy(wait=wait, stop=stop_any(stop_after_attempt(4), stop_after_delay(100)))
    async with api.client(policy=policy, listen=True) as client:
        await client.post()

    assert seen == [
        (1, "RemoteProtocolError", 0.0, 0), (2, "HTTPStatusError", 1.0, 1), (3, "HTTPStatusError", 3.0, 3)
    ]  # fmt: skip
    assert api.waits == [1.0, 2.0, 1.0]


async def test_what_a_strategy_has_seen_stays(api: Api) -> None:
    """It may keep its states, and look at them after the call."""
    kept: list[RetryCallState] = []

    def wait(state: RetryCallState) -> float:
        kept.append(state)
        return 0.0

    api.server.script(faults.status(503), faults.lost())
    async with api.client(policy=RetryPolicy(wait=wait)) as client:
        await client.post()

    errors: list[Any] = [state.outcome.exception() for state in kept if state.outcome]
    assert [type(error).__name__ for error in errors] == ["HTTPStatusError", "RemoteProtocolError"]
    assert errors[0].response.status_code == 503


async def test_stop_after_delay(api: Api) -> None:
    api.server.script(then=faults.status(503))
    async with api.client(policy=RetryPolicy(wait=wait_fixed(1), stop=stop_after_delay(2.5))) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    assert (len(api.server.requests), the(caught.value.report).gave_up) == (4, "attempts")


@pytest.mark.parametrize("which", ["wait", "stop", "poll_wait"])
async def test_a_strategy_that_raises(api: Api, which: str) -> None:
    """Something is open: OutcomeUnknown with the strategy's error as its cause."""

    def broken(state: RetryCallState) -> float:
        raise ZeroDivisionError("in the strategy")

    settings: dict[str, Any] = {which: broken}
    api.server.script(then=faults.in_progress() if which == "poll_wait" else faults.status(503))
    async with api.client(policy=RetryPolicy(**settings)) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post()

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert len(api.server.requests) == 1


async def test_a_strategy_that_raises_with_nothing_open(api: Api) -> None:
    """Raised as it is: nothing of the operation can have been executed."""

    def broken(state: RetryCallState) -> float:
        raise ZeroDivisionError("in the strategy")

    api.server.script(then=faults.status(429))
    async with api.client(policy=RetryPolicy(wait=broken)) as client:
        with pytest.raises(ZeroDivisionError) as caught:
            await client.post()
        assert the(samekey.report(caught.value)).outcome == "rejected"


@pytest.mark.parametrize("value", [-1.0, float("nan"), "soon", None])
async def test_a_strategy_that_gives_no_time(api: Api, value: Any) -> None:
    """Never slept: it would end in a crash, or at once."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=RetryPolicy(wait=lambda _: value)) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    assert isinstance(caught.value.__cause__, ValueError | TypeError)


async def test_an_infinite_wait(api: Api) -> None:
    """Longer than the time left: the call ends; without a limit of time it would be a wait without end."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=RetryPolicy(wait=lambda _: float("inf"))) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    assert the(caught.value.report).gave_up == "deadline"


def test_br_44_jitter() -> None:
    """Spread over the range, at the cap too; no overflow at attempt 5000; seeded numbers repeat."""
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    for strategy, top, least in ((DEFAULT_WAIT, 10.0, 0.0), (DEFAULT_POLL_WAIT, 5.0, 2.5)):
        state.attempt_number = 50
        delays = [float(strategy(state)) for _ in range(1000)]
        assert least <= min(delays) < least + 0.2 * (top - least)
        assert top - 0.2 * (top - least) < max(delays) <= top
        assert len(set(delays)) > 990
        state.attempt_number = 5000
        assert least <= strategy(state) <= top
        random.seed(1)
        first = strategy(state)
        random.seed(1)
        assert strategy(state) == first


async def test_no_sleep_of_zero(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait of nothing is no wait at all."""
    slept: list[float] = []
    monkeypatch.setattr(_pause, "skipped", 0)
    monkeypatch.setattr(time, "sleep", slept.append)
    api.server.script(faults.status(503), faults.lost())
    async with api.client(policy=RetryPolicy(wait=wait_none())) as client:
        if api.sync:
            await client.post()

    assert slept == []


# -- real time


@pytest.mark.real_time
async def test_waits_take_their_time(api: Api) -> None:
    """Without `no_waiting` the backoff is slept, on each colour."""
    api.server.script(faults.status(503), faults.in_progress())
    policy = RetryPolicy(wait=wait_fixed(0.1), poll_wait=wait_fixed(0.1))
    async with api.client(policy=policy) as client:
        began = time.monotonic()
        response = await client.post()

    assert 0.2 <= the(samekey.report(response)).elapsed <= time.monotonic() - began


@on_async
@pytest.mark.real_time
@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("part", ["headers", "body"])
async def test_a_dripping_answer_is_cut_off(api: Api, part: Any) -> None:
    """Each byte comes in time, all of them do not: the total timeout bounds headers and body."""
    api.server.script(faults.drip(0.02, part=part, then=LONG))
    async with api.client() as client:
        began = time.monotonic()
        with raises(OutcomeUnknown, api.httpx.ReadTimeout) as caught:
            await client.post(extensions=samekey.options(total_timeout=0.2))
        took = time.monotonic() - began

    assert 0.15 <= took < 15
    assert "total timeout" in str(caught.value.__cause__)
    assert the(caught.value.report).gave_up in ("deadline", None)


@on_sync
async def test_a_dripping_body_is_cut_off_in_sync(api: Api) -> None:
    """Between two parts of the body; in a header block the socket's own timeout alone counts (design, section 8)."""

    def trace(name: str, info: object) -> None:
        if name == "http11.receive_response_headers.complete":
            api.clock.now += 61

    api.server.script(faults.drip(0.02, part="body", then=LONG))
    async with api.client() as client:
        began = time.monotonic()
        with raises(OutcomeUnknown, api.httpx.ReadTimeout) as caught:
            await client.post(extensions={"trace": trace})
        took = time.monotonic() - began

    assert took < 15
    assert "total timeout" in str(caught.value.__cause__)


@on_async
@leaves_streams
@pytest.mark.real_time
async def test_a_discarded_answer_that_drips(api: Api) -> None:
    """Draining it is bounded as well."""
    api.server.script(faults.drip(0.02, part="body", then=faults.status(503, body="x" * 1000)))
    async with api.client(policy=RetryPolicy(wait=wait_none())) as client:
        began = time.monotonic()
        with suppress(api.httpx.TimeoutException):
            await client.get(extensions=samekey.options(total_timeout=0.3))
        assert time.monotonic() - began < 15


@on_async
@pytest.mark.real_time
@pytest.mark.usefixtures("strict")
async def test_a_first_attempt_is_cut_off(api: Api) -> None:
    """Each read comes in time, or none is bounded: the total timeout of the policy ends the very first attempt."""
    api.server.script(then=faults.drip(0.02, part="headers", then=LONG))
    for own in (None, 0.29):
        async with api.client(policy=RetryPolicy(total_timeout=0.3), timeout=own) as client:
            with raises(OutcomeUnknown, api.httpx.ReadTimeout) as caught:
                await client.post()
        assert "total timeout" in str(caught.value.__cause__)


async def test_waiting_can_be_skipped_in_part(api: Api) -> None:
    """`no_waiting` counts the waits as waited: deadlines strike as they would."""
    api.server.script(then=faults.status(503))
    with no_waiting():
        async with api.client(policy=RetryPolicy(wait=wait_fixed(30), total_timeout=70)) as client:
            began = time.monotonic()
            with raises(OutcomeUnknown) as caught:
                await client.post()

    assert time.monotonic() - began < 30
    told = the(caught.value.report)
    assert (len(told.attempts), told.gave_up) == (3, "deadline")
    assert 60 <= told.elapsed < 70
