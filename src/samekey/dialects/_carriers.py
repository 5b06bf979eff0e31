"""Where a key travels in a request. Carriers are data and pure functions; the drivers put them on the wire."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import formatdate
from typing import ClassVar

from samekey.dialects import _json_body

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_RESERVED = frozenset({"authorization", "proxy-authorization", "cookie", "host", "content-length", "content-type"})
_ITEM = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_UNESCAPE = re.compile(r'\\(["\\])')


def header_name(name: str, what: str) -> str:
    """*name* if it can name a header; *what* names the setting in the error."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a header name (str), not {type(name).__name__}")
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{what} {name!r} is not a header name; write it without colon and spaces")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """
    The key in one request header.

    Args:
        name: Name of the header, default ``Idempotency-Key``.
        quoted: Send the key as an RFC 8941 string, in double quotes, as the IETF draft asks. Default False: most
            servers take the quotes for a part of the key.

    Raises:
        ValueError: Not a header name, or one that belongs to HTTP or to the credentials.
        TypeError: An argument has the wrong type.
    """

    name: str = "Idempotency-Key"
    quoted: bool = False

    def __post_init__(self) -> None:
        header_name(self.name, "Header.name")
        if self.name.lower() in _RESERVED:
            raise ValueError(f"Header.name {self.name!r} has another meaning; choose the header that carries the key")

    def encode(self, key: str) -> str:
        """The header value that carries *key*."""
        if not self.quoted:
            return key
        if not (key.isascii() and key.isprintable()):
            raise ValueError("only printable ASCII fits into a quoted header value")
        return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def decode(self, value: str) -> str:
        """
        The key that a header value carries.

        A value without quotes is taken as it is also where *quoted* is set: it is what the caller chose to send.

        Raises:
            ValueError: The value begins like a quoted string and is none.
        """
        value = value.strip(" \t")
        if not self.quoted or not value.startswith('"'):
            return value
        match = _ITEM.fullmatch(value)
        if match is None:
            raise ValueError(f'the {self.name} header is not a well-formed quoted string; write "key" or only the key')
        return _UNESCAPE.sub(r"\1", match[1])


@dataclass(frozen=True, slots=True)
class JsonField:
    """
    The key in a field of the JSON request body.

    Args:
        path: The field; dots lead into nested objects: ``"idempotency_key"``, ``"headers.idempotencyKey"``.

    Raises:
        ValueError: The path is empty or has an empty part.
        TypeError: The path is not a string.
    """

    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.path, str):
            raise TypeError(f"JsonField.path must be a str, not {type(self.path).__name__}")
        if not all(self.path.split(".")):
            raise ValueError(f"JsonField.path {self.path!r} has an empty part; write 'field' or 'parent.field'")

    def insert(self, body: bytes, key: str) -> bytes:
        """
        *body* with the key put in once; every other byte stays as the caller wrote it.

        Missing parents are created. A body that has this very key already comes back as it is.

        Raises:
            ValueError: Not a JSON document in UTF-8, a name on the path occurs twice, or the field holds another key.
            TypeError: The document or a parent is not an object, or the field is not a string.
        """
        return _json_body.insert(body, tuple(self.path.split(".")), key)

    def find(self, body: bytes) -> str | None:
        """
        The key that the caller wrote into *body*, or None.

        Raises:
            ValueError: Not a JSON document in UTF-8, or a name on the path occurs twice.
            TypeError: The document or a parent is not an object, or the field is not a string.
        """
        return _json_body.find(body, tuple(self.path.split(".")))


@dataclass(frozen=True, slots=True)
class RepeatabilityHeaders:
    """
    The header pair of OASIS Repeatable Requests 1.0, which Azure uses.

    The key goes into ``Repeatability-Request-ID``; ``Repeatability-First-Sent`` is the time of the *first* send of
    the operation and stays the same on every later attempt.
    """

    name: ClassVar[str] = "Repeatability-Request-ID"
    date_name: ClassVar[str] = "Repeatability-First-Sent"

    def encode(self, key: str) -> str:
        """The value of `name` that carries *key*."""
        return key

    def decode(self, value: str) -> str:
        """The key that a value of `name` carries."""
        return value.strip(" \t")

    def date(self, first_sent: float) -> str:
        """The value of `date_name`: *first_sent* (seconds since 1970, UTC) as an HTTP date."""
        return formatdate(first_sent, usegmt=True)


Carrier = Header | JsonField | RepeatabilityHeaders
