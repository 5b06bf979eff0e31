"""A `LedgerServer` behind httpx's transport interface, without a socket.

One generator plays each exchange and one each body; they say when to wait, and a sync and an async loop do the waiting.
The request's stream is iterated and not read into the request, so that a body which cannot be sent twice fails here as
it does on a socket.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import NoReturn

import anyio
import httpx

from ._core import Core
from ._delivery import Parcel, pack, pieces
from ._faults import Contact, Delivery, End, Fault, Pause, Step
from ._http1 import head_bytes, split_target
from ._records import find_header

Body = Generator[bytes | Pause, bool | None, None]


class MemoryTransport(httpx.BaseTransport):
    """The sync transport of `LedgerServer.transport`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Plays the next step of the script.

        Raises:
            httpx.TransportError: As the step has it.
            RuntimeError: The step never ends and the request has no read timeout.
        """
        step = _connect(self._core, request)
        assert isinstance(request.stream, httpx.SyncByteStream)
        exchange = _exchange(self._core, request, step, b"".join(request.stream))
        try:
            pause = next(exchange)
            while True:
                pause = exchange.send(_wait(pause))
        except StopIteration as done:
            parcel, body = done.value
            return httpx.Response(parcel.status, headers=list(parcel.headers), stream=_SyncStream(body))


class AsyncMemoryTransport(httpx.AsyncBaseTransport):
    """The async transport of `LedgerServer.async_transport`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Plays the next step of the script.

        Raises:
            httpx.TransportError: As the step has it.
        """
        step = _connect(self._core, request)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        sent = b"".join([chunk async for chunk in request.stream])
        exchange = _exchange(self._core, request, step, sent)
        try:
            pause = next(exchange)
            while True:
                pause = exchange.send(await _async_wait(pause))
        except StopIteration as done:
            parcel, body = done.value
            return httpx.Response(parcel.status, headers=list(parcel.headers), stream=_AsyncStream(body))


def _connect(core: Core, request: httpx.Request) -> Step:
    step = core.take(_target(request)[0])
    if isinstance(step, Fault) and step.contact is not Contact.READ:
        core.drop()
        if step.contact is Contact.REFUSED:
            _refused(request)
    return step


def _exchange(
    core: Core, request: httpx.Request, step: Step, sent: bytes
) -> Generator[Pause, bool, tuple[Parcel, Body]]:
    _check_length(request, sent)
    limit = _read_timeout(request)
    if isinstance(step, Fault) and step.contact is not Contact.READ:
        yield from _broken(request, step.delivery.end, limit)
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw)
    visit = core.visit(core.read(request.method, _target(request), headers, sent), step)
    if visit.fault.contact is Contact.REFUSED:
        _refused(request)
    if visit.fault.pause is not None:
        yield from _within(visit.fault.pause, limit, request)
    reply = visit.answer()
    delivery = visit.fault.delivery
    if not delivery.answered:
        yield from _broken(request, delivery.end, limit)
    parcel = pack(reply, request.method, delivery)
    drip = delivery.drip
    if drip is not None and drip.head:
        for _ in pieces(head_bytes(parcel), drip):
            yield from _within(Pause(drip.interval), limit, request)
    return parcel, _body(request, parcel, delivery, limit)


def _body(request: httpx.Request, parcel: Parcel, delivery: Delivery, limit: float | None) -> Body:
    drip = delivery.drip if delivery.drip and delivery.drip.body else None
    for piece in pieces(parcel.body, drip):
        if drip is not None:
            yield from _within(Pause(drip.interval), limit, request)
        yield piece
    if delivery.partial:
        expected = find_header(parcel.headers, "Content-Length")
        yield from _broken(
            request,
            delivery.end,
            limit,
            "peer closed connection without sending complete message body "
            f"(received {len(parcel.body)} bytes, expected {expected})",
        )


def _within(pause: Pause, limit: float | None, request: httpx.Request) -> Generator[Pause, bool | None, None]:
    """Waits as *pause* says, but never longer than the client's read timeout."""
    if limit is not None and (pause.seconds is None or pause.seconds > limit):
        if not (yield Pause(limit, pause.event)) or pause.event is None:
            raise httpx.ReadTimeout("timed out", request=request)
    else:
        yield pause


def _broken(
    request: httpx.Request,
    end: End,
    limit: float | None,
    closed: str = "Server disconnected without sending a response.",
) -> Generator[Pause, bool | None, NoReturn]:
    if end is End.STALL:
        yield from _within(Pause(), limit, request)
    if end is End.RESET:
        raise httpx.ReadError("[Errno 104] Connection reset by peer", request=request)
    raise httpx.RemoteProtocolError(closed, request=request)


def _refused(request: httpx.Request) -> NoReturn:
    raise httpx.ConnectError("[Errno 111] Connection refused", request=request)


def _check_length(request: httpx.Request, sent: bytes) -> None:
    """As h11 does on a real connection."""
    declared = request.headers.get("Content-Length")
    if declared is not None and int(declared) != len(sent):
        much = "little" if len(sent) < int(declared) else "much"
        raise httpx.LocalProtocolError(f"Too {much} data for declared Content-Length", request=request)


def _read_timeout(request: httpx.Request) -> float | None:
    timeout = request.extensions.get("timeout", {}).get("read")
    return None if timeout is None else float(timeout)


def _target(request: httpx.Request) -> tuple[str, str]:
    return split_target(request.url.raw_path.decode("ascii"))


def _wait(pause: Pause) -> bool:
    """True when the event was set, or there was none and the time is over."""
    if pause.event is not None:
        return pause.event.wait(pause.seconds)
    if pause.seconds is None:
        raise RuntimeError("this step never ends: give the client a read timeout")
    time.sleep(pause.seconds)
    return True


async def _async_wait(pause: Pause) -> bool:
    if pause.event is None:
        await (anyio.sleep_forever() if pause.seconds is None else anyio.sleep(pause.seconds))
        return True
    with anyio.move_on_after(pause.seconds):
        while not pause.event.is_set():  # noqa: ASYNC110 - it is set from any thread
            await anyio.sleep(0.005)
    return pause.event.is_set()


class _SyncStream(httpx.SyncByteStream):
    def __init__(self, body: Body) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for item in self._body:
            if isinstance(item, Pause):
                _wait(item)
            else:
                yield item


class _AsyncStream(httpx.AsyncByteStream):
    def __init__(self, body: Body) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for item in self._body:
            if isinstance(item, Pause):
                await _async_wait(item)
            else:
                yield item
