"""One table of faults and what a client sees of them, run over every way to reach the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from samekey.testing import Fault, LedgerServer, Reply, Step, faults

KEY = {"Idempotency-Key": "k-1"}
CHARGE = {"amount": 4900}

GONE = "RemoteProtocolError"
RESET = "ReadError"
SILENT = "ReadTimeout"


@dataclass(frozen=True)
class Scenario:
    """What one step does to a keyed POST, and what the same POST meets afterwards."""

    name: str
    step: Callable[[], Step]
    seen: int | str
    effects: int
    again: int | str = 201
    replayed: bool = True
    wire: int = 2

    def __str__(self) -> str:
        return self.name


def _slow_then_lost() -> Fault:
    return faults.slow(0.01, faults.lost())


SCENARIOS = [
    Scenario("ok", faults.ok, 201, 1),
    Scenario("lost", faults.lost, GONE, 1),
    Scenario("lost-unexecuted", lambda: faults.lost(executes=False), GONE, 0, replayed=False),
    Scenario("drop", faults.drop, GONE, 0, replayed=False, wire=1),
    Scenario("drop-reset", lambda: faults.drop(reset=True), RESET, 0, replayed=False, wire=1),
    Scenario("reset", faults.reset, RESET, 1),
    Scenario("reset-unexecuted", lambda: faults.reset(executes=False), RESET, 0, replayed=False),
    Scenario("never", faults.never, SILENT, 1),
    Scenario("never-unexecuted", lambda: faults.never(executes=False), SILENT, 0, replayed=False),
    Scenario("cut", faults.cut, GONE, 1),
    Scenario("cut-after-0", lambda: faults.cut(0), GONE, 1),
    Scenario("cut-after-all", lambda: faults.cut(9999), GONE, 1),
    Scenario("cut-reset", lambda: faults.cut(3, end="reset"), RESET, 1),
    Scenario("cut-stall", lambda: faults.cut(end="stall"), SILENT, 1),
    Scenario("slow", lambda: faults.slow(0.01), 201, 1),
    Scenario("slow-then-lost", _slow_then_lost, GONE, 1),
    Scenario("drip", lambda: faults.drip(0.0001, size=7), 201, 1),
    Scenario("drip-headers", lambda: faults.drip(0.0001, part="headers"), 201, 1),
    Scenario("drip-body", lambda: faults.drip(0.0001, part="body"), 201, 1),
    Scenario("drip-then-cut", lambda: faults.drip(0.0001, then=faults.cut()), GONE, 1),
    Scenario("status", lambda: faults.status(503, headers={"Retry-After": "1"}), 503, 0, replayed=False),
    Scenario("status-executes", lambda: faults.status(504, executes=True), 504, 1),
    Scenario("redirect", lambda: faults.redirect(307, "/elsewhere"), 307, 0, replayed=False),
    Scenario("in-progress", faults.in_progress, 409, 0, replayed=False),
    Scenario("mismatch", faults.mismatch, 422, 0, replayed=False),
    Scenario("replay", lambda: faults.replay(json={"id": "earlier"}), 201, 0, replayed=False),
    Scenario("duplicated", faults.duplicated, 201, 1, wire=3),
    Scenario("callable-reply", lambda: lambda request: Reply(418, body=request.body), 418, 0, replayed=False),
    Scenario("callable-mapping", lambda: lambda request: {"path": request.path}, 200, 0, replayed=False),
    Scenario("callable-step", lambda: lambda _: faults.lost(), GONE, 1),
    Scenario("callable-drop", lambda: lambda _: faults.drop(), GONE, 0, replayed=False),
]


def check(scenario: Scenario, server: LedgerServer, first: int | str, second: int | str, marker: str | None) -> None:
    """Compares what was seen with what the table says."""
    assert first == scenario.seen
    assert second == scenario.again
    assert marker == ("true" if scenario.replayed else None)
    assert len(server.requests) == scenario.wire
    assert server.dropped == (2 - scenario.wire if scenario.wire < 2 else 0)
    server.assert_executed_once("k-1")
    server.assert_same_key()
    server.assert_same_body()


def eventually(condition: Callable[[], bool]) -> None:
    """Waits for what another thread is about to do."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.001)
