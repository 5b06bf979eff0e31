"""A server on loopback that answers every request at once, in a process of its own: as little as HTTP/1.1 allows.

``/bytes/N`` is answered with N bytes, everything else with a charge.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
CHARGE = b'{"id":"ch_1","amount":4900,"currency":"eur"}'


class Answers(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.buffer = bytearray()
        self.missing = 0
        self.path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.missing:
            self.missing -= len(data)
            if self.missing <= 0:
                self.answer()
            return
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        self.path = head.split(b" ", 2)[1]
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        self.missing = length - (len(self.buffer) - end - 4)
        self.buffer.clear()
        if self.missing <= 0:
            self.answer()

    def answer(self) -> None:
        self.missing = 0
        body = bytes(int(self.path[7:])) if self.path.startswith(b"/bytes/") else CHARGE
        head = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)


async def serve() -> None:
    """Say the port, then answer until killed."""
    server = await asyncio.get_running_loop().create_server(Answers, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def server() -> Iterator[str]:
    """The URL of one that runs meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.loopback"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve())
