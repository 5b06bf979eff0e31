"""In memory: what a socket would show of a body is shown here too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from samekey.testing import LedgerServer, Reply, faults


def client(server: LedgerServer) -> httpx.Client:
    return httpx.Client(transport=server.transport(), base_url="http://test")


def test_body_that_can_be_sent_once_is_not_made_repeatable(server: LedgerServer) -> None:
    """The request's stream is used up, as on a socket: a careless repeat fails here as it does there."""

    def body() -> Iterator[bytes]:
        yield b"once"

    request = httpx.Request("POST", "http://test/a", content=body())
    with client(server) as sender:
        sender.send(request)
        with pytest.raises(httpx.StreamConsumed):
            sender.send(request)
    assert [received.body for received in server.requests] == [b"once"]


@pytest.mark.anyio
async def test_async_body(server: LedgerServer) -> None:
    """An async generator arrives whole."""

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async with httpx.AsyncClient(transport=server.async_transport()) as sender:
        await sender.post("http://test/a", content=body())
    assert server.requests[0].body == b"ab"


@pytest.mark.parametrize(("declared", "text"), [("9", "Too little data"), ("1", "Too much data")])
def test_wrong_content_length(server: LedgerServer, declared: str, text: str) -> None:
    """It is the local protocol error that a real connection raises, and nothing arrives."""
    with client(server) as sender, pytest.raises(httpx.LocalProtocolError, match=text):
        sender.post("/a", content=b"four", headers={"Content-Length": declared})
    assert server.requests == []


def test_answer_is_a_stream(server: LedgerServer) -> None:
    """The caller reads it as from a network: once, with elapsed time, and part by part when it drips."""
    server.script(faults.drip(0, size=4, part="body", then=faults.status(200, body="abcdefghij")))
    with client(server) as sender, sender.stream("GET", "/a") as answer:
        assert [bytes(part) for part in answer.iter_raw()] == [b"abcd", b"efgh", b"ij"]
    assert answer.elapsed.total_seconds() >= 0


@pytest.mark.anyio
async def test_async_answer_is_a_stream(server: LedgerServer) -> None:
    """The same for an async client."""
    server.script(faults.drip(0, size=4, then=faults.status(200, body="abcdefghij")))
    async with (
        httpx.AsyncClient(transport=server.async_transport()) as sender,
        sender.stream("GET", "http://test/a") as answer,
    ):
        assert [part async for part in answer.aiter_raw()] == [b"abcd", b"efgh", b"ij"]


def test_cut_breaks_the_reading_and_not_the_answer(server: LedgerServer) -> None:
    """Status and headers have come when the body breaks off; the length tells what is missing."""
    server.script(faults.cut(2))
    with client(server) as sender, sender.stream("POST", "/a") as answer:
        assert answer.status_code == 201
        with pytest.raises(httpx.RemoteProtocolError, match=r"received 2 bytes, expected 26"):
            answer.read()


def test_repeated_headers_come_through(server: LedgerServer) -> None:
    """Pairs are kept as pairs, in both directions."""
    server.script(lambda _: Reply(200, [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]))
    with client(server) as sender:
        answer = sender.post("/a", headers=[("X-A", "1"), ("x-a", "2")])

    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert server.requests[0].header("X-A") == "1, 2"
    assert server.requests[0].header("absent") is None
