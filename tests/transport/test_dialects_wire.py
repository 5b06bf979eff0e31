"""Dialects on the wire: where the key stands, what it looks like, bodies that carry it, its age, which one applies."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from tenacity import stop_after_attempt, wait_none

import samekey
from samekey import GENERIC, Dialect, KeyMismatch, NotSent, OutcomeUnknown, RetryPolicy, _pause, dialects
from samekey.dialects import Header, JsonField, KeyRule, RepeatabilityHeaders
from samekey.events import MismatchFound
from samekey.testing import Reply, faults
from tests.transport.harness import Api, key_lines, leaves_streams, now, on_sync, raises, statuses, the

PRESETS: dict[str, Dialect] = {
    name: getattr(dialects, name) for name in dialects.__all__ if isinstance(getattr(dialects, name), Dialect)
}
QUICK = RetryPolicy(wait=wait_none())
ONCE = RetryPolicy(wait=wait_none(), stop=stop_after_attempt(1))
LOST = faults.lost()
V7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

every_preset = pytest.mark.parametrize("name", PRESETS)


def sent(api: Api) -> list[dict[str, str]]:
    """The headers of every request, names in lower case."""
    return [{name.lower(): value for name, value in request.headers} for request in api.server.requests]


def bodies(api: Api) -> list[bytes]:
    return [request.body for request in api.server.requests]


# -- the place and the form of the key

PLACES = {
    "ADYEN": "idempotency-key",
    "AZURE_REPEATABILITY": "repeatability-request-id",
    "CHECKOUT_COM": "cko-idempotency-key",
    "CIRCLE": None,
    "COINBASE_CDP": "x-idempotency-key",
    "DWOLLA": "idempotency-key",
    "GENERIC": "idempotency-key",
    "GOCARDLESS": "idempotency-key",
    "IETF_DRAFT": "idempotency-key",
    "INCREASE": "idempotency-key",
    "MODERN_TREASURY": "idempotency-key",
    "MOLLIE": "idempotency-key",
    "PAYPAL": "paypal-request-id",
    "RESEND": "idempotency-key",
    "SHOPIFY": None,
    "SQUARE": None,
    "STRIPE": "idempotency-key",
    "STRIPE_V2": "idempotency-key",
    "UK_OPEN_BANKING": "x-idempotency-key",
}
IN_BODY = {
    "SQUARE": b'{"idempotency_key":"%s","n": 1.50}',
    "CIRCLE": b'{"idempotencyKey":"%s","n": 1.50}',
    "SHOPIFY": b'{"variables":{"idempotencyKey":"%s"},"n": 1.50}',
}
LONGEST = {"ADYEN": 64, "PAYPAL": 108, "SQUARE": 45, "INCREASE": 200, "RESEND": 256, "UK_OPEN_BANKING": 40}
UUID4 = {"CIRCLE", "COINBASE_CDP", "CHECKOUT_COM", "MOLLIE"}
METHODS = {"STRIPE_V2": "DELETE", "COINBASE_CDP": "DELETE PUT", "AZURE_REPEATABILITY": "DELETE PATCH PUT"}
METHODS |= {"GENERIC": "PATCH", "IETF_DRAFT": "PATCH"}


@every_preset
@on_sync
async def test_the_key_on_the_wire(api: Api, name: str) -> None:
    """In its place and nowhere else, in its form, on both attempts; the body is else as the caller wrote it."""
    body = b'{"n": 1.50}'
    api.server.script(faults.lost(executes=False))
    async with api.client(dialect=PRESETS[name], policy=RetryPolicy(wait=wait_none())) as client:
        response = await client.post(content=body)

    key = the(samekey.report(response)).key
    assert key is not None
    assert uuid.UUID(key).version == (4 if name in UUID4 else 7)
    quoted = f'"{key}"' if name == "IETF_DRAFT" else key
    place = PLACES[name]
    for request, headers in zip(api.server.requests, sent(api), strict=True):
        found = {header: value for header, value in headers.items() if key in value}
        assert found == ({} if place is None else {place: quoted})
        assert len(key_lines(request, place or "idempotency-key")) == (place is not None)
        assert request.body == (IN_BODY[name] % key.encode() if place is None else body)
        assert headers["content-length"] == str(len(request.body))
    assert [*map(len, bodies(api))] == [len(bodies(api)[0])] * 2


@every_preset
@on_sync
async def test_which_methods_carry_a_key(api: Api, name: str) -> None:
    """POST always; the others where the API documents it. GET never."""
    seen: list[str] = []
    async with api.client(dialect=PRESETS[name]) as client:
        for method in ("POST", "PUT", "PATCH", "DELETE", "GET"):
            body: dict[str, Any] = {"json": {}} if method in ("POST", "PUT", "PATCH") else {}
            if the(samekey.report(await client.request(method, **body))).key:
                seen.append(method)

    assert set(seen) == {"POST", *METHODS.get(name, "").split()}
    for headers, request in zip(sent(api), api.server.requests, strict=True):
        place = PLACES[name]
        assert place is None or (place in headers) is (request.method in seen)


@every_preset
@on_sync
async def test_a_key_that_is_too_long(api: Api, name: str) -> None:
    """A clear error before anything is sent, wherever the key was given; the longest one passes."""
    longest = LONGEST.get(name, 255)
    preset = PRESETS[name]
    key = "k" * longest if preset.key.pattern is None else str(uuid.uuid4())
    async with api.client(dialect=preset) as client:
        for settings in given(preset, "k" * (longest + 1)):
            with pytest.raises(ValueError, match=r"idempotency key"):
                await client.post(**settings)
        with samekey.operation(key="k" * (longest + 1)), pytest.raises(ValueError, match="idempotency key"):
            await client.post()
        assert api.server.requests == []
    for settings in given(preset, key):
        async with api.client(dialect=preset) as client:
            assert the(samekey.report(await client.post(**settings))).key == key


def given(dialect: Dialect, key: str) -> list[dict[str, Any]]:
    """The ways to give a key with a request."""
    carrier = dialect.carrier
    if isinstance(carrier, JsonField):
        inside: Any = key
        for part in reversed(carrier.path.split(".")):
            inside = {part: inside}
        own: dict[str, Any] = {"json": inside}
    else:
        own = {"headers": {carrier.name: carrier.encode(key)}}
    return [own, {"extensions": samekey.options(key=key)}]


@pytest.mark.parametrize("value", ["not-a-uuid", "01890a5d-ac96-774b-bcce-b302099a8057"])
@on_sync
async def test_a_key_of_another_form(api: Api, value: str) -> None:
    """Coinbase and Circle refuse all but version 4; so does samekey, before the first byte."""
    for name in ("COINBASE_CDP", "CIRCLE"):
        async with api.client(dialect=PRESETS[name]) as client:
            for settings in given(PRESETS[name], value):
                with pytest.raises(ValueError, match="does not match"):
                    await client.post(**settings)
            with samekey.operation() as op:
                assert op.key  # read before anybody knew which API it is for: a UUIDv7
                with pytest.raises(ValueError, match="does not match"):
                    await client.post()

    assert api.server.requests == []


async def test_a_quoted_header_of_the_caller(api: Api) -> None:
    """With or without quotes it is the same key; it is sent as it was written."""
    async with api.client(dialect=dialects.IETF_DRAFT, policy=QUICK) as client:
        for value, key in (('"k-1"', "k-1"), ("k-1", "k-1"), (r'"a\"b"', 'a"b')):
            api.server.script(LOST)
            response = await client.post(headers={"Idempotency-Key": value})
            assert the(samekey.report(response)).key == key
        with pytest.raises(ValueError, match="well-formed"):
            await client.post(headers={"Idempotency-Key": '"k'})

    assert [headers["idempotency-key"] for headers in sent(api)] == ['"k-1"'] * 2 + ["k-1"] * 2 + [r'"a\"b"'] * 2


# -- the pair of Azure


async def test_the_first_sent_date_stays(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first send of the *operation*: on every attempt, and in a later call that goes on with it."""
    clock = [1_700_000_000.0]
    monkeypatch.setattr(_pause, "wall", lambda: clock[0])

    def later(_: Any) -> Any:
        clock[0] += 20
        return LOST

    api.server.script(then=later)
    async with api.client(dialect=dialects.AZURE_REPEATABILITY, policy=QUICK) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()
        with samekey.operation(key=caught.value.key):
            api.server.script()
            await client.post()
        await client.post(json={"another": 1})

    dates = [headers["repeatability-first-sent"] for headers in sent(api)]
    assert dates == ["Tue, 14 Nov 2023 22:13:20 GMT"] * 6 + ["Tue, 14 Nov 2023 22:15:00 GMT"]
    assert parsedate_to_datetime(dates[0]).timestamp() == 1_700_000_000


async def test_a_first_sent_date_of_the_caller(api: Api) -> None:
    """Both headers are the caller's: neither is touched."""
    own = {"Repeatability-Request-ID": "mine", "Repeatability-First-Sent": "Tue, 14 Nov 2023 22:13:20 GMT"}
    api.server.script(faults.lost(executes=False))
    async with api.client(dialect=dialects.AZURE_REPEATABILITY, policy=QUICK) as client:
        await client.post(headers=own)

    for headers in sent(api):
        assert {name: headers[name.lower()] for name in own} == own


# -- how long a key lives


@every_preset
@on_sync
async def test_a_key_is_not_sent_past_its_time(api: Api, name: str) -> None:
    """A retry that would come too late is not sent: it could execute a second time."""
    usable = PRESETS[name].usable_for
    policy = RetryPolicy(wait=wait_none(), total_timeout=None, max_retry_after=1e12)
    wait = 1e8 if usable in (None, float("inf")) else float(usable or 0)
    late = faults.status(503, headers={"Retry-After": f"{wait:.0f}", "transient-error": "true"})
    in_time = faults.status(503, headers={"Retry-After": f"{wait - 100:.0f}", "transient-error": "true"})
    async with api.client(dialect=PRESETS[name], policy=policy, timeout=10.0) as client:
        api.server.script(in_time)
        assert (await client.post(json={"n": 1})).status_code == 201
        api.server.script(late)
        if usable in (None, float("inf")):
            assert (await client.post(json={"n": 2})).status_code == 201
            return
        with raises(samekey.KeyExpired, api.httpx.HTTPStatusError) as caught:
            await client.post(json={"n": 2})

    assert the(caught.value.report).outcome == "unknown"
    assert len(api.server.requests) == 3


# -- bodies that carry the key

SQUARE = dialects.SQUARE
NESTED = Dialect(name="nested", carrier=JsonField("headers.idempotencyKey"))
ODD = b' {\n "amount" : 1.0e2, "big": 123456789012345678901234567890,\t"text":"\\u00e9 \xc3\xa9", "a": [ ] } \n'


async def test_every_other_byte_stays(api: Api) -> None:
    """Numbers, spaces, escapes: as the caller wrote them, on each attempt."""
    api.server.script(LOST, faults.status(503))
    async with api.client(dialect=SQUARE, policy=QUICK) as client:
        response = await client.post(content=ODD)

    key = the(samekey.report(response)).key
    assert bodies(api) == [b' {"idempotency_key":"%s",' % str(key).encode() + ODD[2:]] * 3


async def test_nested_fields(api: Api) -> None:
    """Missing parents are made, existing ones are used."""
    async with api.client(dialect=NESTED) as client:
        for body in (b"{}", b'{"headers":{}}', b'{"headers":{"a":1},"b":2}'):
            await client.post(content=body)

    keys = [json.loads(body)["headers"].pop("idempotencyKey") for body in bodies(api)]
    assert all(map(V7.fullmatch, keys))
    assert len(set(keys)) == 3
    assert bodies(api) == [
        b'{"headers":{"idempotencyKey":"%s"}}' % keys[0].encode(),
        b'{"headers":{"idempotencyKey":"%s"}}' % keys[1].encode(),
        b'{"headers":{"idempotencyKey":"%s","a":1},"b":2}' % keys[2].encode(),
    ]


async def test_the_callers_own_field(api: Api) -> None:
    """It is the key; the body is not touched."""
    own = b'{ "idempotency_key" : "mine-1", "n": 1 }'
    api.server.script(faults.lost(executes=False))
    async with api.client(dialect=SQUARE, policy=QUICK) as client:
        response = await client.post(content=own)
        assert the(samekey.report(response)).key == "mine-1"
        with raises(KeyMismatch) as caught:
            await client.post(content=own.replace(b"1 }", b"2 }"))
        assert the(caught.value.report).attempts == ()
        with raises(KeyMismatch, api.httpx.RequestError):
            await client.post(content=own, extensions=samekey.options(key="other"))
        with samekey.operation(key="other"), raises(KeyMismatch):
            await client.post(content=own)
        assert the(samekey.report(await client.post(content=own, extensions=samekey.options(key="mine-1")))).key

    assert bodies(api) == [own] * 3


async def test_the_fingerprint_is_of_the_callers_bytes(api: Api) -> None:
    """Taken before the key goes in: the same operation again is the same request, another body is not."""
    api.server.script(then=LOST)
    async with api.client(dialect=SQUARE, policy=ONCE, listen=True) as client:
        with raises(OutcomeUnknown) as first:
            await client.post(json={"n": 1})
        with raises(OutcomeUnknown) as again:  # without an operation: found by its fingerprint
            await client.post(json={"n": 1})
        assert again.value.key == first.value.key
        assert the(again.value.report).attempts == ()
        api.server.script()
        with samekey.operation(key=first.value.key):
            await client.post(json={"n": 1})
            with raises(KeyMismatch):
                await client.post(json={"n": 2})
        with samekey.operation() as op:
            for _ in range(2):
                await client.post(json={"n": 3})
        assert [event.local for event in api.events if isinstance(event, MismatchFound)] == [True]

    assert [json.loads(body)["idempotency_key"] for body in bodies(api)] == [first.value.key] * 2 + [op.key] * 2
    assert len(set(bodies(api))) == 2


async def test_resume_by_fingerprint(api: Api) -> None:
    """`on_unresolved="resume"`: the key of the first call goes into the second's body."""
    api.server.script(LOST)
    policy = RetryPolicy(wait=wait_none(), stop=stop_after_attempt(1), on_unresolved="resume")
    async with api.client(dialect=SQUARE, policy=policy) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post(json={"n": 1})
        response = await client.post(json={"n": 1})

    assert the(samekey.report(response)).key == caught.value.key
    assert len(set(bodies(api))) == 1


async def test_generators(api: Api) -> None:
    """Read once; the key goes in; chunked stays chunked, and a length that was announced is mended."""
    for headers in ({}, {"Content-Length": "9"}):
        api.server.reset()
        api.server.script(LOST)
        async with api.client(dialect=SQUARE, policy=QUICK) as client:
            response = await client.post(content=api.body_of(b'{"n":', b" 1}\n"), headers=headers)
        key = str(the(samekey.report(response)).key).encode()
        assert bodies(api) == [b'{"idempotency_key":"%s","n": 1}\n' % key] * 2
        for found in sent(api):
            if headers:
                assert found["content-length"] == str(len(bodies(api)[0]))
            else:
                assert found["transfer-encoding"] == "chunked"
                assert "content-length" not in found


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"data": {"a": "1"}}, ValueError, "not a JSON document"),
        ({"files": {"f": b"x"}}, ValueError, "not a JSON document"),
        ({"content": b""}, ValueError, "not a JSON document"),
        ({"content": b"\xff"}, ValueError, "not a JSON document"),
        ({"json": [1]}, TypeError, "must be an object to hold the key, not an array"),
        ({"json": {"idempotency_key": 7}}, TypeError, "must be a string, not a number"),
        ({"json": {"idempotency_key": None}}, TypeError, "must be a string, not null"),
        ({"content": b'{"idempotency_key":"a","idempotency_key":"b"}'}, ValueError, "occurs twice"),
        ({"json": {"idempotency_key": "k" * 46}}, ValueError, "allowed: 1..45"),
        ({"json": {"idempotency_key": ""}}, ValueError, "empty"),
        ({"json": {"idempotency_key": "é"}}, ValueError, "printable ASCII"),
        ({"json": {}, "extensions": samekey.options(key="k" * 46)}, ValueError, "allowed: 1..45"),
    ],
)
async def test_bodies_that_cannot_carry_the_key(
    api: Api, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    """A clear error before anything is sent; nothing is remembered as open."""
    async with api.client(dialect=SQUARE) as client:
        for _ in range(2):
            with pytest.raises(error, match=message):
                await client.post(**settings)
        assert client.raw._transport.engine.memory.unresolved == {}

    assert api.server.requests == []


@leaves_streams
async def test_a_body_that_is_too_large_to_be_read(api: Api) -> None:
    """Its key cannot be put in; nothing is sent. Without a key it streams."""
    policy = RetryPolicy(max_request_buffer=10)
    async with api.client(dialect=SQUARE, policy=policy) as client:
        with pytest.raises(ValueError, match="too large to be read first"):
            await client.post(content=api.body_of(b'{"n": "', b"x" * 100, b'"}'))
        assert api.server.requests == []
        await client.post(content=api.body_of(b"x" * 100), extensions=samekey.options(key=False))

    assert bodies(api) == [b"x" * 100]


async def test_a_token_request_is_left_alone(api: Api) -> None:
    """A form with a grant_type under a dialect for JSON bodies: no key, no error."""
    async with api.client(dialect=SQUARE) as client:
        response = await client.post(data={"grant_type": "client_credentials"})

    assert the(samekey.report(response)).key is None
    assert bodies(api) == [b"grant_type=client_credentials"]


async def test_a_graphql_query(api: Api) -> None:
    """A read is marked, and then its variables are left alone."""
    api.server.script(LOST)
    async with api.client(dialect=dialects.SHOPIFY, policy=QUICK) as client:
        await client.post(json={"query": "{ shop }"}, extensions=samekey.options(idempotent=True))

    assert [json.loads(body) for body in bodies(api)] == [{"query": "{ shop }"}] * 2


# -- the account belongs to the request


@on_sync
async def test_scope_headers(api: Api) -> None:
    """One key for two accounts of Stripe is a mismatch; a new Authorization is none."""
    async with api.client(dialect=dialects.STRIPE) as client:
        settings: dict[str, Any] = {"json": {}, "extensions": samekey.options(key="k")}
        await client.post(headers={"Stripe-Account": "acct_1", "Authorization": "Bearer old"}, **settings)
        await client.post(headers={"Stripe-Account": "acct_1", "Authorization": "Bearer new"}, **settings)
        with raises(KeyMismatch):
            await client.post(headers={"Stripe-Account": "acct_2"}, **settings)
        with raises(KeyMismatch):
            await client.post(**settings)

    assert len(api.server.requests) == 2


# -- which dialect applies


async def test_a_dialect_for_each_origin(api: Api) -> None:
    """`origins` maps each API to its own; elsewhere nothing is put on."""
    seen: dict[str, Any] = {}

    def handle(request: Any) -> Any:
        seen[request.url.host] = request
        return api.httpx.Response(201)

    origins = {
        "https://api.stripe.com": dialects.STRIPE,
        "https://connect.squareup.com": SQUARE,
        "https://api-m.paypal.com": dialects.PAYPAL,
        "https://api.example.com": GENERIC,
    }
    async with api.client(base_url="", origins=origins, transport=api.inner(handle)) as client:
        reports = {
            url: samekey.report(await client.post(f"{url}/x", json={})) for url in (*origins, "https://other.test")
        }
        await client.request("PATCH", "https://api.stripe.com/x", json={})
        assert "idempotency-key" not in seen["api.stripe.com"].headers  # Stripe knows no PATCH
        await client.request("PATCH", "https://api.example.com/x", json={})
        assert "idempotency-key" in seen["api.example.com"].headers

    assert "paypal-request-id" in seen["api-m.paypal.com"].headers
    assert not {"idempotency-key", "paypal-request-id"} & {*seen["connect.squareup.com"].headers}
    assert json.loads(seen["connect.squareup.com"].content) == {
        "idempotency_key": the(reports["https://connect.squareup.com"]).key
    }
    assert "idempotency-key" not in seen["other.test"].headers
    assert reports["https://other.test"] is None


async def test_a_transport_for_each_mount(api: Api) -> None:
    """Made by hand, with a dialect each; two memories, so that one key may be used with both."""
    mounts = {
        "http://square.test": api.transport(api.memory(), dialect=SQUARE),
        "http://quoted.test": api.transport(api.memory(), dialect=dialects.IETF_DRAFT),
    }
    raw = api.raw_client(base_url="", transport=api.memory(), mounts=mounts)
    for host in ("square", "quoted", "plain"):
        await now(raw.post(f"http://{host}.test/x", json={}, extensions=samekey.options(key="k")))

    assert bodies(api) == [b'{"idempotency_key":"k"}', b"{}", b"{}"]
    assert [headers.get("idempotency-key") for headers in sent(api)] == [None, '"k"', None]


# -- a redirect between two APIs


class Two:
    """One server under two origins, of which the first redirects to the second."""

    def __init__(self, api: Api, first: Dialect, second: Dialect, status: int = 307) -> None:
        self.api = api
        self.other = "http://other.test"
        self.origins: Any = {"http://first.test": first, self.other: second}
        api.server.script(then=faults.redirect(status, f"{self.other}/b"), path="/a")

    def client(self, **settings: Any) -> Any:
        settings = {"origins": self.origins, "policy": QUICK, **settings}
        return self.api.client(base_url="http://first.test", follow_redirects=True, memory=True, **settings)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (GENERIC, dialects.UK_OPEN_BANKING),
        (dialects.PAYPAL, GENERIC),
        (GENERIC, dialects.IETF_DRAFT),
        (dialects.IETF_DRAFT, dialects.STRIPE),
        (GENERIC, dialects.AZURE_REPEATABILITY),
        (dialects.AZURE_REPEATABILITY, GENERIC),
        (GENERIC, SQUARE),
        (SQUARE, GENERIC),
        (SQUARE, NESTED),
    ],
    ids=lambda dialect: dialect.name,
)
@pytest.mark.parametrize("given", [False, True], ids=["own", "given"])
async def test_a_redirect_to_another_dialect(api: Api, first: Dialect, second: Dialect, given: bool) -> None:
    """The same key, where the other API wants it; nothing of the first one's carrier stays, the caller's body does."""
    two = Two(api, first, second)
    extensions = samekey.options(key="my-key") if given else {}
    headers = {}
    if given and not isinstance(first.carrier, JsonField):
        headers = {first.carrier.name: first.carrier.encode("my-key")}
    api.server.script(faults.lost(executes=False), path="/b")
    async with two.client() as client:
        response = await client.post("/a", content=b'{"n": 1}', extensions=extensions, headers=headers)

    assert response.status_code == 201
    key = the(samekey.report(response)).key
    assert (key == "my-key") is given
    assert statuses(samekey.report(response)) == [307, "RemoteProtocolError", 201]
    there, *hops = api.server.requests
    for request, dialect in ((there, first), *((hop, second) for hop in hops)):
        carrier = dialect.carrier
        names = {name.lower() for name, _ in request.headers}
        wanted = set() if isinstance(carrier, JsonField) else {carrier.name.lower()}
        if isinstance(carrier, RepeatabilityHeaders):
            wanted.add(carrier.date_name.lower())
        every = {"idempotency-key", "paypal-request-id", "x-idempotency-key", "repeatability-request-id"}
        assert names & {*every, "repeatability-first-sent"} == wanted
        if isinstance(carrier, JsonField):
            assert carrier.find(request.body) == key
            assert request.body == carrier.insert(b'{"n": 1}', str(key))
        else:
            assert request.header(carrier.name) == carrier.encode(str(key))
            assert request.body == b'{"n": 1}'


@pytest.mark.parametrize(
    ("second", "content"),
    [
        (dialects.COINBASE_CDP, b"{}"),  # the key is a UUIDv7, and it wants version 4
        (SQUARE, b"amount=1"),
        (SQUARE, b'{"idempotency_key": "another"}'),
        (SQUARE, b'{"idempotency_key": 7}'),
        (replace(GENERIC, key=KeyRule(form="hex", max_length=32)), b"{}"),
    ],
)
async def test_a_redirect_where_the_key_cannot_go(api: Api, second: Dialect, content: bytes) -> None:
    """It is not followed, and it is said why; as the first API had turned the request away, nothing was executed."""
    two = Two(api, GENERIC, second)
    async with two.client() as client:
        with raises(NotSent, api.httpx.RequestError) as caught:
            await client.post("/a", content=content)
        with samekey.operation(key="k" * 36), raises(OutcomeUnknown) as unfresh:
            await client.post("/a", content=content)

    assert "redirects this request to http://other.test, where the key cannot go with it (" in str(caught.value)
    assert the(caught.value.report).outcome == "not_sent"
    assert the(unfresh.value.report).outcome == "unknown"
    assert [request.path for request in api.server.requests] == ["/a", "/a"]


async def test_a_303_to_another_dialect(api: Api) -> None:
    """The GET carries no key, in no place."""
    two = Two(api, GENERIC, dialects.PAYPAL, status=303)
    async with two.client() as client:
        response = await client.post("/a", json={"n": 1})

    assert response.status_code == 200
    assert [request.method for request in api.server.requests] == ["POST", "GET"]
    assert not {"idempotency-key", "paypal-request-id"} & sent(api)[1].keys()
    assert the(samekey.report(response)).outcome == "executed"


# -- a dialect of one's own, end to end

INVENTED = Dialect(
    name="invented",
    carrier=Header(name="X-Once"),
    key=KeyRule(form=lambda: f"op_{uuid.uuid4().hex}", pattern=r"op_[0-9a-f]{32}"),
    min_wait=2.0,
)


async def test_a_callable_makes_keys(api: Api) -> None:
    """The key is asked for once per operation, not once per attempt."""
    api.server.script(LOST, LOST)
    async with api.client(dialect=INVENTED, policy=QUICK, listen=True) as client:
        await client.post()

    keys = {headers["x-once"] for headers in sent(api)}
    assert len(keys) == 1
    assert keys.pop().startswith("op_")
    assert api.waits == [2.0, 2.0]


async def test_a_callable_is_not_asked_for_a_key_that_is_given(api: Api) -> None:
    """It may count what it makes, or refuse to make any."""

    def refuse() -> str:
        raise RuntimeError("give a key")

    async with api.client(dialect=replace(INVENTED, key=KeyRule(form=refuse))) as client:
        await client.post(headers={"X-Once": "order-4821"})
        with pytest.raises(RuntimeError, match="give a key"):
            await client.post()

    assert [headers["x-once"] for headers in sent(api)] == ["order-4821"]


async def test_a_callable_that_makes_bad_keys(api: Api) -> None:
    """Its mistake is raised before anything is sent."""
    bad = replace(INVENTED, key=KeyRule(form=lambda: "nope", pattern="op_.*"))
    async with api.client(dialect=bad) as client:
        with pytest.raises(ValueError, match="does not match"):
            await client.post()

    assert api.server.requests == []


@pytest.mark.parametrize("again", [False, True])
async def test_failed_work_is_done_again(api: Api, again: bool) -> None:
    """A stored 500 is final, unless the API says that the same key executes it anew; a stored 402 always is."""
    dialect = Dialect(name="again", reexecutes_failed=again)
    marked = {"Idempotent-Replayed": "true"}
    api.server.script(faults.status(500, headers=marked))
    async with api.client(dialect=dialect, policy=QUICK) as client:
        if again:
            assert statuses(samekey.report(await client.post())) == [500, 201]
        else:
            with raises(OutcomeUnknown):
                await client.post()
        api.server.script(faults.status(402, headers=marked))
        assert (await client.post(json={"n": 2})).status_code == 402


async def test_a_resource_that_an_answer_names(api: Api) -> None:
    """`done_resource` takes the first path that leads to something; a number becomes text."""
    dialect = Dialect(name="done", believe_done=True, done_resource=("links.id", "items.id"))
    done = Reply.of_json(409, {"code": "idempotency_key_already_used", "items": [{"x": 1}, {"id": 17}]})
    api.server.script(LOST, lambda _: done)
    async with api.client(dialect=dialect, policy=QUICK) as client:
        with raises(samekey.AlreadyExecuted, api.httpx.HTTPStatusError) as caught:
            await client.post()

    assert caught.value.resource == "17"
    assert the(caught.value.report).outcome == "executed"
