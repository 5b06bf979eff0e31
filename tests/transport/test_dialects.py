"""The presets end to end: each verdict that a preset's own rules give, from the answer to what the caller gets.

The answers are those of `contract_vectors.json`, shortened. How they are read is tested in `tests/core`; here it is
what follows from it: asked again, raised, returned, with which outcome, and one key on every attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tenacity import wait_fixed, wait_none

import samekey
from samekey import Dialect, IdempotencyError, RetryPolicy, dialects
from samekey.dialects import Header, JsonField, RepeatabilityHeaders
from samekey.testing import Fault, LedgerServer, ReceivedRequest, faults
from tests.transport.harness import Api, kinds, statuses, the

QUICK = RetryPolicy(wait=wait_none(), poll_wait=wait_fixed(1), total_timeout=100)
LOST = faults.lost()
MARKED = {"Idempotent-Replayed": "true"}


@dataclass(frozen=True)
class Row:
    """A preset, what its API answers, and what comes of it; *gets* is a status (returned) or one of our errors."""

    preset: str
    name: str
    script: tuple[Fault, ...]
    gets: int | str
    outcome: str
    asked: int | None = 1
    """Requests on the wire; None: until the time is up."""
    polls: int | None = 0
    cause: str | None = None
    replayed: bool | None = None
    supported: bool | None = None
    resource: str | None = None
    wait: float | None = None
    """Seconds that the first wait has to last at least."""
    retry_after: float | None = None
    method: str = "POST"
    then: Fault = field(default_factory=faults.ok)

    def __str__(self) -> str:
        return f"{self.preset}-{self.name}"

    @property
    def dialect(self) -> Dialect:
        preset: Dialect = getattr(dialects, self.preset)
        return preset


def answer(status: int, json: Any = None, /, **headers: str) -> Fault:
    """An answer without an effect; header names are written with underscores."""
    return faults.status(status, json=json, headers={name.replace("_", "-"): value for name, value in headers.items()})


def polled(preset: str, name: str, *script: Fault, lost: bool = False, **more: Any) -> Row:
    """Asked again until it is done."""
    before = (LOST,) if lost else ()
    asked = len(before) + len(script) + 1
    replayed = True if lost and carried_in_header(preset) else None
    more = {"polls": len(script), "replayed": replayed, **more}
    return Row(preset, name, (*before, *script), 201, "executed", asked, **more)


def retried(preset: str, name: str, *script: Fault, **more: Any) -> Row:
    """Sent again until it is done."""
    return Row(preset, name, script, 201, "executed", len(script) + 1, **more)


def ends(preset: str, name: str, *script: Fault, gets: int | str, outcome: str = "rejected", **more: Any) -> Row:
    """The last answer ends the call, returned or raised."""
    return Row(preset, name, script[:-1], gets, outcome, **{"asked": len(script), "then": script[-1], **more})


def unknown(preset: str, name: str, *script: Fault, **more: Any) -> Row:
    return ends(preset, name, *script, gets="OutcomeUnknown", outcome="unknown", **more)


def carried_in_header(preset: str) -> bool:
    return not isinstance(getattr(dialects, preset).carrier, JsonField)


def graphql(code: str) -> Fault:
    return answer(200, {"data": {"refundCreate": {"userErrors": [{"field": None, "message": "x", "code": code}]}}})


def stripe(status: int, error: dict[str, str], **headers: str) -> Fault:
    return answer(status, {"error": error}, **headers)


IN_USE = {"type": "idempotency_error", "code": "idempotency_key_in_use", "message": "in use"}
DECLINED = stripe(402, {"type": "card_error", "code": "card_declined"})
DIFFERENT = stripe(400, {"type": "idempotency_error", "message": "only with the parameters they were first used with"})
ADYEN_704 = {"errorCode": "704", "errorType": "validation", "message": "request already processed or in progress"}
PAYPAL = {
    "running": answer(409, {"name": "RESOURCE_CONFLICT", "details": [{"issue": "PREVIOUS_REQUEST_IN_PROGRESS"}]}),
    "used": answer(422, {"name": "U", "details": [{"issue": "PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}]}),
    "duplicate": answer(400, {"name": "DUPLICATE_REQUEST_ID", "message": "was used before"}),
    "required": answer(400, {"name": "I", "details": [{"issue": "PAYPAL_REQUEST_ID_REQUIRED"}]}),
    "business": answer(422, {"name": "U", "details": [{"issue": "ORDER_ALREADY_CAPTURED"}]}),
}
GOCARDLESS_DONE = answer(
    409,
    {
        "error": {
            "code": 409,
            "type": "invalid_state",
            "errors": [
                {"reason": "idempotent_creation_conflict", "links": {"conflicting_resource_id": "PM00001078ZJJN"}}
            ],
        }
    },
)
INCREASE_USED = answer(409, {"type": "idempotency_key_already_used_error", "status": 409, "resource_id": "ach_1"})
COINBASE_RUNS = {"errorType": "already_exists", "errorMessage": "A request with this idempotency key is processing."}
COINBASE_NAME = {"errorType": "already_exists", "errorMessage": "EVM account with the given name exists."}
EMPTY_409 = answer(409)
LINK = {"Link": '<https://developer.example.com/idempotency>; rel="describedby"'}
BUSINESS = {"code": "insufficient_funds", "message": "not enough money"}

ROWS = [
    # Stripe stores everything once it has begun, so a 402 after a lost answer speaks for the first try as well.
    polled("STRIPE", "running", stripe(409, IN_USE), stripe(409, IN_USE)),
    polled("STRIPE", "running-after-lost", stripe(409, IN_USE, Stripe_Should_Retry="true"), lost=True),
    ends("STRIPE", "mismatch", DIFFERENT, gets="KeyMismatch"),
    unknown("STRIPE", "mismatch-after-lost", LOST, DIFFERENT, cause="KeyMismatch"),
    ends("STRIPE", "declined", DECLINED, gets=402),
    ends("STRIPE", "declined-after-lost", LOST, DECLINED, gets=402),
    ends("STRIPE", "404-after-lost", LOST, answer(404, BUSINESS), gets=404),
    *(unknown("STRIPE", f"{code}-after-lost", LOST, answer(code, BUSINESS)) for code in (400, 403)),
    unknown("STRIPE", "409-after-lost", LOST, answer(409, BUSINESS), asked=7, polls=5),
    ends("STRIPE", "declined-replayed", LOST, faults.status(402, headers=MARKED), gets=402, replayed=True),
    unknown("STRIPE", "stored-500", answer(500, BUSINESS, Idempotent_Replayed="true"), replayed=True),
    unknown("STRIPE", "500-hopeless", answer(500, BUSINESS, Stripe_Should_Retry="false")),
    retried("STRIPE", "500", answer(500), answer(500, Stripe_Should_Retry="true")),
    retried("STRIPE", "409-hopeful", answer(409, BUSINESS, Stripe_Should_Retry="true")),
    retried("STRIPE", "lock-timeout", stripe(429, {"code": "lock_timeout"}, Stripe_Should_Retry="true")),
    retried("STRIPE", "lost", LOST, replayed=True),
    # v2 does failed work again under the same key.
    ends("STRIPE_V2", "mismatch", stripe(400, {"type": "idempotency_error", "code": "idempotency_error"}),
         gets="KeyMismatch"),
    polled("STRIPE_V2", "running", stripe(409, IN_USE)),
    retried("STRIPE_V2", "500", answer(500, BUSINESS), answer(500, BUSINESS)),
    retried("STRIPE_V2", "delete-lost", LOST, method="DELETE", replayed=True),
    unknown("STRIPE_V2", "400-after-lost", LOST, answer(400, BUSINESS)),
    # Adyen: the header decides, its absence too.
    *(polled("ADYEN", f"running-{code}", answer(code, ADYEN_704, transient_error="true")) for code in (409, 422)),
    polled("ADYEN", "running-after-lost", answer(422, ADYEN_704, transient_error="true"), lost=True),
    unknown("ADYEN", "704-for-good", answer(422, ADYEN_704)),
    unknown("ADYEN", "704-for-good-after-lost", LOST, answer(409, ADYEN_704, transient_error="false")),
    retried("ADYEN", "key-store-down", answer(503, {"errorCode": "703"}, transient_error="true")),
    unknown("ADYEN", "500-for-good", answer(500, {"errorCode": "905"})),
    ends("ADYEN", "429-for-good", answer(429), gets=429),
    retried("ADYEN", "422-transient", answer(422, {"errorCode": "1"}, transient_error="true")),
    ends("ADYEN", "validation", answer(422, {"errorCode": "14_030", "errorType": "validation"}), gets=422),
    # PayPal
    polled("PAYPAL", "running", PAYPAL["running"], PAYPAL["running"]),
    polled("PAYPAL", "running-after-lost", PAYPAL["running"], lost=True),
    ends("PAYPAL", "mismatch", PAYPAL["used"], gets="KeyMismatch"),
    ends("PAYPAL", "duplicate", PAYPAL["duplicate"], gets="KeyMismatch"),
    unknown("PAYPAL", "mismatch-after-lost", LOST, PAYPAL["used"], cause="KeyMismatch"),
    ends("PAYPAL", "missing", PAYPAL["required"], gets="KeyNotAccepted"),
    ends("PAYPAL", "business", PAYPAL["business"], gets=422),
    unknown("PAYPAL", "business-after-lost", LOST, PAYPAL["business"]),
    # Square
    ends("SQUARE", "mismatch", answer(400, {"errors": [{"code": "IDEMPOTENCY_KEY_REUSED"}]}), gets="KeyMismatch"),
    unknown("SQUARE", "mismatch-after-lost", LOST, answer(400, {"errors": [{"code": "IDEMPOTENCY_KEY_REUSED"}]}),
            cause="KeyMismatch"),
    ends("SQUARE", "missing",
         answer(400, {"errors": [{"code": "MISSING_REQUIRED_PARAMETER", "field": "idempotency_key"}]}),
         gets="KeyNotAccepted"),
    ends("SQUARE", "conflict", answer(409, {"errors": [{"code": "CONFLICT"}]}), gets=409),
    retried("SQUARE", "429", answer(429, {"errors": [{"code": "RATE_LIMITED"}]})),
    # A 409 without a code means "running" for these, once the key can have been used.
    polled("MOLLIE", "running", answer(409, {"status": 409, "title": "Conflict"}), lost=True),
    polled("MOLLIE", "running-in-words",
           answer(409, {"detail": "Another request with this idempotency key is being processed."})),
    ends("MOLLIE", "conflict-on-a-fresh-key", answer(409, {"status": 409, "title": "Conflict"}), gets=409),
    ends("MOLLIE", "mismatch",
         answer(400, {"detail": "The idempotency key was used with other parameters or another endpoint."}),
         gets="KeyMismatch"),
    ends("MOLLIE", "validation", answer(422, {"detail": "The amount is higher than the maximum."}), gets=422),
    retried("MOLLIE", "lost", LOST, replayed=True),
    *(polled(preset, "running", EMPTY_409, EMPTY_409, lost=True)
      for preset in ("MODERN_TREASURY", "DWOLLA", "CHECKOUT_COM")),
    # An empty one is asked about again even on a fresh key, and the second time it counts.
    *(ends(preset, "409-for-ever", EMPTY_409, gets="StillInProgress", outcome="unknown", asked=None, polls=None)
      for preset in ("MODERN_TREASURY", "DWOLLA")),
    unknown("MODERN_TREASURY", "422-after-lost", LOST, answer(422, BUSINESS)),
    ends("MODERN_TREASURY", "402-after-lost", LOST, answer(402, BUSINESS), gets=402),
    # GoCardless: the conflict is the success.
    ends("GOCARDLESS", "done", GOCARDLESS_DONE, gets="AlreadyExecuted", outcome="executed", resource="PM00001078ZJJN"),
    ends("GOCARDLESS", "done-after-lost", LOST, GOCARDLESS_DONE, gets="AlreadyExecuted", outcome="executed",
         resource="PM00001078ZJJN"),
    ends("GOCARDLESS", "business",
         answer(422, {"error": {"type": "invalid_state", "errors": [{"reason": "mandate_not_inactive"}]}}), gets=422),
    # Increase
    ends("INCREASE", "mismatch", INCREASE_USED, gets="KeyMismatch"),
    unknown("INCREASE", "mismatch-after-lost", LOST, INCREASE_USED, cause="KeyMismatch"),
    retried("INCREASE", "429", answer(429, {"type": "rate_limited_error", "retry_after": 3}), wait=3),
    ends("INCREASE", "429-for-long", answer(429, {"retry_after": 3600}), gets=429, retry_after=3600.0),
    ends("INCREASE", "business", answer(409, {"type": "invalid_operation_error", "status": 409}), gets=409),
    retried("INCREASE", "lost", LOST, replayed=True),
    # Resend: one status, two meanings.
    polled("RESEND", "running", answer(409, {"statusCode": 409, "name": "concurrent_idempotent_requests"})),
    ends("RESEND", "mismatch", answer(409, {"statusCode": 409, "name": "invalid_idempotent_request"}),
         gets="KeyMismatch"),
    ends("RESEND", "bad-key", answer(400, {"statusCode": 400, "name": "invalid_idempotency_key"}),
         gets="KeyNotAccepted"),
    ends("RESEND", "validation", answer(422, {"statusCode": 422, "name": "missing_required_field"}), gets=422),
    # Coinbase: one code, two meanings.
    polled("COINBASE_CDP", "running", answer(409, COINBASE_RUNS), answer(409, COINBASE_RUNS)),
    ends("COINBASE_CDP", "name-clash", answer(409, COINBASE_NAME), gets=409),
    *(ends("COINBASE_CDP", f"mismatch-{code}", answer(code, {"errorType": "idempotency_error", "errorMessage": "x"}),
           gets="KeyMismatch") for code in (409, 422)),
    *(retried("COINBASE_CDP", f"{method}-lost", LOST, method=method, replayed=True) for method in ("PUT", "DELETE")),
    # Checkout.com asks for half a minute.
    retried("CHECKOUT_COM", "429", answer(429), wait=30),
    retried("CHECKOUT_COM", "lost", LOST, wait=30, replayed=True),
    # Circle
    ends("CIRCLE", "mismatch", answer(409, {"code": 1083, "message": "x"}), gets="KeyMismatch"),
    ends("CIRCLE", "validation", answer(400, {"code": 2, "message": "Invalid entity."}), gets=400),
    retried("CIRCLE", "lost", LOST),
    # Azure: the result header
    ends("AZURE_REPEATABILITY", "rejected", answer(400, BUSINESS, Repeatability_Result="rejected"),
         gets="KeyNotAccepted"),
    unknown("AZURE_REPEATABILITY", "rejected-after-lost", LOST, answer(400, BUSINESS, Repeatability_Result="rejected"),
            cause="KeyMismatch"),
    polled("AZURE_REPEATABILITY", "running", answer(409, BUSINESS, Repeatability_Result="accepted"), lost=True),
    ends("AZURE_REPEATABILITY", "outside-the-window", LOST, answer(412, BUSINESS, Repeatability_Result="rejected"),
         gets="KeyExpired", outcome="unknown"),
    unknown("AZURE_REPEATABILITY", "not-supported", answer(501), supported=False),
    retried("AZURE_REPEATABILITY", "500", answer(500), answer(503)),
    ends("AZURE_REPEATABILITY", "404-after-lost", LOST, answer(404, BUSINESS), gets=404),
    *(retried("AZURE_REPEATABILITY", f"{method}-lost", LOST, method=method, replayed=True)
      for method in ("PUT", "DELETE", "PATCH")),
    # Shopify: everything comes with 200.
    polled("SHOPIFY", "running", *[graphql("IDEMPOTENCY_CONCURRENT_REQUEST")] * 2),
    ends("SHOPIFY", "mismatch", graphql("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"), gets="KeyMismatch"),
    unknown("SHOPIFY", "mismatch-after-lost", LOST, graphql("IDEMPOTENCY_KEY_PARAMETER_MISMATCH"),
            cause="KeyMismatch"),
    ends("SHOPIFY", "spent", graphql("IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"), gets="KeySpent"),
    retried("SHOPIFY", "throttled", answer(200, {"errors": [{"extensions": {"code": "THROTTLED"}}]})),
    ends("SHOPIFY", "throttled-for-good", answer(200, {"errors": [{"extensions": {"code": "THROTTLED"}}]}), gets=200,
         asked=5),
    retried("SHOPIFY", "broken", answer(200, {"errors": [{"extensions": {"code": "INTERNAL_SERVER_ERROR"}}]})),
    unknown("SHOPIFY", "broken-for-good", answer(200, {"errors": [{"extensions": {"code": "INTERNAL_SERVER_ERROR"}}]}),
            asked=5),
    ends("SHOPIFY", "user-errors", graphql("INVALID_QUANTITY"), gets=200, outcome="executed"),
    # UK Open Banking: a second between two tries.
    retried("UK_OPEN_BANKING", "lost", LOST, wait=1, replayed=True),
    # The IETF draft, also in its form without a body.
    polled("IETF_DRAFT", "running", answer(409, {"title": "A request is outstanding for this Idempotency-Key"})),
    polled("IETF_DRAFT", "running-link", answer(409, **LINK), lost=True),
    ends("IETF_DRAFT", "mismatch", answer(422, {"title": "Idempotency-Key is already used"}), gets="KeyMismatch"),
    ends("IETF_DRAFT", "mismatch-link", answer(422, **LINK), gets="KeyMismatch"),
    ends("IETF_DRAFT", "missing", answer(400, {"title": "Idempotency-Key is missing"}), gets="KeyNotAccepted"),
    ends("IETF_DRAFT", "missing-link", answer(400, **LINK), gets="KeyNotAccepted"),
    # No preset believes "already done" but GoCardless; a server that ignores keys is told apart.
    unknown("GENERIC", "done", LOST, answer(409, {"code": "idempotency_key_already_used"})),
    unknown("GENERIC", "ignored", answer(503, **{"Idempotency-Status": "ignored"}), supported=False),
]  # fmt: skip

FEW = [row for row in ROWS if row.name in ("running", "mismatch", "done", "spent", "running-after-lost")]


def key_of(request: ReceivedRequest, dialect: Dialect) -> str | None:
    """The key as the API reads it."""
    carrier = dialect.carrier
    if isinstance(carrier, JsonField):
        return carrier.find(request.body)
    value = request.header(carrier.name)
    return None if value is None else carrier.decode(value)


@pytest.fixture
def server(row: Row) -> LedgerServer:
    return server_for(row.dialect)


def server_for(dialect: Dialect) -> LedgerServer:
    """A server that looks for keys where the dialect puts them, as far as headers go."""
    name = "idempotency-key" if isinstance(dialect.carrier, JsonField) else dialect.carrier.name
    return LedgerServer(key_header=name, methods=dialect.methods)


def on(names: Iterable[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("api", names, indirect=True)


@on(["httpx-sync", "httpx2-trio"])
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_verdict(api: Api, row: Row) -> None:
    await play(api, row)


@on(["httpx-asyncio", "httpx-trio", "httpx2-sync", "httpx2-asyncio"])
@pytest.mark.parametrize("row", FEW, ids=str)
async def test_verdict_in_every_colour(api: Api, row: Row) -> None:
    await play(api, row)


async def play(api: Api, row: Row) -> None:
    """Send, compare what the caller gets with the row, and look for the key on every request."""
    api.server.script(*row.script, then=row.then)
    body: dict[str, Any] = {} if row.method == "DELETE" else {"json": {"amount": 1}}
    got: Any = None
    async with api.client(dialect=row.dialect, policy=QUICK, listen=True) as client:
        try:
            got = await client.request(row.method, **body)
        except IdempotencyError as error:
            got = error

    told = the(samekey.report(got))
    if isinstance(row.gets, int):
        assert getattr(got, "status_code", got) == row.gets
    else:
        assert type(got).__name__ == row.gets, got
        assert getattr(got, "resource", None) == row.resource
        assert type(got.__cause__).__name__ == (row.cause or type(got.__cause__).__name__)
    assert told.outcome == row.outcome
    assert row.asked in (len(told.attempts), None), statuses(told)
    assert row.polls in (kinds(told).count("poll"), None), kinds(told)
    assert told.replayed is row.replayed
    assert told.supported is row.supported
    assert row.retry_after in (None, told.retry_after)
    assert row.wait is None or api.waits[0] >= row.wait
    check_keys(api.server.requests, row.dialect, the(told).key)


def check_keys(requests: list[ReceivedRequest], dialect: Dialect, key: str | None) -> None:
    """One key on every request, in its place, of the right form, and the same bytes around it."""
    assert requests
    assert key is not None
    dialect.key.check(key)
    assert {key_of(request, dialect) for request in requests} == {key}
    assert len({request.body for request in requests}) == 1
    assert len({request.header("content-length") for request in requests}) == 1
    if isinstance(dialect.carrier, RepeatabilityHeaders):
        assert len({request.header(dialect.carrier.date_name) for request in requests}) == 1
    if not (isinstance(dialect.carrier, Header) and dialect.carrier.name == "Idempotency-Key"):
        assert {request.header("idempotency-key") for request in requests} == {None}


def test_every_preset_is_played() -> None:
    """Each preset has rows, and each rule of its own gives its verdict in one of them at least."""
    presets = {name for name in dialects.__all__ if isinstance(getattr(dialects, name), Dialect)}
    assert {row.preset for row in ROWS} == presets
    assert len({str(row) for row in ROWS}) == len(ROWS)
    verdict: dict[str, Callable[[Row], object]] = {
        "in_progress": lambda row: row.polls and row.gets == 201,
        "mismatch": lambda row: row.gets == "KeyMismatch",
        "key_missing": lambda row: row.gets == "KeyNotAccepted",
        "key_refused": lambda row: row.gets == "KeyNotAccepted",
        "already_done": lambda row: row.gets in ("AlreadyExecuted", "OutcomeUnknown"),
        "key_spent": lambda row: row.gets == "KeySpent",
        "rate_limited": lambda row: row.gets == 201 and not row.polls,
        "transient": lambda row: row.gets == 201 and not row.polls,
    }
    for name in presets:
        preset: Dialect = getattr(dialects, name)
        for wanted in {rule.verdict for rule in preset.rules} | set(preset.bare_status.values()):
            assert any(verdict[wanted](row) for row in ROWS if row.preset == name), (name, wanted)
