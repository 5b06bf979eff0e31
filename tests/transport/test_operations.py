"""Design, section 5: the key and the operation, in loops, tasks, threads, auth flows and redirects."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Generator
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import GENERIC, Dialect, KeyExpired, KeyMismatch, NotSent, OutcomeUnknown, RetryPolicy, _pause
from samekey.dialects import Header, JsonField, RepeatabilityHeaders
from samekey.events import UnresolvedRepeated
from samekey.testing import LedgerServer, faults
from tests.transport.harness import (
    Api,
    Client,
    cancelled_once,
    closed_port,
    key_lines,
    kinds,
    leaves_streams,
    on_async,
    on_sync,
    raises,
    statuses,
    the,
)

ONCE = RetryPolicy(stop=stop_after_attempt(1))
QUICK = RetryPolicy(wait=wait_none())
RESUME = RetryPolicy(stop=stop_after_attempt(1), on_unresolved="resume")


# -- 5.2: one key per operation


async def test_sending_one_request_twice(api: Api) -> None:
    """`client.send(request)` again is the same operation: the key of the first, and its stored answer."""
    async with api.client() as client:
        request = client.build(json={"n": 1})
        first = await client.send(request)
        second = await client.send(request)

    assert samekey.is_replayed(second)
    assert the(samekey.report(first)).key == the(samekey.report(second)).key
    assert [len(the(samekey.report(answer)).attempts) for answer in (first, second)] == [1, 1]
    api.seen(wire=2, effects=1)


async def test_sending_one_request_again_after_an_error(api: Api) -> None:
    """The open attempt of the first call is not forgotten: a refusal of the second settles nothing."""
    api.server.script(faults.lost(), faults.status(404))
    async with api.client(policy=ONCE) as client:
        request = client.build(json={"n": 1})
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
            await client.send(request)
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await client.send(request)
        assert caught.value.response.status_code == 404
        assert samekey.is_replayed(await client.send(request))

    api.seen(wire=3, effects=1)


async def test_a_changed_request_is_another_one(api: Api) -> None:
    """A request object that is changed between two sends may not keep its key."""
    async with api.client() as client:
        request = client.build(json={"n": 1})
        await client.send(request)
        request.url = request.url.copy_with(path="/other")
        with raises(KeyMismatch, api.httpx.RequestError):
            await client.send(request)

    api.seen(wire=1, effects=1)


# -- 5.3: what goes on with a call


async def test_the_get_after_a_303_has_no_key(api: Api) -> None:
    """The operation is done with the 303; what follows reads, and keeps the report of the whole."""
    api.server.script(faults.lost(), faults.redirect(303, "/charges/1"), path="/charges")
    async with api.client(follow_redirects=True) as client:
        response = await client.post()

    assert [(request.method, request.key is None) for request in api.server.requests] == [
        ("POST", False), ("POST", False), ("GET", True),
    ]  # fmt: skip
    told = the(samekey.report(response))
    assert (response.status_code, told.outcome, told.key) == (200, "executed", api.server.keys[0])
    assert kinds(told) == ["first", "retry", "follow_up"]


@pytest.mark.parametrize("status", [301, 302])
async def test_the_get_after_a_301_or_302(api: Api, status: int) -> None:
    """Nobody knows what the POST did; the GET's answer does not change that."""
    api.server.script(faults.redirect(status, "/b"), path="/charges")
    async with api.client(follow_redirects=True) as client:
        response = await client.post()

    assert [request.key is None for request in api.server.requests] == [False, True]
    assert the(samekey.report(response)).outcome == "unknown"


async def test_the_get_after_a_303_is_retried_like_any_other(api: Api) -> None:
    api.server.script(faults.redirect(303, "/b"), path="/charges")
    api.server.script(faults.lost(), faults.status(503), path="/b")
    async with api.client(follow_redirects=True, policy=QUICK) as client:
        response = await client.post()

    told = the(samekey.report(response))
    assert kinds(told) == ["first", "follow_up", "retry", "retry"]
    assert (told.outcome, len(api.server.keys)) == ("executed", 1)


async def test_the_get_after_a_303_at_another_origin(api: Api, server: LedgerServer) -> None:
    """It repeats nothing, so it may go there; samekey keeps out of it."""
    with server.listen() as other:
        server.script(faults.redirect(303, f"{other}/done"), path="/charges")
        async with api.client(follow_redirects=True) as client:
            response = await client.post()

    assert [(request.method, request.key is None) for request in server.requests] == [("POST", False), ("GET", True)]
    assert response.status_code == 200


async def test_the_total_time_starts_again_with_each_leg(api: Api) -> None:
    """A slow first leg leaves the second its time; attempts are counted on."""
    api.server.script(faults.status(503), faults.redirect(307, "/b"), path="/charges")
    api.server.script(faults.status(503), path="/b")
    policy = RetryPolicy(wait=wait_fixed(70), total_timeout=100, stop=stop_after_attempt(4))
    async with api.client(follow_redirects=True, policy=policy) as client:
        response = await client.post()

    assert response.status_code == 201
    assert kinds(samekey.report(response)) == ["first", "retry", "follow_up", "retry"]


async def test_attempts_are_counted_over_all_legs(api: Api) -> None:
    api.server.script(faults.status(503), faults.redirect(307, "/b"), path="/charges")
    api.server.script(then=faults.status(503), path="/b")
    async with api.client(follow_redirects=True, policy=RetryPolicy(wait=wait_none())) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post()

    assert len(the(caught.value.report).attempts) == 5
    api.seen(wire=5, effects=0)


async def test_redirects_and_auth_are_exempt_from_the_fingerprint(api: Api) -> None:
    """Inside an operation: 401, 307 to another path, and the same call again, all under one key."""
    api.server.script(faults.status(401), faults.redirect(307, "/b"), path="/charges")
    async with api.client(follow_redirects=True, auth=api.refreshing()) as client:
        with samekey.operation() as op:
            await client.post()
            api.server.script(faults.redirect(307, "/b"), path="/charges")
            again = await client.post()

    keyed = [request for request in api.server.requests if request.path != "/token"]
    assert {request.key for request in keyed} == {op.key}
    assert samekey.is_replayed(again)
    assert len([effect for effect in api.server.effects if effect.key]) == 1


# -- 5.4: redirects to another origin


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("origins", [None, "*"])
async def test_a_redirect_to_another_origin_is_refused(
    api: Api, server: LedgerServer, status: int, origins: Any
) -> None:
    """It would repeat the POST where nobody said that keys are honoured: NotSent, and nothing arrives there."""
    elsewhere = LedgerServer()
    with elsewhere.listen() as other:
        server.script(faults.redirect(status, f"{other}/charges"), path="/charges")
        async with api.client(follow_redirects=True, origins=origins) as client:
            with raises(NotSent, api.httpx.RequestError) as caught:
                await client.post()

    assert elsewhere.requests == []
    assert "another origin" in str(caught.value)
    assert other in str(caught.value)
    told = the(caught.value.report)
    assert (told.outcome, statuses(told)) == ("not_sent", [status])


async def test_a_refused_redirect_with_something_open(api: Api) -> None:
    """A lost answer before it: unknown, not NotSent."""
    elsewhere = LedgerServer()
    with elsewhere.listen() as other:
        api.server.script(faults.lost(), faults.redirect(307, f"{other}/charges"), path="/charges")
        async with api.client(follow_redirects=True) as client:
            with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
                await client.post()
            with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
                await client.post()

    assert elsewhere.requests == []
    assert len(api.server.requests) == 2


async def test_a_redirect_to_a_named_origin(api: Api, server: LedgerServer) -> None:
    """The same key there, in the header of that origin."""
    with server.listen() as other:
        server.script(faults.redirect(307, f"{other}/b"), path="/charges")
        async with api.client(follow_redirects=True, origins=[api.url, other]) as client:
            response = await client.post()

    assert response.status_code == 201
    api.seen(wire=2, effects=1)


async def test_a_redirect_to_an_origin_of_another_dialect(api: Api, server: LedgerServer) -> None:
    """The key goes along in the header of that API, and not in the other's as well."""
    pair, header = Dialect(carrier=RepeatabilityHeaders()), Dialect(carrier=Header(name="X-Key"))
    with server.listen() as second, server.listen() as third:
        server.script(faults.redirect(307, f"{second}/b"), path="/charges")
        server.script(faults.redirect(307, f"{third}/c"), path="/b")
        origins = {api.url: GENERIC, second: pair, third: header}
        async with api.client(follow_redirects=True, origins=origins) as client:
            response = await client.post()

    names = ("idempotency-key", "repeatability-request-id", "repeatability-first-sent", "x-key")
    key = the(samekey.report(response)).key
    seen = [{name: request.header(name) for name in names} for request in server.requests]
    assert [[name for name in names if one[name]] for one in seen] == [
        ["idempotency-key"], ["repeatability-request-id", "repeatability-first-sent"], ["x-key"],
    ]  # fmt: skip
    assert {one[name] for one in seen for name in names if name != "repeatability-first-sent"} == {key, None}


async def test_a_redirect_where_the_key_does_not_fit(api: Api, server: LedgerServer) -> None:
    """Too long for that API, or no JSON to put it in: refused before sending."""
    short = Dialect(key=samekey.dialects.KeyRule(form="hex", max_length=32))
    for dialect, content in ((short, b"{}"), (Dialect(carrier=JsonField("key")), b"no json")):
        with server.listen() as other:
            server.script(faults.redirect(307, f"{other}/b"), path="/charges")
            async with api.client(follow_redirects=True, origins={api.url: GENERIC, other: dialect}) as client:
                with raises(NotSent, api.httpx.RequestError) as caught:
                    await client.post(content=content)
        assert "cannot go with it" in str(caught.value)

    assert [request.path for request in server.requests] == ["/charges"] * 2


async def test_an_unkeyed_post_may_be_redirected(api: Api) -> None:
    """Without a key there is none to lose: httpx's own business."""
    elsewhere = LedgerServer()
    with elsewhere.listen() as other:
        api.server.script(faults.redirect(307, f"{other}/b"), path="/charges")
        async with api.client(follow_redirects=True) as client:
            response = await client.post(extensions=samekey.options(key=False))

    assert response.status_code == 201
    assert [request.key for request in elsewhere.requests] == [None]


@pytest.mark.parametrize("origins", [None, "*"])
async def test_http_to_https_on_one_host(api: Api, origins: Any) -> None:
    """The same origin, made secure: followed, with the key."""
    seen: list[tuple[str, str | None]] = []

    def handle(request: httpx.Request) -> Any:
        seen.append((str(request.url), request.headers.get("idempotency-key")))
        if request.url.scheme == "http":
            return api.httpx.Response(308, headers={"Location": str(request.url.copy_with(scheme="https"))})
        return api.httpx.Response(201)

    settings = {"transport": api.inner(handle), "base_url": "http://api.test", "follow_redirects": True}
    async with api.client(origins=origins, **settings) as client:
        response = await client.post()

    assert [url for url, _ in seen] == ["http://api.test/charges", "https://api.test/charges"]
    assert len({key for _, key in seen}) == 1
    assert the(samekey.report(response)).outcome == "executed"


@pytest.mark.parametrize("target", ["http://api.test:8080/b", "https://b.test/b", "ftp://api.test/b"])
async def test_what_is_no_upgrade(api: Api, target: str) -> None:
    """Another port or host is another origin."""

    def handle(request: httpx.Request) -> Any:
        return api.httpx.Response(307, headers={"Location": target})

    settings = {"transport": api.inner(handle), "base_url": "http://api.test", "follow_redirects": True}
    async with api.client(**settings) as client:
        with raises(NotSent, api.httpx.RequestError):
            await client.post()


# -- 5.5: auth flows


@pytest.mark.parametrize(
    "own_request",
    [
        {"data": {"grant_type": "client_credentials"}},
        {"data": {"client_id": "a", "grant_type": "refresh_token"}},
        {"content": b"grant_type=x", "headers": {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}},
    ],
)
async def test_a_token_request_has_no_key(api: Api, own_request: dict[str, Any]) -> None:
    """OAuth servers know no keys, and each token is a new one; it is not retried blindly either."""
    api.server.script(faults.status(401), path="/charges")
    async with api.client(auth=api.refreshing(**own_request)) as client:
        with samekey.operation() as op:
            response = await client.post()

    token = next(request for request in api.server.requests if request.path == "/token")
    assert token.key is None
    assert the(samekey.report(response)).key == op.key
    assert kinds(samekey.report(response)) == ["first", "follow_up"]


async def test_a_login_request_of_an_auth_flow_never_binds(api: Api) -> None:
    """A JSON login is keyed by itself, but it is not the operation that the caller opened."""
    api.server.script(faults.status(401), path="/charges")
    async with api.client(auth=api.refreshing(json={"user": "u"})) as client:
        with samekey.operation() as op:
            response = await client.post()
            again = await client.post()

    login = next(request for request in api.server.requests if request.path == "/token")
    assert login.key not in (None, op.key)
    assert response.status_code == 201
    assert samekey.is_replayed(again)


async def test_a_login_before_the_request_never_binds(api: Api) -> None:
    """It comes first, and still the caller's request is the one that the operation is about."""

    def flow(request: Any) -> Generator[Any, Any, None]:
        yield api.httpx.Request("POST", request.url.copy_with(path="/login"), json={"user": "u"})
        yield request

    async with api.client(auth=api.auth(flow)) as client:
        with samekey.operation() as op:
            await client.post()

    assert [(request.path, request.key == op.key) for request in api.server.requests] == [
        ("/login", False), ("/charges", True),
    ]  # fmt: skip


async def test_a_form_of_the_callers_own(api: Api) -> None:
    """Any other form is a request like others; a token request of the caller's has no key either."""
    async with api.client() as client:
        await client.post(data={"amount": "1"})
        token = await client.post(data={"grant_type": "password"})
        mine = await client.post(data={"grant_type": "password"}, extensions=samekey.options(key="k-1"))

    assert [request.key is None for request in api.server.requests] == [False, True, False]
    assert the(samekey.report(token)).key is None
    assert the(samekey.report(mine)).key == "k-1"


async def test_digest_auth_keeps_the_key(api: Api) -> None:
    challenge = {"WWW-Authenticate": 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'}
    api.server.script(faults.status(401, headers=challenge), faults.lost())
    async with api.client(auth=api.httpx.DigestAuth("u", "p")) as client:
        response = await client.post()

    assert samekey.is_replayed(response)
    assert (api.server.requests[1].header("authorization") or "").startswith("Digest")
    api.seen(wire=3, effects=1)


async def test_a_401_at_the_end_is_returned(api: Api) -> None:
    """Wrong credentials: the answer as always; nothing was executed."""
    api.server.script(then=faults.status(401))
    async with api.client(auth=api.refreshing()) as client:
        response = await client.post()

    assert response.status_code == 401
    assert the(samekey.report(response)).outcome == "rejected"


async def test_a_new_call_after_a_returned_401(api: Api) -> None:
    """Another request object, so another call with another key: nothing was open."""
    api.server.script(faults.status(401))
    async with api.client() as client:
        await client.post()
        response = await client.post()

    assert len(the(samekey.report(response)).attempts) == 1
    assert len(api.server.keys) == 2


# -- 5.7: age


async def test_a_key_that_grows_too_old_between_two_attempts(api: Api) -> None:
    """Retention less margin less what an attempt may take: checked before every send."""
    api.server.script(then=faults.lost())
    dialect = Dialect(retention=1000, margin=100)
    policy = RetryPolicy(wait=wait_fixed(300), total_timeout=None)
    async with api.client(dialect=dialect, policy=policy, timeout=10.0) as client:
        with raises(KeyExpired, api.httpx.RemoteProtocolError) as caught:
            await client.post()

    assert len(the(caught.value.report).attempts) == 3
    assert "older than the server keeps keys" in str(caught.value)
    api.seen(wire=3, effects=1)


class Clock:
    """The two clocks of samekey, moved by hand."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.monotonic = self.wall = 0.0
        monotonic, wall = _pause.monotonic, _pause.wall
        patch.setattr(_pause, "monotonic", lambda: monotonic() + self.monotonic)
        patch.setattr(_pause, "wall", lambda: wall() + self.wall)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("monotonic", "wall", "sent"),
    [(23, 23, True), (25, 25, False), (0, 25, False), (25, -1, False), (0, -5, True), (23.95, 0, False)],
    ids=["23h", "25h", "suspended", "clock-set-back", "set-back", "within-the-margin"],
)
async def test_br_72_an_old_operation(api: Api, clock: Clock, monotonic: float, wall: float, *, sent: bool) -> None:
    """24 h of retention: resent at 23 h with the same key, refused at 25 h; never silently a new key."""
    api.server.script(faults.lost())
    op = samekey.operation()
    async with api.client(policy=ONCE) as client:
        with op, raises(OutcomeUnknown):
            await client.post()
        clock.monotonic, clock.wall = monotonic * 3600, wall * 3600
        if sent:
            with op:
                assert samekey.is_replayed(await client.post())
        else:
            with op, raises(KeyExpired, api.httpx.RemoteProtocolError) as caught:
                await client.post()
            assert caught.value.key == op.key

    api.seen(wire=2 if sent else 1, effects=1)


async def test_a_key_that_was_never_sent_has_no_age(api: Api, clock: Clock) -> None:
    """Refused connections do not start the clock of the key."""
    op = samekey.operation()
    failures = [api.httpx.ConnectError("refused")]

    def handle(request: httpx.Request) -> Any:
        if failures:
            raise failures.pop()
        return api.httpx.Response(201)

    async with api.client(policy=ONCE, transport=api.inner(handle)) as client:
        with op, raises(NotSent):
            await client.post()
        clock.monotonic = clock.wall = 30 * 3600
        with op:
            response = await client.post()

    assert response.status_code == 201


# -- 5.8: inside an operation


async def test_a_loop_inside_an_operation(api: Api) -> None:
    """Whatever loops around the call: one key, one effect."""
    api.server.script(*[faults.lost()] * 3)
    async with api.client(policy=ONCE) as client:
        with samekey.operation() as op:
            for _ in range(3):
                with raises(OutcomeUnknown):
                    await client.post()
            response = await client.post()
            assert samekey.current_operation() is op

    assert samekey.current_operation() is None
    assert samekey.is_replayed(response)
    assert the(op.report).key == op.key == api.server.keys[0]
    api.seen(wire=4, effects=1)


async def test_a_different_request_in_an_operation(api: Api) -> None:
    """Method, URL, query or body: it is stopped, and the message says what to do."""
    async with api.client() as client:
        with samekey.operation() as op:
            await client.post(json={"n": 1})
            for method, url, body in (
                ("POST", "/charges", {"n": 2}),
                ("POST", "/refunds", {"n": 1}),
                ("POST", "/charges?dry=1", {"n": 1}),
                ("PATCH", "/charges", {"n": 1}),
            ):
                with raises(KeyMismatch, api.httpx.RequestError) as caught:
                    await client.request(method, url, json=body)
                assert "operation.step(...)" in str(caught.value)
                assert caught.value.key == op.key
            with op.step("refund"):
                await client.post("/refunds", json={"n": 1})
            await client.get("/anything")
            await client.request("PUT", "/anything")
            assert samekey.is_replayed(await client.post(json={"n": 1}))

    assert len(api.server.keys) == 2


async def test_scope_headers_belong_to_the_request(api: Api) -> None:
    """The same bytes for another account are another request; other headers do not matter."""
    dialect = Dialect(scope_headers=("Stripe-Account",))
    async with api.client(dialect=dialect) as client:
        with samekey.operation():
            await client.post(headers={"Stripe-Account": "a", "X-Trace": "1"})
            await client.post(headers={"stripe-account": "a", "X-Trace": "2"})
            with raises(KeyMismatch):
                await client.post(headers={"Stripe-Account": "b"})


async def test_two_equal_requests_at_once_share_the_key(api: Api) -> None:
    """Tasks and threads in one operation: one key, one effect, the second gets the stored answer."""
    api.server.script(faults.slow(0.05))
    replies: list[httpx.Response] = []
    policy = RetryPolicy(poll_wait=wait_fixed(0.01), total_timeout=None, stop=stop_after_attempt(9))
    async with api.client(policy=policy) as client:

        async def send() -> None:
            replies.append(await client.post())

        with samekey.operation() as op:
            await api.together(send, send, send)

    assert {reply.status_code for reply in replies} == {201}
    assert api.server.keys == [op.key]
    assert len(api.server.effects) == 1


async def test_two_different_requests_at_once(api: Api) -> None:
    """One of them binds the operation; the other is stopped."""
    caught: list[Exception] = []
    async with api.client() as client:

        async def send(number: int) -> None:
            try:
                await client.post(json={"n": number})
            except KeyMismatch as error:
                caught.append(error)

        with samekey.operation():
            await api.together(lambda: send(1), lambda: send(2))

    assert len(caught) == 1
    api.seen(wire=1, effects=1)


async def test_nested_operations(api: Api) -> None:
    """The innermost applies, and the outer one again afterwards."""
    async with api.client() as client:
        with samekey.operation() as outer:
            await client.post(json={"n": 1})
            with samekey.operation() as inner:
                await client.post(json={"n": 2})
            await client.post(json={"n": 1})

    assert [request.key for request in api.server.requests] == [outer.key, inner.key, outer.key]


@pytest.mark.parametrize("retry", [True, False])
async def test_a_form_built_again_is_the_same_request(api: Api, *, retry: bool) -> None:
    """A multipart boundary is drawn anew each time; the first snapshot is sent, so that the server sees equal bytes."""
    api.server.script(faults.lost())
    async with api.client(policy=QUICK if retry else ONCE) as client:
        with samekey.operation():
            for turn in range(3):
                try:
                    await client.post(files={"doc": ("a.txt", io.BytesIO(b"hello"))}, data={"n": "1"})
                except OutcomeUnknown:
                    assert turn == 0
            with raises(KeyMismatch):
                await client.post(files={"doc": ("a.txt", io.BytesIO(b"other"))}, data={"n": "1"})

    assert len({request.header("content-type") for request in api.server.requests}) == 1
    assert len(api.server.requests) == (4 if retry else 3)
    api.seen(wire=len(api.server.requests), effects=1)


async def test_an_operation_across_two_clients(api: Api) -> None:
    """It belongs to the operation, not to the client: the second client goes on with the first one's open attempt."""
    api.server.script(faults.lost(), faults.status(404))
    with samekey.operation():
        async with api.client(policy=ONCE) as first:
            with raises(OutcomeUnknown):
                await first.post()
        async with api.client(policy=ONCE) as second:
            with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
                await second.post()
            assert samekey.is_replayed(await second.post())

    api.seen(wire=3, effects=1)


async def test_an_operation_meets_its_key_in_another_client(api: Api) -> None:
    """What another engine knows of the key is taken over, and a different request is found there too."""
    api.server.script(*[faults.lost()] * 2)
    async with api.client(policy=ONCE) as client:
        with raises(OutcomeUnknown) as first:
            await client.post(json={"n": 1})
        with samekey.operation(key=first.value.key):
            async with api.client(policy=ONCE) as other:
                with raises(OutcomeUnknown):
                    await other.post(json={"n": 1})
            response = await client.post(json={"n": 1})
        assert samekey.is_replayed(response)

        with samekey.operation(key=first.value.key) as op:
            api.server.script(faults.status(200))
            async with api.client() as other:
                await other.request("PATCH", json={"n": 2})
            with raises(KeyMismatch):
                await client.request("PATCH", json={"n": 2})
        assert op.key == first.value.key


# -- 5.9, 5.12 and the places where a key can stand


async def test_keys_in_three_places(api: Api) -> None:
    """The same one is no contradiction; two that differ are."""
    mine: dict[str, Any] = {"headers": {"Idempotency-Key": "k-1"}}
    async with api.client() as client:
        with samekey.operation(key="k-1"):
            await client.post(extensions=samekey.options(key="k-1"), **mine)
        for op_key, option, header in (("k-1", "k-2", None), ("k-1", None, "k-2"), (None, "k-1", "k-2")):
            extensions = samekey.options(key=option) if option else {}
            headers = {"Idempotency-Key": header} if header else {}
            with samekey.operation(key=op_key), raises(KeyMismatch, api.httpx.RequestError) as caught:
                await client.post("/b", extensions=extensions, headers=headers)
            assert "two different keys were given" in str(caught.value)

    api.seen(wire=1, effects=1)


async def test_a_header_gives_the_operation_its_key(api: Api) -> None:
    """The first request's own key becomes the operation's; later ones need not repeat it."""
    async with api.client() as client:
        with samekey.operation() as op:
            await client.post(headers={"Idempotency-Key": "mine"})
            await client.post()
            with raises(KeyMismatch):
                await client.post(headers={"Idempotency-Key": "another"})

    assert op.key == "mine"
    api.seen(wire=2, effects=1)


async def test_an_operation_whose_key_was_read_early(api: Api) -> None:
    """`op.key` before the first request fixes it."""
    async with api.client() as client:
        with samekey.operation() as op:
            key = op.key
            with raises(KeyMismatch):
                await client.post(headers={"Idempotency-Key": "mine"})
            await client.post()

    assert api.server.keys == [key]


async def test_names_need_a_journal(api: Api) -> None:
    """Known only to the transport: a ValueError before anything is sent."""
    async with api.client() as client:
        with samekey.operation("order-1:charge"), pytest.raises(ValueError, match="journal"):
            await client.post()
        with pytest.raises(ValueError, match="no journal"):
            await client.post(extensions=samekey.options(name="order-1:charge"))
        with samekey.operation("order-1:charge"):
            await client.get()

    assert [request.method for request in api.server.requests] == ["GET"]


async def test_settings_that_cannot_be_met(api: Api) -> None:
    async with api.client() as client:
        with pytest.raises(ValueError, match="not among the origins"):
            await client.post("http://other.test/", extensions=samekey.options(key="k"))
        with pytest.raises(ValueError, match="not among the origins"):
            await client.post("http://other.test/", extensions=samekey.options(name="n"))
        with pytest.raises(ValueError, match="key=False, but"):
            await client.post(headers={"Idempotency-Key": "k"}, extensions=samekey.options(key=False))
        with pytest.raises(TypeError, match=r"must come from samekey\.options"):
            await client.post(extensions={"samekey": {"retry": False}})

    assert api.server.requests == []


async def test_a_key_that_the_dialect_does_not_allow(api: Api) -> None:
    """Checked before sending, wherever it was given."""
    dialect = Dialect(key=samekey.dialects.KeyRule(form="hex", max_length=32))
    long = "k" * 33
    async with api.client(dialect=dialect) as client:
        for settings in ({"extensions": samekey.options(key=long)}, {"headers": {"Idempotency-Key": long}}):
            with pytest.raises(ValueError, match="33 bytes"):
                await client.post(**settings)
        with samekey.operation(key=long), pytest.raises(ValueError, match="33 bytes"):
            await client.post()
        await client.post()

    assert [len(request.key or "") for request in api.server.requests] == [32]


async def test_other_carriers(api: Api) -> None:
    """The key in the JSON body, or in the header pair of Repeatable Requests, the same on each attempt."""
    async with api.client(dialect=Dialect(carrier=JsonField("idempotency_key"))) as client:
        api.server.script(faults.status(503))
        response = await client.post(json={"amount": 1})
        await client.post(json={"amount": 2, "idempotency_key": "mine"})
        with pytest.raises(ValueError, match="JSON"):
            await client.post(content=b"no json")
    key = the(samekey.report(response)).key
    sent = [request.json() for request in api.server.requests]
    assert sent == [{"amount": 1, "idempotency_key": key}] * 2 + [{"amount": 2, "idempotency_key": "mine"}]
    assert all(request.header("content-length") == str(len(request.body)) for request in api.server.requests)
    assert not any(key_lines(request) for request in api.server.requests)

    api.server.reset()
    async with api.client(dialect=Dialect(carrier=RepeatabilityHeaders())) as client:
        api.server.script(faults.status(503))
        await client.post()
        await client.post(
            json={"n": 2}, headers={"Repeatability-Request-ID": "mine", "Repeatability-First-Sent": "yesterday"}
        )
    pairs = [
        (request.header("repeatability-request-id"), request.header("repeatability-first-sent"))
        for request in api.server.requests
    ]
    assert pairs[0] == pairs[1]
    assert None not in pairs[0]
    assert pairs[2] == ("mine", "yesterday")


@leaves_streams
async def test_a_key_in_a_body_that_is_too_large(api: Api) -> None:
    """It cannot be put in, so nothing is sent."""
    policy = RetryPolicy(max_request_buffer=10)
    async with api.client(dialect=Dialect(carrier=JsonField("key")), policy=policy) as client:
        with pytest.raises(ValueError, match="too large to be read first"):
            await client.post(content=api.body_of(b'{"a": "', b"x" * 100, b'"}'))

    assert api.server.requests == []


# -- 5.10: a loop without an operation


async def unresolved(api: Api, client: Client, **settings: Any) -> OutcomeUnknown:
    """One call that ends unknown."""
    api.server.script(faults.lost())
    with raises(OutcomeUnknown) as caught:
        await client.post(**settings)
    return caught.value


async def test_the_repeat_of_an_unresolved_call_is_stopped(api: Api) -> None:
    """The first key, the advice, the class of the open attempt, and no attempts of its own."""
    async with api.client(policy=ONCE, listen=True) as client:
        first = await unresolved(api, client)
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await client.post()

    error = caught.value
    assert error.key == first.key
    assert the(error.report).attempts == ()
    assert the(error.report).outcome == "unknown"
    assert "operation(key=error.key)" in str(error)
    assert UnresolvedRepeated in map(type, api.events)
    api.seen(wire=1, effects=1)


async def test_other_requests_are_not_stopped(api: Api) -> None:
    """Another body, path, method or scope; an operation, a key of the caller's, or none."""
    async with api.client(policy=ONCE) as client:
        await unresolved(api, client)
        await client.post(json={"n": 2})
        await client.post("/other")
        await client.request("PATCH", json={"amount": 4900, "currency": "eur"})
        await client.post(extensions=samekey.options(scope="tenant-2"))
        await client.post(extensions=samekey.options(key="mine"))
        await client.post(extensions=samekey.options(key=False))
        with samekey.operation():
            await client.post()
        with raises(OutcomeUnknown):
            await client.post()

    assert len(api.server.requests) == 8


async def settle_by_operation(client: Client, key: str) -> Any:
    with samekey.operation(key=key):
        return await client.post()


async def settle_by_option(client: Client, key: str) -> Any:
    return await client.post(extensions=samekey.options(key=key))


async def settle_by_header(client: Client, key: str) -> Any:
    return await client.post(headers={"Idempotency-Key": key})


async def settle_by_new_operation_objects(client: Client, key: str) -> Any:
    with samekey.operation(key=key) as op:
        await client.post()
    with op:
        return await client.post()


@pytest.mark.parametrize(
    "settle", [settle_by_operation, settle_by_option, settle_by_header, settle_by_new_operation_objects]
)
async def test_settling_the_key_by_any_route_clears_it(api: Api, settle: Callable[..., Any]) -> None:
    """Afterwards an equal request is a new operation."""
    async with api.client(policy=ONCE) as client:
        error = await unresolved(api, client)
        assert samekey.is_replayed(await settle(client, error.key))
        response = await client.post()

    assert the(samekey.report(response)).key != error.key
    assert len(api.server.keys) == len(api.server.effects) == 2


async def test_settling_with_a_refusal(api: Api) -> None:
    """A definitive no settles as well."""
    async with api.client(policy=ONCE) as client:
        error = await unresolved(api, client)
        api.server.script(faults.status(402))
        assert (await settle_by_operation(client, error.key or "")).status_code == 402
        assert (await client.post()).status_code == 201


async def test_what_does_not_settle(api: Api) -> None:
    """A front-door answer under the key leaves the first attempt open, so the repeat is still stopped."""
    async with api.client(policy=ONCE) as client:
        error = await unresolved(api, client)
        api.server.script(faults.status(403))
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
            await settle_by_operation(client, error.key or "")
        with raises(OutcomeUnknown):
            await client.post()

    assert len(api.server.requests) == 2


async def test_nothing_open_nothing_remembered(api: Api) -> None:
    """Refusals, successes, NotSent: an equal request is a new operation with a new key."""
    api.server.script(faults.ok(), faults.status(402), faults.status(409, json={"code": "x"}), faults.status(429))
    async with api.client(policy=ONCE) as client:
        for _ in range(5):
            await client.post()
        memory = client.raw._transport._engine.memory
        assert not memory.unresolved

    assert len(api.server.keys) == 5


async def test_a_401_returned_with_something_open_is_remembered(api: Api) -> None:
    api.server.script(faults.lost(), faults.status(401))
    async with api.client() as client:
        response = await client.post()
        assert (response.status_code, the(samekey.report(response)).outcome) == (401, "unknown")
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await client.post()

    assert caught.value.key == api.server.keys[0]
    api.seen(wire=2, effects=1)


@pytest.mark.parametrize("status", [302, 307])
async def test_a_redirect_returned_with_something_open_is_remembered(api: Api, status: int) -> None:
    api.server.script(faults.lost(), faults.redirect(status, "/b"))
    async with api.client() as client:
        await client.post()
        with raises(OutcomeUnknown):
            await client.post()

    api.seen(wire=2, effects=1)


@on_async
@pytest.mark.real_time
async def test_a_cancelled_call_is_remembered(api: Api) -> None:
    """Resumed, it ends with the stored answer."""
    api.server.script(faults.never())
    async with api.client(policy=RESUME) as client:
        async with cancelled_once(lambda: api.server.effects):
            await client.post()
        response = await client.post()

    assert samekey.is_replayed(response)
    api.seen(wire=2, effects=1)


async def test_resume_goes_on_with_the_open_attempt(api: Api) -> None:
    """A refusal at the front door does not settle what the first call left open; put back, it is resumed again."""
    async with api.client(policy=RESUME, listen=True) as client:
        error = await unresolved(api, client)
        api.server.script(faults.status(404), faults.status(503))
        for also in (api.httpx.RemoteProtocolError, api.httpx.HTTPStatusError):
            with raises(OutcomeUnknown, also) as caught:
                await client.post()
            assert caught.value.key == error.key
        response = await client.post()
        fresh = await client.post()

    assert samekey.is_replayed(response)
    assert the(samekey.report(response)).key == error.key
    assert not samekey.is_replayed(fresh)
    assert len(api.server.requests) == 5
    assert len(api.server.keys) == len(api.server.effects) == 2
    assert [event.resumed for event in api.events if isinstance(event, UnresolvedRepeated)] == [True] * 3


async def test_resume_needs_the_same_credentials(api: Api) -> None:
    """Another Authorization may be another customer: stopped, not resumed."""
    async with api.client(policy=RESUME) as client:
        await unresolved(api, client, headers={"Authorization": "Bearer a"})
        for headers in ({"Authorization": "Bearer b"}, {}):
            with raises(OutcomeUnknown) as caught:
                await client.post(headers=headers)
            assert the(caught.value.report).attempts == ()
        response = await client.post(headers={"Authorization": "Bearer a"})

    assert samekey.is_replayed(response)
    api.seen(wire=2, effects=1)


async def test_several_unresolved_equal_calls(api: Api) -> None:
    """Two intended payments at once, both unknown: each is resumed by its own key, oldest first."""
    api.server.script(*[faults.lost()] * 2)
    errors: list[OutcomeUnknown] = []
    async with api.client(policy=RESUME) as client:

        async def send() -> None:
            with raises(OutcomeUnknown) as caught:
                await client.post()
            errors.append(caught.value)

        barrier = [faults.slow(0.1, faults.lost())] * 2
        api.server.script(*barrier)
        await api.together(send, send)
        replies = [await client.post(), await client.post(), await client.post()]

    keys = [the(samekey.report(reply)).key for reply in replies]
    assert keys[:2] == [error.key for error in errors]
    assert [samekey.is_replayed(reply) for reply in replies] == [True, True, False]
    assert len(api.server.effects) == 3


async def test_unresolved_ttl(api: Api, clock: Clock) -> None:
    """After its time an equal request is a new operation; zero remembers nothing."""
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(1), unresolved_ttl=60)) as client:
        await unresolved(api, client)
        clock.monotonic = 59
        with raises(OutcomeUnknown):
            await client.post()
        clock.monotonic = 61
        assert (await client.post()).status_code == 201
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(1), unresolved_ttl=0)) as client:
        error = await unresolved(api, client)
        assert (await client.post()).status_code == 201
        # The key itself is known all the same.
        with raises(KeyMismatch):
            await client.post("/b", extensions=samekey.options(key=error.key))

    assert len(api.server.keys) == 4


@leaves_streams
async def test_an_oversize_body_equals_no_other(api: Api) -> None:
    """Nobody has read it, so nobody can tell that it came again."""
    policy = RetryPolicy(max_request_buffer=10, stop=stop_after_attempt(1))
    async with api.client(policy=policy) as client:
        await unresolved(api, client, content=api.body_of(b"x" * 100))
        assert (await client.post(content=api.body_of(b"x" * 100))).status_code == 201
        with samekey.operation():
            await client.post(content=api.body_of(b"x" * 100))
            with raises(KeyMismatch):
                await client.post(content=api.body_of(b"x" * 100))


# -- 5.11: where an operation applies


@on_async
async def test_a_task_that_outlives_the_block(api: Api) -> None:
    """The operation no longer applies, although the task has inherited it."""
    ended = anyio.Event()
    async with api.client() as client, anyio.create_task_group() as group:

        async def late() -> None:
            await ended.wait()
            assert samekey.current_operation() is None
            await client.post()

        with samekey.operation() as op:
            await client.post()
            group.start_soon(late)
        ended.set()

    assert api.server.keys[0] == op.key
    assert len(api.server.keys) == 2


@on_async
async def test_operations_in_tasks_do_not_mix(api: Api) -> None:
    keys: list[str] = []
    async with api.client() as client:

        async def one(number: int) -> None:
            with samekey.operation() as op:
                await client.post(json={"n": number})
                await anyio.lowlevel.checkpoint()
                await client.post(json={"n": number})
                keys.append(op.key)

        await api.together(*((lambda number=number: one(number)) for number in range(10)))

    assert sorted(api.server.keys) == sorted(keys)
    assert len(api.server.effects) == 10


@on_sync
async def test_plain_threads_do_not_inherit(api: Api) -> None:
    """A thread started by hand has no operation; it is given the key."""
    async with api.client() as client:
        with samekey.operation() as op:
            client.raw.post("/charges", json={})
            threads = [
                threading.Thread(target=client.raw.post, args=("/charges",), kwargs={"json": {}, **more})
                for more in (
                    {},
                    {"extensions": samekey.options(key=op.key)},
                    {"extensions": samekey.options(key=op.key)},
                )
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    assert sorted(len([r for r in api.server.requests if r.key == key]) for key in api.server.keys) == [1, 3]
    assert len(api.server.effects) == 2


async def test_the_operation_after_an_error(api: Api) -> None:
    """`op.key` and `op.report` stay readable after the block, however it ended."""
    api.server.script(then=faults.lost())
    async with api.client(policy=ONCE) as client:
        with raises(OutcomeUnknown), samekey.operation() as op:
            assert op.report is None
            await client.post()

    told = the(op.report)
    assert (told.key, told.outcome, statuses(told)) == (op.key, "unknown", ["RemoteProtocolError"])


async def test_executed_sticks(api: Api) -> None:
    """A repeat that gets no answer: still unknown as an error, but the report knows that it was done."""
    api.server.script(faults.ok(), faults.lost(), faults.status(503), faults.status(404), faults.mismatch())
    async with api.client(policy=ONCE) as client:
        with samekey.operation():
            await client.post()
            for also in (api.httpx.RemoteProtocolError, api.httpx.HTTPStatusError):
                with raises(OutcomeUnknown, also) as caught:
                    await client.post()
                assert the(caught.value.report).outcome == "executed"
                assert "it was executed" in str(caught.value)
            # Two repeats are open now.
            with raises(OutcomeUnknown):
                await client.post()


async def test_a_given_key_is_never_fresh(api: Api) -> None:
    """Nothing known to be open, but others may have sent it: no NotSent, a bare 409 is polled, a 4xx is unknown."""
    server = api.server
    key = samekey.options(key="k-1")
    async with api.client(policy=ONCE, base_url=closed_port()) as client:
        with raises(OutcomeUnknown, api.httpx.TransportError) as caught:
            await client.post(extensions=key)
    assert not isinstance(caught.value, api.httpx.ConnectError)
    server.script(
        faults.status(404), faults.mismatch(), faults.status(409, json={"code": "x"}), faults.status(429), faults.ok()
    )
    async with api.client(policy=QUICK) as client:
        response = await client.post(extensions=key)
        assert (response.status_code, the(samekey.report(response)).outcome) == (404, "unknown")
        with raises(KeyMismatch, api.httpx.HTTPStatusError) as mismatch:
            await client.post(extensions=key)
        assert the(mismatch.value.report).outcome == "unknown"
        response = await client.post(extensions=key)

    assert statuses(samekey.report(response)) == [409, 429, 201]
    assert kinds(samekey.report(response)) == ["first", "poll", "retry"]
