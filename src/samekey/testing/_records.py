"""What the server receives, does and answers, as frozen data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]
HeadersLike = Mapping[str, str] | Iterable[tuple[str, str]] | None


def digest(key: str) -> str:
    """The short form in which a key may be shown: the first 8 hex digits of its SHA-256."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def header_pairs(headers: HeadersLike) -> Headers:
    """*headers* in any accepted form as a tuple of pairs."""
    if headers is None:
        return ()
    return tuple(headers.items() if isinstance(headers, Mapping) else headers)


def find_header(headers: Headers, name: str) -> str | None:
    """The value of *name* in any letter case, repeated lines joined by a comma as HTTP reads them."""
    values = [value for key, value in headers if key.lower() == name.lower()]
    return ", ".join(values) if values else None


@dataclass(frozen=True, slots=True, repr=False)
class ReceivedRequest:
    """One request as it reached the server.

    Attributes:
        method: The method, upper case.
        path: The path without its query.
        headers: (name, value) pairs in the order and letter case of the wire.
        body: The whole body, its transfer coding removed.
        key: The value of the key header, None without one; two lines are joined by ``", "``.
        at: Arrival in seconds on the monotonic clock.
        query: The query string without its question mark.
    """

    method: str
    path: str
    headers: Headers
    body: bytes
    key: str | None
    at: float
    query: str = ""

    def header(self, name: str) -> str | None:
        """The value of the header *name* in any letter case, or None."""
        return find_header(self.headers, name)

    def json(self) -> object:
        """The body read as JSON.

        Raises:
            ValueError: The body is no JSON.
        """
        return json.loads(self.body)

    def __repr__(self) -> str:
        key = "no key" if self.key is None else f"key {digest(self.key)}"
        body = hashlib.sha256(self.body).hexdigest()[:8]
        return f"<{self.method} {self.path}, {key}, body {len(self.body)} bytes {body}>"


@dataclass(frozen=True, slots=True, repr=False)
class Effect:
    """One execution: something the server really did.

    Attributes:
        key: The key it was done under, None without one.
        request: The request that caused it.
    """

    key: str | None
    request: ReceivedRequest

    def __repr__(self) -> str:
        return f"<Effect of {self.request!r}>"


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """One answer of the server.

    Args:
        status: HTTP status, 200 to 599. Default 200.
        headers: Mapping or (name, value) pairs. ``Content-Length`` is added when the answer is sent.
        body: The body's bytes. Default empty.

    Raises:
        ValueError: *status* is no final HTTP status.
    """

    status: int
    headers: Headers
    body: bytes

    def __init__(self, status: int = 200, headers: HeadersLike = None, body: bytes = b"") -> None:
        if not 200 <= status <= 599:
            raise ValueError(f"status must be from 200 to 599, not {status}")
        object.__setattr__(self, "status", status)
        object.__setattr__(self, "headers", header_pairs(headers))
        object.__setattr__(self, "body", body)

    @classmethod
    def of_json(cls, status: int, data: object, headers: HeadersLike = None) -> Reply:
        """An answer whose body is *data* as JSON.

        Args:
            status: HTTP status, 200 to 599.
            data: Anything the standard library's ``json`` writes.
            headers: Further headers. Default none.

        Raises:
            ValueError: *status* is no final HTTP status.
        """
        return cls(status, (("Content-Type", "application/json"), *header_pairs(headers)), json.dumps(data).encode())

    def with_header(self, name: str, value: str) -> Reply:
        """The same answer with one more header."""
        return Reply(self.status, (*self.headers, (name, value)), self.body)
