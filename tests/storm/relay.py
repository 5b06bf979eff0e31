"""The network: a TCP relay in front of the API that reads whole requests and does to each what the weather says.

python -m tests.storm.relay PLAN PORT UPSTREAM_PORT...
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import random
import signal
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from .plan import Plan
from .weather import BEFORE, Fault, fault_of

HOST = "127.0.0.1"
_LONGEST_HEAD = 64 * 1024
_DRIP_PIECES = 8
_DRIP_PAUSE = 0.03
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

GATEWAY = {
    Fault.BAD_GATEWAY: (502, ""),
    Fault.BAD_GATEWAY_AFTER: (502, ""),
    Fault.UNAVAILABLE: (503, "Retry-After: 0\r\n"),
    Fault.UNAVAILABLE_AFTER: (503, ""),
    Fault.GATEWAY_TIMEOUT: (504, ""),
    Fault.UNAUTHORIZED: (401, 'WWW-Authenticate: Bearer realm="gateway"\r\n'),
    Fault.TOO_MANY: (429, "Retry-After: 1\r\n"),
}
"""What a gateway answers instead of the server: status, and a header line."""


class Gone(ConnectionError):
    """The other side ended the connection between two messages."""


@dataclass(frozen=True, slots=True)
class Message:
    """A whole request or answer."""

    head: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        """As it goes on the wire."""
        return self.head + self.body


def gateway_answer(fault: Fault) -> bytes:
    """The answer of a gateway that has not asked the server, or did not wait for it."""
    status, more = GATEWAY[fault]
    body = b"<html>the gateway</html>"
    head = f"HTTP/1.1 {status} Gateway\r\nContent-Type: text/html\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message with a Content-Length.

    Raises:
        Gone: The connection ended.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0)
        return Message(head, await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise Gone from error


class Upstream:
    """The servers behind the gateway, and the idle connections to each."""

    def __init__(self, ports: list[int]) -> None:
        self._turns = itertools.cycle(ports)
        self._idle: dict[int, list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = {port: [] for port in ports}

    async def ask(self, request: bytes) -> bytes:
        """The answer of the server whose turn it is; 502 if it cannot be reached, or dies on the way."""
        port = next(self._turns)
        try:
            reader, writer = await self._connection(port)
        except OSError:
            return gateway_answer(Fault.BAD_GATEWAY)
        try:
            writer.write(request)
            answer = await read_message(reader)
        except ConnectionError:
            writer.close()
            return gateway_answer(Fault.BAD_GATEWAY_AFTER)
        self._idle[port].append((reader, writer))
        return answer.raw

    async def _connection(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        idle = self._idle[port]
        while idle:
            reader, writer = idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(HOST, port, limit=_LONGEST_HEAD)

    async def close(self) -> None:
        """Let go of the idle connections."""
        for _, writer in itertools.chain.from_iterable(self._idle.values()):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


class Relay:
    """Carries requests to the servers; *weather* says what happens to the request number n of an order."""

    def __init__(self, upstream: Upstream, weather: Callable[[str, int], Fault], *, seed: int = 0) -> None:
        self._upstream = upstream
        self._weather = weather
        self._visits: collections.Counter[str] = collections.Counter()
        self._serving: set[asyncio.Task[Any]] = set()
        self._copies: set[asyncio.Task[bytes]] = set()
        self._draw = random.Random(seed)
        self.met: collections.Counter[str] = collections.Counter()

    @property
    def requests(self) -> int:
        """How many requests have come."""
        return self._visits.total()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                while await self._exchange(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass  # by `end`; asyncio would report it as an error of the connection
        finally:
            self._serving.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def end(self) -> None:
        """Wait for the copies that are still under way, and let go of all connections."""
        while self._copies:
            await asyncio.wait(self._copies)
        for task in list(self._serving):
            task.cancel()
        while self._serving:
            await asyncio.wait(self._serving)
        await self._upstream.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection can take another."""
        request = await read_message(reader)
        fault = self._meet(request)
        if fault in BEFORE:
            if fault in GATEWAY:
                writer.write(gateway_answer(fault))
                await writer.drain()
                return True
            return await self._end(fault, reader, writer)
        answer = await self._ask(fault, request.raw)
        if fault in GATEWAY:
            answer = gateway_answer(fault)
        return await self._deliver(fault, answer, reader, writer)

    def _meet(self, request: Message) -> Fault:
        try:
            order = str(json.loads(request.body)["order"])
        except (ValueError, KeyError, TypeError):
            return Fault.NONE  # a request that reads
        self._visits[order] += 1
        fault = self._weather(order, self._visits[order])
        self.met[fault] += 1
        return fault

    async def _ask(self, fault: Fault, request: bytes) -> bytes:
        if fault is Fault.TWICE:
            first, second = await asyncio.gather(self._upstream.ask(request), self._upstream.ask(request))
            return self._draw.choice([first, second])
        if fault is Fault.LATE_COPY:
            self._later(self._copy(request))
        # In a task of its own: a client that leaves does not take its request back.
        return await self._later(self._upstream.ask(request))

    async def _copy(self, request: bytes) -> bytes:
        await asyncio.sleep(self._draw.uniform(0.1, 1.5))
        return await self._upstream.ask(request)

    def _later(self, work: Coroutine[Any, Any, bytes]) -> asyncio.Task[bytes]:
        task = asyncio.create_task(work)
        self._copies.add(task)
        task.add_done_callback(self._copies.discard)
        return task

    async def _deliver(
        self, fault: Fault, answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if fault is Fault.CUT:
            head = answer.index(b"\r\n\r\n") + 4
            writer.write(answer[: head + (len(answer) - head) // 2])
            await writer.drain()
            return False
        if fault is Fault.DRIP:
            size = len(answer) // _DRIP_PIECES + 1
            for start in range(0, len(answer), size):
                writer.write(answer[start : start + size])
                await writer.drain()
                await asyncio.sleep(_DRIP_PAUSE)
            return True
        if fault in {Fault.DROP_AFTER, Fault.RESET_AFTER, Fault.STALL_AFTER}:
            return await self._end(fault, reader, writer)
        writer.write(answer)
        await writer.drain()
        return True

    async def _end(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Let the connection end without an answer."""
        if fault in {Fault.RESET_BEFORE, Fault.RESET_AFTER}:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        elif fault in {Fault.STALL_BEFORE, Fault.STALL_AFTER}:
            await reader.read(1)  # until the client has had enough
        return False


async def run(plan: Plan, port: int, upstream: list[int]) -> None:
    """Relay until SIGTERM; then write down what was met."""
    relay = Relay(Upstream(upstream), lambda order, visit: fault_of(plan.seed, order, visit), seed=plan.seed)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with await asyncio.start_server(relay.serve, HOST, port, limit=_LONGEST_HEAD, backlog=1024) as server:
        await ended.wait()
        server.close()
        await relay.end()
    told = {"requests": relay.requests, "met": dict(relay.met)}
    plan.file("relay.json").write_text(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(run(Plan.from_text(sys.argv[1]), int(sys.argv[2]), [int(port) for port in sys.argv[3:]]))
