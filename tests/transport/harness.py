"""One way to run a scenario on every colour: a coroutine that is stepped by hand (sync), on asyncio, or on trio.

A test is an `async def` that takes `api`. Everything that may wait is awaited through `Client` and `Api`; in the sync
colour nothing of that ever suspends, so the coroutine runs through in one step and the real sync client is used.
Which HTTP library is used is one more parameter: a row of `LIBRARIES`.
"""

from __future__ import annotations

import atexit
import contextvars
import inspect
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, TypeVar

import anyio
import httpx
import httpx2
import pytest

import samekey
import samekey.httpx2
from samekey import GENERIC, Dialect, RetryPolicy, _pause
from samekey.events import Event, WaitScheduled
from samekey.testing import LedgerServer, no_waiting

COLOURS = ("sync", "asyncio", "trio")
CHARGE = {"amount": 4900, "currency": "eur"}
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once: loading the certificates for each client would cost more than the tests."""


@dataclass(frozen=True)
class Library:
    """One HTTP library and samekey's classes for it."""

    module: Any
    transport: Any
    async_transport: Any


LIBRARIES = {
    "httpx": Library(httpx, samekey.IdempotentTransport, samekey.AsyncIdempotentTransport),
    "httpx2": Library(httpx2, samekey.httpx2.IdempotentTransport, samekey.httpx2.AsyncIdempotentTransport),
}

HURRY = 0.05
"""Seconds that a hurried request is read for; see `Api.client`."""

ErrorT = TypeVar("ErrorT", bound=BaseException)
Scenario = Callable[[], Coroutine[Any, Any, None]]


def on(*colours: str, libraries: Iterable[str] = LIBRARIES) -> pytest.MarkDecorator:
    """Run a test on these colours alone."""
    return pytest.mark.parametrize("api", [f"{lib}-{colour}" for lib in libraries for colour in colours], indirect=True)


on_sync = on("sync")
on_async = on("asyncio", "trio")
on_httpx = on(*COLOURS, libraries=["httpx"])

leaves_streams = pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")
"""For tests in which a long body is left unread: trio warns of httpcore's own generators, without samekey as well."""


class Clock:
    """samekey's monotonic clock in a test: moved by the test alone, so that a slow machine is no wait.

    Waits that are skipped count beside it. Each look takes a microsecond, so that later is never the same moment.
    """

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


@contextmanager
def virtual_time() -> Iterator[Clock]:
    """Waits are skipped, and no time passes but by them; what httpx and the event loop measure is real."""
    clock = Clock()
    with no_waiting(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pause, "monotonic", clock)
        yield clock


async def now(value: Any) -> Any:
    """*value*, awaited if the colour makes it necessary."""
    return await value if inspect.isawaitable(value) else value


class Client:
    """A client of either colour; every method is awaited."""

    def __init__(self, raw: Any, *, sync: bool) -> None:
        self.raw = raw
        self.sync = sync

    async def request(self, method: str, url: str = "/charges", **settings: Any) -> httpx.Response:
        return await now(self.raw.request(method, url, **settings))  # type: ignore[no-any-return]

    async def post(self, url: str = "/charges", **settings: Any) -> httpx.Response:
        """A POST of the usual charge, unless *settings* have another body."""
        if not settings.keys() & {"json", "content", "data", "files"}:
            settings["json"] = CHARGE
        return await self.request("POST", url, **settings)

    async def get(self, url: str = "/charges", **settings: Any) -> httpx.Response:
        return await self.request("GET", url, **settings)

    async def send(self, request: httpx.Request, **settings: Any) -> httpx.Response:
        return await now(self.raw.send(request, **settings))  # type: ignore[no-any-return]

    def build(self, method: str = "POST", url: str = "/charges", **settings: Any) -> httpx.Request:
        return self.raw.build_request(method, url, **settings)  # type: ignore[no-any-return]

    @asynccontextmanager
    async def stream(self, method: str = "POST", url: str = "/charges", **settings: Any) -> AsyncIterator[Any]:
        """A streamed call; read its response by `Api.read` and `Api.parts`."""
        manager = self.raw.stream(method, url, **settings)
        if self.sync:
            with manager as response:
                yield response
        else:
            async with manager as response:
                yield response

    async def close(self) -> None:
        await now(self.raw.close() if self.sync else self.raw.aclose())

    @property
    def connections(self) -> int:
        """How many connections the pool below samekey holds."""
        return len(self.raw._transport._inner._pool.connections)


@dataclass
class Api:
    """The server of one test, and the colour it runs in."""

    colour: str
    library: Library
    server: LedgerServer
    url: str
    clock: Clock
    """samekey's, unless the test is marked ``real_time``."""
    events: list[Event] = field(default_factory=list)
    """Filled by clients made with ``listen=True``."""

    @property
    def sync(self) -> bool:
        return self.colour == "sync"

    @property
    def httpx(self) -> Any:
        """The HTTP library."""
        return self.library.module

    def run(self, scenario: Scenario) -> None:
        """Run *scenario* to its end in this colour."""
        if not self.sync:
            anyio.run(scenario, backend=self.colour)
            return
        coroutine = scenario()
        try:
            coroutine.send(None)
        except StopIteration:
            return
        coroutine.close()
        raise AssertionError("something was awaited that waits, which the sync colour cannot do")

    # -- clients

    def raw_client(self, **settings: Any) -> Any:
        """A client of this colour that nobody has wrapped; *connections* and *timeouts* stand for their classes."""
        kind = self.httpx.Client if self.sync else self.httpx.AsyncClient
        settings = {"base_url": self.url, "timeout": 5.0, "trust_env": False, "verify": TLS, **settings}
        if connections := settings.pop("connections", None):
            settings["limits"] = self.httpx.Limits(max_connections=connections)
        if timeouts := settings.pop("timeouts", None):
            settings["timeout"] = self.httpx.Timeout(**timeouts)
        return kind(**settings)

    @asynccontextmanager
    async def client(
        self,
        *,
        origins: str | Iterable[str] | Mapping[str, Dialect] | None = None,
        dialect: Dialect = GENERIC,
        policy: RetryPolicy | None = None,
        journal: object = None,
        listeners: Iterable[Any] = (),
        listen: bool = False,
        memory: bool = False,
        hurry: Mapping[int, str] | None = None,
        **settings: Any,
    ) -> AsyncIterator[Client]:
        """A wrapped client; *settings* go to the HTTP library, *memory* reaches the server without a socket.

        *hurry* names the requests on the wire, from 1, that are read for a moment only: of the whole answer ("head")
        or of its body once the head is there ("body"). All others have the time of the client, which is long.
        """
        if memory:
            settings["transport"] = self.memory()
        raw = self.raw_client(**settings)
        if hurry:
            self._hurry(raw._transport, hurry)
        listeners = (*listeners, *([self.events.append] if listen else []))
        try:
            samekey.wrap(raw, origins=origins, dialect=dialect, policy=policy, journal=journal, listeners=listeners)
            client = Client(raw, sync=self.sync)
            yield client
        finally:
            await now(raw.close() if self.sync else raw.aclose())

    def _hurry(self, transport: Any, which: Mapping[int, str]) -> None:
        """Let *transport* read the answers to some requests for a moment only, once the server has them."""
        numbers = count(1)

        @contextmanager
        def hurried(request: Any) -> Iterator[None]:
            part = which.get(next(numbers))
            own = request.extensions
            timeout = dict(own["timeout"])
            seen = len(self.server.requests)

            def trace(name: str, info: object) -> None:
                if part == "head" and name == "http11.receive_response_headers.started":
                    eventually(lambda: len(self.server.requests) > seen)
                    timeout["read"] = HURRY

            async def async_trace(name: str, info: object) -> None:
                trace(name, info)

            request.extensions = {**own, "timeout": timeout, "trace": trace if self.sync else async_trace}
            try:
                yield
            finally:
                request.extensions = own
            if part == "body":
                timeout["read"] = HURRY  # httpcore looks here when it begins to read, of the body as of the head

        below = transport.handle_request if self.sync else transport.handle_async_request

        def handle_request(request: Any) -> Any:
            with hurried(request):
                return below(request)

        async def handle_async_request(request: Any) -> Any:
            with hurried(request):
                return await below(request)

        handle = handle_request if self.sync else handle_async_request
        setattr(transport, handle.__name__, handle)

    def memory(self) -> Any:
        """A transport of this colour to the server, without a socket."""
        if self.httpx is httpx:
            return self.server.transport() if self.sync else self.server.async_transport()
        below = self.server.transport()

        def bridge(request: Any, body: bytes) -> Any:
            """The server in memory speaks httpx; another library's request is made one of it, and back."""
            headers = request.headers.raw
            asked = httpx.Request(
                request.method, str(request.url), headers=headers, content=body, extensions=request.extensions
            )
            try:
                response = below.handle_request(asked)
                return self.httpx.Response(response.status_code, headers=response.headers.raw, content=response.read())
            except httpx.TransportError as error:
                raise getattr(self.httpx, type(error).__name__)(str(error)) from error

        async def async_bridge(request: Any) -> Any:
            return bridge(request, b"".join([part async for part in request.stream]))

        return self.inner((lambda request: bridge(request, b"".join(request.stream))) if self.sync else async_bridge)

    def transport(self, *arguments: Any, **settings: Any) -> Any:
        """The transport of samekey for this colour."""
        kind = self.library.transport if self.sync else self.library.async_transport
        return kind(*arguments, **settings)

    def inner(self, handle: Callable[[Any], Any]) -> Any:
        """A transport of this colour that calls *handle*, which returns a response or raises."""
        base = self.httpx.BaseTransport if self.sync else self.httpx.AsyncBaseTransport
        if self.sync:
            return type("Inner", (base,), {"handle_request": lambda _, request: handle(request)})()

        async def handle_async_request(_: object, request: httpx.Request) -> Any:
            return await now(handle(request))

        return type("Inner", (base,), {"handle_async_request": handle_async_request})()

    def auth(self, flow: Callable[[Any], Generator[Any, Any, None]]) -> Any:
        """An auth of this library with *flow*."""
        return type("Auth", (self.httpx.Auth,), {"auth_flow": lambda _, request: flow(request)})()

    def refreshing(self, **own_request: Any) -> Any:
        """An auth that answers a 401 with a request of its own, and sends the first one again."""
        own_request = own_request or {"data": {"grant_type": "refresh_token", "refresh_token": "r"}}

        def flow(request: Any) -> Generator[Any, Any, None]:
            request.headers["Authorization"] = "Bearer old"
            response = yield request
            if response.status_code == 401:
                answer = yield self.httpx.Request("POST", request.url.copy_with(path="/token"), **own_request)
                request.headers["Authorization"] = f"Bearer new-{answer.status_code}"
                yield request

        return self.auth(flow)

    # -- things that differ between the colours

    async def read(self, response: Any) -> bytes:
        return await now(response.read() if self.sync else response.aread())  # type: ignore[no-any-return]

    async def parts(self, response: Any, how: str = "iter_raw", *, into: list[Any] | None = None) -> list[Any]:
        """What iterating the response gives; *how* is the sync name of the method."""
        found: list[Any] = [] if into is None else into
        if self.sync:
            found.extend(getattr(response, how)())
        else:
            async for part in getattr(response, f"a{how}")():
                found.append(part)  # noqa: PERF401 - what came before an error is kept
        return found

    async def sleep(self, seconds: float) -> None:
        if self.sync:
            time.sleep(seconds)  # noqa: ASYNC251 - in the sync colour nothing else runs here
        else:
            await anyio.sleep(seconds)

    async def together(self, *scenarios: Scenario) -> None:
        """Run *scenarios* at the same time: in threads or in tasks."""
        if not self.sync:
            async with anyio.create_task_group() as group:
                for scenario in scenarios:
                    group.start_soon(scenario)
            return
        failures: list[BaseException] = []

        def body(scenario: Scenario) -> None:
            try:
                self.run(scenario)
            except BaseException as error:  # noqa: BLE001 - told below
                failures.append(error)

        contexts = [contextvars.copy_context() for _ in scenarios]
        threads = [
            threading.Thread(target=context.run, args=(body, scenario))
            for context, scenario in zip(contexts, scenarios, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def body_of(self, *parts: bytes) -> Any:
        """A generator of this colour, which can be read once."""
        if self.sync:
            return iter(parts)

        async def generate() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        return generate()

    # -- what was seen

    @property
    def waits(self) -> list[float]:
        """The waits that a client with ``listen=True`` has scheduled."""
        return [event.seconds for event in self.events if isinstance(event, WaitScheduled)]

    def settle(self, wire: int, effects: int) -> None:
        """Wait for what has left the client and may not have been served yet."""
        with suppress(AssertionError):
            eventually(lambda: len(self.server.requests) >= wire and len(self.server.effects) >= effects, 5)

    def seen(self, *, wire: int, effects: int, keys: int = 1) -> None:
        """Assert what reached the server: requests, executions, distinct keys; and that bodies were equal."""
        server = self.server
        self.settle(wire, effects)
        assert (len(server.requests), len(server.effects), len(server.keys)) == (wire, effects, keys), server.requests
        if keys == 1:
            server.assert_same_key()
            server.assert_same_body()


@contextmanager
def raises(kind: type[ErrorT], also: type[BaseException] = Exception) -> Iterator[pytest.ExceptionInfo[ErrorT]]:
    """As `pytest.raises`; the error must be of both classes."""
    with pytest.raises(kind) as caught:
        yield caught
    assert isinstance(caught.value, also), type(caught.value).__mro__


@cache
def _bound() -> socket.socket:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    atexit.register(bound.close)
    return bound


def closed_port() -> str:
    """The URL of a port where nobody listens, and that no other process gets meanwhile."""
    return f"http://127.0.0.1:{_bound().getsockname()[1]}"


def statuses(report: samekey.Report | None) -> list[int | str | None]:
    """Status or error of each attempt."""
    assert report is not None
    return [attempt.error or attempt.status for attempt in report.attempts]


def kinds(report: samekey.Report | None) -> list[str]:
    """Why each attempt was sent."""
    assert report is not None
    return [str(attempt.kind) for attempt in report.attempts]


def the(report: samekey.Report | None) -> samekey.Report:
    """The report, which must be there."""
    assert report is not None
    return report


def eventually(condition: Callable[[], object], seconds: float = 30) -> None:
    """Wait for what another thread is about to do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)


async def cut_off(scope: anyio.CancelScope, when: Callable[[], object]) -> None:
    """Let the time of *scope* run out soon after *when* is true."""
    while not when():  # noqa: ASYNC110 - of whatever kind
        await anyio.sleep(0.002)
    await anyio.sleep(0.02)
    scope.deadline = anyio.current_time()


@asynccontextmanager
async def cancelled_once(when: Callable[[], object]) -> AsyncIterator[anyio.CancelScope]:
    """Cancel what is inside soon after *when* is true."""
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(cut_off, scope, when)
            yield scope
        group.cancel_scope.cancel()


def key_lines(request: Any, name: str = "idempotency-key") -> list[str]:
    """Every line of the key header of a received request."""
    return [value for header, value in request.headers if header.lower() == name]


def counting(api: Api, opened: list[str]) -> dict[str, Any]:
    """Request extensions that note in *opened* each TCP connection that is made for the request."""

    def note(name: str, info: object) -> None:
        if name == "connection.connect_tcp.complete":
            opened.append(name)

    async def note_async(name: str, info: object) -> None:
        note(name, info)

    return {"trace": note if api.sync else note_async}
