"""The socket server itself: HTTP/1.1 as it comes, and an end without anything left behind."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from samekey.testing import Fault, LedgerServer, ReceivedRequest, Reply, _socket, faults
from tests.testing.scenarios import eventually


@contextmanager
def connection(url: str) -> Iterator[socket.socket]:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as sock:
        yield sock


def talk(url: str, *parts: bytes) -> bytes:
    """Sends *parts* and reads until the server closes."""
    with connection(url) as sock:
        for part in parts:
            sock.sendall(part)
        received = b""
        while data := sock.recv(65536):
            received += data
        return received


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("samekey ledger")]


def test_bodies_by_length_and_in_chunks(server: LedgerServer, url: str) -> None:
    """Both forms arrive whole."""
    with httpx.Client(verify=False) as client:
        client.post(url, content=b"x" * 200_000)
        client.post(url, content=iter([b"he", b"llo", b"!" * 70_000]))

    assert [len(request.body) for request in server.requests] == [200_000, 70_005]
    assert server.requests[1].header("transfer-encoding") == "chunked"


def test_requests_in_pieces_and_in_a_row(server: LedgerServer, url: str) -> None:
    """A request may come byte by byte; several may come at once; chunk extensions and trailers are skipped."""
    chunked = b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n"
    last = b"POST http://h:1/c?d HTTP/1.1\r\nConnection: close\r\n\r\n"
    pieces = [bytes([byte]) for byte in b"POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"]

    answers = talk(url, *pieces, chunked + last)

    assert answers.count(b"HTTP/1.1 201 Created\r\n") == 3
    assert [(request.path, request.query, request.body) for request in server.requests] == [
        ("/a", "", b"hi"),
        ("/b", "", b"abc"),
        ("/c", "d", b""),
    ]


def test_absolute_target_without_a_path(server: LedgerServer, url: str) -> None:
    """It stands for the root; HTTP/1.0 ends with its answer."""
    assert talk(url, b"POST http://h:1 HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 201")
    assert server.requests[0].path == "/"


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET / HTTP/1.1\r\nnocolon\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
    ],
)
def test_malformed_requests(server: LedgerServer, url: str, bad: bytes) -> None:
    """They are told so and count as nothing."""
    assert talk(url, bad).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert server.requests == []


def test_half_a_request_is_no_request(server: LedgerServer, url: str) -> None:
    """A client that leaves in the middle of its body has executed nothing."""
    with connection(url) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""

    assert server.requests == []
    server.assert_executed(0)


def test_connections_are_kept_alive(url: str) -> None:
    """Two requests share a connection, unless the answer closes it."""
    with httpx.Client(verify=False) as client:
        ports = [client.post(url).extensions["network_stream"].get_extra_info("client_addr")[1] for _ in range(2)]
    assert ports[0] == ports[1]


def test_answer_that_closes(server: LedgerServer, url: str) -> None:
    """`Connection: close` in an answer is kept, an unknown status has a reason, no-content has no length."""
    server.script(faults.status(299, headers={"Connection": "close"}), faults.status(204))
    assert talk(url, b"GET / HTTP/1.1\r\n\r\n") == (
        b"HTTP/1.1 299 Unknown\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    assert talk(url, b"GET / HTTP/1.0\r\n\r\n") == b"HTTP/1.1 204 No Content\r\n\r\n"


def test_length_of_the_reply_is_kept(server: LedgerServer, url: str) -> None:
    """Who writes a length of his own gets it."""
    server.script(lambda _: Reply(200, {"content-length": "5"}, b"abc"))
    timeout = {"read": 10.0}
    with httpx.Client(verify=False) as client, client.stream("GET", url, extensions={"timeout": timeout}) as answer:
        assert answer.headers["Content-Length"] == "5"
        timeout["read"] = 0.05  # httpcore looks here again when the body is read
        with pytest.raises(httpx.ReadTimeout):
            answer.read()


def test_drop_closes_in_order_under_a_large_upload(server: LedgerServer, url: str) -> None:
    """The client sees the same error whether or not it is still writing."""
    server.script(then=faults.drop())
    with httpx.Client(verify=False) as client:
        for size in (0, 10, 5_000_000):
            with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
                client.post(url, content=b"x" * size)
    assert server.dropped == 3


STALLS = {
    "idle": faults.ok(),
    "never": faults.never(),
    "cut": faults.cut(end="stall"),
    "slow": faults.slow(60),
    "hold": faults.hold(threading.Event()),
    "drip": faults.drip(60),
}


@pytest.mark.parametrize("step", STALLS.values(), ids=STALLS)
def test_shutdown_with_stalled_connections(server: LedgerServer, step: Fault) -> None:
    """Leaving the block ends every connection at once: no thread, no socket, no warning is left."""
    server.script(then=step)
    started = time.monotonic()
    with server.listen() as url, connection(url) as one, connection(url) as two:
        for sock in (one, two):
            sock.sendall(b"POST / HTTP/1.1\r\n\r\n")
        eventually(lambda: len(server.requests) == 2)
        assert len(ours()) >= 3
    gc.collect()

    assert ours() == []
    assert time.monotonic() - started < 15
    with pytest.raises(ConnectionRefusedError), connection(url):
        pass


def test_shutdown_while_the_client_does_not_read(server: LedgerServer) -> None:
    """A server that is stuck in writing is woken too."""
    server.script(lambda _: Reply(200, body=bytes(50_000_000)))
    with server.listen() as url, connection(url) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        eventually(lambda: len(server.requests) == 1)

    assert ours() == []


def test_client_that_leaves_at_once(server: LedgerServer, url: str) -> None:
    """A reset before the first byte disturbs nobody."""
    for _ in range(20):
        with connection(url) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with httpx.Client(verify=False) as client:
        assert client.post(url).status_code == 201
    eventually(lambda: len(ours()) <= 2)


def test_accept_that_fails(server: LedgerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next client is served all the same."""
    start, failures = _socket.Listener._start, [OSError("aborted")]

    def flaky(self: _socket.Listener, sock: socket.socket) -> None:
        if failures:
            sock.close()
            raise failures.pop()
        start(self, sock)

    monkeypatch.setattr(_socket.Listener, "_start", flaky)
    with server.listen() as url, httpx.Client(verify=False) as client:
        with pytest.raises(httpx.TransportError):
            client.post(url)
        assert client.post(url).status_code == 201


def test_handler_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shutting down does not wait for ever for a user's function; a warning says what is left."""
    monkeypatch.setattr(_socket, "_JOIN_SECONDS", 0.01)
    entered, release = threading.Event(), threading.Event()

    def handler(_: ReceivedRequest) -> Reply:
        entered.set()
        release.wait()
        return Reply()

    server = LedgerServer(handler)
    listening = server.listen()
    with connection(listening.__enter__()) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\n\r\n")
        entered.wait()
        with pytest.warns(ResourceWarning, match="did not return"):
            listening.__exit__(None, None, None)
    left = ours()
    release.set()
    for thread in left:
        thread.join()


def test_exception_in_the_block_closes_too(server: LedgerServer) -> None:
    """The test's own failure leaves nothing behind."""
    with suppress(LookupError), server.listen():
        raise LookupError

    assert ours() == []
