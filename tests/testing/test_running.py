"""What is seen while an execution runs, and by many clients at once; time is set by events, not by luck."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import pytest

from samekey.testing import LedgerServer, ReceivedRequest, faults
from tests.testing.scenarios import CHARGE, KEY, eventually


class Counted(threading.Event):
    """Tells how often somebody waited for it."""

    waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return super().wait(timeout)


def in_memory(server: LedgerServer, **more: Any) -> httpx.Client:
    return httpx.Client(base_url="http://test", transport=server.transport(), headers=KEY, **more)


def on_socket(url: str, **more: Any) -> httpx.Client:
    return httpx.Client(base_url=url, headers=KEY, verify=False, **more)


def test_in_progress_until_the_event(server: LedgerServer, url: str) -> None:
    """A held execution answers others with 409, or 422 for other bytes, and is no effect before its time."""
    done = Counted()
    server.script(faults.hold(done))
    with ThreadPoolExecutor() as pool, on_socket(url) as client:
        first = pool.submit(client.post, "/a", json=CHARGE)
        eventually(lambda: done.waits > 2)
        meanwhile = [client.post("/a", json=CHARGE), client.post("/a", json={"amount": 1})]
        assert server.effects == []
        done.set()

        assert first.result().status_code == 201
        assert [answer.status_code for answer in meanwhile] == [409, 422]
        assert client.post("/a", json=CHARGE).headers["Idempotent-Replayed"] == "true"
    server.assert_executed_once()


def test_held_in_memory_goes_on_when_the_client_has_left(server: LedgerServer) -> None:
    """A read timeout ends the waiting and not the work, which is done when the event says so."""
    done = threading.Event()
    server.script(faults.hold(done))
    with in_memory(server, timeout=0.01) as client:
        with pytest.raises(httpx.ReadTimeout):
            client.post("/a")
        assert client.post("/a").status_code == 409
        server.assert_executed(0)

        done.set()

        server.assert_executed_once()
        assert client.post("/a").headers["Idempotent-Replayed"] == "true"


def test_held_in_memory_answers_in_time(server: LedgerServer) -> None:
    """An event that is set within the read timeout, or without one, gives the answer."""
    done = threading.Event()
    done.set()
    server.script(faults.hold(done), faults.hold(done, faults.status(503)))
    with in_memory(server) as client:
        assert client.post("/a", timeout=5).status_code == 201
        assert client.post("/a", timeout=None).status_code == 503


@pytest.mark.anyio
async def test_held_in_memory_async(server: LedgerServer) -> None:
    """The same under asyncio and trio: timeout, in progress, answer; a cancelled client does not end the work."""
    done = threading.Event()
    server.script(faults.hold(done), faults.ok(), faults.hold(done))
    transport = server.async_transport()
    async with httpx.AsyncClient(base_url="http://test", transport=transport, headers=KEY) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/a", timeout=0.01)
        assert (await client.post("/a")).status_code == 409
        with anyio.move_on_after(0.01) as scope:
            await client.post("/a", headers={"Idempotency-Key": "other"}, timeout=None)
        assert scope.cancelled_caught
        server.assert_executed(0)

        done.set()

        server.assert_executed(2)
        server.script(then=faults.hold(done))
        assert (await client.post("/a", timeout=None)).headers["Idempotent-Replayed"] == "true"


def test_slow_goes_on_when_the_client_has_left(server: LedgerServer, url: str) -> None:
    """After its seconds the effect is there, on a socket and in memory, though nobody waited for it."""
    impatient = httpx.Timeout(10, read=0.02)
    for number, client in enumerate([on_socket(url), in_memory(server)], 1):
        key = {"Idempotency-Key": str(number)}
        server.script(faults.slow(0.5))
        with client:
            with pytest.raises(httpx.ReadTimeout):
                client.post("/a", headers=key, timeout=impatient)
            eventually(lambda: len(server.effects) == number)  # noqa: B023
            assert client.post("/a", headers=key, timeout=10).headers["Idempotent-Replayed"] == "true"


@pytest.mark.anyio
async def test_never_in_memory_can_be_cancelled(server: LedgerServer) -> None:
    """Without a read timeout the client waits until somebody cancels it."""
    server.script(faults.never())
    async with httpx.AsyncClient(base_url="http://test", transport=server.async_transport(), timeout=None) as client:
        with anyio.move_on_after(0.01) as scope:
            await client.post("/a")
    assert scope.cancelled_caught
    server.assert_executed_once()


@pytest.mark.parametrize("step", [faults.never(), faults.cut(end="stall")], ids=["answer", "body"])
def test_sync_client_without_timeout_is_warned(server: LedgerServer, step: Any) -> None:
    """In memory nothing could end a wait without a limit: an error says so instead of hanging."""
    server.script(step)
    with in_memory(server, timeout=None) as client, pytest.raises(RuntimeError, match="read timeout"):
        client.post("/a")


def test_drip_slower_than_the_read_timeout(server: LedgerServer, url: str) -> None:
    """Each read has its own timeout, so a drip fails when one piece is late."""
    impatient = httpx.Timeout(10, read=0.02)
    for part in ("headers", "body"):
        for client in (on_socket(url, timeout=impatient), in_memory(server, timeout=impatient)):
            server.script(faults.drip(2, part=part))
            with client, pytest.raises(httpx.ReadTimeout):
                client.post("/a")


def test_fifty_threads_with_one_key(url: str, server: LedgerServer) -> None:
    """One effect; every other client gets the replay or is told to wait."""
    with httpx.Client(verify=False, limits=httpx.Limits(max_connections=50)) as client, ThreadPoolExecutor(50) as pool:
        barrier = threading.Barrier(50)

        def post(_: int) -> httpx.Response:
            barrier.wait()
            return client.post(f"{url}/a", headers=KEY, json=CHARGE, timeout=30)

        answers = list(pool.map(post, range(50)))

    server.assert_executed_once()
    server.assert_same_key()
    fresh = [answer for answer in answers if answer.status_code == 201 and "Idempotent-Replayed" not in answer.headers]
    others = [answer for answer in answers if answer not in fresh]
    assert len(fresh) == 1
    assert all(answer.status_code == 409 or answer.headers["Idempotent-Replayed"] == "true" for answer in others)


def test_handler_runs_outside_the_lock() -> None:
    """A handler may call the server it belongs to; its own key is in progress meanwhile."""
    inner: list[int] = []

    def handler(request: ReceivedRequest) -> dict[str, object]:
        if request.path == "/outer":
            with in_memory(server) as client:
                inner.append(client.post("/outer").status_code)
                inner.append(client.post("/inner", headers={"Idempotency-Key": "i"}).status_code)
        return {}

    server = LedgerServer(handler)
    with in_memory(server) as client:
        assert client.post("/outer").status_code == 201
    assert inner == [409, 201]
    server.assert_executed(2)


def test_work_that_was_running_at_a_reset_leaves_no_effect(server: LedgerServer, url: str) -> None:
    """A reset forgets what runs, though its client still gets an answer."""
    done = threading.Event()
    server.script(faults.hold(done))
    with ThreadPoolExecutor() as pool, on_socket(url) as client:
        first = pool.submit(client.post, "/a")
        eventually(lambda: len(server.requests) == 1)
        server.reset()
        done.set()
        assert first.result().status_code == 201
    server.assert_executed(0)


def test_work_is_not_due_before_the_handler_is_through() -> None:
    """An event that is set early does not make half of an answer."""
    seen: list[int] = []

    def handler(_: ReceivedRequest) -> dict[str, object]:
        seen.append(len(server.effects))
        return {}

    server = LedgerServer(handler)
    with in_memory(server) as client:
        client.post("/a")
    assert seen == [0]
    server.assert_executed_once()
