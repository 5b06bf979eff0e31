"""Who is measured, and how each is put around a transport or a client: settings as alike as they can be.

All repeat a POST after an error of the transport or a 5xx, five times at most, and do not wait.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import httpx2
import httpx_retries
import stamina
import tenacity
from httpx_tenacity.async_tenacious_transport import AsyncTenaciousTransport
from httpx_tenacity.tenacious_transport import TenaciousTransport

import samekey
import samekey.httpx2

Call = Callable[[Any], Any]
"""Sends a request (or awaits that)."""


@dataclass(frozen=True)
class Library:
    """An HTTP library, and samekey's transports for it."""

    module: Any
    transport: Any
    async_transport: Any


LIBRARIES = {
    "httpx": Library(httpx, samekey.IdempotentTransport, samekey.AsyncIdempotentTransport),
    "httpx2": Library(httpx2, samekey.httpx2.IdempotentTransport, samekey.httpx2.AsyncIdempotentTransport),
}
POLICY = samekey.RetryPolicy(wait=tenacity.wait_none(), unresolved_ttl=0, budget=None)
NAMES = ("bare", "no-op wrapper", "samekey", "httpx-retries", "httpx-tenacity", "stamina", "tenacity")
"""In the order of the tables. The two transports for httpx do not fit httpx2."""


def names(library: str) -> list[str]:
    """Who fits *library*."""
    return [name for name in NAMES if library == "httpx" or name not in ("httpx-retries", "httpx-tenacity")]


def new_key() -> dict[str, str]:
    """The header that everybody but samekey is given, made as everybody makes it."""
    return {"Idempotency-Key": str(uuid.uuid4())}


class Again(Exception):
    """A 5xx, for those who repeat after exceptions alone."""


def _checked(response: Any) -> Any:
    if response.status_code >= 500:
        raise Again
    return response


def wrapped(name: str, inner: Any, library: str, *, sync: bool, policy: samekey.RetryPolicy = POLICY) -> Any:
    """A transport around *inner*; None for those that go around the call instead."""
    made = LIBRARIES[library]
    if name == "bare":
        return inner
    if name == "no-op wrapper":
        return _no_op(made.module, inner, sync=sync)
    if name == "samekey":
        return (made.transport if sync else made.async_transport)(inner, policy=policy)
    if name == "httpx-retries":
        retry = httpx_retries.Retry(total=4, allowed_methods=["POST"], status_forcelist=[429, 500, 502, 503, 504])
        return httpx_retries.RetryTransport(inner, retry=retry)
    if name == "httpx-tenacity":
        kind: Any = TenaciousTransport if sync else AsyncTenaciousTransport
        return kind.create(max_attempts=5, multiplier=0, min_wait_seconds=0, max_wait_seconds=0, transport=inner)
    return None


def _no_op(module: Any, inner: Any, *, sync: bool) -> Any:
    """What any wrapper costs: one more call."""
    if sync:

        class Wrapper(module.BaseTransport):  # type: ignore[misc]
            def handle_request(self, request: Any) -> Any:
                return inner.handle_request(request)

        return Wrapper()

    class AsyncWrapper(module.AsyncBaseTransport):  # type: ignore[misc]
        async def handle_async_request(self, request: Any) -> Any:
            return await inner.handle_async_request(request)

    return AsyncWrapper()


def around(name: str, call: Call, errors: tuple[type[Exception], ...], *, sync: bool) -> Call:
    """*call* with stamina or tenacity around it; as it is for the others."""
    if name not in ("stamina", "tenacity"):
        return call

    def blocking(request: Any) -> Any:
        return _checked(call(request))

    async def awaiting(request: Any) -> Any:
        return _checked(await call(request))

    send: Call = blocking if sync else awaiting
    if name == "stamina":
        return stamina.retry(on=(Again, *errors), attempts=5, timeout=60, wait_initial=0, wait_max=0, wait_jitter=0)(
            send
        )
    return tenacity.retry(
        retry=tenacity.retry_if_exception_type((Again, *errors)),
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_none(),
        reraise=True,
    )(send)


UNKEYED = ("bare", "no-op wrapper", "samekey")
"""The first two show the floor; the last one makes its key itself."""


def at_transport(name: str, inner: Any, library: str, *, sync: bool) -> Call:
    """What sends a request object, at the level of transports; rivals put a key on first."""
    transport = wrapped(name, inner, library, sync=sync) or inner
    call = transport.handle_request if sync else transport.handle_async_request
    send = around(name, call, (LIBRARIES[library].module.TransportError,), sync=sync)
    if name in UNKEYED:
        return send

    def keyed(request: Any) -> Any:
        request.headers["Idempotency-Key"] = str(uuid.uuid4())
        return send(request)

    return keyed


def client(name: str, library: str, url: str, *, sync: bool) -> tuple[Any, Any]:
    """A client as its users make it, and the transport inside, which not everybody closes."""
    module = LIBRARIES[library].module
    inner = module.HTTPTransport() if sync else module.AsyncHTTPTransport()
    kind = module.Client if sync else module.AsyncClient
    transport = wrapped(name, inner, library, sync=sync) or inner
    return kind(base_url=url, transport=transport, timeout=5.0, trust_env=False), inner
