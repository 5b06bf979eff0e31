"""(f) What an import costs, with a transport made: each in fresh processes, in shuffled turns."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys

from .loopback import ROOT

PROGRAMS = {
    "httpx": "import httpx; httpx.HTTPTransport()",
    "samekey": "import httpx, samekey; samekey.IdempotentTransport(httpx.HTTPTransport())",
    "httpx-retries": "import httpx, httpx_retries; httpx_retries.RetryTransport(httpx.HTTPTransport())",
    "httpx-tenacity": "import httpx, httpx_tenacity; httpx_tenacity.TenaciousTransport.create()",
    "stamina": "import httpx, stamina; httpx.HTTPTransport()",
    "tenacity": "import httpx, tenacity; httpx.HTTPTransport()",
}


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds and ratios to httpx alone."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(rounds):
        for name in random.sample(list(PROGRAMS), len(PROGRAMS)):
            code = f"import time; began = time.perf_counter(); {PROGRAMS[name]}; print(time.perf_counter() - began)"
            done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
            times[name].append(float(done.stdout))
    base = times["httpx"]
    return {
        name: {
            "ms": round(statistics.median(own) * 1000, 1),
            "ratio": round(statistics.median(own) / statistics.median(base), 3),
        }
        for name, own in times.items()
    }
