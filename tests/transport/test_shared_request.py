"""One request object in the hands of several senders at once: one key."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

import samekey
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
