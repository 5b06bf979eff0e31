"""The request for the wire: a copy of the caller's, with the key on it and its timeouts cut."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from ._wire import clipped
from .dialects import Carrier, Header, JsonField, RepeatabilityHeaders

if TYPE_CHECKING:
    import httpx

    from ._call import Call


def outgoing(call: Call, wall: float) -> httpx.Request:
    """The next attempt's request. The caller's own is never changed: editing it in place would race between threads."""
    request, exchange = call.request, call.exchange
    headers = call.engine.backend.Headers(request.headers)
    stream = _body(call, headers) if call.replayable else call.body
    if exchange.keyed:
        _put_key(call, headers, wall)
    timeout = clipped(request.extensions.get("timeout", {}), call.left)
    # Not made by its constructor, which would parse and check again what the caller's request has gone through.
    wire = object.__new__(type(request))
    extensions = {**request.extensions, "timeout": timeout}
    wire.__dict__ = {**request.__dict__, "headers": headers, "stream": stream, "extensions": extensions}
    if stream is not request.stream:
        # What the caller's request has read is not what is sent; a transport inside may look at it all the same.
        wire.__dict__["_content"] = b"".join(stream)
    return wire


def take_off(carrier: Carrier | None, headers: httpx.Headers) -> None:
    """Remove what *carrier* has put on *headers*."""
    if isinstance(carrier, Header | RepeatabilityHeaders):
        headers.pop(carrier.name, None)
    if isinstance(carrier, RepeatabilityHeaders):
        headers.pop(carrier.date_name, None)


def _put_key(call: Call, headers: httpx.Headers, wall: float) -> None:
    carrier, state = call.dialect.carrier, call.exchange.state
    if not call.first_leg and call.the_trail.carrier != carrier:
        take_off(call.the_trail.carrier, headers)
    if isinstance(carrier, JsonField):
        return
    if call.given is None and (call.first_leg or carrier.name not in headers):
        headers[carrier.name] = carrier.encode(state.key)
    if isinstance(carrier, RepeatabilityHeaders) and carrier.date_name not in headers:
        headers[carrier.date_name] = carrier.date(state.first_sent[1] if state.first_sent else wall)


def _body(call: Call, headers: httpx.Headers) -> Any:
    """The body of every attempt; the length is mended where what the caller announced is wrong for it."""
    carrier, state = call.dialect.carrier, call.exchange.state
    body: bytes | None = None
    if call.exchange.keyed and state.snapshot is not None:
        content_type, body = state.snapshot
        headers.pop("content-type", None)
        if content_type:
            headers["content-type"] = content_type
    if call.exchange.keyed and isinstance(carrier, JsonField):
        body = carrier.insert(call.content() if body is None else body, state.key)
    if body is None and not call.unread:
        return call.body
    body = call.content() if body is None else body
    if headers.get("content-length", str(len(body))) != str(len(body)):
        headers["content-length"] = str(len(body))
    return call.engine.backend.ByteStream(body)


def credentials(request: httpx.Request) -> bytes:
    """Digest of the Authorization bytes, to tell two accounts apart without keeping them."""
    values = [value for name, value in request.headers.raw if name.lower() == b"authorization"]
    return hashlib.sha256(b"\0".join(values)).digest()
