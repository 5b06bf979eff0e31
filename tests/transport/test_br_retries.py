"""Sections B, D and E of the bug reports: what is repeated, and how long (BR-13 to BR-26, BR-34 to BR-40)."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest
import trustme
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import IdempotencyError, KeyMismatch, NotSent, OutcomeUnknown, RetryPolicy, StillInProgress
from samekey.testing import Reply, faults
from tests.transport.harness import Api, closed_port, kinds, raises, statuses, the

QUICK = RetryPolicy(wait=wait_none())


@pytest.mark.real_time
async def test_br_13_in_progress_ends_with_the_replay(api: Api) -> None:
    """A read timeout, then 409 twice, then the stored answer: a success."""
    done = threading.Event()
    server = api.server
    server.script(faults.hold(done), faults.ok(), _setting(done))

    policy = RetryPolicy(wait=wait_fixed(0.01), poll_wait=wait_fixed(0.01))
    async with api.client(policy=policy, hurry={1: "head"}) as client:
        response = await client.post()

    assert samekey.is_replayed(response)
    told = the(samekey.report(response))
    assert kinds(told)[:3] == ["first", "retry", "poll"]
    assert statuses(told)[:3] == ["ReadTimeout", 409, 409]
    assert (statuses(told)[-1], len(server.effects), len(server.keys)) == (201, 1, 1)


def _setting(event: threading.Event) -> Any:
    def step(_: object) -> Any:
        event.set()
        return faults.in_progress()

    return step


async def test_br_14_a_business_conflict_is_returned(api: Api) -> None:
    """A 409 that speaks of the business is an answer; one that speaks of a running request is polled."""
    api.server.script(
        faults.status(409, json={"code": "insufficient_funds"}),
        faults.status(409, json={"code": "idempotency_key_in_progress"}),
    )
    async with api.client() as client:
        refused = await client.post(json={"n": 1})
        done = await client.post(json={"n": 2})

    assert (refused.status_code, done.status_code) == (409, 201)
    assert kinds(samekey.report(done)) == ["first", "poll"]
    assert len(api.server.requests) == 3


async def test_br_14_retry_after_on_a_conflict(api: Api) -> None:
    """On a fresh key a 409 with a body of its own is returned all the same; an empty one is polled.

    The case asks to poll any 409 with Retry-After; the design decides. Under a key that may be in use it means running.
    """
    hint = {"Retry-After": "1"}
    api.server.script(
        faults.status(409, json={"code": "insufficient_funds"}, headers=hint),
        faults.status(409, headers=hint),
        faults.ok(),
        faults.status(409, json={"code": "busy"}, headers=hint),
    )
    async with api.client() as client:
        returned = await client.post(json={"n": 1})
        polled = await client.post(json={"n": 2})
        given = await client.post(json={"n": 3}, extensions=samekey.options(key="k-3"))

    assert [answer.status_code for answer in (returned, polled, given)] == [409, 201, 201]
    assert kinds(samekey.report(polled)) == kinds(samekey.report(given)) == ["first", "poll"]


@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        (409, {"code": "idempotency_key_in_progress"}, StillInProgress),
        (409, {"error": "A request with this key is still being processed"}, StillInProgress),
        (409, {"code": "idempotency_key_reused_with_different_payload"}, KeyMismatch),
        (422, {"code": "idempotency_key_mismatch"}, KeyMismatch),
        (400, {"error": {"type": "idempotency_error", "message": "Keys can only be used with the same parameters"}},
         KeyMismatch),
        (409, {"code": "already_exists"}, None),
        (422, {"code": "validation_failed"}, None),
        (400, {"code": "bad_request"}, None),
    ],
)  # fmt: skip
async def test_br_15_one_status_several_meanings(
    api: Api, status: int, body: dict[str, Any], means: type[IdempotencyError] | None
) -> None:
    """Polled, a bug of the caller, or an ordinary refusal: the body decides, never the status alone."""
    api.server.script(then=faults.status(status, json=body))
    async with api.client(policy=RetryPolicy(poll_wait=wait_fixed(40), total_timeout=100)) as client:
        if means is None:
            assert (await client.post()).status_code == status
        else:
            with raises(means, api.httpx.HTTPStatusError) as caught:
                await client.post()
            assert caught.value.response.status_code == status
            assert caught.value.response.json() == body

    assert (len(api.server.requests) == 1) is (means is not StillInProgress)


async def test_br_16_a_form_error_is_an_ordinary_answer(api: Api) -> None:
    """A key that was just made cannot have been used before."""
    api.server.script(faults.status(422, json={"detail": [{"loc": ["body", "amount"], "msg": "field required"}]}))
    async with api.client() as client:
        response = await client.post()

    assert response.status_code == 422
    assert response.json()["detail"]
    assert the(samekey.report(response)).outcome == "rejected"
    api.seen(wire=1, effects=0)


async def test_br_16_a_recognised_mismatch_carries_key_and_answer(api: Api) -> None:
    """The titles of the IETF draft."""
    problem = {"title": "Idempotency-Key is already used", "detail": "reused with a different payload"}
    api.server.script(faults.status(422, json=problem, headers={"Content-Type": "application/problem+json"}))
    async with api.client() as client:
        with raises(KeyMismatch, api.httpx.HTTPStatusError) as caught:
            await client.post()

    assert caught.value.key == api.server.keys[0]
    assert caught.value.response.json() == problem


async def test_br_17_a_mismatch_told_with_400(api: Api) -> None:
    """A machine code makes it a mismatch; a plain 400 stays one."""
    api.server.script(faults.status(400, json={"error": {"type": "idempotency_error"}}), faults.status(400, body="no"))
    async with api.client() as client:
        with raises(KeyMismatch, api.httpx.HTTPStatusError):
            await client.post(json={"n": 1})
        response = await client.post(json={"n": 2})

    assert response.status_code == 400


@pytest.mark.parametrize("name", ["x-should-retry", "Stripe-Should-Retry"])
async def test_br_19_the_server_says_whether_to_retry(api: Api, name: str) -> None:
    """Its word beats the table of statuses in both directions."""
    api.server.script(
        faults.status(503, headers={name: "false"}),
        faults.status(409, json={"code": "lock_timeout"}, headers={name: "true"}),
    )
    async with api.client() as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post(json={"n": 1})
        response = await client.post(json={"n": 2})

    assert len(the(caught.value.report).attempts) == 1
    assert statuses(samekey.report(response)) == [409, 201]


async def test_br_19_never_beyond_the_limits(api: Api) -> None:
    api.server.script(then=faults.status(409, json={"code": "x"}, headers={"x-should-retry": "true"}))
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(3))) as client:
        response = await client.post()

    assert response.status_code == 409
    assert the(samekey.report(response)).gave_up == "attempts"
    api.seen(wire=3, effects=0)


NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
IN_DOUBT = ("ReadTimeout", "ReadError", "WriteError", "WriteTimeout", "RemoteProtocolError", "CloseError")


@pytest.mark.parametrize("name", [*NEVER_SENT, *IN_DOUBT])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
async def test_br_21_never_sent_and_maybe_executed(api: Api, name: str, *, keyed: bool) -> None:
    """Without a key only what never left is repeated; with one, everything, under the same key."""
    seen: list[str | None] = []
    failures = [getattr(api.httpx, name)("broken")]

    def handle(request: Any) -> Any:
        seen.append(request.headers.get("idempotency-key"))
        if failures:
            raise failures.pop()
        return api.httpx.Response(201)

    extensions = {} if keyed else samekey.options(key=False)
    async with api.client(transport=api.inner(handle), policy=QUICK) as client:
        if keyed or name in NEVER_SENT:
            response = await client.post(extensions=extensions)
            assert statuses(samekey.report(response)) == [name, 201]
            assert len(seen) == 2
        else:
            with raises(OutcomeUnknown, getattr(api.httpx, name)) as caught:
                await client.post(extensions=extensions)
            assert len(seen) == 1
            assert caught.value.key is None
    assert len(set(seen)) == 1
    assert (None in seen) is not keyed


@pytest.mark.parametrize("name", ["UnsupportedProtocol", "LocalProtocolError"])
async def test_br_21_what_is_permanent_is_raised_at_once(api: Api, name: str) -> None:
    calls: list[object] = []

    def handle(request: Any) -> Any:
        calls.append(request)
        raise getattr(api.httpx, name)("never")

    async with api.client(transport=api.inner(handle)) as client:
        with raises(NotSent, getattr(api.httpx, name)):
            await client.post()
        with raises(getattr(api.httpx, name)) as caught:
            await client.get()

    assert not isinstance(caught.value, IdempotencyError)
    assert len(calls) == 2


async def test_br_21_an_exception_nobody_foresaw(api: Api) -> None:
    """Raised as it is; the attempt is open, and whoever comes back finds that."""
    failures: list[BaseException] = [ZeroDivisionError("inside")]

    def handle(request: Any) -> Any:
        if failures:
            raise failures.pop()
        return api.httpx.Response(201)

    async with api.client(transport=api.inner(handle)) as client:
        with pytest.raises(ZeroDivisionError) as caught:
            await client.post()
        with raises(OutcomeUnknown, api.httpx.TransportError):
            await client.post()

    told = the(samekey.report(caught.value))
    assert (told.outcome, told.attempts[0].failure, told.attempts[0].open) == ("unknown", "unforeseen", True)


# -- TLS


class Handshakes:
    """A TLS server that counts who comes, answers 201 to those who trust it, or hangs up in the handshake."""

    def __init__(self, context: ssl.SSLContext, *, hang_up: int = 0) -> None:
        self.count = 0
        self.context = context
        self.hang_up = hang_up
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            sock, _ = self.socket.accept()
            with sock:
                if self.thread.name == "closing":
                    return
                self.count += 1
                if self.count <= self.hang_up:
                    sock.recv(1)
                    continue
                try:
                    with self.context.wrap_socket(sock, server_side=True) as tls:
                        received = b""
                        while not received.endswith(b"}"):
                            received += tls.recv(65536)
                        tls.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    continue

    def close(self) -> None:
        self.thread.name = "closing"
        with socket.create_connection(self.socket.getsockname()):
            self.thread.join()
        self.socket.close()


@contextmanager
def tls_server(hang_up: int = 0) -> Iterator[tuple[Handshakes, ssl.SSLContext]]:
    """A server with a certificate of a new authority, and a context that trusts it."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    server = Handshakes(context, hang_up=hang_up)
    try:
        yield server, trusting
    finally:
        server.close()


async def test_br_23_an_unknown_authority_is_final(api: Api) -> None:
    """One handshake, and the error at once: no retry mends trust."""
    with tls_server() as (server, _):
        async with api.client(base_url=server.url, verify=ssl.create_default_context()) as client:
            with raises(NotSent, api.httpx.ConnectError) as caught:
                await client.post()
        assert server.count == 1

    told = the(caught.value.report)
    assert (told.outcome, told.gave_up, told.attempts[0].failure) == ("not_sent", None, "permanent")
    chain = [caught.value.__cause__]
    while chain[-1] is not None:
        chain.append(chain[-1].__cause__ or chain[-1].__context__)
    assert any(isinstance(error, ssl.SSLCertVerificationError) for error in chain)


async def test_br_23_a_handshake_that_breaks_off_is_not(api: Api) -> None:
    """The counter-case: a TLS failure of no known cause is transient."""
    with tls_server(hang_up=2) as (server, trusting):
        async with api.client(base_url=server.url, verify=trusting) as client:
            response = await client.post()
        assert server.count == 3

    assert response.status_code == 201


# -- HTTP/2


class Http2Server:
    """Takes one step per request: "refuse" (REFUSED_STREAM), "goaway" (nothing processed), "cancel", or a status."""

    def __init__(self, context: ssl.SSLContext, *steps: str | int) -> None:
        self.steps = list(steps)
        self.keys: list[str | None] = []
        self.bodies: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self.socket.getsockname()[1]}"
        context.set_alpn_protocols(["h2"])
        self.context = context
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        while True:
            sock, _ = self.socket.accept()
            if self.thread.name == "closing":
                sock.close()
                return
            try:
                with self.context.wrap_socket(sock, server_side=True) as tls:
                    self.talk(tls)
            except OSError:
                continue

    def talk(self, tls: ssl.SSLSocket) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        tls.sendall(state.data_to_send())
        bodies: dict[int, bytes] = {}
        while data := tls.recv(65536):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    headers = dict(event.headers)
                    self.keys.append(headers.get(b"idempotency-key", b"").decode() or None)
                    bodies[event.stream_id] = b""
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                elif isinstance(event, h2.events.StreamEnded):
                    self.bodies.append(bodies[event.stream_id])
                    if self.answer(state, event.stream_id) == "goaway":
                        tls.sendall(state.data_to_send())
                        # Closing with unread bytes would send a reset in its place.
                        while tls.recv(65536):
                            pass
                        return
            tls.sendall(state.data_to_send())

    def answer(self, state: h2.connection.H2Connection, stream: int) -> str | int:
        step = self.steps.pop(0)
        if step == "refuse":
            state.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif step == "cancel":
            state.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        elif step == "goaway":
            state.close_connection(last_stream_id=0)
        else:
            state.send_headers(stream, [(":status", str(step))], end_stream=True)
        return step

    def close(self) -> None:
        self.thread.name = "closing"
        with socket.create_connection(self.socket.getsockname()):
            self.thread.join()
        self.socket.close()


@contextmanager
def h2_server(*steps: str | int) -> Iterator[tuple[Http2Server, ssl.SSLContext]]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    server = Http2Server(context, *steps)
    try:
        yield server, trusting
    finally:
        server.close()


@pytest.mark.parametrize("step", ["refuse", "goaway"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
async def test_br_26_a_refused_stream_was_not_processed(api: Api, step: str, *, keyed: bool) -> None:
    """HTTP/2 proves it, so it is repeated even without a key; the body is whole both times."""
    extensions = {} if keyed else samekey.options(key=False)
    with h2_server(step, 201) as (server, trusting):
        async with api.client(base_url=server.url, verify=trusting, http2=True) as client:
            response = await client.post(extensions=extensions, content=b"pay")
        assert server.bodies == [b"pay", b"pay"]
        assert len(set(server.keys)) == 1

    assert response.http_version == "HTTP/2"
    told = the(samekey.report(response))
    # A connection that says "nothing processed" may be replaced by httpcore itself.
    assert [attempt.failure for attempt in told.attempts] in (["never_sent", None], [None])


async def test_br_26_all_streams_refused(api: Api) -> None:
    """NotSent, which is true: the server said so each time."""
    with h2_server(*["refuse"] * 5) as (server, trusting):
        async with api.client(base_url=server.url, verify=trusting, http2=True, policy=QUICK) as client:
            with raises(NotSent, api.httpx.RemoteProtocolError):
                await client.post()
        assert len(server.keys) == 5


async def test_br_26_an_aborted_stream_is_in_doubt(api: Api) -> None:
    """Any other reset says nothing of that kind."""
    with h2_server("cancel") as (server, trusting):
        async with api.client(base_url=server.url, verify=trusting, http2=True) as client:
            with raises(OutcomeUnknown, api.httpx.RemoteProtocolError):
                await client.post(extensions=samekey.options(key=False))
        assert server.keys == [None]


# -- the answer's body


@pytest.mark.parametrize("end", ["close", "reset", "stall"])
@pytest.mark.parametrize("after", [0, 1, 20])
async def test_br_34_a_connection_that_dies_in_the_answer(api: Api, end: Any, after: int) -> None:
    """post() and stream(): read inside, retried with the same key, and the replay is whole."""
    hurry = {1: "body"} if end == "stall" else None
    api.server.script(faults.cut(after, end=end))
    async with api.client(hurry=hurry) as client:
        response = await client.post()
        assert response.json() == {"id": "effect-1", "n": 1}
    api.seen(wire=2, effects=1)
    api.server.reset()
    api.server.script(faults.cut(after, end=end))
    async with api.client(hurry=hurry) as client, client.stream() as streamed:
        assert await api.read(streamed) == response.content

    assert samekey.is_replayed(response)
    assert samekey.is_replayed(streamed)
    api.seen(wire=2, effects=1)


async def test_br_34_streaming_callers_opt_out(api: Api) -> None:
    """buffer_response=False: the failure reaches the reader, as an unknown outcome that was a success so far."""
    api.server.script(faults.cut(10))
    async with api.client() as client, client.stream(extensions=samekey.options(buffer_response=False)) as response:
        with raises(OutcomeUnknown, api.httpx.RemoteProtocolError) as caught:
            await api.read(response)

    told = the(caught.value.report)
    assert told.outcome == "executed"
    api.seen(wire=1, effects=1)


# -- deadlines


async def test_br_37_the_total_timeout_holds(api: Api) -> None:
    """20 s per read, four attempts, 50 s in all: attempts are cut to what is left, no wait ends beyond it."""

    def never(request: Any) -> Any:
        api.clock.now += request.extensions["timeout"]["read"]
        raise api.httpx.ReadTimeout("no answer")

    policy = RetryPolicy(stop=stop_after_attempt(4), wait=wait_fixed(1), total_timeout=50)
    async with api.client(transport=api.inner(never), policy=policy, timeout=20) as client:
        with raises(OutcomeUnknown, api.httpx.ReadTimeout) as caught:
            await client.post()

    told = the(caught.value.report)
    assert told.gave_up == "deadline"
    assert [attempt.elapsed for attempt in told.attempts] == [pytest.approx(part, abs=0.01) for part in (20, 20, 8)]
    assert told.elapsed == pytest.approx(50, abs=0.01)


@pytest.mark.real_time
async def test_br_37_a_single_attempt_is_cut_too(api: Api) -> None:
    """The read timeout is thirty seconds, or there is none; the total timeout is a tenth of one."""
    async with api.client(timeout=30) as client:
        settings: tuple[dict[str, Any], ...] = ({}, {"timeout": None})
        for timeout in settings:
            await client.post(json={"opens": "the connection"})  # so that only reading can take long
            api.server.script(then=faults.never())
            began = time.monotonic()
            with raises(OutcomeUnknown, api.httpx.ReadTimeout):
                await client.post(extensions=samekey.options(total_timeout=0.1), **timeout)
            assert 0.09 <= time.monotonic() - began < 15
            api.server.reset()
            client.raw._transport._engine.memory.forget()


async def test_br_37_an_inner_transport_with_its_own_retries_is_refused(api: Api) -> None:
    """HTTPTransport(retries=3) knows nothing of the total timeout."""
    inner = (api.httpx.HTTPTransport if api.sync else api.httpx.AsyncHTTPTransport)(retries=3, verify=False)
    with pytest.raises(ValueError, match="retries=") as caught:
        api.transport(inner)
    assert "connect" in str(caught.value)


@pytest.mark.real_time
async def test_br_39_slower_than_the_read_timeout(api: Api) -> None:
    """Polls are not network attempts: two of those are allowed, and the answer comes after many polls."""
    done = threading.Event()
    polls = iter(range(6))

    def poll(_: object) -> Any:
        if next(polls) == 5:
            done.set()
        return faults.ok()

    api.server.script(faults.hold(done), then=poll)
    policy = RetryPolicy(stop=stop_after_attempt(2), wait=wait_none(), poll_wait=wait_fixed(0.01))
    async with api.client(policy=policy, hurry={1: "head"}) as client:
        response = await client.post()

    assert samekey.is_replayed(response)
    told = the(samekey.report(response))
    assert kinds(told).count("poll") >= 4
    assert len(api.server.effects) == 1


async def test_br_40_exhaustion_is_unknown_never_failed(api: Api) -> None:
    """Key, attempts and last cause; old except clauses still work; distinct from NotSent and from a refusal."""
    api.server.script(then=faults.never())
    async with api.client(policy=QUICK, hurry=dict.fromkeys(range(1, 6), "head")) as client:
        with raises(OutcomeUnknown, api.httpx.ReadTimeout) as caught:
            await client.post()

    error = caught.value
    assert not isinstance(error, NotSent)
    assert isinstance(error, api.httpx.TimeoutException)
    assert error.key == api.server.keys[0]
    assert statuses(error.report) == ["ReadTimeout"] * 5
    assert type(error.__cause__) is api.httpx.ReadTimeout
    assert error.request.url == f"{api.url}/charges"
    assert error.response is None
    api.seen(wire=5, effects=1)


async def test_br_40_not_sent_is_something_else(api: Api) -> None:
    async with api.client(base_url=closed_port(), policy=QUICK) as client:
        with raises(NotSent, api.httpx.ConnectError) as caught:
            await client.post()

    assert not isinstance(caught.value, OutcomeUnknown)
    assert statuses(caught.value.report) == ["ConnectError"] * 5


async def test_br_40_a_503_at_the_end_is_unknown_too(api: Api) -> None:
    """It carries the answer, and is an HTTPStatusError for old code."""
    api.server.script(then=lambda _: Reply(503, {"Retry-After": "0"}, b"busy"))
    async with api.client(policy=QUICK) as client:
        with raises(OutcomeUnknown, api.httpx.HTTPStatusError) as caught:
            await client.post()

    assert (caught.value.response.status_code, caught.value.response.text) == (503, "busy")
    assert caught.value.response.elapsed.total_seconds() > 0
    assert caught.value.response.request is caught.value.request
