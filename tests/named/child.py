"""One process of the shop, that dies where it is told to: `python child.py URL JOURNAL POINT`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import httpx
from tenacity import stop_after_attempt, wait_fixed

import samekey
from samekey import _pause
from samekey.events import JournalStepped
from samekey.sqlite import SQLiteJournal


def die() -> None:
    """Be killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def pause() -> None:
    """Be suspended, until somebody wakes us; by our clocks, that is a minute and a half later."""
    os.kill(os.getpid(), signal.SIGSTOP)
    _pause.monotonic = lambda: time.monotonic() + 90


def main(url: str, where: str, point: str) -> None:
    """Charge once, and print what became of it."""

    class Dying:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            if name == "aclose":
                raise AttributeError(name)
            step = getattr(self.inner, name)
            if name not in ("claim", "renew", "record"):
                return step

            def do(*what: Any) -> Any:
                if point == f"before {name}":
                    die()
                done = step(*what)
                if point == f"after {name}":
                    die()
                return done

            return do

    class Sending(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if point == "before send":
                die()
            response = super().handle_request(request)
            if point == "after answer":
                die()
            return response

    claims: list[JournalStepped] = []

    def listen(event: object) -> None:
        if isinstance(event, JournalStepped) and event.step == "claim":
            claims.append(event)
            if point == "suspended after claim" and len(claims) == 1:
                pause()

    def wait(state: Any) -> float:
        if point == "suspended in a wait":
            pause()
        return 0.01

    policy = samekey.RetryPolicy(stop=stop_after_attempt(3), wait=wait, poll_wait=wait_fixed(0.05), total_timeout=30)
    if where.startswith("postgresql:"):
        from samekey.postgres import PostgresJournal

        journal: Any = PostgresJournal(where)
    else:
        journal = SQLiteJournal(where)
    raw = httpx.Client(base_url=url, transport=Sending(trust_env=False, verify=False), timeout=20)
    with samekey.wrap(raw, policy=policy, journal=Dying(journal), listeners=[listen]) as client:
        said: dict[str, Any] = {}
        try:
            with samekey.operation("job-17:charge"):
                response = client.post("/charges", json={"amount": 4900})
            report: Any = samekey.report(response)
            said = {"status": response.status_code, "body": response.json()}
        except samekey.IdempotencyError as error:
            report = error.report
            said = {"error": type(error).__name__}
        said |= {"key": report.key, "source": report.source, "attempts": len(report.attempts)}
    journal.close()
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
