"""The transports for httpx."""

from __future__ import annotations

import httpx

from ._async import AsyncDriver
from ._colour import AsyncOnly, SyncOnly
from ._signing import SigningAuth
from ._sync import Driver
from ._wire import Backend

BACKEND = Backend(httpx)


class IdempotentTransport(Driver[httpx.BaseTransport, httpx.Request, httpx.Response], SyncOnly, httpx.BaseTransport):
    """A transport for `httpx.Client` that makes each request one operation.

    It stands around another sync transport, also in ``mounts``; for an existing client see `samekey.wrap`.
    """

    _backend = BACKEND
    _make_inner = httpx.HTTPTransport


class AsyncIdempotentTransport(
    AsyncDriver[httpx.AsyncBaseTransport, httpx.Request, httpx.Response], AsyncOnly, httpx.AsyncBaseTransport
):
    """A transport for `httpx.AsyncClient` that makes each request one operation.

    It stands around another async transport, also in ``mounts``; for an existing client see `samekey.wrap`.
    """

    _backend = BACKEND
    _make_inner = httpx.AsyncHTTPTransport


class KeyedAuth(SigningAuth, httpx.Auth):
    """Put the key on the request first, then run an auth that signs it.

    httpx runs auth before the transport, so a signature could not cover a key that the transport adds::

        client = samekey.wrap(httpx.Client(base_url=..., auth=samekey.KeyedAuth(signature)))

    The signature may cover the header that carries the key, or the body, where the dialect puts the key there. With
    ``on_unresolved="resume"`` such a request is stopped instead, since its signature holds for its own key only.
    """

    _backend = BACKEND
