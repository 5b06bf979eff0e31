"""The contract for those who call the API, as an OpenAPI description."""

from __future__ import annotations

from typing import Any

from .answers import PROBLEM, REPLAY_HEADER
from .reading import KEY_HEADER, LONGEST_KEY, TENANT_HEADER
from .settings import Settings

_CONTRACT = """\
Each dangerous request (`POST /v1/charges`, `POST /v1/refunds`) needs an `{header}`: make one per payment, a UUID, and
send **the same key and the same body** on every attempt, also after a timeout, a disconnect or a 5xx. It is executed
at most once.

- The first answer, a refusal (402, 409 `not_refundable`) included, is stored and repeated verbatim with
  `{replay}: true`.
- While the first request runs, a repeat gets {running}: wait, and send the same again.
- Another request under the same key gets {mismatch} (`idempotency_key_mismatch`), and nothing is executed.
- 400, 413 and 415 come before the key is looked at: nothing was executed, and nothing is stored.
- After 500 or 503 send the same again; the key decides what becomes of it.
- Keys are kept for {hours:g} hours. Do not repeat an older request: it would be executed again.
- Two bodies are the same if they are equal as JSON: the order of fields and blanks do not count.

Reads and `PUT` need no key: repeating them does no harm.
"""


def description(settings: Settings) -> dict[str, Any]:
    """The description of the API as *settings* make it."""
    running = f"{settings.on_in_progress} (`request_in_progress`)"
    if settings.on_in_progress == 202:
        running += " with `Retry-After`"
    contract = _CONTRACT.format(
        header=KEY_HEADER,
        replay=REPLAY_HEADER,
        running=running,
        mismatch=settings.on_mismatch,
        hours=settings.key_seconds / 3600,
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Payments", "version": "1", "description": contract},
        "paths": {
            "/v1/charges": {
                "post": _dangerous(settings, "Charge a card", "ChargeRequest", "Charge", 402, "The card was declined"),
                "get": {
                    "summary": "The charges of an order",
                    "parameters": [_TENANT, _parameter("order", "query", _NAME, required=True)],
                    "responses": {"200": _json("The charges", {"$ref": "#/components/schemas/Charges"}), **_BAD},
                },
            },
            "/v1/charges/{charge}": {
                "get": {
                    "summary": "A charge",
                    "parameters": [_TENANT, _parameter("charge", "path", _NAME, required=True)],
                    "responses": {
                        "200": _json("The charge", {"$ref": "#/components/schemas/Charge"}),
                        "404": _problem("There is no such charge"),
                        **_BAD,
                    },
                },
            },
            "/v1/refunds": {
                "post": _dangerous(
                    settings, "Give money back", "RefundRequest", "Refund", 409, "There is not so much left"
                ),
            },
            "/v1/customers/{customer}": {
                "put": {
                    "summary": "Set a customer's name (needs no key: repeating it does no harm)",
                    "parameters": [_TENANT, _parameter("customer", "path", _NAME, required=True)],
                    "requestBody": {"required": True, **_json("", _object(name=_NAME), described=False)},
                    "responses": {
                        "200": _json("The customer", _object(id=_NAME, name=_NAME)),
                        "404": _problem("That cannot be an id"),
                        **_BAD,
                    },
                },
            },
        },
        "components": {"schemas": _SCHEMAS},
    }


def _dangerous(settings: Settings, summary: str, asked: str, made: str, refusal: int, refused: str) -> dict[str, Any]:
    key = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"}
    responses: dict[str, Any] = {
        "201": _json("Done", {"$ref": f"#/components/schemas/{made}"}),
        str(refusal): _problem(refused),
        **_BAD,
        "413": _problem("The body is too long; nothing was executed"),
        "415": _problem("The body is not JSON; nothing was executed"),
        "500": _problem("Something broke; send the same again"),
        "503": _problem("The database does not answer; send the same again"),
    }
    responses["201"]["headers"] = {
        REPLAY_HEADER: {"description": "`true`: the stored answer of an earlier attempt", "schema": {"type": "string"}},
        "Location": {"schema": {"type": "string"}},
    }
    for status, meaning in (
        (settings.on_in_progress, "The first request under this key still runs; send the same again later"),
        (settings.on_mismatch, "The key stands for another request; nothing was executed"),
    ):
        before = responses.get(str(status))
        responses[str(status)] = _problem(meaning if before is None else f"{before['description']}. Or: {meaning}")
    return {
        "summary": summary,
        "parameters": [
            _TENANT,
            _parameter(KEY_HEADER, "header", key, required=settings.require_key),
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{asked}"}}},
        },
        "responses": dict(sorted(responses.items())),
    }


def _parameter(name: str, where: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": where, "required": required, "schema": schema}


def _object(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _json(text: str, schema: dict[str, Any], *, described: bool = True) -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": schema}}}
    return {"description": text, **content} if described else content


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


_NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$"}
_AMOUNT = {"type": "integer", "minimum": 1, "maximum": 1_000_000_000, "description": "In the smallest unit"}
_CURRENCY = {"type": "string", "pattern": "^[a-z]{3}$"}
_TENANT = _parameter(TENANT_HEADER, "header", _NAME, required=False)
_BAD = {"400": _problem("The request is not what it should be; nothing was executed")}
_SCHEMAS = {
    "ChargeRequest": _object(order=_NAME, amount=_AMOUNT, currency=_CURRENCY, card=_NAME),
    "Charge": _object(
        id=_NAME,
        order=_NAME,
        amount=_AMOUNT,
        currency=_CURRENCY,
        status={"enum": ["authorized", "captured", "refused"]},
        refunded={"type": "integer", "minimum": 0},
    ),
    "Charges": _object(charges={"type": "array", "items": {"$ref": "#/components/schemas/Charge"}}),
    "RefundRequest": _object(charge=_NAME, amount=_AMOUNT),
    "Refund": _object(id=_NAME, charge=_NAME, amount=_AMOUNT),
    "Problem": {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string"},
            "detail": {"type": "string"},
        },
        "required": ["type", "title", "status", "code", "detail"],
    },
}
