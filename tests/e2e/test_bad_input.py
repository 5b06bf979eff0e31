"""Whatever is wrong with a request: 4xx, a problem+json body, and nothing executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.api import CHARGES, Api, Stores, api_on, body, key

JSON = {"Content-Type": "application/json"}

BAD: dict[str, tuple[int, str, dict[str, Any]]] = {
    "no key": (400, "idempotency_key_missing", {"json": body()}),
    "empty key": (400, "idempotency_key_missing", {"json": body(), "headers": {"Idempotency-Key": ""}}),
    "over-long key": (400, "idempotency_key_invalid", {"json": body(), "headers": key("k" * 256)}),
    "huge key": (400, "idempotency_key_invalid", {"json": body(), "headers": key("k" * 8000)}),
    "key with blanks": (400, "idempotency_key_invalid", {"json": body(), "headers": key("a b")}),
    "key that is no ASCII": (
        400,
        "idempotency_key_invalid",
        {"json": body(), "headers": [(b"Idempotency-Key", "schlüssel".encode())]},
    ),
    "two keys": (
        400,
        "idempotency_key_repeated",
        {"json": body(), "headers": [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]},
    ),
    "bad tenant": (400, "bad_tenant", {"json": body(), "headers": {**key(), "X-Tenant": "a b"}}),
    "no JSON": (400, "malformed_json", {"content": b"{", "headers": {**key(), **JSON}}),
    "empty": (400, "malformed_json", {"content": b"", "headers": {**key(), **JSON}}),
    "NaN": (400, "malformed_json", {"content": b'{"amount": NaN}', "headers": {**key(), **JSON}}),
    "deeply nested": (400, "malformed_json", {"content": b"[" * 60_000, "headers": {**key(), **JSON}}),
    "no UTF-8": (400, "malformed_json", {"content": b'{"order": "\xff"}', "headers": {**key(), **JSON}}),
    "endless number": (400, "malformed_json", {"content": b'{"a":' + b"9" * 5000 + b"}", "headers": {**key(), **JSON}}),
    "a list": (400, "not_an_object", {"json": [body()], "headers": key()}),
    "a form": (415, "not_json", {"data": {"order": "order-1"}, "headers": key()}),
    "no type": (415, "not_json", {"content": json.dumps(body()).encode(), "headers": key()}),
    "huge body": (413, "body_too_large", {"json": body(order="o" * 70_000), "headers": key()}),
    "huge stream": (413, "body_too_large", {"content": [b" " * 50_000] * 4, "headers": {**key(), **JSON}}),
    "text as amount": (400, "invalid_field", {"json": body(amount="4900"), "headers": key()}),
    "fraction": (400, "invalid_field", {"json": body(amount=49.0), "headers": key()}),
    "true as amount": (400, "invalid_field", {"json": body(amount=True), "headers": key()}),
    "zero": (400, "invalid_field", {"json": body(amount=0), "headers": key()}),
    "too much": (400, "invalid_field", {"json": body(amount=2**63), "headers": key()}),
    "null": (400, "invalid_field", {"json": body(card=None), "headers": key()}),
    "NUL": (400, "invalid_field", {"json": body(order="a\0b"), "headers": key()}),
    "lone surrogate": (400, "invalid_field", {"content": b'{"order": "\\ud800"}', "headers": {**key(), **JSON}}),
    "object as order": (400, "invalid_field", {"json": body(order={"$ne": 1}), "headers": key()}),
    "wrong currency": (400, "invalid_field", {"json": body(currency="EUR"), "headers": key()}),
    "field too many": (400, "unknown_field", {"json": body(admin=True), "headers": key()}),
    "field too few": (400, "invalid_field", {"json": {"order": "order-1"}, "headers": key()}),
}


@pytest.fixture(scope="module")
def api(stores: Stores) -> Iterator[Api]:
    """One for all tests of a store: none of them leaves anything behind."""
    with api_on(stores.new()) as running:
        yield running


@pytest.mark.parametrize("name", BAD)
def test_bad_charge(api: Api, name: str) -> None:
    """It is refused before its key is looked at: no charge, no key, and the key is still good."""
    status, code, request = BAD[name]

    answer = api.client.post(CHARGES, **request)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["status"], answer.json()["code"]) == (status, code)
    assert [api.count(table) for table in ("charges", "outbox", "idempotency_keys")] == [0, 0, 0]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/charges/ch_unknown", 404),
        ("GET", "/v1/charges/%00", 404),
        ("GET", "/v1/charges", 400),
        ("GET", "/v1/charges?order=a%00b", 400),
        ("GET", "/v1/charges?order=a&page=2", 400),
        ("DELETE", "/v1/charges", 405),
        ("PUT", "/v1/customers/%20", 404),
    ],
)
def test_bad_address(api: Api, method: str, path: str, status: int) -> None:
    """Reads answer in the same form."""
    answer = api.client.request(method, path)

    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_unfinished_body(api: Api) -> None:
    """A caller that leaves in the middle of its body has asked for nothing."""

    def parts() -> Any:
        yield b'{"order": "order-1", '
        raise ConnectionError("the caller leaves")

    with pytest.raises(ConnectionError, match="the caller leaves"):
        api.client.post(CHARGES, content=parts(), headers={**key(), **JSON})

    assert api.client.get(CHARGES, params={"order": "order-1"}).json() == {"charges": []}
    assert [api.count(table) for table in ("charges", "idempotency_keys")] == [0, 0]
