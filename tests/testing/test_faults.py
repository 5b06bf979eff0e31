"""Every fault, seen through real httpx: on a socket, in memory, sync and async; and through httpx2 on a socket."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest

from samekey.testing import LedgerServer
from tests.testing.scenarios import CHARGE, KEY, SCENARIOS, SILENT, Scenario, check, eventually

each_fault = pytest.mark.parametrize("scenario", SCENARIOS, ids=str)


Timeout = tuple[float, float, float, float]
PATIENT = (10.0, 10.0, 10.0, 10.0)


def _timeout(scenario: Scenario) -> Timeout:
    return (10.0, 0.1, 10.0, 10.0) if scenario.seen == SILENT else PATIENT


def _post(client: Any, timeout: Timeout) -> tuple[int | str, str | None]:
    try:
        response = client.post("/charges", json=CHARGE, headers=KEY, timeout=timeout)
    except (httpx.TransportError, httpx2.TransportError) as error:
        return type(error).__name__, None
    return response.status_code, response.headers.get("Idempotent-Replayed")


async def _async_post(client: httpx.AsyncClient, timeout: Timeout) -> tuple[int | str, str | None]:  # noqa: ASYNC109
    try:
        response = await client.post("/charges", json=CHARGE, headers=KEY, timeout=timeout)
    except httpx.TransportError as error:
        return type(error).__name__, None
    return response.status_code, response.headers.get("Idempotent-Replayed")


def _play(scenario: Scenario, server: LedgerServer, client: Any) -> None:
    server.script(scenario.step())
    with client:
        first, _ = _post(client, _timeout(scenario))
        eventually(lambda: len(server.effects) >= scenario.effects)
        assert len(server.effects) == scenario.effects
        second, marker = _post(client, PATIENT)
    check(scenario, server, first, second, marker)


@each_fault
def test_on_a_socket(scenario: Scenario, server: LedgerServer, url: str) -> None:
    """Httpx sees the documented answer or error, and the effects are the documented number."""
    _play(scenario, server, httpx.Client(base_url=url, verify=False))


@each_fault
def test_on_a_socket_through_httpx2(scenario: Scenario, server: LedgerServer, url: str) -> None:
    """httpx2 sees the same."""
    _play(scenario, server, httpx2.Client(base_url=url, verify=False))


@each_fault
def test_in_memory(scenario: Scenario, server: LedgerServer) -> None:
    """Without a socket httpx sees the same."""
    _play(scenario, server, httpx.Client(base_url="http://test", verify=False, transport=server.transport()))


@each_fault
@pytest.mark.anyio
async def test_in_memory_async(scenario: Scenario, server: LedgerServer) -> None:
    """Under asyncio and trio httpx sees the same."""
    server.script(scenario.step())
    async with httpx.AsyncClient(base_url="http://test", verify=False, transport=server.async_transport()) as client:
        first, _ = await _async_post(client, _timeout(scenario))
        assert len(server.effects) == scenario.effects
        second, marker = await _async_post(client, PATIENT)
    check(scenario, server, first, second, marker)


@each_fault
@pytest.mark.anyio
async def test_on_a_socket_async(scenario: Scenario, server: LedgerServer, url: str) -> None:
    """An async client sees the same on a socket."""
    server.script(scenario.step())
    async with httpx.AsyncClient(base_url=url, verify=False) as client:
        first, _ = await _async_post(client, _timeout(scenario))
        eventually(lambda: len(server.effects) >= scenario.effects)
        assert len(server.effects) == scenario.effects
        second, marker = await _async_post(client, PATIENT)
    check(scenario, server, first, second, marker)
