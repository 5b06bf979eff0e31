"""`wrap`: put samekey around every transport of an existing client."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from ._inner import checked
from ._signing import SigningAuth
from .dialects import GENERIC, Dialect

if TYPE_CHECKING:
    from .events import Listener
    from .policy import RetryPolicy

ClientT = TypeVar("ClientT")

BACKENDS = {"httpx": "samekey._httpx", "httpx2": "samekey.httpx2"}


def wrap(
    client: ClientT,
    *,
    origins: str | Iterable[str] | Mapping[str, Dialect] | None = None,
    dialect: Dialect = GENERIC,
    policy: RetryPolicy | None = None,
    journal: object = None,
    listeners: Iterable[Listener] = (),
) -> ClientT:
    """Put samekey around every transport of *client*: its own and its mounts, so that proxies, TLS and limits stay.

    Args:
        client: A `Client` or `AsyncClient` of httpx (or httpx2). It is changed in place.
        origins: The APIs that honour keys: a collection of origins, a mapping origin -> `Dialect`, or ``"*"``.
            Default: the origin of the client's ``base_url``. Requests to other origins pass through untouched.
        dialect: How the APIs speak idempotency, where *origins* does not say. Default `GENERIC`.
        policy: How to retry. Default `RetryPolicy()`.
        journal: Where named operations are kept. Default: nowhere.
        listeners: Called with each event.

    Returns:
        The client itself.

    Raises:
        ValueError: The client has no ``base_url`` and *origins* is missing; it is wrapped already; a transport of it
            retries by itself.
        TypeError: Not a client, or a setting has the wrong type.
    """
    backend, asynchronous = _library(client)
    own: Any = client
    if origins is None:
        base = own.base_url
        if not base.host:
            raise ValueError(
                "which APIs honour idempotency keys? Give the client a base_url, or name them: "
                "wrap(client, origins=['https://api.example.com']). A server that ignores keys would execute every "
                'attempt, so samekey does not guess; origins="*" says that all do'
            )
        origins = [f"{base.scheme}://{base.netloc.decode('ascii')}"]
    transport_type = backend.AsyncIdempotentTransport if asynchronous else backend.IdempotentTransport
    method = "handle_async_request" if asynchronous else "handle_request"
    transports = [own._transport, *(mounted for mounted in own._mounts.values() if mounted is not None)]
    for transport in transports:
        checked(transport, method, backend.BACKEND.name)
    first = transport_type(
        own._transport, origins=origins, dialect=dialect, policy=policy, journal=journal, listeners=listeners
    )
    if isinstance(own.auth, SigningAuth):
        own.auth.adopt(first.engine)
    wrappers = {id(own._transport): first}
    for transport in transports:
        if id(transport) not in wrappers:
            wrappers[id(transport)] = first.around(transport)
    own._transport = first
    own._mounts = {
        pattern: None if mounted is None else wrappers[id(mounted)] for pattern, mounted in own._mounts.items()
    }
    return client


def _library(client: object) -> tuple[Any, bool]:
    for name, module in BACKENDS.items():
        library: Any = sys.modules.get(name)
        # Under httpx2.alias_httpx() the name httpx stands for httpx2.
        if library is None or library.__name__ != name:
            continue
        if isinstance(client, library.AsyncClient):
            return import_module(module), True
        if isinstance(client, library.Client):
            return import_module(module), False
    raise TypeError(f"wrap() takes a Client or AsyncClient of httpx or httpx2, not {type(client).__name__}")
