"""THE table: what the server or the network does, and what the caller gets; each row on every colour.

The comments name the rows of the design: 6.1 (exceptions) and 6.2 (answers).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import GENERIC, Dialect, IdempotencyError, RetryPolicy
from samekey.testing import Fault, LedgerServer, Reply, faults
from tests.transport.harness import Api, closed_port, the

MARKED = {"Idempotent-Replayed": "true"}
IGNORED = {"Idempotency-Status": "ignored"}
BUSINESS = {"code": "insufficient_funds", "message": "not enough money"}
FORM = {"detail": [{"loc": ["amount"], "msg": "must be positive"}]}
GONE = "RemoteProtocolError"
SHORT: dict[str, Any] = {"hurry": dict.fromkeys(range(1, 6), "head")}
"""Each attempt is read for a moment."""
FIRST: dict[str, Any] = {"hurry": {1: "head"}}
"""The first one alone."""
QUICK = RetryPolicy(wait=wait_none())
POLLS = RetryPolicy(wait=wait_none(), poll_wait=wait_fixed(40), total_timeout=100)
BELIEVED = Dialect(name="believed", inspect_2xx=True, believe_done=True, done_resource=("id",))
STORES = Dialect(name="stores", stores=frozenset({"2xx", "4xx"}))


def status(code: int, **settings: Any) -> Fault:
    return faults.status(code, **settings)


def declined(_: object) -> Reply:
    return Reply.of_json(422, FORM)


@dataclass(frozen=True)
class Row:
    """One scenario. `raises` is a class of samekey, `also` one of the HTTP library; None and a status: returned."""

    name: str
    script: tuple[Fault, ...]
    gets: int | str
    also: str | None = None
    outcome: str = "executed"
    attempts: int | None = 1
    effects: int = 1
    keys: int = 1
    replayed: bool | None = None
    gave_up: str | None = None
    then: Fault = field(default_factory=faults.ok)
    wire: int | None = None
    """Requests that were read; None: as many as attempts."""
    method: str = "POST"
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    policy: RetryPolicy = QUICK
    dialect: Dialect = GENERIC
    server: dict[str, Any] = field(default_factory=dict)
    via: str = "request"
    where: str = "socket"
    last: int | None = None
    """Status of `error.response`."""
    cause: str | None = None
    supported: bool | None = None
    retry_after: float | None = None

    def __str__(self) -> str:
        return self.name


def row(name: str, *script: Fault, gets: int | str, **more: Any) -> Row:
    return Row(name, script, gets, **more)


LOST = faults.lost()
ENDLESS: dict[str, Any] = {"attempts": 5, "gave_up": "attempts"}
UNKNOWN: dict[str, Any] = {"gets": "OutcomeUnknown", "outcome": "unknown"}
REFUSED: dict[str, Any] = {"outcome": "rejected", "effects": 0}

OK = [
    row("ok", gets=201),
    row("ok-patch", gets=201, method="PATCH"),
    row("ok-in-memory", gets=201, where="memory"),
    row("ok-streamed", gets=201, via="stream"),
    row("204", status(204, executes=True), gets=204),
    row("200-empty", status(200, executes=True), gets=200),
    row("303-is-done", status(303, executes=True, headers={"Location": "/done"}), gets=303),
]

FAILURES = [
    row("lost", LOST, gets=201, attempts=2, replayed=True),
    row("lost-patch", LOST, gets=201, attempts=2, replayed=True, method="PATCH"),
    row("lost-unexecuted", faults.lost(executes=False), gets=201, attempts=2),
    row("lost-in-memory", LOST, gets=201, attempts=2, replayed=True, where="memory"),
    row("reset", faults.reset(), gets=201, attempts=2, replayed=True),
    row("never", faults.never(), gets=201, attempts=2, replayed=True, settings=FIRST),
    row("drop", faults.drop(), gets=201, attempts=2, wire=1),
    row("drop-reset", faults.drop(reset=True), gets=201, attempts=2, wire=1),
    row("all-lost", **UNKNOWN, also=GONE, then=LOST, **ENDLESS),
    row("all-reset", **UNKNOWN, also="ReadError", then=faults.reset(), **ENDLESS),
    row("all-silent", **UNKNOWN, also="ReadTimeout", then=faults.never(), **ENDLESS, settings=SHORT),
    row("all-dropped", **UNKNOWN, also=GONE, then=faults.drop(), **ENDLESS, effects=0, keys=0, wire=0),
    row("copied-by-the-network", faults.duplicated(3), gets=201, wire=3, replayed=True),
    # A connection that was refused is known not to have taken anything.
    row("refused-then-ok", faults.refuse(), gets=201, attempts=2, wire=1, where="memory"),
    row(
        "refused", gets="NotSent", also="ConnectError", outcome="not_sent", effects=0, keys=0, wire=0, where="closed",
        **ENDLESS,
    ),
    row(
        "lost-then-refused", LOST, **UNKNOWN, also=GONE, then=faults.refuse(), wire=1, where="memory", **ENDLESS,
    ),
    row(
        "429-then-refused", status(429), gets="NotSent", also="ConnectError", outcome="not_sent", then=faults.refuse(),
        effects=0, wire=1, where="memory", **ENDLESS,
    ),
]  # fmt: skip

CUT = [
    row(f"cut-{end}-{via}", faults.cut(end=end), gets=201, attempts=2, replayed=True, via=via,
        settings={"hurry": {1: "body"}} if end == "stall" else {})
    for end in ("close", "reset", "stall")
    for via in ("request", "stream")
] + [
    row("cut-at-once", faults.cut(0), gets=201, attempts=2, replayed=True),
    row(
        "cut-422", faults.cut(5), gets=422, attempts=2, replayed=True, server={"handler": declined}, **REFUSED,
    ),
    row("cut-twice", *[faults.cut(0, end="reset")] * 2, gets=201, attempts=3, replayed=True),
    row("all-cut", **UNKNOWN, also=GONE, then=faults.cut(), **ENDLESS),
    row("cut-when-not-buffered", faults.cut(), gets="OutcomeUnknown", also=GONE, outcome="executed",
        options={"buffer_response": False}),
]  # fmt: skip

RUNNING = [
    row("in-progress-409", faults.in_progress(), faults.in_progress(), gets=201, attempts=3),
    row("in-progress-202", faults.in_progress(status=202), gets=201, attempts=2),
    row("in-progress-article-2", faults.in_progress(), gets=201, attempts=2, server={"flavour": "article-2"}),
    row("lost-in-progress", LOST, faults.in_progress(), gets=201, attempts=3, replayed=True),
    row("lost-in-progress-article-2", LOST, faults.in_progress(), gets=201, attempts=3, replayed=True,
        server={"flavour": "article-2"}),
    row("always-in-progress", gets="StillInProgress", also="HTTPStatusError", outcome="unknown", last=409,
        then=faults.in_progress(), attempts=3, gave_up="deadline", effects=0, policy=POLLS),
    row("lost-always-in-progress", LOST, gets="StillInProgress", also="HTTPStatusError", outcome="unknown", last=409,
        then=faults.in_progress(), attempts=4, gave_up="deadline", policy=POLLS),
    row("polls-are-no-attempts", *[faults.in_progress()] * 8, gets=201, attempts=9,
        policy=RetryPolicy(stop=stop_after_attempt(2), poll_wait=wait_fixed(0.1))),
    # No Location, Retry-After, fresh key, no telling body: a success that goes on in the background.
    row("202-accepted", status(202, headers={"Retry-After": "5"}, json={"status": "pending"}), gets=202, effects=0),
    row("lost-202-accepted", LOST, status(202, headers={"Location": "/jobs/1", "Retry-After": "5"}), gets=202,
        attempts=2),
]  # fmt: skip

TRANSIENT = [
    row("503-then-ok", status(503), gets=201, attempts=2),
    row("503-retry-after", status(503, headers={"Retry-After": "2"}), gets=201, attempts=2),
    row("408-then-ok", status(408), gets=201, attempts=2),
    row("500-executed", status(500, executes=True), gets=201, attempts=2, replayed=True),
    row("505-too", status(505), gets=201, attempts=2),
    row("429-then-ok", status(429), gets=201, attempts=2),
    row("425-then-ok", status(425), gets=201, attempts=2),
    row("all-503", **UNKNOWN, also="HTTPStatusError", last=503, then=status(503), effects=0, **ENDLESS),
    row("all-504-executed", **UNKNOWN, also="HTTPStatusError", last=504, then=status(504, executes=True), **ENDLESS),
    row("all-408", **UNKNOWN, also="HTTPStatusError", last=408, then=status(408), effects=0, **ENDLESS),
    row("all-429", gets=429, then=status(429), **REFUSED, **ENDLESS),
    row("retry-after-too-long", **UNKNOWN, also="HTTPStatusError", last=503, effects=0, gave_up="retry_after",
        then=status(503, headers={"Retry-After": "3600"}), retry_after=3600.0),
    row("429-retry-after-too-long", gets=429, gave_up="retry_after", retry_after=61.0, **REFUSED,
        then=status(429, headers={"Retry-After": "61"})),
    row("stored-5xx", **UNKNOWN, also="HTTPStatusError", last=500, then=status(500, headers=MARKED), effects=0,
        replayed=True),
    row("lost-stored-5xx", LOST, **UNKNOWN, also="HTTPStatusError", last=502, then=status(502, headers=MARKED),
        attempts=2, replayed=True),
]  # fmt: skip

OUT_OF_DOUBT = [
    # After a lost answer: turned away is not refused.
    row("lost-401", LOST, gets=401, outcome="unknown", then=status(401), attempts=2),
    row("lost-407", LOST, gets=407, outcome="unknown", then=status(407), attempts=2),
    row("lost-307", LOST, gets=307, outcome="unknown", then=faults.redirect(307, "/b"), attempts=2),
    row("lost-302", LOST, gets=302, outcome="unknown", then=faults.redirect(302, "/b"), attempts=2),
    *(
        row(f"lost-{code}", LOST, **UNKNOWN, also=GONE, last=code, then=status(code, json=BUSINESS), attempts=2)
        for code in (400, 403, 404, 405, 413, 415, 422, 451)
    ),
    row("lost-429", LOST, **UNKNOWN, also=GONE, last=429, then=status(429), **ENDLESS),
    row("lost-503", LOST, **UNKNOWN, also="HTTPStatusError", last=503, then=status(503), **ENDLESS),
    # Not a status of a front door, or a dialect that stores its refusals.
    row("lost-402", LOST, gets=402, outcome="rejected", then=status(402, json=BUSINESS), attempts=2),
    row("lost-404-stored", LOST, gets=404, outcome="rejected", then=status(404), attempts=2, dialect=STORES),
    row("lost-401-stored", LOST, gets=401, outcome="unknown", then=status(401), attempts=2, dialect=STORES),
    row("503-404", status(503), **UNKNOWN, also="HTTPStatusError", last=404, then=status(404), attempts=2, effects=0),
    row("429-404", status(429), gets=404, then=status(404), attempts=2, **REFUSED),
    row("refused-404", faults.refuse(), gets=404, then=status(404), attempts=2, wire=1, where="memory", **REFUSED),
]  # fmt: skip

REFUSALS = [
    *(
        row(f"fresh-{code}", gets=code, then=status(code, json=BUSINESS), **REFUSED)
        for code in (400, 401, 402, 403, 404, 407, 410, 412, 422, 451)
    ),
    row("form-error", gets=422, server={"handler": declined}, **REFUSED),
    row("replayed-4xx", gets=402, then=status(402, headers=MARKED), replayed=True, **REFUSED),
    row("lost-replayed-4xx", LOST, gets=422, outcome="rejected", then=status(422, headers=MARKED), replayed=True,
        attempts=2),
    row("409-business", gets=409, then=status(409, json=BUSINESS), **REFUSED),
    # Design 6.2 against BR-14: on a fresh key a 409 with a body of its own is returned, Retry-After or not.
    row("409-business-retry-after", gets=409, then=status(409, json=BUSINESS, headers={"Retry-After": "1"}),
        retry_after=1.0, **REFUSED),
    row("409-empty-then-ok", status(409), status(409), gets=201, attempts=3),
    row("409-empty", gets=409, then=status(409), attempts=6, gave_up="attempts", **REFUSED),
    row("lost-409-business", LOST, **UNKNOWN, also="HTTPStatusError", last=409, then=status(409, json=BUSINESS),
        attempts=7, gave_up="attempts"),
    row("lost-409-business-then-ok", LOST, *[status(409, json=BUSINESS)] * 5, gets=201, attempts=7, replayed=True),
    row("301", gets=301, outcome="unknown", then=faults.redirect(301, "/b"), effects=0),
    row("302", gets=302, outcome="unknown", then=faults.redirect(302, "/b"), effects=0),
    row("307", gets=307, then=faults.redirect(307, "/b"), **REFUSED),
    row("308", gets=308, then=faults.redirect(308, "/b"), **REFUSED),
]  # fmt: skip

ABOUT_THE_KEY = [
    row("mismatch-422", gets="KeyMismatch", also="HTTPStatusError", last=422, then=faults.mismatch(), **REFUSED),
    row("mismatch-409", gets="KeyMismatch", also="HTTPStatusError", last=409, then=faults.mismatch(),
        server={"flavour": "article-2"}, **REFUSED),
    row("lost-mismatch", LOST, **UNKNOWN, also=GONE, last=422, then=faults.mismatch(), attempts=2,
        cause="KeyMismatch"),
    row("spent", gets="KeySpent", also="HTTPStatusError", last=409,
        then=status(409, json={"code": "idempotency_previous_attempt_failed"}), **REFUSED),
    row("lost-spent", LOST, gets="KeySpent", also="HTTPStatusError", last=409, outcome="rejected", attempts=2,
        then=status(409, json={"code": "idempotency_previous_attempt_failed"})),
    row("expired", gets="KeyExpired", also="HTTPStatusError", last=400, outcome="unknown", effects=0,
        then=status(400, json={"code": "idempotency_key_expired"})),
    row("lost-expired", LOST, gets="KeyExpired", also=GONE, last=400, outcome="unknown", attempts=2,
        then=status(400, json={"code": "idempotency_key_expired"})),
    row("key-missing", gets="KeyNotAccepted", also="HTTPStatusError", last=400,
        then=status(400, json={"error": "Idempotency-Key header is required"}), **REFUSED),
    row("key-refused", gets="KeyNotAccepted", also="HTTPStatusError", last=400,
        then=status(400, json={"error": "The Idempotency-Key is too long"}), **REFUSED),
    row("lost-key-refused", LOST, **UNKNOWN, also=GONE, last=400, attempts=2,
        then=status(400, json={"error": "The Idempotency-Key is too long"})),
    row("done", **UNKNOWN, also="HTTPStatusError", last=409, effects=0,
        then=status(409, json={"code": "idempotency_key_already_used"})),
    row("lost-done", LOST, **UNKNOWN, also=GONE, last=409, attempts=2,
        then=status(409, json={"code": "idempotency_key_already_used"})),
    row("lost-done-believed", LOST, gets="AlreadyExecuted", also="HTTPStatusError", last=409, attempts=2,
        dialect=BELIEVED, then=status(409, json={"code": "idempotency_key_already_used", "id": "ch_1"})),
    row("graphql-mismatch-in-200", gets="KeyMismatch", also="HTTPStatusError", last=200, **REFUSED,
        then=status(200, json={"errors": [{"extensions": {"code": "IDEMPOTENCY_KEY_MISMATCH"}}]})),
]  # fmt: skip

HINTS = [
    row("503-should-not-retry", **UNKNOWN, also="HTTPStatusError", last=503, effects=0,
        then=status(503, headers={"X-Should-Retry": "false"})),
    row("409-should-retry", status(409, json=BUSINESS, headers={"Stripe-Should-Retry": "true"}), gets=201, attempts=2),
    row("402-should-retry-used-up", gets=402, then=status(402, headers={"X-Should-Retry": "true"}), **ENDLESS,
        **REFUSED),
    row("401-is-never-retried", gets=401, then=status(401, headers={"X-Should-Retry": "true"}), **REFUSED),
    row("mismatch-is-never-retried", gets="KeyMismatch", also="HTTPStatusError", last=422, **REFUSED,
        then=status(422, json={"code": "idempotency_key_mismatch"}, headers={"X-Should-Retry": "true"})),
    row("unkeyed-post-is-never-repeated", gets=503, outcome="unknown", effects=0, keys=0,
        then=status(503, headers={"X-Should-Retry": "true"}), options={"key": False}),
    row("unkeyed-get-heeds", gets=503, outcome="unknown", effects=0, keys=0, method="GET",
        then=status(503, headers={"X-Should-Retry": "false"})),
]  # fmt: skip

SETTINGS = [
    row("supported-false-ok", status(201, headers=IGNORED, executes=True), gets=201, supported=False, replayed=None),
    row("supported-false-503", **UNKNOWN, also="HTTPStatusError", last=503, supported=False, effects=0,
        then=status(503, headers=IGNORED)),
    row("supported-false-429", gets=429, supported=False, then=status(429, headers=IGNORED), **REFUSED),
    row("retry-off-ok", gets=201, options={"retry": False}),
    row("retry-off-lost", LOST, **UNKNOWN, also=GONE, gave_up="retry_off", options={"retry": False}),
    row("retry-off-429", gets=429, then=status(429), gave_up="retry_off", options={"retry": False}, **REFUSED),
    row("retry-off-in-progress", gets="StillInProgress", also="HTTPStatusError", outcome="unknown", last=409,
        then=faults.in_progress(), gave_up="retry_off", options={"retry": False}, effects=0),
    row("retry-off-refused", gets="NotSent", also="ConnectError", outcome="not_sent", gave_up="retry_off", effects=0,
        keys=0, wire=0, where="closed", options={"retry": False}),
    row("total-timeout", **UNKNOWN, also="HTTPStatusError", last=503, then=status(503), gave_up="deadline", attempts=3,
        effects=0, policy=RetryPolicy(wait=wait_fixed(40), total_timeout=100)),
    row("total-timeout-of-the-request", **UNKNOWN, also="HTTPStatusError", last=503, then=status(503), attempts=2,
        gave_up="deadline", effects=0, policy=RetryPolicy(wait=wait_fixed(10)), options={"total_timeout": 15}),
    row("no-total-timeout", **UNKNOWN, also="HTTPStatusError", last=503, then=status(503), **ENDLESS, effects=0,
        policy=RetryPolicy(wait=wait_fixed(1000)), options={"total_timeout": None}),
    row("retry-after-beyond-the-total-timeout", **UNKNOWN, also="HTTPStatusError", last=503, gave_up="retry_after",
        effects=0, retry_after=10.0, then=status(503, headers={"Retry-After": "10"}), options={"total_timeout": 5}),
    row("one-attempt", LOST, **UNKNOWN, also=GONE, gave_up="attempts",
        policy=RetryPolicy(stop=stop_after_attempt(1))),
]  # fmt: skip

NO_KEY: dict[str, Any] = {"keys": 0}
UNKEYED = [
    # Idempotent by definition: repeated without a key, and what httpx gives comes back.
    *(
        row(f"{method}-{name}", *script, gets=201 if effects else 200, attempts=len(script) + 1, method=method,
            **NO_KEY, **more)
        for method, effects in (("GET", 0), ("PUT", 1), ("DELETE", 1), ("OPTIONS", 0))
        for name, script, more in (
            ("ok", (), {"effects": effects}),
            ("lost", (LOST,), {"effects": 2 * effects}),
            ("503", (status(503), status(408), status(429)), {"effects": effects}),
            ("refused", (faults.refuse(),), {"effects": effects, "where": "memory", "wire": 1}),
        )
    ),
    *(
        row(f"GET-{code}-used-up", gets=code, outcome=outcome, then=status(code), method="GET", effects=0, **NO_KEY,
            **ENDLESS)
        for code, outcome in ((408, "unknown"), (425, "rejected"), (429, "rejected"), (500, "unknown"),
                              (502, "unknown"), (503, "unknown"), (504, "unknown"))
    ),
    *(
        row(f"GET-{code}-at-once", gets=code, outcome=outcome, then=status(code), method="GET", effects=0, **NO_KEY)
        for code, outcome in ((304, "executed"), (302, "unknown"), (401, "rejected"), (404, "rejected"),
                              (409, "rejected"), (501, "unknown"), (505, "unknown"))
    ),
    row("GET-all-lost", gets="", also=GONE, outcome="unknown", then=LOST, method="GET", effects=0, **NO_KEY, **ENDLESS),
    row("PUT-all-refused", gets="", also="ConnectError", outcome="not_sent", method="PUT", effects=0, wire=0,
        where="closed", **NO_KEY, **ENDLESS),
    row("GET-body-phase-is-httpxs-own", faults.cut(), gets="", also=GONE, outcome="executed", method="GET", effects=0,
        **NO_KEY),
    row("DELETE-lost-then-404", LOST, gets=404, outcome="unknown", then=status(404), method="DELETE", attempts=2,
        **NO_KEY),
    row("PUT-lost-then-412", LOST, gets=412, outcome="unknown", then=status(412), method="PUT", attempts=2, **NO_KEY),
    row("GET-retry-off", gets=503, outcome="unknown", then=status(503), method="GET", effects=0, gave_up="retry_off",
        options={"retry": False}, **NO_KEY),
    # A POST without a key is repeated only if it was never sent.
    row("key-false-ok", gets=201, options={"key": False}, **NO_KEY),
    row("key-false-lost", LOST, **UNKNOWN, also=GONE, options={"key": False}, **NO_KEY),
    row("key-false-never", faults.never(), **UNKNOWN, also="ReadTimeout", options={"key": False}, settings=FIRST,
        **NO_KEY),
    row("key-false-503", gets=503, outcome="unknown", then=status(503), options={"key": False}, effects=0, **NO_KEY),
    row("key-false-429", gets=429, then=status(429), options={"key": False}, **REFUSED, **NO_KEY),
    row("key-false-409", gets=409, then=faults.in_progress(), options={"key": False}, **REFUSED, **NO_KEY),
    row("key-false-refused-then-ok", faults.refuse(), gets=201, options={"key": False}, attempts=2, wire=1,
        where="memory", **NO_KEY),
    row("key-false-refused", gets="NotSent", also="ConnectError", outcome="not_sent", effects=0, wire=0,
        where="closed", options={"key": False}, **NO_KEY, **ENDLESS),
    # A POST that reads.
    row("idempotent-post-lost", LOST, gets=201, attempts=2, options={"idempotent": True}, effects=2, **NO_KEY),
    row("idempotent-post-503", gets=503, outcome="unknown", then=status(503), options={"idempotent": True}, effects=0,
        **NO_KEY, **ENDLESS),
    row("idempotent-post-all-lost", gets="", also=GONE, outcome="unknown", then=LOST, options={"idempotent": True},
        effects=5, **NO_KEY, **ENDLESS),
]  # fmt: skip

ROWS = [
    *OK, *FAILURES, *CUT, *RUNNING, *TRANSIENT, *OUT_OF_DOUBT, *REFUSALS, *ABOUT_THE_KEY, *HINTS, *SETTINGS, *UNKEYED
]  # fmt: skip


@pytest.fixture
def server(row: Row) -> LedgerServer:
    return LedgerServer(**row.server)


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_scenario(api: Api, row: Row) -> None:
    """Status or error, outcome, attempts, effects and keys are those of the table."""
    if row.where == "memory":
        # What a socket cannot do; it is set behind the listener's back.
        api.server._core.script.set(None, row.script, row.then)
    else:
        api.server.script(*row.script, then=row.then)
    settings = dict(row.settings)
    if row.where == "closed":
        settings["base_url"] = closed_port()
    body: dict[str, Any] = {"json": {"amount": 1}} if row.method in ("POST", "PATCH", "PUT") else {}
    extensions = samekey.options(**row.options) if row.options else {}
    error: Exception | None = None

    async with api.client(policy=row.policy, dialect=row.dialect, memory=row.where == "memory", **settings) as client:
        try:
            if row.via == "stream":
                async with client.stream(row.method, extensions=extensions, **body) as response:
                    await api.read(response)
            else:
                response = await client.request(row.method, extensions=extensions, **body)
        except api.httpx.RequestError as caught:
            error = caught
        except api.httpx.HTTPStatusError as caught:
            error = caught

    if isinstance(row.gets, int):
        assert error is None
        assert response.status_code == row.gets
        told = the(samekey.report(response))
    else:
        assert error is not None, response
        assert isinstance(error, getattr(api.httpx, row.also or ""))
        check_error(row, error)
        told = the(samekey.report(error))
    assert told.outcome == row.outcome
    assert told.replayed is row.replayed
    assert told.supported is row.supported
    assert told.gave_up == row.gave_up
    assert told.retry_after == row.retry_after
    assert row.attempts in (len(told.attempts), None)
    check_server(row, api, told)


def check_error(row: Row, error: Exception) -> None:
    if not row.gets:
        assert not isinstance(error, IdempotencyError)
        return
    assert isinstance(error, IdempotencyError)
    assert type(error).__name__ == row.gets
    assert (error.response.status_code if error.response is not None else None) == row.last
    assert error.__cause__ is not None or row.last is not None
    if row.cause:
        assert type(error.__cause__).__name__ == row.cause
    # Callers treat these as safe to repeat.
    never_sent = ("ConnectError", "ConnectTimeout", "PoolTimeout")
    if row.gets == "OutcomeUnknown":
        assert not {kind.__name__ for kind in type(error).__mro__} & set(never_sent)


def check_server(row: Row, api: Api, told: samekey.Report) -> None:
    server = api.server
    wire = len(told.attempts) if row.wire is None else row.wire
    api.settle(wire, row.effects)
    assert len(server.requests) == wire
    assert len(server.effects) == row.effects
    assert len(server.keys) == row.keys
    if row.keys:
        server.assert_same_key()
        server.assert_same_body()
        assert server.keys == [told.key]
    elif wire:
        assert told.key is None


def test_names_are_unlike() -> None:
    """Each row is a scenario of its own."""
    assert len({row.name for row in ROWS}) == len(ROWS)
