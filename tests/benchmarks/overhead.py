"""(a) The first attempt is ok, (b) one retry, (d) bodies: what each layer costs in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from .contenders import LIBRARIES, Call, around, at_transport, client, names, new_key
from .loopback import CHARGE, server
from .timing import Timing, async_block, async_turns, block, turns

TIMEOUT = {"connect": 5.0, "read": 5.0, "write": 5.0, "pool": 5.0}
URL = "https://api.example.com/v1/charges"
BODY = {"amount": 4900, "currency": "eur"}
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(CHARGE))]
Result = dict[str, Timing]


def answering(library: str, *, sync: bool, failures: int = 0) -> Any:
    """A transport that answers at once; each request first with so many 503."""
    module: Any = LIBRARIES[library].module
    seen = 0
    # As a network's: a body whose bytes are not there already.
    body = type("Body", (Body, module.SyncByteStream, module.AsyncByteStream), {})

    def answer(_: Any, request: Any) -> Any:
        nonlocal seen
        seen = (seen + 1) % (failures + 1)
        return module.Response(503 if seen else 201, headers=HEADERS, stream=body())

    async def answered(_: Any, request: Any) -> Any:
        return answer(_, request)

    if sync:
        return type("Inner", (module.BaseTransport,), {"handle_request": answer})()
    return type("Inner", (module.AsyncBaseTransport,), {"handle_async_request": answered})()


class Body:
    """One part."""

    def __iter__(self) -> Iterator[bytes]:
        yield CHARGE

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield CHARGE


def requests(library: str, count: int) -> list[Any]:
    """Requests as a client hands them to its transport."""
    made = LIBRARIES[library].module.Request
    return [made("POST", URL, json=BODY, extensions={"timeout": TIMEOUT}) for _ in range(count)]


def reading(send: Call) -> Call:
    """Send and read, as the client does."""

    def call(request: Any) -> None:
        send(request).read()

    return call


def async_reading(send: Call) -> Call:
    """The same, awaited."""

    async def call(request: Any) -> None:
        await (await send(request)).aread()

    return call


def transport(library: str, *, sync: bool, rounds: int, failures: int = 0, count: int = 20) -> Result:
    """At the level of transports, without a network; the reference is the no-op wrapper."""
    who = [name for name in names(library) if not failures or name not in ("bare", "no-op wrapper")]
    made = {
        name: at_transport(name, answering(library, sync=sync, failures=failures), library, sync=sync) for name in who
    }
    reference = "tenacity" if failures else "no-op wrapper"
    if sync:
        calls = {name: reading(call) for name, call in made.items()}
        blocks = {name: _prepared(call, library, count) for name, call in calls.items()}
        return turns(blocks, rounds, reference=reference)
    async_blocks = {name: _async_prepared(async_reading(call), library, count) for name, call in made.items()}
    return asyncio.run(async_turns(async_blocks, rounds, reference=reference))


def _prepared(call: Call, library: str, count: int) -> Callable[[], float]:
    return lambda: block(call, requests(library, count))


def _async_prepared(call: Call, library: str, count: int) -> Callable[[], Any]:
    return lambda: async_block(call, requests(library, count))


def loopback(library: str, *, sync: bool, rounds: int, count: int = 20) -> Result:
    """Through a client and a socket; everybody but samekey is given a key header. The reference is bare httpx."""
    with server() as url:
        if sync:
            return _loopback(library, url, rounds, count)
        return asyncio.run(_async_loopback(library, url, rounds, count))


def _post(name: str, made: Any, *, sync: bool, url: str = "/v1/charges", **settings: Any) -> Call:
    settings = settings or {"json": BODY}
    keyed = name != "samekey"

    def post(_: Any) -> Any:
        return made.post(url, headers=new_key(), **settings) if keyed else made.post(url, **settings)

    return around(name, post, (), sync=sync)


def _loopback(library: str, url: str, rounds: int, count: int) -> Result:
    with ExitStack() as stack:
        blocks = {}
        for name in names(library):
            made, inner = client(name, library, url, sync=True)
            stack.callback(inner.close)
            stack.enter_context(made)
            blocks[name] = _repeated(_post(name, made, sync=True), count)
        return turns(blocks, rounds, reference="bare")


async def _async_loopback(library: str, url: str, rounds: int, count: int) -> Result:
    async with AsyncExitStack() as stack:
        blocks = {}
        for name in names(library):
            made, inner = client(name, library, url, sync=False)
            stack.push_async_callback(inner.aclose)
            await stack.enter_async_context(made)
            blocks[name] = _async_repeated(_post(name, made, sync=False), count)
        return await async_turns(blocks, rounds, reference="bare")


def _repeated(call: Call, count: int) -> Callable[[], float]:
    return lambda: block(call, [None] * count)


def _async_repeated(call: Call, count: int) -> Callable[[], Any]:
    return lambda: async_block(call, [None] * count)


SIZES = {"1 KB": 1000, "100 KB": 100_000, "1 MB": 1_000_000, "10 MB": 10_000_000, "50 MB": 50_000_000}


def bodies(sizes: dict[str, int], rounds: int) -> dict[str, Result]:
    """Over loopback: a body of each size, there and back."""
    found: dict[str, Result] = {}
    with server() as url:
        for label, size in sizes.items():
            many = max(3, min(rounds, int(rounds * 1_000_000 / size)))
            for way, settings in (("sent", {"content": bytes(size)}), ("received", {"url": f"/bytes/{size}"})):
                with ExitStack() as stack:
                    blocks = {}
                    for name in names("httpx"):
                        made, inner = client(name, "httpx", url, sync=True)
                        stack.callback(inner.close)
                        stack.enter_context(made)
                        blocks[name] = _repeated(_post(name, made, sync=True, **settings), 1)
                    found[f"{label} {way}"] = turns(blocks, many, reference="bare", warm=1)
    return found
