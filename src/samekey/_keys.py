"""Keys and fingerprints: make them, check them, show them without giving them away."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

MAX_KEY_BYTES = 1024
"""No documented API takes a longer key; a dialect usually allows far less."""

_uuid7: Callable[[], UUID] | None = None
_NAMESPACE = "6f5b8b0e-6d1c-5a43-9c56-3b1f0d4f7a11"


def new_key() -> str:
    """Make a fresh key: a UUIDv7 in the bare canonical lower-case form.

    Returns:
        36 characters, such as ``"019890c5-7d2e-7c41-9d3a-0a4b6f1e2c33"``. The first 48 bits tell the time in
        milliseconds, the last 74 are drawn from the operating system for every key, so forked processes differ.
    """
    global _uuid7  # noqa: PLW0603 - imported with the first key, not with samekey
    if _uuid7 is None:
        from uuid6 import uuid7

        _uuid7 = uuid7
    return str(_uuid7())


def derive_key(namespace: str | UUID, name: str) -> str:
    """Derive the same key from the same *namespace* and *name*, every time and on every machine (a UUIDv5, RFC 9562).

    It needs no journal, and so nothing guards its age: once the server has forgotten the key, sending it again
    executes again. Whoever knows both inputs can compute the key.

    Args:
        namespace: What the name is unique in, such as ``"billing.example.com/charges"``, or a UUID.
        name: What names the operation, such as an order number. Never a value that changes between two tries.

    Returns:
        36 characters.

    Raises:
        TypeError: An argument is of another type.
        ValueError: An argument is empty.
    """
    import uuid

    check_name("namespace", namespace if isinstance(namespace, str) else str(namespace))
    check_name("name", name)
    if isinstance(namespace, str):
        namespace = uuid.uuid5(uuid.UUID(_NAMESPACE), namespace)
    elif not isinstance(namespace, uuid.UUID):
        raise TypeError(f"namespace must be a str or a UUID, not {type(namespace).__name__}")
    return str(uuid.uuid5(namespace, name))


def check_key(key: object, *, shortest: int = 1, longest: int = MAX_KEY_BYTES) -> str:
    """Return *key* if it can be sent in a header line and comes back unchanged.

    Raises:
        TypeError: It is not a string.
        ValueError: It is empty, blank at an end, not of *shortest* to *longest* bytes, or has other than printable
            ASCII. The message never shows the key.
    """
    if not isinstance(key, str):
        raise TypeError(f"an idempotency key must be a str, not {type(key).__name__}")
    if not key or key.isspace():
        raise ValueError("an idempotency key must not be empty or blank")
    for index, character in enumerate(key):
        if not " " <= character <= "~":
            raise ValueError(f"an idempotency key must be printable ASCII; see position {index} of {len(key)}")
    if key[0] == " " or key[-1] == " ":
        raise ValueError("an idempotency key must not begin or end with a space")
    if not shortest <= len(key) <= longest:
        raise ValueError(f"the idempotency key has {len(key)} bytes; allowed: {shortest}..{longest}")
    return key


def check_name(what: str, name: object) -> str:
    """Return *name* if it is a usable name; *what* says in the error which setting was wrong."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a str, not {type(name).__name__}")
    if not name or name.isspace():
        raise ValueError(f"{what} must not be empty or blank")
    return name


def digest(key: str) -> str:
    """What logs, reprs and listings show in the place of a key: eight hexadecimal digits of its SHA-256."""
    return hashlib.sha256(key.encode()).hexdigest()[:8]


def fingerprint(
    method: str, url: tuple[bytes, ...], body: bytes, content_type: str, scope_headers: tuple[str, ...] = ()
) -> str:
    """Digest of everything that makes two requests the same request.

    A multipart boundary is drawn anew each time a form is built, so it is read as a constant.
    """
    boundary = _boundary(content_type)
    if boundary:
        body = body.replace(b"--" + boundary, b"--")
    total = hashlib.sha256()
    for part in (method.encode(), *url, *(header.encode() for header in scope_headers), body):
        total.update(b"%d:" % len(part))
        total.update(part)
    return total.hexdigest()


def _boundary(content_type: str) -> bytes:
    kind, _, parameters = content_type.partition(";")
    if not kind.strip().lower().startswith("multipart/"):
        return b""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "boundary":
            return value.strip().strip('"').encode("latin-1", "replace")
    return b""


def is_multipart(content_type: str) -> bool:
    """Whether a form of this type has other bytes each time it is built."""
    return bool(_boundary(content_type))
