"""The payments API for tests: in this process with hooks, or in one of its own that can be killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from examples.payments_api.app import make_app
from examples.payments_api.database import Database, Row, open_database
from examples.payments_api.embedded import EmbeddedPostgres
from examples.payments_api.handlers import Service
from examples.payments_api.reading import Order
from examples.payments_api.run import serving
from examples.payments_api.settings import Settings
from tests.storm.fleet import free_port

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60.0
CHARGES = "/v1/charges"


def body(order: object = "order-1", **changes: object) -> dict[str, object]:
    """A charge that is in order."""
    return {"order": order, "amount": 4900, "currency": "eur", "card": "tok_good", **changes}


def key(text: str | None = None) -> dict[str, str]:
    """The header with a key."""
    return {"Idempotency-Key": text or str(uuid.uuid4())}


@dataclass
class Api:
    """The API in this process."""

    url: str
    service: Service
    client: httpx.Client
    hooks: dict[str, Callable[[Order], None]] = field(default_factory=dict)
    """What happens at a point of an execution; see `keyed.Point`."""

    def charge(self, text: str | None = None, **changes: Any) -> httpx.Response:
        """Send one charge, as a client without samekey."""
        return self.client.post(CHARGES, json=body(**changes), headers=key(text))

    def rows(self, statement: str) -> list[Row]:
        """Ask the database."""
        with self.service.database.transaction() as transaction:
            return transaction.rows(statement)

    def count(self, table: str = "charges") -> int:
        """Rows of a table."""
        return int(self.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"])

    def metric(self, name: str, **labels: str) -> float:
        """A number of /metrics."""
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0


@contextlib.contextmanager
def api_on(database: str, **settings: Any) -> Iterator[Api]:
    """The API on *database*."""
    hooks: dict[str, Callable[[Order], None]] = {}

    def point(name: str, order: Order) -> None:
        if name in hooks:
            hooks[name](order)

    app = make_app(Settings(database=database, **{"log_level": "critical", **settings}), point=point)
    with serving(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        client.get("/openapi.json")  # the application has started
        yield Api(url, app.state.service, client, hooks)


class Stores:
    """Makes empty databases."""

    def __init__(self, folder: Path, postgres: EmbeddedPostgres | None) -> None:
        self._folder = folder
        self.postgres = postgres

    def new(self) -> str:
        """The address of an empty database."""
        name = f"test_{uuid.uuid4().hex}"
        if self.postgres is None:
            return f"sqlite:///{self._folder / name}.db"
        with psycopg.connect(self.postgres.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.postgres.address.replace("/postgres?", f"/{name}?")


class Once:
    """A hook that acts the first time only."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def __call__(self, order: Order) -> None:
        """Act, or not."""
        act, self._act = self._act, None
        if act is not None:
            act()


class First:
    """A hook that stops the first who comes; all others pass."""

    def __init__(self, gate: Gate) -> None:
        self._gate: Gate | None = gate

    def __call__(self, order: Order) -> None:
        """Wait, or not."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate(order)


class Gate:
    """A hook that stops whoever comes, until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self, order: Order) -> None:
        """Wait."""
        self.reached.set()
        assert self._opened.wait(PATIENCE)

    def wait(self) -> None:
        """Wait until somebody stands there."""
        assert self.reached.wait(PATIENCE)

    def open(self) -> None:
        """Let everybody through."""
        self._opened.set()


class ApiProcess:
    """The API in a process of its own, at an address that stays."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, dies_at: str = "") -> None:
        """Start it; with *dies_at*, it kills itself when an execution comes to that point."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        environment = {**plain, **self._settings.to_environment(), "DIES_AT": dies_at}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.doomed", str(self._port)], cwd=ROOT, env=environment
        )
        wait_until(self._answers)

    def wait(self) -> int:
        """Wait for its death; gives the exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def end(self) -> None:
        """Kill it, if it still lives."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the server did not start"
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/openapi.json", trust_env=False).is_success
        return False


@contextlib.contextmanager
def api_process(database: str, **settings: Any) -> Iterator[ApiProcess]:
    """The API on *database*, not started yet."""
    process = ApiProcess(dataclasses.replace(Settings(database=database, log_level="critical"), **settings))
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def looking(database: str) -> Iterator[Database]:
    """The database itself, beside the API."""
    opened = open_database(database, pool=1)
    try:
        yield opened
    finally:
        opened.close()


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
