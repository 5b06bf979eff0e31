"""(c) What a call costs while it is in flight: memory for each of 10,000, and how long they take together."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from .contenders import around, names, new_key, wrapped
from .loopback import CHARGE, ROOT


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def in_flight(name: str, count: int) -> tuple[float, float]:
    """KiB for each call, and seconds for all, from the first to the last."""
    gate, full = asyncio.Event(), asyncio.Event()
    waiting = 0

    class Inner(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: Any) -> Any:
            nonlocal waiting
            waiting += 1
            if waiting == count:
                full.set()
            await gate.wait()
            return httpx.Response(201, content=CHARGE)

    inner = Inner()
    transport = wrapped(name, inner, "httpx", sync=False) or inner
    async with httpx.AsyncClient(transport=transport, base_url="https://api.example.com") as client:

        async def post(_: Any) -> Any:
            return await client.post(
                "/v1/charges", json={"amount": 4900}, headers={} if name == "samekey" else new_key()
            )

        call = around(name, post, (), sync=False)
        gate.set()
        for _ in range(50):
            await call(None)
        gate.clear()
        full.clear()
        waiting = 0
        gc.collect()
        before, began = resident(), time.perf_counter()
        tasks = [asyncio.create_task(call(None)) for _ in range(count)]
        await full.wait()
        held = resident() - before
        gate.set()
        answers = await asyncio.gather(*tasks)
        assert {answer.status_code for answer in answers} == {201}
        return held / count / 1024, time.perf_counter() - began


def measure(count: int) -> dict[str, dict[str, float]]:
    """Each contender in a process of its own."""
    found = {}
    for name in names("httpx"):
        code = (
            "import asyncio, json; from tests.benchmarks.memory import in_flight; "
            f"print(json.dumps(asyncio.run(in_flight({name!r}, {count}))))"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
        kib, seconds = json.loads(done.stdout)
        found[name] = {"kib": round(kib, 2), "seconds": round(seconds, 2), "calls": count}
    return found
