"""What is special about httpx2; all scenarios run on it in the other modules, by the second row of `LIBRARIES`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest
from tenacity import stop_after_attempt, wait_none

import samekey
import samekey.httpx2
from samekey import NotSent, OutcomeUnknown, RetryPolicy
from samekey.testing import Fault, LedgerServer, faults, no_waiting
from tests.transport.harness import COLOURS, LIBRARIES, TLS, Api, Client, closed_port, key_lines, now, on, raises, the

QUICK = RetryPolicy(wait=wait_none())
on_httpx2 = on(*COLOURS, libraries=["httpx2"])


def script(code: str, *arguments: str) -> str:
    """What *code* prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- errors


@on_httpx2
@pytest.mark.parametrize(
    ("step", "name"),
    [
        (faults.lost(), "RemoteProtocolError"),
        (faults.reset(), "ReadError"),
        (faults.never(), "ReadTimeout"),
        (faults.cut(end="stall"), "ReadTimeout"),
        (faults.status(503), "HTTPStatusError"),
    ],
)
async def test_errors_are_httpx2s_too(api: Api, step: Fault, name: str) -> None:
    """`except httpx2.ReadTimeout` goes on working, and no class of httpx is near."""
    api.server.script(then=step)
    hurry = {"never": "head", "cut": "body"}.get(step.name, "")
    async with api.client(policy=QUICK, hurry=dict.fromkeys(range(1, 6), hurry)) as client:
        with raises(OutcomeUnknown, getattr(httpx2, name)) as caught:
            await client.post()

    error: Any = caught.value
    assert not isinstance(error, httpx.HTTPError)
    assert isinstance(error.request, httpx2.Request)
    assert error.response is None or isinstance(error.response, httpx2.Response)
    assert the(samekey.report(error)).key == error.key


@on_httpx2
async def test_nothing_sent_is_httpx2s_connect_error(api: Api) -> None:
    async with api.client(policy=QUICK, base_url=closed_port()) as client:
        with raises(NotSent, httpx2.ConnectError):
            await client.post()


@on_httpx2
async def test_an_error_of_a_local_check_is_httpx2s_request_error(api: Api) -> None:
    """Nothing was sent, so it is the root of those classes."""
    async with api.client() as client:
        with raises(samekey.KeyMismatch, httpx2.RequestError), samekey.operation():
            await client.post(json={"n": 1})
            await client.post(json={"n": 2})

    api.seen(wire=1, effects=1)


LOADS = """
import pickle, sys
error = pickle.loads(bytes.fromhex(sys.argv[1]))
assert "httpx2" in sys.modules
import httpx2, samekey
assert isinstance(error, httpx2.{name}), type(error).__mro__
assert type(error) is type(pickle.loads(pickle.dumps(error)))
assert isinstance(error.request, httpx2.Request)
assert samekey.report(error).attempts[0].{fact}
print(error.key, error.request.extensions["samekey"].key)
"""


@pytest.mark.parametrize(
    ("step", "name", "fact"),
    [
        (faults.lost(), "RemoteProtocolError", "error == 'RemoteProtocolError'"),
        (faults.status(503, json={"a": 1}), "HTTPStatusError", "status == error.response.status_code == 503"),
    ],
)
@on("sync", libraries=["httpx2"])
async def test_errors_unpickle_in_another_process(api: Api, step: Any, name: str, fact: str) -> None:
    """The other end of a job queue has imported neither samekey nor httpx2."""
    api.server.script(then=step)
    async with api.client(policy=QUICK) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()

    loaded = script(LOADS.format(name=name, fact=fact), pickle.dumps(caught.value).hex())

    assert loaded.split() == [caught.value.key] * 2


@on_httpx2
async def test_a_pickled_request_goes_on_with_its_key(api: Api) -> None:
    api.server.script(*[faults.lost()] * 2)
    async with api.client(policy=RetryPolicy(stop=stop_after_attempt(2), wait=wait_none())) as client:
        with raises(OutcomeUnknown) as caught:
            await client.post()
        copy = pickle.loads(pickle.dumps(caught.value))
        response = await client.send(copy.request)

    assert samekey.is_replayed(response)
    api.seen(wire=3, effects=1)


# -- features that httpx has not


@on_httpx2
async def test_server_sent_events(api: Api) -> None:
    """`client.sse()` over a keyed POST: never read ahead, keyed, and a report."""
    events = faults.status(200, headers={"Content-Type": "text/event-stream"}, body="data: 1\n\ndata: 2\n\n")
    api.server.script(faults.lost(executes=False), events)
    got: list[str] = []
    async with api.client() as client:
        manager = client.raw.sse("/charges", method="POST", json={})
        if api.sync:
            with manager as source:
                got += [event.data for event in source]
        else:
            async with manager as source:
                got += [event.data async for event in source]

    assert got == ["1", "2"]
    api.seen(wire=2, effects=0)


@on_httpx2
async def test_query_is_retried_without_a_key(api: Api) -> None:
    """QUERY is idempotent by definition."""
    api.server.script(faults.lost(), faults.status(503))
    async with api.client() as client:
        response = await now(client.raw.query("/charges", json={"a": 1}))

    assert len(the(samekey.report(response)).attempts) == 3
    api.seen(wire=3, effects=2, keys=0)  # this server executes what has no key
    assert len({request.body for request in api.server.requests}) == 1


@on_httpx2
async def test_a_mount_with_a_proxy(api: Api) -> None:
    """Own transport and mounted one, each through samekey; what the proxy refuses was never sent."""
    kind = httpx2.HTTPTransport if api.sync else httpx2.AsyncHTTPTransport
    mounts = {
        "http://proxied.test": kind(proxy=api.url, verify=TLS, trust_env=False),
        "http://refused.test": kind(proxy=closed_port(), verify=TLS, trust_env=False),
    }
    origins = [api.url, "http://proxied.test", "http://refused.test"]
    api.server.script(faults.lost(), path="/charges")
    async with api.client(mounts=mounts, origins=origins, policy=QUICK) as client:
        direct = await client.post()
        proxied = await client.post("http://proxied.test/charges")
        with raises(NotSent, httpx2.ConnectError):
            await client.post("http://refused.test/charges")

    assert samekey.is_replayed(direct)
    assert proxied.status_code == 201
    assert [request.header("host") for request in api.server.requests][-1] == "proxied.test"
    api.seen(wire=3, effects=2, keys=2)


# -- both in one process


def side_by_side(url: str) -> Iterator[tuple[Any, Any]]:
    for library in LIBRARIES.values():
        raw = library.module.Client(base_url=url, verify=TLS, trust_env=False, timeout=5)
        yield library.module, samekey.wrap(raw, policy=QUICK)


def test_side_by_side(server: LedgerServer) -> None:
    """Each client has its own library's transports, answers and errors."""
    with server.listen() as url, no_waiting():
        for number, (library, client) in enumerate(side_by_side(url)):
            server.script(faults.lost())
            response = client.post("/charges", json={"n": number})
            assert isinstance(response, library.Response)
            assert isinstance(client._transport, library.BaseTransport)
            assert samekey.is_replayed(response)

            server.script(then=faults.lost())
            with pytest.raises(library.RemoteProtocolError) as caught:
                client.post("/charges", json={"n": number})
            client.close()
            other = httpx2 if library is httpx else httpx
            assert isinstance(caught.value, OutcomeUnknown)
            assert not isinstance(caught.value, other.HTTPError)
            assert type(caught.value.__cause__) is library.RemoteProtocolError


def test_one_operation_over_both(server: LedgerServer) -> None:
    """An operation belongs to no library: what one has begun the other goes on with."""
    with server.listen() as url, no_waiting():
        (_, first), (_, second) = side_by_side(url)
        with first, second, samekey.operation() as op:
            server.script(then=faults.lost())
            with pytest.raises(httpx.RemoteProtocolError):
                first.post("/charges", json={"n": 1})
            server.script()
            response = second.post("/charges", json={"n": 1})
            with pytest.raises(samekey.KeyMismatch):
                second.post("/charges", json={"n": 2})

    assert samekey.is_replayed(response)
    assert server.keys == [op.key]
    server.assert_executed_once()


# -- crossing them


def others(api: Api) -> tuple[Any, Any]:
    """The other library, and samekey's classes for it."""
    if api.httpx is httpx:
        return httpx2, samekey.httpx2
    return httpx, samekey


def foreign(api: Api) -> Any:
    """A transport of the other library, in the colour of *api*."""
    library, _ = others(api)
    return (library.HTTPTransport if api.sync else library.AsyncHTTPTransport)(verify=TLS)


async def test_the_other_library_inside(api: Api) -> None:
    """Where it is made: a transport by hand, a client's transport, a mount."""
    theirs = others(api)[0].__name__
    with pytest.raises(TypeError, match=rf"belongs to {theirs}, and this is samekey for {api.httpx.__name__}:"):
        api.transport(foreign(api))
    for settings in ({"transport": foreign(api)}, {"mounts": {"https://": foreign(api)}}):
        raw = api.raw_client(**settings)
        with pytest.raises(TypeError, match=f"the inner transport belongs to {theirs}"):
            samekey.wrap(raw)
        assert not isinstance(raw._transport, type(api.transport(api.memory())))


async def test_a_transport_of_neither_library_inside(api: Api) -> None:
    """A duck is no mistake: httpx itself asks for no more."""
    duck = type("Duck", (), {"handle_request": print, "handle_async_request": print})()
    api.transport(duck)


async def test_our_transport_in_a_client_of_the_other_library(api: Api) -> None:
    """Only the first request can tell; nothing of it is sent."""
    _, ours = others(api)
    kind = ours.IdempotentTransport if api.sync else ours.AsyncIdempotentTransport
    raw = api.raw_client(transport=kind(foreign(api)))
    for body in ({"json": {"a": 1}}, {"content": api.body_of(b"a")}, {}):
        with pytest.raises(TypeError, match=f"the request belongs to {api.httpx.__name__}"):
            await Client(raw, sync=api.sync).request("POST", **body)
    await now(raw.close() if api.sync else raw.aclose())

    assert api.server.requests == []


async def test_an_auth_of_the_other_library(api: Api) -> None:
    library, ours = others(api)
    mine = {httpx: samekey.KeyedAuth, httpx2: samekey.httpx2.KeyedAuth}[api.httpx]
    with pytest.raises(TypeError, match=f"the auth belongs to {library.__name__}"):
        mine(library.BasicAuth("u", "p"))
    with pytest.raises(TypeError, match="auth must be"):
        mine(("u", "p"))
    with pytest.raises(TypeError, match=r"[Aa]uth"):  # the library's own check
        api.raw_client(auth=ours.KeyedAuth(library.BasicAuth("u", "p")))


# -- importing it


def test_samekey_does_not_import_httpx2() -> None:
    code = "import sys, samekey, httpx; samekey.wrap(httpx.Client(base_url='http://a')); print('httpx2' in sys.modules)"
    assert script(code) == "False"


def test_httpx2_is_missing() -> None:
    """The error names the extra; everything else works."""
    code = """
import sys
sys.modules["httpx2"] = None
import samekey, httpx
samekey.wrap(httpx.Client(base_url="http://a.test"))
try:
    import samekey.httpx2
except ImportError as error:
    print(error)
try:
    samekey.wrap(object())
except TypeError:
    print("TypeError")
"""
    assert script(code).splitlines() == ["samekey.httpx2 needs httpx2: pip install 'samekey[httpx2]'", "TypeError"]


ALIASED = """
import sys, pickle
import httpx2
httpx2.alias_httpx()
import samekey
import httpx
assert httpx is httpx2
from samekey.testing import LedgerServer, faults, no_waiting

server = LedgerServer()
server.script(faults.lost(), path="/a")
server.script(then=faults.lost(), path="/b")
client = samekey.wrap(httpx.Client(base_url="http://api.test", transport=server.transport()))
by_hand = httpx.Client(base_url="http://api.test", transport=samekey.IdempotentTransport(server.transport()))
with no_waiting():
    for each in (client, by_hand):
        assert samekey.is_replayed(each.post("/a", json={"n": id(each)})) is (each is client)
        try:
            each.post("/b", json={"n": id(each)})
        except httpx2.RemoteProtocolError as error:
            assert isinstance(error, samekey.OutcomeUnknown)
            assert type(pickle.loads(pickle.dumps(error))) is type(error)
        else:
            raise AssertionError

import samekey.httpx2
assert issubclass(samekey.IdempotentTransport, httpx2.BaseTransport)
samekey.httpx2.IdempotentTransport(server.transport())
auth = samekey.KeyedAuth(httpx.BasicAuth("u", "p"))
signed = httpx.Client(base_url="http://api.test", transport=server.transport(), auth=auth)
samekey.wrap(signed).post("/a", json={})
asynchronous = samekey.wrap(httpx.AsyncClient(base_url="http://api.test", transport=server.async_transport()))

async def main():
    async with asynchronous:
        return (await asynchronous.post("/a", json={"n": 3})).status_code

import anyio
print(anyio.run(main), len(server.effects))
"""


def test_alias_httpx() -> None:
    """An application that has moved: `import httpx` gives httpx2, and samekey works on it."""
    assert script(ALIASED) == "201 6"


def test_key_of_a_caller(server: LedgerServer) -> None:
    """Header objects of httpx2 are read like those of httpx."""
    client = samekey.wrap(httpx2.Client(base_url="http://api.test", transport=Memory(server)))
    client.post("/charges", json={}, headers=httpx2.Headers({"Idempotency-KEY": "u-1"}))

    assert key_lines(server.requests[0]) == ["u-1"]


class Memory(httpx2.BaseTransport):
    """The server without a socket, for httpx2."""

    def __init__(self, server: LedgerServer) -> None:
        self.inner = server.transport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = httpx.Request(request.method, str(request.url), headers=request.headers.raw, content=request.read())
        answer = self.inner.handle_request(asked)
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, content=answer.read())
