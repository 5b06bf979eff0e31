"""Per-request settings, handed to the transport through `request.extensions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ._keys import check_key, check_name, digest
from ._settings import UNSET, check_flag, check_seconds

if TYPE_CHECKING:
    from datetime import timedelta

    from ._settings import Unset

EXTENSION = "samekey"


@dataclass(frozen=True, slots=True, repr=False)
class Options:
    """What `options()` was given; the transport finds it under ``request.extensions["samekey"]``."""

    key: str | Literal[False] | None = None
    name: str | None = None
    scope: str | None = None
    idempotent: bool = False
    buffer_response: bool = True
    retry: bool = True
    total_timeout: float | Unset | None = UNSET

    def __repr__(self) -> str:
        key = f"<{digest(self.key)}>" if isinstance(self.key, str) else self.key
        return f"Options(key={key}, name={self.name!r}, scope={self.scope!r}, retry={self.retry})"


DEFAULT = Options()


def options(
    *,
    key: str | Literal[False] | None = None,
    name: str | None = None,
    scope: str | None = None,
    idempotent: bool = False,
    buffer_response: bool = True,
    retry: bool = True,
    total_timeout: float | timedelta | Unset | None = UNSET,
) -> dict[str, Any]:
    """Make the ``extensions=`` argument of one request: ``client.post(..., extensions=samekey.options(retry=False))``.

    Args:
        key: The key to send. None (the default) makes one or takes that of the operation in force; False sends none,
            and then the request is not repeated once it may have reached the server.
        name: Name of the operation, kept in the journal; the same as sending inside ``operation(name)``.
        scope: What the name (or key) is unique in, such as a tenant.
        idempotent: Marks a POST that only reads (a GraphQL query, a JSON-RPC read): no key, retried like a PUT.
        buffer_response: False hands a successful answer on unread. A connection that dies inside the body then
            reaches you as an error of the read, and is not retried.
        retry: False sends once. The key is sent all the same.
        total_timeout: Seconds for all attempts, waits and reads of this request, or None for no limit.
            Default: what the policy says (60 s).

    Returns:
        A dictionary for the ``extensions`` argument; merge it with your own entries by ``{**mine, **options(...)}``.

    Raises:
        ValueError: The key is empty, too long or not printable ASCII; a time is not above zero; settings exclude
            each other.
        TypeError: A setting has the wrong type.
    """
    if key is not None and key is not False:
        check_key(key)
    if name is not None:
        check_name("name", name)
    if scope is not None:
        check_name("scope", scope)
    for what, flag in (("idempotent", idempotent), ("buffer_response", buffer_response), ("retry", retry)):
        check_flag(what, flag)
    if key is False and name is not None:
        raise ValueError("key=False sends no key, so name= has nothing to keep; leave one of them out")
    if idempotent and (key or name is not None):
        raise ValueError("idempotent=True marks a request that needs no key; leave out key= and name=")
    limit = total_timeout if total_timeout is UNSET else check_seconds("total_timeout", total_timeout)
    return {EXTENSION: Options(key, name, scope, idempotent, buffer_response, retry, limit)}
