"""Design 6.4 and section C of the bug reports: every attempt sends the same bytes; answers are handed on as untouched.

All on sockets: `httpx.MockTransport` reads the request first and hides the faults (BR-33).
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import KeyMismatch, NotSent, OutcomeUnknown, RetryPolicy
from samekey._httpx import BACKEND
from samekey.testing import Fault, Reply, faults
from tests.transport.harness import (
    CHARGE,
    Api,
    counting,
    kinds,
    leaves_streams,
    on_async,
    on_sync,
    raises,
    statuses,
    the,
)

QUICK = RetryPolicy(wait=wait_none())
SMALL = RetryPolicy(wait=wait_none(), max_request_buffer=1000, max_response_buffer=1000)


class OneShot:
    """An iterator that is no generator: httpx does not notice when it has run out."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def __iter__(self) -> OneShot:
        return self

    def __next__(self) -> bytes:
        if not self.parts:
            raise StopIteration
        return self.parts.pop(0)


class AsyncOneShot:
    """Its async twin."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def __aiter__(self) -> AsyncOneShot:
        return self

    async def __anext__(self) -> bytes:
        if not self.parts:
            raise StopAsyncIteration
        return self.parts.pop(0)


class Again:
    """An object that can be iterated any number of times."""

    def __iter__(self) -> Iterator[bytes]:
        yield from (b"hel", b"lo")


class AsyncAgain:
    """Its async twin."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"hel"
        yield b"lo"


class Pipe(io.RawIOBase):
    """A file that cannot seek."""

    def __init__(self, data: bytes) -> None:
        self.data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int | None = -1) -> bytes:
        return self.data.read(size)

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation


def behind_its_start() -> io.BytesIO:
    file = io.BytesIO(b"skipped hello")
    file.seek(8)
    return file


def temporary() -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the test
    file.write(b"hello")
    file.seek(0)
    return file


def generator() -> Iterator[bytes]:
    yield b"hel"
    yield b"lo"


async def async_generator() -> AsyncIterator[bytes]:
    yield b"hel"
    yield b"lo"


BOTH: dict[str, Callable[[], dict[str, Any]]] = {
    "bytes": lambda: {"content": b"hello"},
    "str": lambda: {"content": "hello"},
}
SYNC: dict[str, Callable[[], dict[str, Any]]] = {
    "generator": lambda: {"content": generator()},
    "one-shot": lambda: {"content": OneShot(b"hel", b"", b"lo")},
    "iterable": lambda: {"content": Again()},
    "iterator": lambda: {"content": iter([b"hello"])},
    "list": lambda: {"content": [b"hel", b"lo"]},
    "file": lambda: {"content": io.BytesIO(b"hello")},
    "file-behind-its-start": lambda: {"content": behind_its_start()},
    "pipe": lambda: {"content": Pipe(b"hello")},
}
ASYNC: dict[str, Callable[[], dict[str, Any]]] = {
    "generator": lambda: {"content": async_generator()},
    "one-shot": lambda: {"content": AsyncOneShot(b"hel", b"", b"lo")},
    "iterable": lambda: {"content": AsyncAgain()},
}
FORMS: dict[str, Callable[[], dict[str, Any]]] = {
    "json": lambda: {"json": CHARGE},
    "data": lambda: {"data": {"a": "1", "b": "2"}},
    "files": lambda: {"files": {"f": ("a.txt", b"hello")}},
    "files-open": lambda: {"files": {"f": io.BytesIO(b"hello")}},
    "files-pipe": lambda: {"files": {"f": ("a.txt", Pipe(b"hello"))}},
    "files-and-data": lambda: {"files": [("f", b"hello"), ("f", b"again")], "data": {"a": "1"}},
    "no-body": lambda: {"content": b""},
}
FAULTS: dict[str, Fault] = {
    "503": faults.status(503),
    "lost": faults.lost(),
    "cut": faults.cut(),
    "reset": faults.reset(),
    "drop": faults.drop(),
}


async def sends_alike(api: Api, body: Callable[[], dict[str, Any]], step: Fault) -> list[bytes]:
    """The bodies of all attempts, which are two; *step* is met first."""
    api.server.script(step)
    async with api.client(policy=QUICK) as client:
        response = await client.post(**body())
    assert response.status_code == 201
    assert len(the(samekey.report(response)).attempts) == 2
    assert len(api.server.effects) == 1
    api.server.assert_same_key()
    api.server.assert_same_body()
    assert len({request.header("content-type") for request in api.server.requests}) == 1
    return [request.body for request in api.server.requests]


@pytest.mark.parametrize("step", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("body", BOTH.values(), ids=BOTH)
async def test_bytes_are_sent_as_they_are(api: Api, body: Any, step: Fault) -> None:
    assert set(await sends_alike(api, body, step)) == {b"hello"}


@on_sync
@pytest.mark.parametrize("step", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("body", SYNC.values(), ids=SYNC)
async def test_br_27_br_28_every_attempt_has_the_whole_body(api: Api, body: Any, step: Fault) -> None:
    """What httpx would send twice as nothing, in part, or not at all is read once, before the first attempt.

    A Content-Length that is wrong for the snapshot (httpx 0.28, a file not at its start) is mended.
    """
    assert set(await sends_alike(api, body, step)) == {b"hello"}


@on_async
@pytest.mark.parametrize("step", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("body", ASYNC.values(), ids=ASYNC)
async def test_br_27_br_28_every_async_attempt_has_the_whole_body(api: Api, body: Any, step: Fault) -> None:
    assert set(await sends_alike(api, body, step)) == {b"hello"}


@pytest.mark.parametrize("step", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
async def test_br_30_br_31_forms_are_byte_identical(api: Api, body: Any, step: Fault) -> None:
    """Boundary, order and parts, also of a part that cannot seek."""
    sent = await sends_alike(api, body, step)
    if "files" in list(body()):
        assert all(b"hello" in one for one in sent)


async def test_br_28_the_real_error_is_seen(api: Api) -> None:
    """A generator, and the server never gets well: the 503, not StreamConsumed."""
    api.server.script(then=faults.status(503))
    async with api.client(policy=QUICK) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post(content=api.body_of(b"hel", b"lo"))

    assert caught.value.response.status_code == 503
    assert [request.body for request in api.server.requests] == [b"hello"] * 5


async def test_br_31_the_content_length_is_that_of_the_bytes(api: Api) -> None:
    """A caller's wrong announcement is corrected; chunked stays chunked."""
    async with api.client() as client:
        await client.post(content=api.body_of(b"hel", b"lo"), headers={"Content-Length": "99"})
        await client.post(content=api.body_of(b"hel", b"lo"))

    assert [request.header("content-length") for request in api.server.requests] == ["5", None]
    assert [request.header("transfer-encoding") for request in api.server.requests] == [None, "chunked"]


@on_sync
async def test_a_real_file_that_was_read_in_part(api: Api) -> None:
    """What httpx 0.28 announces is the whole file; the snapshot has the rest of it."""
    api.server.script(faults.lost())
    with temporary() as file:
        file.read(2)
        async with api.client() as client:
            await client.post(content=file)

    assert [request.body for request in api.server.requests] == [b"llo"] * 2


async def test_an_unkeyed_body_is_replayed_too(api: Api) -> None:
    """PUT is repeated without a key, but with all its bytes."""
    api.server.script(faults.lost(), faults.status(503))
    async with api.client(policy=QUICK) as client:
        await client.request("PUT", content=api.body_of(b"hel", b"lo"))

    assert [request.body for request in api.server.requests] == [b"hello"] * 3


async def test_the_callers_generator_may_raise(api: Api) -> None:
    """Its own exception, before anything is sent."""

    def broken() -> Iterator[bytes]:
        yield b"hel"
        raise ZeroDivisionError

    async def async_broken() -> AsyncIterator[bytes]:
        yield b"hel"
        raise ZeroDivisionError

    async with api.client() as client:
        with pytest.raises(ZeroDivisionError):
            await client.post(content=broken() if api.sync else async_broken())
        assert (await client.post()).status_code == 201

    assert len(api.server.requests) == 1


# -- larger than may be kept


async def test_an_oversize_body_goes_out_once(api: Api) -> None:
    """Streamed, whole, with a key; the answer is returned as always."""
    async with api.client(policy=SMALL) as client:
        response = await client.post(content=api.body_of(*[b"x" * 600] * 5))

    assert response.status_code == 201
    assert [request.body for request in api.server.requests] == [b"x" * 3000]
    api.seen(wire=1, effects=1)


@pytest.mark.parametrize(
    ("step", "also"),
    [
        (faults.lost(), "RemoteProtocolError"),
        (faults.status(503), "HTTPStatusError"),
        (faults.cut(), "RemoteProtocolError"),
    ],
)
async def test_an_oversize_body_is_not_repeated(api: Api, step: Fault, also: str) -> None:
    """Never a shorter body: the call ends unknown after its one attempt."""
    api.server.script(step)
    async with api.client(policy=SMALL) as client:
        with raises(OutcomeUnknown, getattr(api.httpx, also)) as caught:
            await client.post(content=api.body_of(*[b"x" * 600] * 5))

    assert the(caught.value.report).gave_up is None
    assert [request.body for request in api.server.requests] == [b"x" * 3000]


async def test_an_oversize_request_cannot_be_sent_again(api: Api) -> None:
    """Its stream is used up, and says so in httpx's own way; nothing of a second attempt arrives."""
    async with api.client(policy=SMALL) as client:
        request = client.build(content=api.body_of(*[b"x" * 600] * 5))
        await client.send(request)
        with pytest.raises((api.httpx.StreamConsumed, KeyMismatch)):
            await client.send(request)

    assert [len(request.body) for request in api.server.requests] == [3000]


async def test_an_oversize_body_with_auth_and_redirects(api: Api) -> None:
    """A second leg needs the bytes again, which are gone: an error, never an empty body."""
    api.server.script(faults.redirect(307, "/b"))
    async with api.client(policy=SMALL, follow_redirects=True) as client:
        with pytest.raises((api.httpx.StreamConsumed, OutcomeUnknown, NotSent)):
            await client.post(content=api.body_of(*[b"x" * 600] * 5))

    assert [len(request.body) for request in api.server.requests] == [3000]


async def test_an_oversize_body_with_a_wrong_length(api: Api) -> None:
    """A part of it has left, so a local protocol error says nothing about what the server did.

    On a socket httpcore lets h11's own exception through, which is raised as it is, with the attempt left open.
    """
    settings: dict[str, Any] = {"content": api.body_of(*[b"x" * 600] * 5), "headers": {"Content-Length": "5000"}}
    async with api.client(policy=SMALL, memory=True) as client:
        with raises(OutcomeUnknown, api.httpx.LocalProtocolError) as caught:
            await client.post(**settings)
    async with api.client(policy=SMALL) as client:
        with pytest.raises(Exception, match="Too little data") as raw:
            await client.post(**{**settings, "content": api.body_of(*[b"x" * 600] * 5)})

    assert the(caught.value.report).attempts[0].failure == "unknown"
    assert the(samekey.report(raw.value)).outcome == "unknown"
    assert api.server.effects == []


async def test_bytes_are_never_too_large(api: Api) -> None:
    """They are in memory already."""
    api.server.script(faults.lost())
    async with api.client(policy=SMALL) as client:
        await client.post(content=b"x" * 5000)

    api.seen(wire=2, effects=1)


# -- the answer


def answers(body: bytes, *, status: int = 200, times: int = 1, **headers: str) -> list[Fault]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [faults.status(status, body=body, headers=named, executes=True)] * times


async def test_an_answer_is_as_without_samekey(api: Api) -> None:
    """elapsed, iter_raw, num_bytes_downloaded, gzip, extensions, json: those of an unread stream."""
    packed = gzip.compress(json.dumps({"id": 1}).encode())
    for streamed in (False, True):
        api.server.script(*answers(packed, Content_Encoding="gzip", Content_Type="application/json"))
        async with api.client() as client:
            if streamed:
                async with client.stream(json={"n": 1}) as response:
                    assert b"".join(await api.parts(response)) == packed
                    with pytest.raises(api.httpx.StreamConsumed):
                        await api.parts(response)
            else:
                response = await client.post(json={"n": 2})
                assert response.json() == {"id": 1}
        assert response.num_bytes_downloaded == len(packed)
        assert response.elapsed.total_seconds() > 0
        assert response.is_closed
        assert "network_stream" in response.extensions
        assert response.http_version == "HTTP/1.1"


@pytest.mark.parametrize("how", ["iter_raw", "iter_bytes", "iter_text", "iter_lines"])
async def test_every_way_to_read_a_streamed_answer(api: Api, how: str) -> None:
    api.server.script(*answers(b"one\ntwo\n", times=2))
    async with api.client() as client:
        async with client.stream() as response:
            parts = await api.parts(response, how)
        joined = "".join(part if isinstance(part, str) else part.decode() for part in parts)

    assert joined.replace("\n", "") == "onetwo"


async def test_an_answer_beyond_the_limit_streams_through(api: Api) -> None:
    """The first part is read ahead, the rest as it comes; together they are the answer."""
    body = bytes(range(256)) * 400
    api.server.script(*answers(body, times=3))
    async with api.client(policy=SMALL) as client:
        assert (await client.post(json={"n": 1})).content == body
        async with client.stream(json={"n": 2}) as response:
            assert b"".join(await api.parts(response, "iter_raw")) == body
            with pytest.raises(api.httpx.StreamConsumed):
                await api.parts(response)
        async with client.stream(json={"n": 3}) as response:
            assert await api.read(response) == body
        assert client.connections == 1


@leaves_streams
async def test_an_answer_beyond_the_limit_may_be_left_unread(api: Api) -> None:
    """Closing it closes the connection: none is lost, none is waited for."""
    api.server.script(*answers(b"x" * 300_000, times=2))
    async with api.client(policy=SMALL, connections=1, timeouts={"timeout": 2, "pool": 0.2}) as client:
        for number in range(2):
            async with client.stream(json={"n": number}) as response:
                assert response.status_code == 200
        assert (await client.post()).status_code == 201


@pytest.mark.parametrize(
    ("end", "name"), [("close", "RemoteProtocolError"), ("reset", "ReadError"), ("stall", "ReadTimeout")]
)
async def test_a_failure_in_the_remainder_is_unknown(api: Api, end: Any, name: str) -> None:
    """Beyond the limit nothing can be retried: OutcomeUnknown, with "executed" in the report, for post() and stream().

    The operation is remembered: an equal request does not become a second one.
    """
    step = faults.cut(2000, end=end)
    step = Fault("cut", step.source, executes=True, reply=Reply(200, (), b"x" * 5000), delivery=step.delivery)
    api.server.script(step)
    hurry = {1: "body"} if end == "stall" else None
    async with api.client(policy=SMALL, hurry=hurry) as client:
        with raises(OutcomeUnknown, getattr(api.httpx, name)) as caught:
            await client.post()
        with raises(OutcomeUnknown, getattr(api.httpx, name)) as repeated:
            await client.post()
        assert repeated.value.key == caught.value.key == api.server.keys[0]
        assert len(api.server.requests) == 1
        assert isinstance(caught.value.__cause__, getattr(api.httpx, name))
        assert the(samekey.report(caught.value)).outcome == "executed"
        with samekey.operation(key=caught.value.key):
            assert (await client.post()).status_code == 201

    assert len(api.server.effects) == 1


@pytest.mark.parametrize(
    "media_type",
    [
        "text/event-stream", "TEXT/Event-Stream; charset=utf-8", "application/x-ndjson", "application/ndjson",
        "application/jsonl", "application/json-seq", "multipart/x-mixed-replace; boundary=x",
    ],
)  # fmt: skip
async def test_streams_are_never_buffered(api: Api, media_type: str) -> None:
    """They may never end: the answer is there before its first part has been read."""
    stream = chunked(api, *[b"data: 1\n\n"] * 50)
    answer = api.httpx.Response(200, headers={"Content-Type": media_type}, stream=stream)
    async with api.client(transport=api.inner(lambda _: answer)) as client, client.stream() as response:
        assert stream.read == 0
        assert b"".join(await api.parts(response)) == b"data: 1\n\n" * 50


async def test_a_broken_event_stream(api: Api) -> None:
    """It reaches the reader as an unknown outcome, after the parts that had come."""
    step = faults.cut(90)
    reply = Reply(200, {"Content-Type": "text/event-stream"}, b"data: 1\n\n" * 50)
    api.server.script(Fault("cut", step.source, executes=True, reply=reply, delivery=step.delivery))
    got: list[bytes] = []
    async with api.client() as client:
        async with client.stream() as response:
            with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
                await api.parts(response, "iter_raw", into=got)
        assert the(samekey.report(response)).outcome == "executed"

    assert b"".join(got) == b"data: 1\n\n" * 10
    assert len(api.server.requests) == 1


async def test_buffering_may_be_turned_off(api: Api) -> None:
    """buffer_response=False: the answer is handed on at once; a 4xx is read all the same."""
    streams = [chunked(api, *[b"x"] * 50), chunked(api, b'{"a":', b" 1}")]
    answers = iter([api.httpx.Response(200, stream=streams[0]), api.httpx.Response(422, stream=streams[1])])
    extensions = samekey.options(buffer_response=False)
    async with api.client(transport=api.inner(lambda _: next(answers))) as client:
        async with client.stream(extensions=extensions) as response:
            assert streams[0].read == 0
            assert await api.read(response) == b"x" * 50
        async with client.stream(json={"n": 2}, extensions=extensions) as refused:
            assert streams[1].read == 2
            assert await api.read(refused) == b'{"a": 1}'


async def test_a_large_refusal(api: Api) -> None:
    """Only its first 64 KiB are looked at; the caller gets all of it, and the connection stays in use."""
    body = json.dumps({"code": "card_declined", "padding": "x" * 200_000}).encode()
    api.server.script(*answers(body, status=402, times=2))
    opened: list[str] = []
    async with api.client() as client:
        response = await client.post(extensions=counting(api, opened))
        async with client.stream(json={"n": 2}, extensions=counting(api, opened)) as streamed:
            assert await api.read(streamed) == body

    assert response.content == body
    assert len(opened) == 1


async def test_a_large_answer_that_breaks_off(api: Api) -> None:
    """A refusal that is cut after the part that was looked at: the answer stands, its end is an error of the read."""
    step = faults.cut(100_000)
    reply = Reply(402, (), b"x" * 200_000)
    api.server.script(Fault("cut", step.source, executes=False, reply=reply, delivery=step.delivery))
    async with api.client() as client:
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
            await client.post()


async def test_the_decoded_body_is_classified(api: Api) -> None:
    """gzip, and a broken gzip, of which only the status counts."""
    running = gzip.compress(b'{"error": "A request with this key is still being processed"}')
    api.server.script(
        *answers(running, status=409, Content_Encoding="gzip"),
        *answers(b"no gzip", status=409, Content_Encoding="gzip"),
    )
    async with api.client() as client:
        polled = await client.post(json={"n": 1})

    assert kinds(samekey.report(polled)) == ["first", "poll", "poll"]
    assert [str(attempt.verdict) for attempt in the(samekey.report(polled)).attempts] == [
        "in_progress",
        "conflict",
        "ok",
    ]


async def test_an_error_whose_answer_cannot_be_decoded(api: Api) -> None:
    """The bytes are kept as they are, and the error is ours."""
    api.server.script(then=answers(b"no gzip", status=503, Content_Encoding="gzip")[0])
    async with api.client(policy=QUICK) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post()

    assert caught.value.response.content == b"no gzip"


async def test_a_cut_answer_is_no_answer(api: Api) -> None:
    """An error shows an answer only if there was a whole one."""
    api.server.script(then=faults.cut())
    async with api.client(policy=QUICK) as client:
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await client.post()

    assert caught.value.response is None


async def test_many_small_parts_beyond_the_limit(api: Api) -> None:
    """They arrive whole and in order."""
    pieces = [bytes([number % 251]) for number in range(5000)]
    answer = api.httpx.Response(200, stream=chunked(api, *pieces))
    policy = RetryPolicy(max_response_buffer=3000)
    async with api.client(transport=api.inner(lambda _: answer), policy=policy) as client:
        assert (await client.post()).content == b"".join(pieces)


async def test_a_success_that_is_decoded_arrives(api: Api) -> None:
    """Whole, whatever looked at it before."""
    body = b'{"id": 1, "note": "' + b"x" * 5000 + b'"}'
    api.server.script(*answers(gzip.compress(body), status=201, Content_Encoding="gzip"))
    async with api.client() as client:
        response = await client.post()
    assert response.content == body
    assert statuses(samekey.report(response)) == [201]


async def test_a_cut_answers_headers_still_count(api: Api) -> None:
    """Retry-After of a 503 whose body broke off is waited for; one that is too long ends the call."""
    cut = faults.cut(3)
    for seconds, attempts in (("7", 2), ("3600", 1)):
        reply = Reply(503, {"Retry-After": seconds}, b"x" * 100)
        api.server.script(Fault("cut", cut.source, executes=False, reply=reply, delivery=cut.delivery))
        async with api.client(listen=True, policy=QUICK) as client:
            if attempts == 2:
                response = await client.post()
                assert statuses(samekey.report(response)) == ["RemoteProtocolError", 201]
                assert the(samekey.report(response)).attempts[0].status == 503
                assert api.waits == [7.0]
            else:
                with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
                    await client.post()
                told = the(caught.value.report)
                assert (told.gave_up, told.retry_after, len(told.attempts)) == ("retry_after", 3600.0, 1)


async def test_an_answer_that_the_inner_transport_has_read(api: Api) -> None:
    """It is passed on as it is: no stream is left, and it can be read as often as one likes."""
    stored = api.httpx.Response(201, json={"id": 1})
    busy = api.httpx.Response(503, text="busy")
    packed = api.httpx.Response(409, headers={"Content-Encoding": "gzip"}, content=gzip.compress(b'{"code": "x"}'))

    async def read(response: Any) -> Any:
        await api.read(response)
        return response

    def sync_read(response: Any) -> Any:
        response.read()
        return response

    queue = [busy, stored, packed]

    def handle(request: httpx.Request) -> Any:
        return sync_read(queue.pop(0)) if api.sync else read(queue.pop(0))

    async with api.client(transport=api.inner(handle)) as client:
        response = await client.post()
        assert response is stored
        assert response.json() == {"id": 1}
        refused = await client.post(json={"n": 2})

    assert statuses(samekey.report(response)) == [503, 201]
    assert refused.json() == {"code": "x"}


class Chunked:
    """A stream of an inner transport, in both colours, that notes what was read, and that it was closed."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = parts
        self.read = 0
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        for part in self.parts:
            self.read += 1
            yield part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self:
            yield part

    def close(self) -> None:
        self.closed += 1

    async def aclose(self) -> None:
        self.closed += 1


def chunked(api: Api, *parts: bytes) -> Any:
    """Such a stream, of the class that the library asks for."""
    return type("Stream", (Chunked, api.httpx.SyncByteStream, api.httpx.AsyncByteStream), {})(*parts)


@pytest.mark.parametrize("status", [409, 503])
async def test_a_closed_answer_of_the_inner_transport(api: Api, status: int) -> None:
    """Read and decoded by it (a cache does so): its decoded bytes are what is looked at, and kept in errors."""
    streams: list[Any] = []

    def answer() -> Any:
        streams.append(chunked(api, gzip.compress(b'{"error": "A request with this key is still being processed"}')))
        return api.httpx.Response(status, headers={"Content-Encoding": "gzip"}, stream=streams[-1])

    def read() -> Any:
        response = answer()
        response.read()
        return response

    async def async_read() -> Any:
        response = answer()
        await response.aread()
        return response

    policy = RetryPolicy(stop=stop_after_attempt(2), wait=wait_none(), poll_wait=wait_fixed(40))
    inner = api.inner(lambda _: read() if api.sync else async_read())
    async with api.client(transport=inner, policy=policy) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post()
    assert caught.value.response.json() == {"error": "A request with this key is still being processed"}
    assert all(stream.closed for stream in streams)


@leaves_streams
async def test_every_answer_of_the_inner_transport_is_closed(api: Api) -> None:
    """Also one that nobody gets, and one whose reading fails."""
    streams = [chunked(api, b"busy"), chunked(api, b"x" * 70_000, b"y"), chunked(api, b"done")]
    queue = list(streams)

    def handle(request: httpx.Request) -> Any:
        status = 503 if len(queue) > 1 else 201
        return api.httpx.Response(status, stream=queue.pop(0))

    async with api.client(transport=api.inner(handle), policy=QUICK) as client:
        response = await client.post()

    assert response.content == b"done"
    assert [stream.closed for stream in streams] == [1, 1, 1]


async def test_four_requests_on_one_connection(api: Api) -> None:
    """Three discarded answers and one kept, over one TCP connection; with a pool of two nothing starves."""
    api.server.script(*[faults.status(503, body="busy " * 100)] * 3)
    opened: list[str] = []
    async with api.client(connections=2, timeouts={"timeout": 2, "pool": 0.2}) as client:
        await client.post(extensions=counting(api, opened))
        assert client.connections == 1

    assert len(opened) == 1
    api.seen(wire=4, effects=1)


async def test_a_switch_of_protocols_is_handed_on_untouched(api: Api) -> None:
    """101 has no body to wait for."""
    stream = chunked(api, b"never read")

    def handle(request: httpx.Request) -> Any:
        return api.httpx.Response(101, stream=stream)

    async with api.client(transport=api.inner(handle)) as client, client.stream() as response:
        assert response.status_code == 101
        assert not stream.closed


# -- exceptions from where nobody expects them


class Failing(Chunked):
    """A stream that raises after its parts."""

    def __init__(self, error: Exception, *parts: bytes) -> None:
        super().__init__(*parts)
        self.error = error

    def __iter__(self) -> Iterator[bytes]:
        yield from self.parts
        raise self.error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
        raise self.error


def failing(api: Api, error: Exception, *parts: bytes) -> Any:
    return type("Stream", (Failing, api.httpx.SyncByteStream, api.httpx.AsyncByteStream), {})(error, *parts)


async def test_a_generator_that_fails_beyond_the_limit(api: Api) -> None:
    """The caller's own exception, as it is; a part of the request has left, so the outcome is unknown."""
    async with api.client(policy=SMALL) as client:
        request = client.build(content=api.body_of(b""))
        request.stream = failing(api, ZeroDivisionError("in the generator"), b"x" * 600, b"x" * 600)
        with pytest.raises(ZeroDivisionError) as caught:
            await client.send(request)

    assert the(samekey.report(caught.value)).outcome == "unknown"


async def test_an_answer_that_fails_beyond_the_limit(api: Api) -> None:
    """An exception that is not the library's is handed on as it is."""
    stream = failing(api, ZeroDivisionError("in the stream"), b"x" * 600, b"x" * 600)
    inner = api.inner(lambda _: api.httpx.Response(201, stream=stream))
    async with api.client(policy=SMALL, transport=inner) as client:
        with pytest.raises(ZeroDivisionError):
            await client.post()

    assert stream.closed


@pytest.mark.parametrize("name", ["ConnectError", "PoolTimeout", "LocalProtocolError"])
async def test_never_sent_after_an_answer_has_begun(api: Api, name: str) -> None:
    """What usually says "never sent" cannot say it while an answer is read: retried, and unknown at the end."""
    calls: list[object] = []

    def handle(request: Any) -> Any:
        calls.append(request)
        return api.httpx.Response(201, stream=failing(api, getattr(api.httpx, name)("odd"), b"x"))

    async with api.client(policy=QUICK, transport=api.inner(handle)) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    assert len(calls) == 5
    assert not isinstance(caught.value, api.httpx.ConnectError | api.httpx.PoolTimeout)


def test_a_rest_may_have_nothing_to_close() -> None:
    """Its source may be of the other colour; then there is nothing to do."""
    rest = BACKEND.Rest([], iter(()), object(), lambda error: error, httpx.StreamConsumed)
    rest.close()
    with pytest.raises(StopIteration):
        rest.aclose().send(None)
