"""The general reading: traps, evidence against evidence, and bodies of any shape."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekey import dialects
from samekey._model import Answer, Reading, Verdict
from samekey.dialects import Dialect, ReplayMarker, RetryHint, Rule, classify
from tests.core.dialect_answers import FRESH, GIVEN, LINK, REPEAT, bodies, business, headers, read, statuses

PRESETS = [getattr(dialects, name) for name in dialects.__all__ if name.isupper()]


@pytest.mark.parametrize(
    ("status", "fresh", "repeat"),
    [
        (200, "ok", "ok"),
        (201, "ok", "ok"),
        (204, "ok", "ok"),
        (303, "ok", "ok"),
        (101, "moved", "moved"),
        (301, "moved", "moved"),
        (302, "moved", "moved"),
        (304, "moved", "moved"),
        (307, "redirect", "redirect"),
        (308, "redirect", "redirect"),
        (400, "refused", "refused"),
        (401, "challenge", "challenge"),
        (407, "challenge", "challenge"),
        (404, "refused", "refused"),
        (408, "transient", "transient"),
        (409, "conflict", "conflict"),
        (412, "refused", "refused"),
        (422, "refused", "refused"),
        (425, "rate_limited", "rate_limited"),
        (429, "rate_limited", "rate_limited"),
        (500, "transient", "transient"),
        (503, "transient", "transient"),
        (599, "transient", "transient"),
        (999, "transient", "transient"),
    ],
)
def test_bare_status(status: int, fresh: str, repeat: str) -> None:
    """An answer without a word means what its status means."""
    assert read(status).verdict == fresh
    assert read(status, when=REPEAT).verdict == repeat
    assert read(status).empty
    assert not read(status, complete=False).empty


MESSAGES = [
    # A request that runs, and things that run but are no request.
    ("Request already in progress", Verdict.IN_PROGRESS),
    ("The original request is still being processed.", Verdict.IN_PROGRESS),
    ("Slow down. Another request is in flight", Verdict.IN_PROGRESS),
    ("request already processed or in progress", Verdict.IN_PROGRESS),
    ("Another in-progress request holds this resource", Verdict.IN_PROGRESS),
    ("A refund request is already in progress", Verdict.CONFLICT),
    ("Payout in progress", Verdict.CONFLICT),
    ("Operation already in progress", Verdict.CONFLICT),
    ("Your verification request is pending review", Verdict.CONFLICT),
    ("The request could not be processed: the order is processing", Verdict.CONFLICT),
    # The key, clearly named.
    ("Idempotency-Key is locked", Verdict.IN_PROGRESS),
    ("Concurrent use of the idempotency key", Verdict.IN_PROGRESS),
    ("The first request with this idempotency key has not been completed", Verdict.IN_PROGRESS),
    ("idempotency key in use; use a different idempotency key", Verdict.IN_PROGRESS),
    ("A different request with this idempotency key is in progress", Verdict.IN_PROGRESS),
    ("A different request body came with this idempotency key", Verdict.MISMATCH),
    ("idempotencyKey: payload mismatch", Verdict.MISMATCH),
    ("The idempotency key was sent with another endpoint", Verdict.MISMATCH),
    ("Idempotency key reused", Verdict.MISMATCH),
    ("Idempotency-Key header is required", Verdict.KEY_MISSING),
    ("Idempotency-Key is required to be unique and was used before", Verdict.ALREADY_DONE),
    ("The idempotency key is being used by another request", Verdict.IN_PROGRESS),
    ("Idempotency key not provided", Verdict.KEY_MISSING),
    ("Idempotency key has expired", Verdict.KEY_EXPIRED),
    ("Idempotency key already used", Verdict.ALREADY_DONE),
    ("A resource exists for this idempotency key", Verdict.ALREADY_DONE),
    ("The idempotency key does not exist", Verdict.CONFLICT),
    ("Malformed idempotency key", Verdict.KEY_REFUSED),
    ("The idempotency key must have at most 64 characters", Verdict.KEY_REFUSED),
    ("Idempotency is fun", Verdict.CONFLICT),
    # The key, loosely named, and keys of another kind.
    ("A request with the same key is being processed", Verdict.IN_PROGRESS),
    ("Same key, different payload", Verdict.MISMATCH),
    ("Key was reused with a different request", Verdict.MISMATCH),
    ("This request id was used before", Verdict.ALREADY_DONE),
    ("API key reused with another payload", Verdict.CONFLICT),
    ("An object with this key already exists", Verdict.CONFLICT),
    ("An item with the same key has already been added", Verdict.CONFLICT),
    ("duplicate key value violates unique constraint", Verdict.CONFLICT),
    ("The signature does not match this key", Verdict.CONFLICT),
    ("CSRF request token mismatch", Verdict.CONFLICT),
    ("The client token does not match", Verdict.CONFLICT),
    ("Already exists (request id: req_123)", Verdict.CONFLICT),
]


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
@pytest.mark.parametrize("shape", ["json", "list", "nested", "plain", "html", "cut"])
def test_messages(message: str, expected: Verdict, shape: str) -> None:
    """A message means the same in a JSON member, a list, a depth, plain text, a page, or a body that was cut."""
    body = {
        "json": json.dumps({"message": message}).encode(),
        "list": json.dumps({"errors": [message]}).encode(),
        "nested": json.dumps([{"error": {"details": [{"description": message}]}}]).encode(),
        "plain": message.encode(),
        "html": f"<html><body>\n<p>{message}</p></body></html>".encode(),
        "cut": json.dumps({"message": message, "data": "x"}).encode()[:-3],
    }[shape]

    assert read(409, body, complete=shape != "cut").verdict is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"code": "IDEMPOTENCY_KEY_IN_USE_WITH_DIFFERENT_PARAMS"}, Verdict.MISMATCH),
        ({"code": "idempotency_key_in_use"}, Verdict.IN_PROGRESS),
        ({"code": "idempotency_key_in_use", "message": "It came with another payload"}, Verdict.MISMATCH),
        ({"code": "idempotency_conflict"}, Verdict.MISMATCH),
        ({"code": "idempotency_conflict", "message": "The first one is still running"}, Verdict.IN_PROGRESS),
        ({"code": "idempotency_error", "message": "Invalid amount"}, Verdict.MISMATCH),
        ({"code": "idempotency_error", "message": "Idempotency key is missing"}, Verdict.KEY_MISSING),
        ({"type": "https://example.com/problems/idempotency-key-missing"}, Verdict.KEY_MISSING),
        ({"type": "https://example.com/problems/#IdempotencyKeyExpired/"}, Verdict.KEY_EXPIRED),
        ({"type": "about:blank", "title": "Conflict"}, Verdict.CONFLICT),
        ({"errors": [{"extensions": {"code": "IDEMPOTENCY_IN_FLIGHT"}}]}, Verdict.IN_PROGRESS),
        ({"errors": {"reasonCode": "DuplicateIdempotencyKey"}}, Verdict.ALREADY_DONE),
        ({"code": "idempotency_previous_attempt_failed"}, Verdict.KEY_SPENT),
        ({"code": "client_token_mismatch"}, Verdict.MISMATCH),
        ({"__type": "com.example#IdempotencyException", "Message": "Name taken"}, Verdict.CONFLICT),
        ({"code": "OperationInProgressException"}, Verdict.CONFLICT),
        ({"code": "duplicate.request.in.progress"}, Verdict.CONFLICT),
        ({"code": "REQUEST_IN_PROGRESS"}, Verdict.IN_PROGRESS),
        ({"code": True, "message": None, "type": 7.5, "errors": {"x": [[1]]}}, Verdict.CONFLICT),
        # What is said of the field that holds the key is said of the key.
        ({"errors": [{"field": "idempotency_key", "code": "blank_or_missing"}]}, Verdict.KEY_MISSING),
        ({"detail": [{"loc": ["header", "Idempotency-Key"], "msg": "Input is not a valid UUID"}]}, Verdict.KEY_REFUSED),
        ({"idempotency_key": ["has already been taken"]}, Verdict.ALREADY_DONE),
        ({"idempotency_key": "already-in-progress-mismatch", "code": "sold_out"}, Verdict.CONFLICT),
        ({"field": "amount", "code": "missing"}, Verdict.CONFLICT),
        (b'"Idempotency key is in use"', Verdict.IN_PROGRESS),
    ],
)
def test_codes_and_fields(body: Any, expected: Verdict) -> None:
    """Machine codes decide ahead of messages, except those that servers use in two senses."""
    assert read(409, body).verdict is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<Error><Code>IdempotentParameterMismatch</Code></Error>", Verdict.MISMATCH),
        (b"<a:Error><a:Code> IdempotencyTokenInUse </a:Code></a:Error>", Verdict.IN_PROGRESS),
        (b'<error code="idempotency_key_missing"/>', Verdict.KEY_MISSING),
        (b"<error code='9'><![CDATA[Request in progress]]></error>", Verdict.IN_PROGRESS),
        (b"<Code>Conflict</Code>", Verdict.CONFLICT),
    ],
)
def test_xml_is_searched_not_parsed(body: bytes, expected: Verdict) -> None:
    """Codes and texts of XML are found without a parser."""
    assert read(409, body).verdict is expected


def test_code_in_a_header() -> None:
    """AWS and Azure name the error in a header."""
    assert read(409, x_amzn_errortype="IdempotentParameterMismatch:http://x/").verdict is Verdict.MISMATCH
    assert read(409, x_ms_error_code="IdempotencyKeyInFlight").evidence == "IdempotencyKeyInFlight"


def test_already_used_with_422_is_a_mismatch() -> None:
    """The title of the IETF draft, and only of what names the key."""
    assert read(422, {"title": "Idempotency-Key is already used"}).verdict is Verdict.MISMATCH
    assert read(422, {"code": "duplicate_request_id"}).verdict is Verdict.ALREADY_DONE
    assert read(409, {"title": "Idempotency-Key is already used"}).verdict is Verdict.ALREADY_DONE


@pytest.mark.parametrize("code", ["idempotency_key_missing", "idempotency_mismatch", "duplicate_idempotency_key"])
def test_server_error_stays_open(code: str) -> None:
    """A 5xx that stumbles over keys may have executed; only "still running" is more than that."""
    assert read(500, {"code": code}).verdict is Verdict.TRANSIENT
    assert read(500, {"code": "idempotency_key_in_use"}).verdict is Verdict.IN_PROGRESS


@pytest.mark.parametrize("status", [401, 407])
def test_challenge_stays_a_challenge(status: int) -> None:
    """Neither words nor markers keep a 401 or 407 from the auth code."""
    reading = read(status, {"code": "idempotency_key_in_use"}, idempotent_replayed="true", x_should_retry="true")

    assert (reading.verdict, reading.replayed, reading.should_retry) == (Verdict.CHALLENGE, True, None)


def test_conflict_that_asks_to_wait_is_running_if_it_can_be() -> None:
    """`Retry-After` on a 409 means a running request where there may have been an earlier one."""
    assert read(409, retry_after="1").verdict is Verdict.CONFLICT
    assert read(409, retry_after="1", when=REPEAT).verdict is Verdict.IN_PROGRESS
    assert read(409, retry_after="1", when=GIVEN).verdict is Verdict.IN_PROGRESS


def test_link_alone_is_evidence() -> None:
    """The form of the IETF draft without a body; with a body, the body decides."""
    assert read(400, link=LINK).verdict is Verdict.KEY_MISSING
    assert read(409, link=LINK).verdict is Verdict.IN_PROGRESS
    assert read(422, link=LINK).verdict is Verdict.MISMATCH
    assert read(403, link=LINK).verdict is Verdict.REFUSED
    assert read(422, {"detail": "amount is wrong"}, link=LINK).verdict is Verdict.REFUSED
    assert read(422, link='</docs>; rel="describedby"').verdict is Verdict.REFUSED


class TestReplayMarkers:
    """Markers are read by value."""

    @pytest.mark.parametrize("name", ["idempotent-replayed", "x-idempotency-replay", "x-idempotency-cache-hit"])
    def test_boolean(self, name: str) -> None:
        """True, false, and a value that is neither."""
        for value, expected in [("TRUE", True), ("false", False), ("8e03978e", None)]:
            answer = Answer(200, ((name, value),))
            assert classify(answer, Dialect(), **FRESH).replayed is expected

    def test_status(self) -> None:
        """Words for replayed, processed and ignored; the last says that keys are not honoured."""
        assert read(200, idempotency_status="Replayed").replayed is True
        assert read(200, x_idempotency_status="new").replayed is False
        assert read(200, x_idempotency_cache="HIT").replayed is True
        reading = read(200, idempotency_status="ignored")
        assert (reading.verdict, reading.replayed, reading.supported) == (Verdict.OK, None, False)

    def test_presence(self) -> None:
        """Some headers exist on replayed answers only."""
        dialect = Dialect(replay=(ReplayMarker("X-First-Request-At", "presence"),))
        assert read(200, b"", dialect, x_first_request_at="1700000000000").replayed is True

    def test_first_word_counts(self) -> None:
        """Two markers on one answer: the first that says something."""
        assert read(200, idempotent_replayed="true", idempotency_status="ignored").supported is False
        assert read(200, idempotent_replayed="true", idempotency_replayed="false").replayed is True

    def test_stored_error_belongs_to_the_first_request(self) -> None:
        """A replayed error is a stored one, whatever its words say; a replayed success is a success."""
        body = {"code": "idempotency_key_in_use"}
        assert read(409, body, idempotent_replayed="true").verdict is Verdict.STORED_ERROR
        assert read(500, body, idempotent_replayed="true").verdict is Verdict.STORED_ERROR
        assert read(409, body, idempotent_replayed="false").verdict is Verdict.IN_PROGRESS
        assert read(303, idempotent_replayed="true") == Reading(Verdict.OK, replayed=True, empty=True)


class TestRepeatability:
    """The answers of OASIS Repeatable Requests."""

    def test_rejected(self) -> None:
        """Outside the window; another request; headers that were never right."""
        assert read(412, repeatability_result="rejected").verdict is Verdict.KEY_EXPIRED
        assert read(400, repeatability_result="Rejected", when=REPEAT).verdict is Verdict.MISMATCH
        assert read(400, repeatability_result="rejected").verdict is Verdict.KEY_REFUSED

    def test_accepted(self) -> None:
        """A conflict of an accepted repeat is a running request; of a first one it is business."""
        assert read(409, repeatability_result="accepted", when=REPEAT).verdict is Verdict.IN_PROGRESS
        assert read(409, repeatability_result="accepted").verdict is Verdict.CONFLICT
        assert read(404, repeatability_result="accepted", when=REPEAT).verdict is Verdict.REFUSED

    def test_not_implemented(self) -> None:
        """A 501 to these headers says that the service does not honour them."""
        assert read(501, b"", dialects.AZURE_REPEATABILITY).supported is False
        assert read(501, repeatability_result="rejected").supported is False
        assert read(501).supported is None


class TestSuccess:
    """2xx answers that are not done."""

    def test_generic_reads_codes_that_name_the_key(self) -> None:
        """GraphQL errors come with 200; messages and other members of a success are the API's business."""
        assert read(200, {"errors": [{"extensions": {"code": "IDEMPOTENCY_KEY_MISMATCH"}}]}).verdict is Verdict.MISMATCH
        assert read(200, {"errors": [{"code": "idempotency_key_in_use"}]}).verdict is Verdict.IN_PROGRESS
        assert read(200, {"message": "Idempotency key is in progress", "code": 7}).verdict is Verdict.OK
        assert read(200, {"title": "idempotency_key_missing", "code": "sold_out"}).verdict is Verdict.OK

    def test_without_inspection_bodies_are_not_read(self) -> None:
        """A dialect that does not ask for it believes the status."""
        assert read(200, {"code": "IDEMPOTENCY_KEY_MISMATCH"}, Dialect()).verdict is Verdict.OK

    def test_accepted_is_done(self) -> None:
        """A 202 is a success, also one that says that *it* is being processed."""
        assert read(202).verdict is Verdict.OK
        assert read(202, {"message": "Your request is being processed"}).verdict is Verdict.OK
        assert read(202, retry_after="1").verdict is Verdict.OK

    @pytest.mark.parametrize(
        "body", [{"error": "Request already in progress"}, {"error": "This idempotency key is being processed"}]
    )
    def test_accepted_is_running_if_it_says_so(self, body: Any) -> None:
        """A 202 that speaks of another request, or of the key, is a request in progress."""
        assert read(202, body).verdict is Verdict.IN_PROGRESS

    def test_accepted_under_a_given_key(self) -> None:
        """`Retry-After` without a place to look means a running request, but only where the key is not fresh."""
        assert read(202, retry_after="1", when=GIVEN).verdict is Verdict.IN_PROGRESS
        assert read(202, retry_after="1", when=REPEAT).verdict is Verdict.OK
        assert read(202, retry_after="1", location="/jobs/1", when=GIVEN).verdict is Verdict.OK
        assert read(202, when=GIVEN).verdict is Verdict.OK

    def test_shopify_says_with_200_what_others_say_with_a_status(self) -> None:
        """Throttled and internal errors come with 200."""
        for code, expected in [("THROTTLED", Verdict.RATE_LIMITED), ("INTERNAL_SERVER_ERROR", Verdict.TRANSIENT)]:
            body = {"errors": [{"message": "x", "extensions": {"code": code}}]}
            assert read(200, body, dialects.SHOPIFY).verdict is expected
        assert read(200, {"data": {"x": {"userErrors": []}}}, dialects.SHOPIFY).verdict is Verdict.OK


class TestDialectRules:
    """Rules of a dialect come first."""

    @pytest.mark.parametrize(
        ("rule", "fits"),
        [
            (Rule(Verdict.MISMATCH, status=418), True),
            (Rule(Verdict.MISMATCH, status=[418, 419]), True),
            (Rule(Verdict.MISMATCH, status=419), False),
            (Rule(Verdict.MISMATCH, code="OTHER|dup.*"), True),
            (Rule(Verdict.MISMATCH, code="dup"), False),
            (Rule(Verdict.MISMATCH, text="SEEN"), True),
            (Rule(Verdict.MISMATCH, text="unseen"), False),
            (Rule(Verdict.MISMATCH, header=("X-Twice", "YES")), True),
            (Rule(Verdict.MISMATCH, header=("X-Twice", "ye")), False),
            (Rule(Verdict.MISMATCH, header=("X-Other", ".*")), False),
            (Rule(Verdict.MISMATCH, status=418, code="DUP_77", text="seen", header=("x-twice", "yes")), True),
            (Rule(Verdict.MISMATCH, status=418, code="DUP_78", text="seen", header=("x-twice", "yes")), False),
        ],
    )
    def test_conditions(self, rule: Rule, fits: bool) -> None:
        """Every condition of a rule has to fit: whole codes and header values, any part of a text."""
        reading = read(418, {"code": "DUP_77", "message": "Seen it."}, Dialect(rules=(rule,)), x_twice="yes ")

        assert reading.verdict is (Verdict.MISMATCH if fits else Verdict.REFUSED)

    def test_first_rule_wins(self) -> None:
        """Order decides, and the general reading comes after all rules and after no fit."""
        rules = (Rule(Verdict.KEY_SPENT, code="a"), Rule(Verdict.MISMATCH, status=409))
        body = {"code": "a", "message": "idempotency key in use"}
        assert read(409, body, Dialect(rules=rules)).verdict is Verdict.KEY_SPENT
        assert read(409, body, Dialect(rules=rules[::-1])).verdict is Verdict.MISMATCH
        assert read(400, {"message": "idempotency key in use"}, Dialect(rules=rules)).verdict is Verdict.IN_PROGRESS

    def test_evidence_is_a_short_token(self) -> None:
        """What decided is told, and never at length."""
        rule = Rule(Verdict.MISMATCH, text="y+")
        assert read(400, {"message": "y" * 300}, Dialect(rules=(rule,))).evidence == "y" * 64
        assert read(400, {}, Dialect(rules=(Rule(Verdict.MISMATCH, status=400),))).evidence == "status 400"
        assert read(400, {"code": "idempotency_key_missing" + "x" * 99}).evidence is None
        assert read(409, {"code": "idempotency_mismatch_" + "x" * 99}).evidence == "idempotency_mismatch_" + "x" * 43

    @pytest.mark.parametrize("body", [b"", {"title": "Conflict"}, {"code": 409, "message": "try later"}])
    def test_bare_status_needs_an_earlier_use(self, body: Any) -> None:
        """What a bare 409 means in a dialect, and that a first attempt under a fresh key cannot mean it."""
        dialect = Dialect(bare_status={409: Verdict.IN_PROGRESS, 418: Verdict.RATE_LIMITED})
        assert read(409, body, dialect, when=REPEAT).verdict is Verdict.IN_PROGRESS
        assert read(409, body, dialect, when=GIVEN).verdict is Verdict.IN_PROGRESS
        assert read(409, body, dialect).verdict is Verdict.CONFLICT
        assert read(418, b"", dialect).verdict is Verdict.RATE_LIMITED

    def test_bare_status_gives_way_to_a_code(self) -> None:
        """A 409 with a machine code of its own is not bare; an unknown status has no phrase."""
        dialect = Dialect(bare_status={409: Verdict.IN_PROGRESS, 499: Verdict.TRANSIENT})
        assert read(409, {"code": "insufficient_funds"}, dialect, when=REPEAT).verdict is Verdict.CONFLICT
        assert read(499, {"code": "499"}, dialect).verdict is Verdict.TRANSIENT


class TestHints:
    """What the server says of another try."""

    def test_values(self) -> None:
        """True, false, and nonsense; only on errors."""
        assert read(503, x_should_retry="false").should_retry is False
        assert read(409, stripe_should_retry="true").should_retry is True
        assert read(503, x_should_retry="maybe").should_retry is None
        assert read(200, x_should_retry="true").should_retry is None

    def test_absence(self) -> None:
        """Where a dialect says so, the lack of the header is a hint too; the first hint that speaks wins."""
        dialect = Dialect(hints=(RetryHint("Again"), RetryHint("Transient", absent=False)))
        assert read(503, b"", dialect).should_retry is False
        assert read(503, b"", dialect, again="true").should_retry is True

    @pytest.mark.parametrize(
        ("value", "expected"),
        [(3, 3.0), (0.5, 0.5), (0, 0.0), (-1, None), (True, None), ("3", None), (None, None), (10**400, None)],
    )
    def test_delay_in_the_body(self, value: Any, expected: float | None) -> None:
        """A number of seconds, and nothing else."""
        dialect = Dialect(body_delay="error.retry_after")
        assert read(429, {"error": {"retry_after": value}}, dialect).delay == expected
        assert read(401, {"error": {"retry_after": value}}, dialect).delay is None

    def test_delay_that_is_no_number(self) -> None:
        """Python's JSON reader knows NaN and Infinity; a wait of that length is none."""
        dialect = Dialect(body_delay="retry_after")
        assert read(429, b'{"retry_after": NaN}', dialect).delay is None
        assert read(429, b'{"retry_after": Infinity}', dialect).delay is None

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({"id": "x", "links": [{"a": 1}, {"id": "res_1"}]}, "res_1"),
            ({"id": None, "links": {"id": 7}}, "7"),
            ({"links": {"id": True}, "other": "res_2"}, "res_2"),
            ({"links": {"id": "r" * 999}}, "r" * 256),
            ({}, None),
        ],
    )
    def test_resource(self, body: Any, expected: str | None) -> None:
        """The first path that leads to an id, through lists; only on "already done"."""
        done = Rule(Verdict.ALREADY_DONE, status=409)
        dialect = Dialect(rules=(done,), done_resource=("links.id", "other"))
        assert read(409, body, dialect).resource == expected
        assert read(400, body, dialect).resource is None


@given(statuses, headers, bodies, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(PRESETS))
def test_no_answer_raises(
    status: int,
    lines: tuple[tuple[str, str], ...],
    body: bytes,
    complete: bool,
    fresh: bool,
    repeat: bool,
    dialect: Dialect,
) -> None:
    """Whatever a server sends, there is a verdict, and what it says about itself is short."""
    dialect = replace(dialect, inspect_2xx=True, body_delay="a.b", done_resource=("error.id",))
    reading = classify(Answer(status, lines, body, complete), dialect, fresh=fresh, repeat=repeat)

    assert reading.delay is None or math.isfinite(reading.delay)
    assert len(reading.evidence or "") <= 64
    assert (status in {401, 407}) == (reading.verdict is Verdict.CHALLENGE)
    assert status < 500 or reading.verdict is not Verdict.REFUSED


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"code": ' + b"9" * 10_000 + b"}",
        b'{"code": NaN}',
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
        b'{"message": "\\ud800"}',
        b"<" * 70_000,
        b'<error code="' * 5_000,
        b"idempot " * 9_000,
        json.dumps({"errors": [{"code": f"c{i}", "message": "idempotency"} for i in range(900)]}).encode(),
        json.dumps([[]] * 2_000).encode(),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("status", [200, 202, 409])
def test_hostile_bodies(body: bytes, status: int) -> None:
    """Deep, huge and broken bodies are looked at within bounds."""
    verdict = read(status, body, dialects.SHOPIFY).verdict

    assert verdict is (Verdict.CONFLICT if status == 409 else Verdict.OK)


def test_only_the_first_part_of_a_body_counts() -> None:
    """What stands behind 64 KiB, or deeper than six levels, is not read."""
    assert read(409, b" " * 70_000 + b"Request already in progress").verdict is Verdict.CONFLICT
    assert read(200, b" " * 70_000 + b'{"code":"idempotency_mismatch"}').verdict is Verdict.OK
    deep: Any = {"code": "idempotency_mismatch"}
    for _ in range(6):
        deep = {"a": deep}
    assert read(409, deep).verdict is Verdict.MISMATCH
    assert read(409, {"a": deep}).verdict is Verdict.CONFLICT


@given(
    st.sampled_from([400, 402, 403, 404, 409, 412, 422]),
    st.sampled_from(["message", "detail", "title", "error", "code", "type", "reason"]),
    business.map(" ".join) | business.map("_".join),
    st.sampled_from([FRESH, REPEAT, GIVEN]),
    st.sampled_from(PRESETS),
)
def test_business_errors_are_never_about_the_key(
    status: int, name: str, words: str, when: dict[str, bool], dialect: Dialect
) -> None:
    """Conflicts and validation errors of the API are neither a mismatch nor, at first sight, in progress."""
    plain = {"errors": [{name: words, "field": "amount"}]}
    verdict = read(status, plain, dialect, when=when).verdict

    assert verdict in {Verdict.CONFLICT, Verdict.REFUSED, Verdict.IN_PROGRESS}
    assert verdict is not Verdict.IN_PROGRESS or (when is not FRESH and status in dialect.bare_status)


@given(
    statuses,
    headers.filter(lambda lines: not any(name == "link" for name, _ in lines)),
    bodies,
    st.sampled_from(PRESETS),
)
def test_nothing_runs_at_first_sight_unless_it_is_said(
    status: int, lines: tuple[tuple[str, str], ...], body: bytes, dialect: Dialect
) -> None:
    """A first attempt under a fresh key is in progress only if the answer speaks of a key or of a request."""
    reading = classify(Answer(status, lines, body), dialect, fresh=True, repeat=False)
    said = (body + "".join(value for _, value in lines).encode()).lower()

    assert reading.verdict is not Verdict.IN_PROGRESS or b"idempot" in said or b"request" in said or b"token" in said
