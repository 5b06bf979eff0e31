"""(f) What an import costs, with a transport made: each in fresh processes, in shuffled turns."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile

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
    # As installed packages are: compiled, whatever the environment says about writing bytecode.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as cache:
        environment["PYTHONPYCACHEPREFIX"] = cache
        for round_ in range(rounds + 1):
            for name in random.sample(list(PROGRAMS), len(PROGRAMS)):
                seconds = _seconds(PROGRAMS[name], environment)
                if round_:
                    times[name].append(seconds)
    base = times["httpx"]
    return {
        name: {
            "ms": round(statistics.median(own) * 1000, 1),
            "ratio": round(statistics.median(own) / statistics.median(base), 3),
        }
        for name, own in times.items()
    }


def _seconds(program: str, environment: dict[str, str]) -> float:
    code = f"import time; began = time.perf_counter(); {program}; print(time.perf_counter() - began)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
