"""One request object in the hands of several senders at once: one key."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from tenacity import wait_none

import samekey
from samekey import Dialect
from samekey._call import Call
from samekey._report import CALL
from samekey._straight import straight
from samekey.testing import LedgerServer, faults


@pytest.mark.parametrize("first", [faults.ok(), faults.status(503), faults.lost()], ids=["ok", "503", "lost"])
def test_threads_that_send_one_request_share_its_key(first: object) -> None:
    """Whoever comes while the first attempt is on its way, on the straight path, takes its key."""
    for _ in range(10):
        server = LedgerServer()
        server.script(first)  # type: ignore[arg-type]
        with server.listen() as url, samekey.wrap(httpx.Client(base_url=url)) as client:
            request = client.build_request("POST", "/charges", json={"amount": 1})
            together = threading.Barrier(6)
            answers = []

            def send() -> None:
                together.wait()  # noqa: B023 - joined before the next round
                answers.append(client.send(request).status_code)  # noqa: B023

            threads = [threading.Thread(target=send) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert answers == [201] * 6
        assert len(server.keys) == 1
        server.assert_executed_once()


def test_a_request_that_is_on_its_way_is_shared() -> None:
    """The second sender comes while the first waits for its answer; the first one's report stays true."""
    server = LedgerServer()
    held = threading.Event()
    server.script(faults.hold(held))
    with server.listen() as url, samekey.wrap(httpx.Client(base_url=url)) as client:
        request = client.build_request("POST", "/charges", json={"amount": 1})
        answers: list[httpx.Response] = []
        first = threading.Thread(target=lambda: answers.append(client.send(request)))
        first.start()
        while not server.requests:
            pass
        second = threading.Thread(target=lambda: answers.append(client.send(request)))
        second.start()
        while len(server.requests) < 2:
            pass
        held.set()
        first.join()
        second.join()

    reports = [samekey.report(answer) for answer in answers]
    assert [report.outcome for report in reports if report] == ["executed", "executed"]
    assert len({report.key for report in reports if report}) == 1
    server.assert_executed_once()


CONCURRENT = b'{"data": null, "errors": [{"extensions": {"code": "IDEMPOTENCY_CONCURRENT_REQUEST"}}]}'


class TwoAnswers(httpx.AsyncBaseTransport):
    """The body of the first answer comes when the second request is there; it says that one is in progress."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.begun, self.second = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers["Idempotency-Key"])
        if len(self.keys) > 1:
            self.second.set()
            return httpx.Response(200, json={"data": {}})
        return httpx.Response(200, stream=Awaiting(self))


class Awaiting(httpx.AsyncByteStream):
    def __init__(self, transport: TwoAnswers) -> None:
        self.transport = transport

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.transport.begun.set()
        await self.transport.second.wait()
        yield CONCURRENT


def test_an_answer_that_comes_while_another_sends_is_read() -> None:
    """A second task takes the request while the body of the first answer is on its way: its words count, too."""
    asyncio.run(two_tasks())


async def two_tasks() -> None:
    inner = TwoAnswers()
    transport = samekey.AsyncIdempotentTransport(
        inner, dialect=Dialect(inspect_2xx=True), policy=samekey.RetryPolicy(poll_wait=wait_none())
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        request = client.build_request("POST", "/charges", json={"amount": 1})
        first = asyncio.create_task(client.send(request))
        await inner.begun.wait()
        await client.send(request)
        report = samekey.report(await first)

    assert report is not None
    assert [attempt.verdict for attempt in report.attempts] == ["in_progress", "ok"]
    assert len(set(inner.keys)) == 1


def test_whoever_comes_as_the_answer_does_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sender is held up in the middle of taking over; the answer arrives, and is either's or both's."""
    server = LedgerServer()
    held = threading.Event()
    server.script(faults.hold(held))
    begin = Call.begin

    def slow(call: Any, *details: Any, **more: Any) -> None:
        begin(call, *details, **more)
        held.set()
        while len(server.effects) < 1:
            pass

    with server.listen() as url, samekey.wrap(httpx.Client(base_url=url)) as client:
        request = client.build_request("POST", "/charges", json={"amount": 1})
        first = threading.Thread(target=client.send, args=(request,))
        first.start()
        while not server.requests:
            pass
        monkeypatch.setattr(Call, "begin", slow)
        second = threading.Thread(target=client.send, args=(request,))
        second.start()
        first.join()
        second.join()
        monkeypatch.undo()
        server.assert_executed_once()

        client.post("/charges", json={"amount": 1})

    server.assert_executed(2)


@pytest.mark.parametrize("fails", [True, False])
def test_a_body_that_is_replaced_meanwhile_is_not_sent(*, fails: bool) -> None:
    """Under one key goes what went first, whatever becomes of the request object."""
    bodies: list[bytes] = []

    def handle(sent: httpx.Request) -> httpx.Response:
        bodies.append(sent.read())
        request.stream = httpx.ByteStream(b"pay 9")
        if fails and len(bodies) == 1:
            raise httpx.ReadError("lost")
        return httpx.Response(201)

    transport = samekey.IdempotentTransport(httpx.MockTransport(handle), policy=samekey.RetryPolicy(wait=wait_none()))
    with httpx.Client(transport=transport, base_url="http://test") as client:
        request = client.build_request("POST", "/charges", content=b"pay 1")
        client.send(request)
        with pytest.raises(samekey.KeyMismatch):
            client.send(request)

    assert bodies == [b"pay 1"] * (2 if fails else 1)


@pytest.mark.parametrize("which", ["memory", "budget"])
def test_code_that_interrupts_may_send(which: str) -> None:
    """A finalizer or a signal handler may run at any moment, and use the same client: no lock waits for itself."""
    answers = iter([503, 201, 201])
    transport = samekey.IdempotentTransport(
        httpx.MockTransport(lambda _: httpx.Response(next(answers))), policy=samekey.RetryPolicy(wait=wait_none())
    )
    engine = transport.engine
    assert isinstance(engine.budget, samekey.SharedBudget)
    lock = engine.memory.lock if which == "memory" else engine.budget._lock
    with lock, httpx.Client(transport=transport, base_url="http://test") as client:
        for _ in range(2):
            assert samekey.report(client.post("/charges")) is not None


def test_the_call_of_an_attempt_on_its_way_is_made_once() -> None:
    """Two other senders get the same trail."""
    transport = samekey.IdempotentTransport(httpx.MockTransport(lambda _: httpx.Response(201)))
    request = httpx.Request("POST", "http://test/", json={}, extensions={"timeout": httpx.Timeout(5).as_dict()})
    first = straight(transport.engine, request)
    assert first is not None

    assert first.shared() is first.shared()


def test_the_trail_of_a_delivered_call_is_made_once() -> None:
    """However many ask for it at once."""
    client = httpx.Client(
        transport=samekey.IdempotentTransport(httpx.MockTransport(lambda _: httpx.Response(201))),
        base_url="http://test",
    )
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            request = client.build_request("POST", "/charges", json={"amount": 1})
            client.send(request)
            together = threading.Barrier(3)
            found: list[object] = []

            def look() -> None:
                together.wait()  # noqa: B023 - joined before the next round
                found.append(request.extensions[CALL].shared())  # noqa: B023

            threads = [threading.Thread(target=look) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(trail is found[0] for trail in found)
    finally:
        sys.setswitchinterval(interval)


class SendsItself:
    """A body that is read once its request was sent by somebody else: the narrowest race, made to happen."""

    def __init__(self, client: httpx.Client, *, plain: bool) -> None:
        self.client = client
        self.plain = plain
        self.request: httpx.Request | None = None

    def __iter__(self) -> Iterator[bytes]:
        request, self.request = self.request, None
        if request is not None:
            if self.plain:  # then the other sender takes the straight path
                request.stream = httpx.ByteStream(b"amount=1")
            self.client.send(request)
        yield b"amount=1"


@pytest.mark.parametrize("plain", [True, False])
def test_whoever_loses_the_race_takes_the_key_of_the_other(*, plain: bool) -> None:
    """Between the admission of a request and its first byte another sender may have been faster."""
    server = LedgerServer()
    with server.listen() as url, samekey.wrap(httpx.Client(base_url=url)) as client:
        body = SendsItself(client, plain=plain)
        request = client.build_request("POST", "/charges", content=body, headers={"Content-Length": "8"})
        body.request = request
        report = samekey.report(client.send(request))

    assert report is not None
    assert (len(server.requests), server.keys, report.replayed) == (2, [report.key], True)
    server.assert_executed_once()


def test_threads_share_the_key_with_listeners_too() -> None:
    """Off the straight path it is no other."""
    for _ in range(10):
        server = LedgerServer()
        with server.listen() as url, samekey.wrap(httpx.Client(base_url=url), listeners=[lambda _: None]) as client:
            request = client.build_request("POST", "/charges", json={"amount": 1})
            together = threading.Barrier(6)

            def send() -> None:
                together.wait()  # noqa: B023 - joined before the next round
                client.send(request)  # noqa: B023

            threads = [threading.Thread(target=send) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert len(server.keys) == 1
        server.assert_executed_once()
