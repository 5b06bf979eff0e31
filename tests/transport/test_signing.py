"""`KeyedAuth`: a signature that covers the key, over the header or over the body, checked as a server would."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Generator
from typing import Any

import httpx
import pytest
from tenacity import stop_after_attempt, wait_none

import samekey
import samekey.httpx2
from samekey import Dialect, KeyMismatch, OutcomeUnknown, RetryPolicy, _pause, dialects
from samekey.testing import ReceivedRequest, faults
from tests.transport.harness import Api, key_lines, now, on_sync, raises, the

QUICK = RetryPolicy(wait=wait_none())
ONCE = RetryPolicy(wait=wait_none(), stop=stop_after_attempt(1))
LOST = faults.lost()
SECRET = b"secret"
SQUARE = dialects.SQUARE
AZURE = dialects.AZURE_REPEATABILITY
COVERED = ("idempotency-key", "repeatability-request-id", "repeatability-first-sent", "cko-idempotency-key")


def seal(method: str, headers: list[str], body: bytes) -> str:
    return hmac.new(SECRET, "\n".join([method, *headers]).encode() + body, hashlib.sha256).hexdigest()


def sign(request: Any) -> None:
    """Cover method, key headers and body."""
    headers = [request.headers.get(name, "") for name in COVERED]
    request.headers["X-Signature"] = seal(request.method, headers, request.content)


def signature(api: Api, *, refresh: bool = False) -> Any:
    """An auth of the user's that signs, and perhaps signs again after a 401."""

    def flow(request: Any) -> Generator[Any, Any, None]:
        sign(request)
        response = yield request
        if refresh and response.status_code == 401:
            yield api.httpx.Request("POST", f"{api.url}/token", data={"grant_type": "client_credentials"})
            request.headers["Authorization"] = "Bearer new"
            sign(request)
            yield request

    auth = api.auth(flow)
    type(auth).requires_request_body = True
    return auth


def keyed(api: Api, auth: Any = None, **settings: Any) -> Any:
    """The `KeyedAuth` of the library, around a signature."""
    kind = samekey.KeyedAuth if api.httpx is httpx else samekey.httpx2.KeyedAuth
    return kind(signature(api) if auth is None else auth, **settings)


def check(requests: list[ReceivedRequest]) -> None:
    """The server's check: each request's signature holds for what arrived."""
    assert requests
    for request in requests:
        headers = [request.header(name) or "" for name in COVERED]
        assert request.header("x-signature") == seal(request.method, headers, request.body)


def keys(api: Api) -> list[str | None]:
    return [request.header("idempotency-key") for request in api.server.requests]


# -- the signature holds


async def test_over_the_header(api: Api) -> None:
    """On every attempt; `wrap` tells the auth which APIs honour keys."""
    api.server.script(LOST, faults.status(503), faults.in_progress())
    async with api.client(auth=keyed(api), policy=QUICK) as client:
        response = await client.post()

    assert samekey.is_replayed(response)
    assert keys(api) == [the(samekey.report(response)).key] * 4
    assert {len(key_lines(request)) for request in api.server.requests} == {1}
    check(api.server.requests)
    api.seen(wire=4, effects=1)


async def test_over_the_body(api: Api) -> None:
    """The key is in the body that is signed; every other byte is the caller's."""
    api.server.script(LOST, faults.status(503))
    async with api.client(auth=keyed(api), policy=QUICK, dialect=SQUARE) as client:
        response = await client.post(content=b'{"n": 1.50}')

    key = str(the(samekey.report(response)).key)
    assert {request.body for request in api.server.requests} == {b'{"idempotency_key":"%s","n": 1.50}' % key.encode()}
    assert {request.header("content-length") for request in api.server.requests} == {
        str(len(api.server.requests[0].body))
    }
    check(api.server.requests)


async def test_over_a_body_from_a_generator(api: Api) -> None:
    """Read once; it stays chunked, without a length beside it."""
    api.server.script(LOST)
    async with api.client(auth=keyed(api), policy=QUICK, dialect=SQUARE) as client:
        await client.post(content=api.body_of(b'{"n":', b"1}"))

    for request in api.server.requests:
        assert request.header("transfer-encoding") == "chunked"
        assert request.header("content-length") is None
        assert json.loads(request.body).keys() == {"n", "idempotency_key"}
    check(api.server.requests)
    api.server.assert_same_body()


async def test_over_the_pair_of_azure(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Key and first-sent date are signed; a later call that goes on with the operation has the date of the first."""
    clock = [1_700_000_000.0]
    monkeypatch.setattr(_pause, "wall", lambda: clock[0])
    api.server.script(then=LOST)
    async with api.client(auth=keyed(api), policy=QUICK, dialect=AZURE) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()
        clock[0] += 20
        with samekey.operation(key=caught.value.key), raises(OutcomeUnknown):
            await client.post()
        with samekey.operation():
            for _ in range(2):
                with raises(OutcomeUnknown):
                    await client.post(json={"n": 2})
                clock[0] += 20

    first, second = "Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:40 GMT"
    dates = [request.header("repeatability-first-sent") for request in api.server.requests]
    assert dates == [first] * 10 + [second] * 10
    check(api.server.requests)


async def test_a_date_of_the_caller_is_signed_as_it_is(api: Api) -> None:
    own = {"Repeatability-Request-ID": "mine", "Repeatability-First-Sent": "Tue, 14 Nov 2023 22:13:20 GMT"}
    async with api.client(auth=keyed(api), dialect=AZURE) as client:
        await client.post(headers=own)

    assert {name: api.server.requests[0].header(name) for name in own} == own
    check(api.server.requests)


@pytest.mark.parametrize("dialect", [dialects.GENERIC, SQUARE], ids=lambda dialect: dialect.name)
async def test_a_401_inside(api: Api, dialect: Dialect) -> None:
    """The flow's own token request gets no key; the resend has the same key and a new signature."""
    api.server.script(faults.status(401), LOST, path="/charges")
    async with api.client(auth=keyed(api, signature(api, refresh=True)), policy=QUICK, dialect=dialect) as client:
        response = await client.post()

    charges = [request for request in api.server.requests if request.path == "/charges"]
    (token,) = [request for request in api.server.requests if request.path == "/token"]
    assert response.status_code == 201
    assert [request.header("authorization") for request in charges] == [None, "Bearer new", "Bearer new"]
    key = str(the(samekey.report(response)).key)
    assert all(key in f"{request.headers}{request.body!r}" for request in charges)
    assert len({request.body for request in charges}) == 1
    assert (token.key, token.body) == (None, b"grant_type=client_credentials")
    check(charges)


@on_sync
async def test_digest_inside(api: Api) -> None:
    """Httpx's own challenge and response: one operation, one key."""
    api.server.script(faults.status(401, headers={"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth"'}))
    async with api.client(auth=keyed(api, api.httpx.DigestAuth("u", "p")), policy=QUICK) as client:
        response = await client.post()

    assert response.status_code == 201
    assert str(api.server.requests[1].header("authorization")).startswith("Digest ")
    api.seen(wire=2, effects=1)


# -- whose key it is


async def test_an_operation_has_its_key(api: Api) -> None:
    """All requests of the block, whatever loops inside."""
    api.server.script(then=LOST)
    async with api.client(auth=keyed(api), policy=ONCE) as client:
        with samekey.operation() as op:
            for _ in range(2):
                with raises(OutcomeUnknown):
                    await client.post()
            api.server.script()
            await client.post()
            with raises(KeyMismatch):
                await client.post(json={"n": 2})
        with samekey.operation(key="mine"):
            await client.post()

    assert keys(api) == [op.key] * 3 + ["mine"]
    check(api.server.requests)


@pytest.mark.parametrize("dialect", [dialects.GENERIC, SQUARE], ids=lambda dialect: dialect.name)
async def test_an_unresolved_repeat(api: Api, dialect: Dialect) -> None:
    """An equal request without an operation is stopped, in both modes; going on with the key signs anew."""
    for mode in ("raise", "resume"):
        policy = RetryPolicy(wait=wait_none(), stop=stop_after_attempt(1), on_unresolved=mode)
        api.server.reset()
        api.server.script(LOST)
        async with api.client(auth=keyed(api), policy=policy, dialect=dialect) as client:
            with raises(OutcomeUnknown) as first:
                await client.post()
            with raises(OutcomeUnknown) as again:
                await client.post()
            assert again.value.key == first.value.key
            assert the(again.value.report).attempts == ()
            with samekey.operation(key=first.value.key):
                await client.post()
            await client.post()  # settled, so this one is another

        used = [str(request.headers) + str(request.body) for request in api.server.requests]
        assert [str(first.value.key) in text for text in used] == [True, True, False]
        check(api.server.requests)


async def test_options(api: Api) -> None:
    """A key of one's own, none, and reads."""
    async with api.client(auth=keyed(api)) as client:
        for number, (method, options) in enumerate(
            [
                ("POST", {"key": "k-1"}),
                ("POST", {"key": False}),
                ("POST", {"idempotent": True}),
                ("PUT", {"key": "k-2"}),
            ]
        ):
            extensions = samekey.options(**options)  # type: ignore[arg-type]
            await client.request(method, json={"n": number}, extensions=extensions)
        await client.request("PUT", json={})
        await client.request("DELETE")
        await client.get()

    assert keys(api) == ["k-1", None, None, "k-2", None, None, None]
    check(api.server.requests)


async def test_a_key_of_the_caller(api: Api) -> None:
    """In the header or in the body: signed as it is, sent once."""
    async with api.client(auth=keyed(api)) as client:
        response = await client.post(headers={"idempotency-KEY": "mine"})
        assert the(samekey.report(response)).key == "mine"
        with samekey.operation(key="other"), raises(KeyMismatch):
            await client.post(headers={"Idempotency-Key": "mine"})
    assert key_lines(api.server.requests[0]) == ["mine"]
    async with api.client(auth=keyed(api), dialect=SQUARE) as client:
        response = await client.post(content=b'{"idempotency_key": "mine"}')
        assert the(samekey.report(response)).key == "mine"

    assert api.server.requests[1].body == b'{"idempotency_key": "mine"}'
    assert len(api.server.requests) == 2
    check(api.server.requests)


async def test_one_request_sent_twice(api: Api) -> None:
    """`client.send(request)` again is the same operation."""
    async with api.client(auth=keyed(api), dialect=SQUARE) as client:
        request = client.build(json={"n": 1})
        reports = [the(samekey.report(await client.send(request))) for _ in range(2)]

    assert reports[0].key == reports[1].key
    assert len({request.body for request in api.server.requests}) == 1
    check(api.server.requests)


async def test_a_token_request_gets_no_key(api: Api) -> None:
    """A form with a grant_type that the caller posts himself; another form does."""
    async with api.client(auth=keyed(api)) as client:
        await client.post(data={"grant_type": "client_credentials"})
        await client.post(data={"amount": "1"})
        await client.post(content=api.body_of(b"grant_type=x"), headers={"Content-Type": "text/plain"})

    assert [key is not None for key in keys(api)] == [False, True, True]
    check(api.server.requests)


# -- where the key must not go


@pytest.mark.parametrize("dialect", [dialects.GENERIC, AZURE], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("to", ["named", "unnamed"])
async def test_a_get_after_a_303_has_no_key(api: Api, dialect: Dialect, to: str) -> None:
    """Neither at the same API nor at another one."""
    target = "/done" if to == "named" else "http://unnamed.test/done"
    api.server.script(faults.redirect(303, target), path="/charges")
    async with api.client(
        auth=keyed(api), follow_redirects=True, memory=True, base_url="http://api.test", dialect=dialect
    ) as client:
        await client.post()

    post, get = api.server.requests
    check([post])
    assert (post.method, get.method) == ("POST", "GET")
    assert [get.header(name) for name in COVERED] == [None] * len(COVERED)


async def test_a_307_to_another_dialect(api: Api) -> None:
    """The header that was signed does not stay; the key goes where that API wants it."""
    origins = {"http://api.test": dialects.GENERIC, "http://cko.test": dialects.CHECKOUT_COM}
    api.server.script(faults.redirect(307, "http://cko.test/b"), path="/charges")
    async with api.client(
        auth=keyed(api), origins=origins, base_url="http://api.test", follow_redirects=True, memory=True
    ) as client:
        response = await client.post()

    key = the(samekey.report(response)).key
    there, then = api.server.requests
    assert (there.header("idempotency-key"), there.header("cko-idempotency-key")) == (key, None)
    assert (then.header("idempotency-key"), then.header("cko-idempotency-key")) == (None, key)


async def test_other_origins_see_no_key(api: Api) -> None:
    """The auth still signs there, without a key; so does a 307 to there, which is not followed."""
    api.server.script(faults.redirect(307, "http://unnamed.test/b"), path="/charges")
    async with api.client(auth=keyed(api), follow_redirects=True, memory=True, base_url="http://api.test") as client:
        await client.post("http://unnamed.test/x")
        with raises(samekey.NotSent):
            await client.post()

    assert [key is not None for key in keys(api)] == [False, True]
    check(api.server.requests)


# -- what is refused


async def test_an_auth_that_was_told_nothing(api: Api) -> None:
    """Per request, or without `wrap`: it has to be told the origins; nothing is sent."""
    auth = keyed(api)
    raw = api.raw_client(auth=auth)
    with pytest.raises(ValueError, match="does not know which APIs honour keys; nothing was sent"):
        await now(raw.post("/charges", json={}))
    await now(raw.close() if api.sync else raw.aclose())
    async with api.client() as client:
        with pytest.raises(ValueError, match="KeyedAuth"):
            await client.post(auth=keyed(api))
        assert api.server.requests == []
        told = keyed(api, origins=[api.url])
        assert (await client.post(auth=told)).status_code == 201
        assert (await client.post(auth=told)).status_code == 201

    check(api.server.requests)
    api.seen(wire=2, effects=2, keys=2)


async def test_an_auth_that_was_told(api: Api) -> None:
    """Its own origins stand when the client is wrapped, and may serve several clients, wrapped or not."""
    auth = keyed(api, origins={api.url: SQUARE})
    for number in range(2):
        async with api.client(auth=auth, dialect=SQUARE) as client:
            await client.post(json={"n": number})
    raw = api.raw_client(auth=auth)
    await now(raw.post("/charges", json={"n": 3}))
    await now(raw.close() if api.sync else raw.aclose())

    assert len({json.loads(request.body)["idempotency_key"] for request in api.server.requests}) == 3
    check(api.server.requests)


async def test_one_auth_for_two_clients(api: Api) -> None:
    """The second one's APIs would be unknown to it, and its signatures would not cover the key."""
    auth = keyed(api)
    async with api.client(auth=auth):
        raw = api.raw_client(auth=auth)
        with pytest.raises(ValueError, match="make one for each client"):
            samekey.wrap(raw)
        assert "samekey" not in type(raw._transport).__module__


async def test_named_operations_cannot_be_signed(api: Api) -> None:
    """The key is the journal's to say, and that is asked after auth."""
    async with api.client(auth=keyed(api)) as client:
        with samekey.operation("order-1"), pytest.raises(ValueError, match="cannot sign a named operation"):
            await client.post()
        with pytest.raises(ValueError, match="cannot sign a named operation"):
            await client.post(extensions=samekey.options(name="order-1"))
        with samekey.operation("order-1"):
            assert (await client.get()).status_code == 200  # unkeyed, so no matter

    assert [request.method for request in api.server.requests] == ["GET"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"content": b"amount=1"}, ValueError, "not a JSON document"),
        ({"json": []}, TypeError, "must be an object"),
        ({"json": {}, "extensions": samekey.options(key="k" * 46)}, ValueError, "allowed: 1..45"),
    ],
)
async def test_requests_that_cannot_carry_the_key(
    api: Api, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    """As without a signature: before anything is sent."""
    async with api.client(auth=keyed(api), dialect=SQUARE) as client:
        with pytest.raises(error, match=message):
            await client.post(**settings)

    assert api.server.requests == []


async def test_an_auth_that_fails(api: Api) -> None:
    """Its error is the caller's; its flow is closed."""
    closed: list[bool] = []

    def flow(request: Any) -> Generator[Any, Any, None]:
        try:
            yield request
            raise LookupError("no secret")
        finally:
            closed.append(True)

    async with api.client(auth=keyed(api, api.auth(flow))) as client:
        with pytest.raises(LookupError):
            await client.post()

    assert closed == [True]
