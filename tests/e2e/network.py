"""The relay of the storm in a thread, with faults that a test writes down."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from tests.storm.relay import HOST, Relay, Upstream
from tests.storm.weather import Fault


class Network:
    """A relay with a script: the first request meets the first fault, and so on; then all is well."""

    def __init__(self, url: str) -> None:
        self._upstream = int(url.rpartition(":")[2])
        self._script: list[Fault] = []
        self._then = Fault.NONE
        self.requests = 0
        self.url = ""

    def script(self, *faults: Fault, then: Fault = Fault.NONE) -> None:
        """Set what the next requests meet."""
        self._script = list(faults)
        self._then = then

    def _weather(self, order: str, visit: int) -> Fault:
        self.requests += 1
        return self._script.pop(0) if self._script else self._then

    @contextlib.contextmanager
    def running(self) -> Iterator[Network]:
        """Relay while the block runs."""
        started = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._run(started)))
        thread.start()
        assert started.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._ended.set)
            thread.join()

    async def _run(self, started: threading.Event) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        relay = Relay(Upstream([self._upstream]), self._weather)
        server = await asyncio.start_server(relay.serve, HOST, 0)
        self.url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        started.set()
        await self._ended.wait()
        server.close()
        await relay.end()
        await server.wait_closed()


@contextlib.contextmanager
def network_before(url: str) -> Iterator[Network]:
    """A network in front of *url*."""
    with Network(url).running() as network:
        yield network
