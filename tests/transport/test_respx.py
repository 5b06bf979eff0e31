"""Tests that users write with respx around a wrapped client, in its default mode (it stands below our transport)."""

from __future__ import annotations

import httpx
import pytest
import respx
from tenacity import wait_none

import samekey
from samekey import OutcomeUnknown, RetryPolicy
from tests.transport.harness import Api, now, on_httpx, raises, the

URL = "https://api.example.com/v1/charges"
QUICK = RetryPolicy(wait=wait_none())


@on_httpx
async def test_a_mocked_answer(api: Api) -> None:
    """The key is seen by the mock, and the answer has its report."""
    with respx.mock:
        route = respx.post(URL).mock(return_value=httpx.Response(201, json={"id": "ch_1"}))
        async with api.client(base_url="https://api.example.com") as client:
            response = await client.post("/v1/charges")

        assert response.json() == {"id": "ch_1"}
        assert route.call_count == 1
        assert route.calls.last.request.headers["Idempotency-Key"] == the(samekey.report(response)).key


@on_httpx
async def test_a_sequence_of_faults(api: Api) -> None:
    """Exceptions and statuses as side effects: retried with one key."""
    with respx.mock(assert_all_called=True) as router:
        route = router.post(URL).mock(
            side_effect=[
                httpx.ConnectError("refused"),
                httpx.ReadTimeout("silent"),
                httpx.Response(503, headers={"Retry-After": "1"}),
                httpx.Response(201, json={"id": "ch_1"}, headers={"Idempotent-Replayed": "true"}),
            ]
        )
        async with api.client(base_url="https://api.example.com", policy=QUICK) as client:
            response = await client.post("/v1/charges")

        assert samekey.is_replayed(response)
        assert len({call.request.headers["Idempotency-Key"] for call in route.calls}) == 1
        assert len({call.request.content for call in route.calls}) == 1
        assert route.call_count == 4


@on_httpx
async def test_a_route_that_always_fails(api: Api) -> None:
    with respx.mock:
        respx.post(URL).mock(side_effect=httpx.ReadTimeout)
        async with api.client(base_url="https://api.example.com", policy=QUICK) as client:
            with raises(OutcomeUnknown, httpx.ReadTimeout) as caught:
                await client.post("/v1/charges")

    assert len(the(caught.value.report).attempts) == 5


@on_httpx
async def test_a_router_as_the_transport(api: Api) -> None:
    """`transport=router.handler` in a MockTransport: our wrapper stands above it."""
    router = respx.Router()
    route = router.post(URL) % 201
    handler = router.handler if api.sync else router.async_handler
    raw = api.raw_client(base_url="https://api.example.com", transport=httpx.MockTransport(handler))
    samekey.wrap(raw)

    response = await now(raw.post("/v1/charges", json={}))

    assert response.status_code == 201
    assert "Idempotency-Key" in route.calls.last.request.headers


def test_a_request_that_nobody_mocked() -> None:
    """The assertion of respx comes through as it is."""
    client = samekey.wrap(httpx.Client(base_url="https://api.example.com"))
    with respx.mock(assert_all_called=False), client, pytest.raises(AssertionError):
        client.post("/v1/other")
