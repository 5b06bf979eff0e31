"""What arrives, checked before anything else happens: tenant, key, body. Whatever is wrong here was never executed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from starlette.requests import Request

from .answers import Refused, problem
from .keys import Identity

KEY_HEADER = "Idempotency-Key"
TENANT_HEADER = "X-Tenant"
LONGEST_KEY = 255

_KEY = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_CURRENCY = re.compile(r"[a-z]{3}")
_LARGEST_AMOUNT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Order:
    """A dangerous request that may be executed: what it asks for, and what it is known by."""

    tenant: str
    endpoint: str
    key: str | None
    content: Mapping[str, Any]
    request_hash: str

    @property
    def identity(self) -> Identity | None:
        """What the key is unique in; None without a key."""
        return None if self.key is None else Identity(self.tenant, self.endpoint, self.key)


def refuse(status: int, code: str, detail: str) -> NoReturn:
    """End the request with a problem."""
    raise Refused(problem(status, code, detail))


def tenant_of(request: Request) -> str:
    """Who asks; the gateway in front of this service has checked it."""
    tenant = request.headers.get(TENANT_HEADER, "public")
    if not _NAME.fullmatch(tenant):
        refuse(400, "bad_tenant", f"{TENANT_HEADER} must be 1 to 64 letters, digits or any of _ . : -")
    return tenant


def key_of(request: Request, *, required: bool) -> str | None:
    """The idempotency key."""
    found = request.headers.getlist(KEY_HEADER)
    if len(found) > 1:
        refuse(400, "idempotency_key_repeated", f"The {KEY_HEADER} header must be sent once, not {len(found)} times")
    key = found[0].strip() if found else ""
    if not key:
        if required:
            refuse(400, "idempotency_key_missing", f"The {KEY_HEADER} header is required: one key per payment")
        return None
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        refuse(
            400,
            "idempotency_key_invalid",
            f"The {KEY_HEADER} header must be 1 to {LONGEST_KEY} printable ASCII characters without blanks",
        )
    return key


async def content_of(request: Request, longest: int) -> dict[str, Any]:
    """The JSON object in the body, of which no more than *longest* bytes are read."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        refuse(415, "not_json", "The body must be application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > longest:
            refuse(413, "body_too_large", f"The body must not be longer than {longest} bytes")
    try:
        content = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        refuse(400, "malformed_json", "The body is not valid JSON")
    if not isinstance(content, dict):
        refuse(400, "not_an_object", "The body must be a JSON object")
    return content


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def hash_of(method: str, path: str, content: Mapping[str, Any]) -> str:
    """Digest over method, path and the canonical body: the order of fields and the blanks do not count."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{method}\n{path}\n{canonical}".encode()).hexdigest()


class Fields:
    """Takes fields out of a JSON object; refuses wrong types, and what nobody asked for."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._left = dict(content)

    def name(self, field: str) -> str:
        """A reference: an order, a charge, a card token."""
        return self._text(field, _NAME, "1 to 64 letters, digits or any of _ . : -")

    def currency(self, field: str) -> str:
        """A currency."""
        return self._text(field, _CURRENCY, "three lower-case letters")

    def amount(self, field: str) -> int:
        """An amount in the smallest unit."""
        value = self._left.pop(field, None)
        if type(value) is not int or not 1 <= value <= _LARGEST_AMOUNT:
            refuse(400, "invalid_field", f"{field!r} must be a whole number from 1 to {_LARGEST_AMOUNT}")
        return value

    def end(self) -> None:
        """Nothing may be left."""
        if self._left:
            refuse(400, "unknown_field", f"There is no field {next(iter(self._left))[:64]!r}")

    def _text(self, field: str, form: re.Pattern[str], wanted: str) -> str:
        value = self._left.pop(field, None)
        if not isinstance(value, str) or not form.fullmatch(value):
            refuse(400, "invalid_field", f"{field!r} must be {wanted}")
        return value


def name_in_path(text: str) -> str:
    """An id from the address; what cannot be one is not found."""
    if not _NAME.fullmatch(text):
        refuse(404, "not_found", "There is no such thing")
    return text
