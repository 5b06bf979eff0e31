"""The transports for httpx."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

import httpx

from ._async import AsyncDriver
from ._engine import Engine
from ._inner import checked
from ._sync import Driver
from ._wire import Backend
from .dialects import GENERIC, Dialect

if TYPE_CHECKING:
    from .events import Listener
    from .policy import RetryPolicy

BACKEND = Backend(httpx)


class IdempotentTransport(Driver, httpx.BaseTransport):
    """A transport for `httpx.Client` that makes each request one operation; see `wrap` for existing clients.

    Args:
        inner: The transport that sends. Default: a new `httpx.HTTPTransport()`.
        origins: The APIs that honour keys: ``"*"`` (default: whatever the client addresses), a collection of origins,
            or a mapping origin -> `Dialect`.
        dialect: How the APIs speak idempotency, where *origins* does not say. Default `GENERIC`.
        policy: How to retry. Default `RetryPolicy()`.
        journal: Where named operations are kept. Default: nowhere.
        listeners: Called with each event.

    Raises:
        ValueError: An origin is malformed, or *inner* retries by itself.
        TypeError: *inner* is no sync transport, or a setting has the wrong type.
    """

    def __init__(
        self,
        inner: httpx.BaseTransport | None = None,
        *,
        origins: str | Iterable[str] | Mapping[str, Dialect] = "*",
        dialect: Dialect = GENERIC,
        policy: RetryPolicy | None = None,
        journal: object = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._engine = Engine(BACKEND, origins, dialect, policy, journal, listeners)
        self._inner = checked(httpx.HTTPTransport() if inner is None else inner, "handle_request")

    async def handle_async_request(self, request: httpx.Request) -> NoReturn:
        """Refuse to serve an async client.

        Raises:
            TypeError: Always.
        """
        raise TypeError("IdempotentTransport is for httpx.Client; an AsyncClient needs AsyncIdempotentTransport")

    async def __aenter__(self) -> NoReturn:
        await self.handle_async_request(None)  # type: ignore[arg-type]

    async def __aexit__(self, *details: object) -> None:
        """Nothing was opened."""

    async def aclose(self) -> None:
        """Nothing was opened."""


class AsyncIdempotentTransport(AsyncDriver, httpx.AsyncBaseTransport):
    """The async twin of `IdempotentTransport`, for `httpx.AsyncClient` on asyncio or trio; the same arguments.

    Raises:
        ValueError: An origin is malformed, or *inner* retries by itself.
        TypeError: *inner* is no async transport, or a setting has the wrong type.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport | None = None,
        *,
        origins: str | Iterable[str] | Mapping[str, Dialect] = "*",
        dialect: Dialect = GENERIC,
        policy: RetryPolicy | None = None,
        journal: object = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        self._engine = Engine(BACKEND, origins, dialect, policy, journal, listeners)
        self._inner = checked(httpx.AsyncHTTPTransport() if inner is None else inner, "handle_async_request")

    def handle_request(self, request: httpx.Request) -> NoReturn:
        """Refuse to serve a sync client.

        Raises:
            TypeError: Always.
        """
        raise TypeError("AsyncIdempotentTransport is for httpx.AsyncClient; a Client needs IdempotentTransport")

    def __enter__(self) -> NoReturn:
        self.handle_request(None)  # type: ignore[arg-type]

    def __exit__(self, *details: object) -> None:
        """Nothing was opened."""

    def close(self) -> None:
        """Nothing was opened."""
