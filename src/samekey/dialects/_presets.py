"""Dialects of well-known APIs.

Each says where its facts come from and how sure they are: *high*, read in the API's own documents or client libraries;
*medium*, read in part or told by others. What no document says is left at "unknown". Adapt a preset with
`dataclasses.replace`, for instance where an account has another retention.
"""

from __future__ import annotations

import math

from samekey._model import Verdict
from samekey.dialects._carriers import Header, JsonField
from samekey.dialects._dialect import Dialect
from samekey.dialects._keyrule import KeyRule
from samekey.dialects._rules import RetryHint, Rule

_HOUR = 3600.0
_DAY = 24 * _HOUR
_POST = frozenset({"POST"})
_ONLY_2XX = frozenset({"2xx"})
_UUID4 = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"

_STRIPE_RULES = (
    Rule(Verdict.IN_PROGRESS, code="idempotency_key_in_use"),
    Rule(Verdict.MISMATCH, code="idempotency_error"),
)

STRIPE = Dialect(
    name="stripe",
    methods=_POST,
    retention=_DAY,
    scope_headers=("Stripe-Account",),
    rules=_STRIPE_RULES,
    stores=frozenset({"2xx", "4xx", "5xx"}),
    never_stored=frozenset({400, 401, 403, 409, 429}),
    detects_mismatch=True,
)
"""
Stripe, paths `/v1/…`.

Source: docs.stripe.com (idempotent requests, low-level errors), stripe-python, stripe-ruby, stripe-go. Confidence:
high. Retention: at least 24 hours, then the key executes anew. Everything is stored once execution has begun, a 500
included, so a stored 500 comes back for a day. Cannot tell: whether a 400 was made before or after the lookup (checks
of parameters are not stored), nor a 403; both leave an open attempt open.
"""

STRIPE_V2 = Dialect(
    name="stripe-v2",
    methods=frozenset({"POST", "DELETE"}),
    scope_headers=("Stripe-Account", "Stripe-Context"),
    rules=_STRIPE_RULES,
    stores=_ONLY_2XX,
    reexecutes_failed=True,
    detects_mismatch=True,
)
"""
Stripe, paths `/v2/…`.

Source: docs.stripe.com (idempotent requests), stripe-python. Confidence: high for the methods and for failed work
being done again under the same key; medium for the mismatch, whose status is not documented. Retention: unknown; 30
days are often named, but not in a page we could read. Cannot tell: a replay, which has no marker; a running request,
for which no answer is documented.
"""

ADYEN = Dialect(
    name="adyen",
    methods=_POST,
    key=KeyRule(max_length=64),
    retention=31 * _DAY,
    rules=(
        Rule(Verdict.IN_PROGRESS, status=(409, 422), code="704", header=("transient-error", "true")),
        Rule(Verdict.ALREADY_DONE, status=(409, 422), code="704"),
    ),
    hints=(RetryHint("transient-error", absent=False),),
)
"""
Adyen.

Source: docs.adyen.com (API idempotency), its OpenAPI files. Confidence: high. Retention: at least 31 days, per
company account and region: a failover to another region is another key space. `transient-error: true` asks for the
same request again, and its absence on an error asks not to. Error 704 stands for running *and* for processed; without
that header it is final and ends as an unknown outcome. Cannot tell: a replay (the echo of the key is on first answers
too), a mismatch (not documented), nor 704 for a repeated `/payments/details`, which comes without any key.
"""

PAYPAL = Dialect(
    name="paypal",
    carrier=Header(name="PayPal-Request-Id"),
    methods=_POST,
    key=KeyRule(max_length=108),
    retention=3 * _HOUR,
    rules=(
        Rule(Verdict.IN_PROGRESS, code="PREVIOUS_REQUEST_IN_PROGRESS"),
        Rule(Verdict.MISMATCH, code="PAYPAL_REQUEST_ID_PREVIOUSLY_USED|DUPLICATE_REQUEST_ID"),
        Rule(Verdict.KEY_MISSING, code="PAYPAL_REQUEST_ID_REQUIRED"),
    ),
    detects_mismatch=True,
)
"""
PayPal.

Source: developer.paypal.com and its OpenAPI files. Confidence: high; medium for the two mismatch codes. Retention
differs by API, and this is the shortest, 3 hours (Vault v3): Orders v2 6 hours, Subscriptions 72 hours, Payouts 30
days, Payments v2 45 days. So does the longest key: 108 bytes for Orders v2, 78 for Payments v1. Cannot tell: a
replay, which shows the *present* state of the resource without a marker; outside Payments v2 also a running request,
where the second one may just fail.
"""

SQUARE = Dialect(
    name="square",
    carrier=JsonField("idempotency_key"),
    methods=_POST,
    key=KeyRule(max_length=45),
    rules=(Rule(Verdict.MISMATCH, code="IDEMPOTENCY_KEY_REUSED"),),
    detects_mismatch=True,
)
"""
Square: the key in the field `idempotency_key` of the body.

Source: developer.squareup.com, its API description. Confidence: high for the field and its length (45 bytes for the
commonest requests, up to 255 for some), medium for the mismatch. Retention: keys are said not to expire, but only by
staff in a forum (2019), so unknown. A POST that is a search does not know the field: mark it with
`options(idempotent=True)`. Cannot tell: a replay, nor a running request, for which nothing is documented.
"""

MOLLIE = Dialect(
    name="mollie",
    methods=_POST,
    key=KeyRule(form="uuid4"),
    retention=_DAY,
    bare_status={409: Verdict.IN_PROGRESS},
    detects_mismatch=True,
)
"""
Mollie.

Source: docs.mollie.com, its OpenAPI file (which asks for a version 4 UUID). Confidence: high for statuses and the
replay marker, medium for the texts of the two key errors, of which there are no codes: 409 running, 400 other
parameters or another endpoint. Retention: 24 hours in an older page. Cannot tell: which errors it stores.
"""

GOCARDLESS = Dialect(
    name="gocardless",
    methods=_POST,
    rules=(Rule(Verdict.ALREADY_DONE, status=409, code="idempotent_creation_conflict"),),
    stores=_ONLY_2XX,
    reexecutes_failed=True,
    detects_mismatch=False,
    believe_done=True,
    done_resource=("error.errors.links.conflicting_resource_id",),
)
"""
GoCardless.

Source: developer.gocardless.com, its client libraries. Confidence: high. Retention: not documented, so unknown. A
repeat is not replayed: 409 `idempotent_creation_conflict` names the resource, and that *is* the success
(`AlreadyExecuted`). Failed creations can be tried again with the same key. Cannot tell: a mismatch, which looks the
same as done: only the local fingerprint protects; a running request, which is not documented.
"""

INCREASE = Dialect(
    name="increase",
    methods=_POST,
    key=KeyRule(max_length=200),
    retention=math.inf,
    rules=(Rule(Verdict.MISMATCH, code="idempotency_key_already_used_error"),),
    body_delay="retry_after",
    detects_mismatch=True,
)
"""
Increase.

Source: increase.com/documentation/idempotency-keys, increase-python. Confidence: high. Retention: for ever, one
object per key. A mismatch is a 409 with a code; the waiting time of a 429 is in its body. Replays are marked. Cannot
tell: a running request, which is not documented.
"""

RESEND = Dialect(
    name="resend",
    methods=_POST,
    key=KeyRule(max_length=256),
    retention=_DAY,
    rules=(
        Rule(Verdict.IN_PROGRESS, code="concurrent_idempotent_requests"),
        Rule(Verdict.MISMATCH, code="invalid_idempotent_request"),
        Rule(Verdict.KEY_REFUSED, code="invalid_idempotency_key"),
    ),
    detects_mismatch=True,
)
"""
Resend: POST /emails and /emails/batch.

Source: resend.com/docs. Confidence: high. Retention: 24 hours. 409 has two meanings, told apart by `name`. Cannot
tell: a replay, which has no marker; which errors it stores.
"""

COINBASE_CDP = Dialect(
    name="coinbase-cdp",
    carrier=Header(name="X-Idempotency-Key"),
    methods=frozenset({"POST", "PUT", "DELETE"}),
    key=KeyRule(form="uuid4", max_length=128, pattern=_UUID4),
    retention=_DAY,
    rules=(
        Rule(Verdict.MISMATCH, code="idempotency_error"),
        Rule(Verdict.IN_PROGRESS, status=409, code="already_exists", text="idempotency key"),
    ),
    detects_mismatch=True,
)
"""
Coinbase Developer Platform.

Source: docs.cdp.coinbase.com, its OpenAPI file. Confidence: high. Retention: 24 hours. Keys must be version 4 UUIDs.
A mismatch is 422, in the payment APIs 409. `already_exists` stands for a running request and for a name that is
taken, and only the text tells which. Cannot tell: a replay, which has no marker.
"""

MODERN_TREASURY = Dialect(
    name="modern-treasury",
    methods=_POST,
    retention=_DAY,
    bare_status={409: Verdict.IN_PROGRESS},
    stores=_ONLY_2XX,
    reexecutes_failed=True,
    detects_mismatch=False,
)
"""
Modern Treasury.

Source: docs.moderntreasury.com, its client library. Confidence: high. Retention: 24 hours. Only successes are stored.
Cannot tell: a mismatch. The old result comes back for another body, even for another *route*, without any sign: only
the local fingerprint protects, so never use one key for two requests. Replays have no marker, and a running request
is a 409 without a code.
"""

DWOLLA = Dialect(name="dwolla", methods=_POST, retention=_DAY, bare_status={409: Verdict.IN_PROGRESS})
"""
Dwolla.

Source: developers.dwolla.com. Confidence: high. Retention: 24 hours, for a key together with the exact body. A
running request is a 409 without a code. Cannot tell: a replay (201 with the first `Location`, no marker); what
another body under the same key does: it may be executed, so only the local fingerprint protects.
"""

CHECKOUT_COM = Dialect(
    name="checkout.com",
    carrier=Header(name="Cko-Idempotency-Key"),
    methods=_POST,
    key=KeyRule(form="uuid4"),
    retention=_DAY,
    bare_status={409: Verdict.IN_PROGRESS},
    min_wait=30.0,
    stores=_ONLY_2XX,
    reexecutes_failed=True,
)
"""
Checkout.com: the payment, capture, refund, void, cancellation and transfer endpoints.

Source: checkout.com/docs (idempotency). Confidence: high. Retention: 24 hours; an account may have another one. Only
2xx are stored, failed payments are tried again. A running request is 409 (formerly 429) without a code; the documents
ask for 30 seconds before the next try, so give the client a total timeout well above that. Cannot tell: a 429 for a
running request from an ordinary limit (both keep the key and wait); a replay; a mismatch, which is not documented.
"""

CIRCLE = Dialect(
    name="circle",
    carrier=JsonField("idempotencyKey"),
    methods=_POST,
    key=KeyRule(form="uuid4", pattern=_UUID4),
    rules=(Rule(Verdict.MISMATCH, status=409, code="1083"),),
    detects_mismatch=True,
)
"""
Circle: the key in the field `idempotencyKey` of the body, a version 4 UUID.

Source: developers.circle.com. Confidence: high for the field and, in the CPN managed payments API, for the mismatch
(409, code 1083). Retention: for ever there; unknown elsewhere, so no age limit. Cannot tell: a replay; a running
request, which is not documented.
"""

SHOPIFY = Dialect(
    name="shopify",
    carrier=JsonField("variables.idempotencyKey"),
    methods=_POST,
    retention=_DAY,
    rules=(
        Rule(Verdict.IN_PROGRESS, code="IDEMPOTENCY_CONCURRENT_REQUEST"),
        Rule(Verdict.MISMATCH, code="IDEMPOTENCY_KEY_PARAMETER_MISMATCH"),
        Rule(Verdict.KEY_SPENT, code="IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"),
        Rule(Verdict.RATE_LIMITED, status=200, code="THROTTLED"),
        Rule(Verdict.TRANSIENT, status=200, code="INTERNAL_SERVER_ERROR"),
    ),
    inspect_2xx=True,
    detects_mismatch=True,
)
"""
Shopify's GraphQL Admin API, whose errors come with status 200.

The key is put into the variable `idempotencyKey`; the mutation must declare and use it: `mutation ($idempotencyKey:
String!, …) { … @idempotent(key: $idempotencyKey) { … } }`. Mark queries with `options(idempotent=True)`.

Source: shopify.dev (implementing idempotency, error enums, response codes). Confidence: high for concurrent and
mismatch, medium for the spent key and for the retention of 24 hours. Other `userErrors` are the API's business and
count as an answer. Cannot tell: a replay, which has no marker.
"""
