"""The processes of a storm: started, killed, started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .plan import Plan

ROOT = Path(__file__).parent.parent.parent
HOST = "127.0.0.1"
PATIENCE = 30.0
"""Seconds for a process to start or to end."""
MOST_FAILURES = 3


class Broken(RuntimeError):
    """A process ended that should not have."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Process:
    """``python -m tests.storm.MODULE``, which can be killed and started again."""

    def __init__(self, plan: Plan, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", f"tests.storm.{module}", plan.to_text(), *arguments]
        self._log = plan.file(f"{module}.log")
        self.name = module
        self.kills = 0
        self._failures = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        # Coverage of the suite would slow the storm down, and its files would be torn by the kills.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self.kills += 1

    def end(self) -> None:
        """Ask it to end, and wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def running(self) -> bool:
        """Whether it runs; False if it has done its work.

        Raises:
            Broken: It failed.
        """
        if self._process is None:
            return False
        code = self._process.poll()
        if code:
            tail = self._log.read_text(errors="replace")[-3000:]
            raise Broken(f"{self.name} ended with {code}:\n{tail}")
        return code is None

    def revive(self) -> None:
        """Start it again if it failed: one that starts while the database is down may.

        Raises:
            Broken: It failed too often.
        """
        try:
            self.running()
        except Broken:
            self._failures += 1
            if self._failures > MOST_FAILURES:
                raise
            self.start()


class Fleet:
    """All processes of one storm."""

    def __init__(self, plan: Plan, database: str) -> None:
        self.plan = plan
        self._ports = [free_port() for _ in range(plan.servers)]
        self._port = free_port()
        self.url = f"http://{HOST}:{self._port}"
        self.servers = [Process(plan, "server", str(port), database) for port in self._ports]
        self.office = Process(plan, "office", database)
        self.relay = Process(plan, "relay", str(self._port), *map(str, self._ports))
        self.clients = [Process(plan, "client", self.url, str(number)) for number in range(plan.clients)]

    @contextlib.contextmanager
    def running(self, *, office: bool) -> Iterator[None]:
        """Everything but the clients, while the block runs."""
        behind = [*self.servers, self.relay, *([self.office] if office else [])]
        try:
            for process in behind:
                process.start()
            for port in (*self._ports, self._port):
                wait_for(port, behind)
            yield
        finally:
            for process in (*self.clients, self.office, *behind):
                process.end()

    def check(self) -> bool:
        """Whether any client still works; fails if anything broke."""
        self.relay.running()
        for process in (*self.servers, self.office):
            process.revive()
        return sum(client.running() for client in self.clients) > 0  # every one is looked at


def wait_for(port: int, processes: list[Process]) -> None:
    """Wait until somebody listens on *port*."""
    until = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        for process in processes:
            process.running()
        if time.monotonic() > until:
            raise Broken(f"nobody listens on port {port}")
        time.sleep(0.05)
