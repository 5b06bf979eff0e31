"""Section A of the bug reports: whose key a request carries (BR-01 to BR-11)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tenacity import AsyncRetrying, Retrying, retry_if_exception_type, stop_after_attempt, wait_none

import samekey
from samekey import KeyMismatch, OutcomeUnknown, RetryPolicy
from samekey.testing import faults
from tests.transport.harness import CHARGE, Api, key_lines, raises, the

ONCE = RetryPolicy(stop=stop_after_attempt(1))


async def test_br_01_the_key_outlives_the_attempt(api: Api) -> None:
    """A lost answer and its retry are one operation."""
    api.server.script(faults.lost())

    async with api.client() as client:
        response = await client.post()

    assert samekey.is_replayed(response)
    api.seen(wire=2, effects=1)


async def test_br_01_a_retry_loop_around_the_client_makes_one_effect(api: Api) -> None:
    """@retry around `client.post` without an operation: the repeat is stopped, or goes on with the first key."""
    api.server.script(faults.lost())
    async with api.client(policy=ONCE) as client:
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await retrying(api, client.post)

    api.seen(wire=1, effects=1)
    assert caught.value.key == api.server.keys[0]


async def test_br_01_a_retry_loop_around_the_client_may_resume(api: Api) -> None:
    """With on_unresolved="resume" the caller's loop ends with the stored answer."""
    api.server.script(faults.lost(), faults.lost())
    policy = RetryPolicy(stop=stop_after_attempt(1), on_unresolved="resume")
    async with api.client(policy=policy) as client:
        response = await retrying(api, client.post)

    assert samekey.is_replayed(response)
    api.seen(wire=3, effects=1)


async def retrying(api: Api, function: Any) -> httpx.Response:
    """The common loop of tenacity around a call."""
    settings: dict[str, Any] = {
        "retry": retry_if_exception_type(api.httpx.TransportError),
        "stop": stop_after_attempt(3),
        "wait": wait_none(),
        "reraise": True,
    }
    if not api.sync:
        return await AsyncRetrying(**settings)(function)
    for attempt in Retrying(**settings):
        with attempt:
            return await function()  # type: ignore[no-any-return]
    raise AssertionError


@pytest.mark.parametrize(
    "headers",
    [
        {"idempotency-key": "u-1"},
        {"IDEMPOTENCY-KEY": "u-1"},
        {"iDeMpOtEnCy-kEy": "u-1"},
        [("idempotency-key", "u-1")],
        [(b"IDEMPOTENCY-key", b"u-1")],
        httpx.Headers({"Idempotency-KEY": "u-1"}),
    ],
    ids=["lower", "upper", "odd", "list", "bytes", "headers"],
)
async def test_br_02_the_callers_own_key_is_sent_once(api: Api, headers: Any) -> None:
    """Exactly one line with the caller's key on each attempt, in whatever case it was written."""
    api.server.script(faults.status(503))

    async with api.client() as client:
        response = await client.post(headers=headers)

    assert [key_lines(request) for request in api.server.requests] == [["u-1"], ["u-1"]]
    assert the(samekey.report(response)).key == "u-1"
    api.seen(wire=2, effects=1)


async def test_br_02_two_lines_of_keys_are_refused(api: Api) -> None:
    """The library would join them; nobody can tell which is meant."""
    async with api.client() as client:
        with pytest.raises(ValueError, match="2 lines of 'Idempotency-Key'"):
            await client.post(headers=[("Idempotency-Key", "a"), ("idempotency-key", "b")])
        with pytest.raises(ValueError, match="2 lines"):
            await client.post(headers=[("Idempotency-Key", "a"), ("idempotency-key", "a")])

    api.seen(wire=0, effects=0, keys=0)


@pytest.mark.parametrize("key", ["", "   ", "k" * 256, "cl\u00e9"])
async def test_br_02_a_key_that_cannot_travel_is_refused(api: Api, key: str) -> None:
    """Empty, blank, over-long or not ASCII: a ValueError before a byte leaves."""
    async with api.client() as client:
        with pytest.raises(ValueError, match="idempotency key"):
            await client.post(headers={"Idempotency-Key": key.encode("utf-8")})

    api.seen(wire=0, effects=0, keys=0)


async def test_br_03_a_key_set_once_on_the_client(api: Api) -> None:
    """The second, different request is stopped on this side, and says that the key is taken."""
    async with api.client(headers={"Idempotency-Key": "K"}) as client:
        await client.post("/a", json={"n": 1})
        with raises(KeyMismatch, api.httpx.RequestError) as caught:
            await client.post("/b", json={"n": 2})
        again = await client.post("/a", json={"n": 1})

    assert samekey.is_replayed(again)
    assert "nothing was sent" in str(caught.value)
    assert caught.value.key == "K"
    assert the(caught.value.report).attempts == ()
    api.seen(wire=2, effects=1)


async def test_br_04_concurrent_calls_keep_their_own_keys(api: Api) -> None:
    """Ten threads or tasks on one client: every request has the key that its body names."""
    async with api.client() as client:

        async def worker(number: int) -> None:
            for turn in range(20):
                key = f"k-{number}-{turn}"
                await client.post(json={"key": key}, headers={"Idempotency-Key": key})
                await client.post(json={"key": key}, extensions=samekey.options(key=key))

        await api.together(*((lambda number=number: worker(number)) for number in range(10)))

    assert len(api.server.requests) == 400
    assert all(request.json() == {"key": request.key} for request in api.server.requests)
    assert len(api.server.effects) == 200


async def test_br_04_concurrent_calls_make_their_own_keys(api: Api) -> None:
    """Automatic keys are never shared between calls."""
    async with api.client() as client:
        await api.together(*[lambda: twenty(client)] * 10)

    assert len(api.server.keys) == len(api.server.effects) == 200


async def twenty(client: Any) -> None:
    for _ in range(20):
        await client.post()


async def test_br_06_a_resumed_operation_with_another_body(api: Api) -> None:
    """Same key, other bytes: stopped before sending. The case has a name and a journal; the object alone does it."""
    api.server.script(faults.lost())
    op = samekey.operation()
    async with api.client(policy=ONCE) as client:
        with op, pytest.raises(OutcomeUnknown):
            await client.post(json={"amt": 5, "t": 1})
        with op, raises(KeyMismatch, api.httpx.RequestError) as caught:
            await client.post(json={"amt": 5, "t": 2})
        with op:
            response = await client.post(json={"amt": 5, "t": 1})

    assert "step" in str(caught.value)
    assert samekey.is_replayed(response)
    api.seen(wire=2, effects=1)


async def test_br_07_two_intended_equal_payments(api: Api) -> None:
    """Identity of content is not identity of intent."""
    async with api.client() as client:
        await client.post()
        await client.post()

    assert len(api.server.keys) == len(api.server.effects) == 2


async def test_br_08_a_corrected_request_gets_a_fresh_key(api: Api) -> None:
    """A refusal is final: not retried, and its key is not used again."""
    api.server.script(faults.status(402, json={"code": "card_declined"}))
    async with api.client() as client:
        declined = await client.post(json={"card": "1"})
        paid = await client.post(json={"card": "2"})
        equal = await client.post(json={"card": "1"})

    assert [declined.status_code, paid.status_code, equal.status_code] == [402, 201, 201]
    assert the(samekey.report(declined)).outcome == "rejected"
    assert len(api.server.requests) == len(api.server.keys) == 3


async def test_br_08_an_operation_is_one_request(api: Api) -> None:
    """After a refusal, another request in the same operation is stopped; a step has a key of its own."""
    api.server.script(faults.status(402))
    async with api.client() as client:
        with samekey.operation() as op:
            await client.post(json={"card": "1"})
            with raises(KeyMismatch, api.httpx.RequestError):
                await client.post(json={"card": "2"})
            with op.step("second card"):
                response = await client.post(json={"card": "2"})

    assert response.status_code == 201
    assert len(api.server.keys) == 2


async def test_br_09_a_failure_hands_the_key_back(api: Api) -> None:
    """Whoever tries again, tries again with the same key: through the operation, or with `error.key`."""
    api.server.script(*[faults.lost()] * 4)
    op = samekey.operation()
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(2), wait=wait_none())) as client:
        with op, raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await client.post()
        with op, raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
            await client.post()
        assert caught.value.key == op.key
        with samekey.operation(key=caught.value.key):
            response = await client.post()

    assert samekey.is_replayed(response)
    api.seen(wire=5, effects=1)


@pytest.mark.real_time
async def test_br_10_two_entry_points_of_one_business_operation(api: Api) -> None:
    """A key derived from the business name: one effect, and both callers get its answer."""
    key = samekey.derive_key("orders", "order-50:capture")
    api.server.script(faults.slow(0.05))
    replies: list[httpx.Response] = []

    async def entry() -> None:
        async with api.client() as client:
            replies.append(await client.post(extensions=samekey.options(key=key)))

    await api.together(entry, entry)

    assert [reply.status_code for reply in replies] == [201, 201]
    assert sorted(samekey.is_replayed(reply) for reply in replies) == [False, True]
    assert len(api.server.effects) == len(api.server.keys) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_br_11_the_key_is_there_from_the_first_attempt(api: Api, method: str) -> None:
    api.server.script(faults.lost())
    async with api.client() as client:
        await client.request(method, json=CHARGE)

    api.seen(wire=2, effects=1)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_br_11_the_key_is_sent_without_retries_too(api: Api, method: str) -> None:
    api.server.script(faults.lost())
    async with api.client() as client:
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await client.request(method, json=CHARGE, extensions=samekey.options(retry=False))

    assert the(caught.value.report).gave_up == "retry_off"
    api.seen(wire=1, effects=1)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"])
async def test_br_11_methods_without_a_key(api: Api, method: str) -> None:
    """Never on a safe method; PUT and DELETE are repeated without one."""
    async with api.client() as client:
        with samekey.operation():
            await client.request(method)

    assert [request.key for request in api.server.requests] == [None]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("by", ["header", "option"])
async def test_br_11_put_and_delete_are_keyed_on_request(api: Api, method: str, by: str) -> None:
    """A key of the caller's makes them keyed: retried with it, and raised as unknown."""
    server = api.server
    server.script(faults.lost(), then=faults.status(503))
    given: dict[str, Any] = (
        {"headers": {"idempotency-key": "p-1"}} if by == "header" else {"extensions": samekey.options(key="p-1")}
    )
    async with api.client(policy=RetryPolicy(wait=wait_none())) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError):
            await client.request(method, **given)

    assert [request.key for request in server.requests] == ["p-1"] * 5


async def test_br_11_a_key_on_a_get_is_left_alone(api: Api) -> None:
    """It is the caller's header like any other; the request is not keyed."""
    async with api.client() as client:
        response = await client.get(headers={"Idempotency-Key": "g-1"})
        await client.get("/other", headers={"Idempotency-Key": "g-1"})

    assert [request.key for request in api.server.requests] == ["g-1", "g-1"]
    assert the(samekey.report(response)).key is None


async def test_br_11_the_callers_request_is_never_touched(api: Api) -> None:
    """The header is on the wire only; the key is told by the report."""
    async with api.client() as client:
        request = client.build(json=CHARGE)
        response = await client.send(request)

    assert "idempotency-key" not in request.headers
    assert "idempotency-key" not in response.request.headers
    assert the(samekey.report(response)).key == api.server.keys[0]
