"""The transports for httpx2 (extra `samekey[httpx2]`): the same two classes over its own base classes.

`samekey.wrap` finds this module by itself; import it only to build a transport by hand.
"""

from __future__ import annotations

try:
    import httpx2
except ImportError as error:
    raise ImportError("samekey.httpx2 needs httpx2: pip install 'samekey[httpx2]'") from error

from ._async import AsyncDriver
from ._colour import AsyncOnly, SyncOnly
from ._signing import SigningAuth
from ._sync import Driver
from ._wire import Backend

__all__ = ["AsyncIdempotentTransport", "IdempotentTransport", "KeyedAuth"]

BACKEND = Backend(httpx2)


class IdempotentTransport(
    Driver[httpx2.BaseTransport, httpx2.Request, httpx2.Response], SyncOnly, httpx2.BaseTransport
):
    """A transport for `httpx2.Client` that makes each request one operation.

    It stands around another sync transport, also in ``mounts``; for an existing client see `samekey.wrap`.
    """

    _backend = BACKEND
    _make_inner = httpx2.HTTPTransport


class AsyncIdempotentTransport(
    AsyncDriver[httpx2.AsyncBaseTransport, httpx2.Request, httpx2.Response], AsyncOnly, httpx2.AsyncBaseTransport
):
    """A transport for `httpx2.AsyncClient` that makes each request one operation.

    It stands around another async transport, also in ``mounts``; for an existing client see `samekey.wrap`.
    """

    _backend = BACKEND
    _make_inner = httpx2.AsyncHTTPTransport


class KeyedAuth(SigningAuth, httpx2.Auth):
    """Put the key on the request first, then run an auth that signs it.

    httpx runs auth before the transport, so a signature could not cover a key that the transport adds::

        client = samekey.wrap(httpx2.Client(base_url=..., auth=samekey.httpx2.KeyedAuth(signature)))

    The signature may cover the header that carries the key, or the body, where the dialect puts the key there. With
    ``on_unresolved="resume"`` such a request is stopped instead, since its signature holds for its own key only.
    """

    _backend = BACKEND
