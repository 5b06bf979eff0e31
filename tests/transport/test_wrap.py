"""`wrap()` and the transports by hand: what they take, what they refuse, and what they pass through."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
import httpx_retries
import httpx_tenacity
import pytest

import samekey
from samekey import GENERIC, AsyncIdempotentTransport, Dialect, IdempotentTransport, RetryPolicy
from samekey.testing import LedgerServer, faults
from tests.transport.harness import TLS, Api, now, on, on_async, raises


class Noted:
    """A transport of either colour that notes what is done to it; mixed with the library's base class."""

    def __init__(self, name: str = "", notes: list[str] | None = None) -> None:
        self.name = name
        self.notes = [] if notes is None else notes

    def note(self, what: str) -> None:
        self.notes.append(f"{self.name}{what}")


def noted(api: Api, name: str = "", notes: list[str] | None = None) -> Any:
    """A transport of the colour of *api*."""
    answer = api.httpx.Response

    if api.sync:

        class Sync(Noted, api.httpx.BaseTransport):  # type: ignore[misc,name-defined]
            def handle_request(self, request: Any) -> Any:
                self.note("request")
                return answer(201)

            def close(self) -> None:
                self.note("close")

            def __enter__(self) -> Any:
                self.note("enter")
                return self

            def __exit__(self, *_: object) -> None:
                self.note("exit")

        return Sync(name, notes)

    class Async(Noted, api.httpx.AsyncBaseTransport):  # type: ignore[misc,name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            self.note("request")
            return answer(201)

        async def aclose(self) -> None:
            self.note("close")

        async def __aenter__(self) -> Any:
            self.note("enter")
            return self

        async def __aexit__(self, *_: object) -> None:
            self.note("exit")

    return Async(name, notes)


async def entered(api: Api, raw: Any) -> None:
    """Open and leave the client as its own context manager."""
    if api.sync:
        with raw:
            pass
    else:
        async with raw:
            pass


async def test_it_gives_the_client_back(api: Api) -> None:
    raw = api.raw_client()
    assert samekey.wrap(raw) is raw
    await now(raw.close() if api.sync else raw.aclose())


async def test_the_server_must_be_named(api: Api) -> None:
    """Without a base_url nobody knows whether keys are honoured; the error explains why it matters."""
    raw = api.raw_client(base_url="")
    with pytest.raises(ValueError, match="would execute every attempt"):
        samekey.wrap(raw)
    with pytest.raises(ValueError, match="base_url"):
        samekey.wrap(api.raw_client(base_url="/only/a/path"))
    assert samekey.wrap(raw, origins="*") is raw


@pytest.mark.parametrize(
    ("origins", "error"),
    [
        ("https://api.test", ValueError),
        ([], ValueError),
        (["api.test"], ValueError),
        (["ftp://api.test"], ValueError),
        (["https://api.test/v1"], ValueError),
        (["https://api.test?x=1"], ValueError),
        (["https://user:pw@api.test"], ValueError),
        (["https://"], ValueError),
        (["https://a\x00b"], ValueError),
        ([b"https://api.test"], TypeError),
        ([None], TypeError),
        ({"https://api.test": "stripe"}, TypeError),
    ],
)
async def test_origins_that_are_none(api: Api, origins: Any, error: type[Exception]) -> None:
    raw = api.raw_client(transport=noted(api))
    with pytest.raises(error, match=r"origin|scheme, host and port"):
        samekey.wrap(raw, origins=origins)
    assert type(raw._transport).__name__ in ("Sync", "Async")


@pytest.mark.parametrize(
    ("origins", "keyed"),
    [
        (["https://api.test"], [True, False, False]),
        (["https://api.test/", "http://api.test:8080"], [True, True, False]),
        (["HTTPS://API.TEST:443"], [True, False, False]),
        ({"https://api.test": GENERIC, "https://b.test": Dialect()}, [True, False, True]),
        ("*", [True, True, True]),
        (frozenset({"https://b.test"}), [False, False, True]),
    ],
)
async def test_origins(api: Api, origins: Any, keyed: list[bool]) -> None:
    """Requests to other origins pass through untouched."""
    seen: list[bool] = []

    def handle(request: httpx.Request) -> Any:
        seen.append("idempotency-key" in request.headers)
        return api.httpx.Response(201)

    async with api.client(origins=origins, transport=api.inner(handle)) as client:
        for url in ("https://api.test/x", "http://api.test:8080/x", "https://b.test/x"):
            response = await client.post(url)
            assert (samekey.report(response) is not None) is seen[-1]

    assert seen == keyed


async def test_requests_to_other_origins_are_untouched(api: Api) -> None:
    """Not retried, not read, no report, the very response of the inner transport."""
    answer = api.httpx.Response(503)
    calls: list[Any] = []

    def handle(request: httpx.Request) -> Any:
        calls.append(request)
        return answer

    async with api.client(transport=api.inner(handle)) as client:
        request = client.build("POST", "https://other.test/x", json={})
        assert await client.send(request) is answer

    assert calls == [request]
    assert samekey.report(answer) is None


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"policy": {"attempts": 3}}, TypeError),
        ({"dialect": "stripe"}, TypeError),
        ({"listeners": [None]}, TypeError),
        ({"journal": object()}, TypeError),
    ],
)
async def test_settings_of_the_wrong_type(api: Api, settings: Any, error: type[Exception]) -> None:
    raw = api.raw_client(transport=noted(api))
    with pytest.raises(error):
        samekey.wrap(raw, **settings)
    with pytest.raises(error):
        api.transport(noted(api), **settings)


@pytest.mark.parametrize("client", [None, object(), httpx, httpx.Client])
def test_only_clients(client: Any) -> None:
    with pytest.raises(TypeError, match="Client or AsyncClient"):
        samekey.wrap(client)


async def test_every_transport_is_wrapped_once(api: Api) -> None:
    """Own and mounts; one that serves several patterns gets one wrapper; None is kept; one engine for all."""
    shared, alone = noted(api), noted(api)
    raw = api.raw_client(
        transport=shared, mounts={"all://a.test": shared, "all://b.test": alone, "all://c.test": alone, "all://d": None}
    )
    samekey.wrap(raw)

    mounts = {str(pattern.pattern): transport for pattern, transport in raw._mounts.items()}
    assert mounts["all://a.test"] is raw._transport
    assert mounts["all://b.test"] is mounts["all://c.test"] is not raw._transport
    assert mounts["all://d"] is None
    assert mounts["all://b.test"]._engine is raw._transport._engine
    assert mounts["all://b.test"]._inner is alone


async def test_a_key_is_known_to_all_mounts(api: Api) -> None:
    """One memory: a key used through one transport is found through another."""
    raw = api.raw_client(transport=noted(api), mounts={"https://": noted(api)})
    samekey.wrap(raw, origins="*")
    extensions = samekey.options(key="k-1")

    await now(raw.post("http://a.test/x", extensions=extensions))
    with raises(samekey.KeyMismatch):
        await now(raw.post("https://a.test/x", extensions=extensions))


async def test_a_proxy_stays(api: Api) -> None:
    """A client with a proxy sends through it: keyed, retried, and the connection refused by it is never sent."""
    api.server.script(faults.lost())
    async with api.client(base_url="http://api.test", proxy=api.url) as client:
        response = await client.post("/charges")

    assert samekey.is_replayed(response)
    api.seen(wire=2, effects=1)
    assert api.server.requests[0].header("host") == "api.test"


@pytest.mark.parametrize("again", ["wrap", "transport", "mount", "around"])
async def test_double_wrapping_is_refused(api: Api, again: str) -> None:
    """Two layers would retry each other's retries."""
    raw = samekey.wrap(api.raw_client(transport=noted(api)))
    outer = noted(api)
    outer.inner = raw._transport
    ways: dict[str, Any] = {
        "wrap": lambda: samekey.wrap(raw),
        "transport": lambda: api.transport(raw._transport),
        "mount": lambda: samekey.wrap(api.raw_client(transport=noted(api), mounts={"all://a.test": raw._transport})),
        "around": lambda: samekey.wrap(api.raw_client(transport=outer)),
    }
    with pytest.raises(ValueError, match="wrapped by samekey already"):
        ways[again]()


async def test_a_chain_of_transports_may_be_circular(api: Api) -> None:
    """Looking for retrying layers comes to an end."""
    first, second = noted(api), noted(api)
    first.inner, second.inner = second, first
    samekey.wrap(api.raw_client(transport=first))


@on("sync", libraries=["httpx"])
async def test_transports_that_retry_are_refused(api: Api) -> None:
    """httpx-retries, httpx-tenacity, and HTTPTransport(retries=...), at any depth."""
    retrying = httpx_retries.RetryTransport(httpx.MockTransport(lambda _: httpx.Response(201)))
    outer = noted(api)
    outer.inner = retrying
    for transport, name in (
        (retrying, "httpx_retries"),
        (outer, "httpx_retries"),
        (httpx.HTTPTransport(retries=1, verify=TLS), "retries="),
    ):
        with pytest.raises(ValueError, match=name):
            samekey.wrap(api.raw_client(transport=transport))
        with pytest.raises(ValueError, match=name):
            IdempotentTransport(transport)
    with pytest.raises(ValueError, match="httpx_tenacity"):
        IdempotentTransport(object.__new__(httpx_tenacity.tenacious_transport.TenaciousTransport))


@on("asyncio", libraries=["httpx"])
async def test_async_transports_that_retry_are_refused(api: Api) -> None:
    for transport in (httpx_retries.RetryTransport(), httpx.AsyncHTTPTransport(retries=1, verify=TLS)):
        with pytest.raises(ValueError, match="retries"):
            AsyncIdempotentTransport(transport)


async def test_the_wrong_colour_inside(api: Api) -> None:
    """A transport of the other colour, or none at all."""
    other = "sync" if not api.sync else "asyncio"
    wrong = noted(Api(other, api.library, api.server, api.url, api.clock))
    for inner in (wrong, object(), 3):
        with pytest.raises(TypeError, match=r"handle_(async_)?request"):
            api.transport(inner)
    with pytest.raises(TypeError, match=r"handle_(async_)?request"):
        samekey.wrap(api.raw_client(transport=wrong))


def test_the_async_transport_in_a_sync_client() -> None:
    client = httpx.Client(transport=AsyncIdempotentTransport(httpx.AsyncHTTPTransport(verify=TLS)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a Client needs IdempotentTransport"):
        client.post("http://api.test/charges")
    client.close()
    client = httpx.Client(transport=AsyncIdempotentTransport(httpx.AsyncHTTPTransport(verify=TLS)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a Client needs IdempotentTransport"):
        client.__enter__()
    client._transport.__exit__()


@on_async
async def test_the_sync_transport_in_an_async_client(api: Api) -> None:
    client = httpx.AsyncClient(transport=IdempotentTransport(httpx.HTTPTransport(verify=TLS)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an AsyncClient needs AsyncIdempotentTransport"):
        await client.post(f"{api.url}/charges")
    await client.aclose()
    client = httpx.AsyncClient(transport=IdempotentTransport(httpx.HTTPTransport(verify=TLS)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an AsyncClient needs AsyncIdempotentTransport"):
        await client.__aenter__()
    await client._transport.__aexit__()
    assert api.server.requests == []


async def test_a_transport_by_hand(api: Api) -> None:
    """In `Client(transport=...)`, with the default origins: whatever the client addresses."""
    inner = (api.httpx.HTTPTransport if api.sync else api.httpx.AsyncHTTPTransport)(verify=TLS)
    api.server.script(faults.lost())
    raw = api.raw_client(transport=api.transport(inner))
    response = await now(raw.post("/charges", json={}))
    await now(raw.close() if api.sync else raw.aclose())

    assert samekey.is_replayed(response)
    api.seen(wire=2, effects=1)


async def test_a_transport_with_an_inner_one_of_its_own(api: Api) -> None:
    """Without an argument it makes the library's usual transport."""
    transport = api.transport()
    kind = api.httpx.HTTPTransport if api.sync else api.httpx.AsyncHTTPTransport
    assert isinstance(transport._inner, kind)
    await now(transport.close() if api.sync else transport.aclose())


async def test_a_transport_as_a_mount(api: Api) -> None:
    """One API is keyed, the rest of the client is as it was."""
    inner = noted(api)
    raw = api.raw_client(transport=noted(api), mounts={"all://api.test": api.transport(inner)})

    assert samekey.report(await now(raw.post("http://api.test/x"))) is not None
    assert samekey.report(await now(raw.post("http://other.test/x"))) is None


async def test_opening_and_closing_pass_through(api: Api) -> None:
    """Once per inner transport and pattern, as httpx itself does it."""
    notes: list[str] = []
    own, mounted = noted(api, "own-", notes), noted(api, "mounted-", notes)
    raw = samekey.wrap(api.raw_client(transport=own, mounts={"all://a.test": mounted}))

    await entered(api, raw)
    assert notes == ["own-enter", "mounted-enter", "own-exit", "mounted-exit"]
    notes.clear()
    raw = samekey.wrap(api.raw_client(transport=own, mounts={"all://a.test": mounted}))
    await now(raw.close() if api.sync else raw.aclose())
    assert notes == ["own-close", "mounted-close"]


async def test_opening_gives_our_transport(api: Api) -> None:
    """`with transport as t` gives the wrapper, not what is inside."""
    transport = api.transport(noted(api))
    if api.sync:
        with transport as opened:
            assert opened is transport
    else:
        async with transport as opened:
            assert opened is transport


async def test_a_failing_exit_sees_the_error(api: Api) -> None:
    """What went wrong in the block is handed on to the inner transport."""
    seen: list[Any] = []
    inner = noted(api)
    name = "__exit__" if api.sync else "__aexit__"

    async def async_exit(self: object, *details: Any) -> None:
        seen.extend(details)

    def sync_exit(self: object, *details: Any) -> None:
        seen.extend(details)

    setattr(type(inner), name, sync_exit if api.sync else async_exit)
    transport = api.transport(inner)
    with suppress(LookupError):
        if api.sync:
            with transport:
                raise LookupError
        else:
            async with transport:
                raise LookupError
    assert seen[0] is LookupError


def test_policies_check_themselves() -> None:
    """Bad numbers fail where they are written."""
    for settings, error in (
        ({"total_timeout": -1}, ValueError),
        ({"total_timeout": 0}, ValueError),
        ({"max_retry_after": -1}, ValueError),
        ({"max_request_buffer": -1}, ValueError),
        ({"stop": 5}, TypeError),
        ({"on_unresolved": "retry"}, ValueError),
    ):
        with pytest.raises(error):
            RetryPolicy(**settings)


def test_a_client_over_the_ledger_in_memory(server: LedgerServer) -> None:
    """The README's fifteen lines, without a socket."""
    server.script(faults.lost())
    client = samekey.wrap(httpx.Client(base_url="https://api.example.com", transport=server.transport()))

    response = client.post("/v1/charges", json={"amount": 4900})

    assert samekey.is_replayed(response)
    server.assert_executed_once()
    server.assert_same_key()
