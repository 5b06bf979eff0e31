"""One storm, from the first process to the verdict."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg

from examples.payments_api.embedded import EmbeddedPostgres

from .books import Books, outbox_left, read_books
from .checker import judge
from .contenders import CONTENDERS
from .fleet import Fleet
from .killer import Killer, Progress, pause
from .plan import Plan
from .result import Result, summary
from .statements import Statement, read

Tell = Callable[[str], None]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder for the files of a storm."""
    with tempfile.TemporaryDirectory(prefix="samekey-storm-") as name:
        yield Path(name)


def database_of(server: EmbeddedPostgres, name: str) -> str:
    """The address of a new database."""
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    return server.address.replace("/postgres?", f"/{name}?")


def conduct(plan: Plan, server: EmbeddedPostgres, tell: Tell = lambda _text: None) -> Result:
    """Run one storm, and judge it."""
    database = database_of(server, f"storm-{plan.contender}")
    fleet = Fleet(plan, database)
    progress = Progress(plan)
    killer = Killer(fleet, server)
    office = CONTENDERS[plan.contender].resumes
    began = time.monotonic()
    with fleet.running(office=office):
        for client in fleet.clients:
            client.start()
        told = 0.0
        while fleet.check():
            share = progress.share()
            killer.strike(share)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                tell(f"{plan.contender}: {progress.lines} statements after {told - began:.0f} s")
            pause()
        seconds = time.monotonic() - began
        # Its copies arrive; then nothing is under way but what a worker is at.
        fleet.relay.end()
        time.sleep(plan.lease * 1.5)
        if office:
            _wait_for_outbox(fleet, database)
    books = read_books(database, plan.file("processor.db") if office else None)
    return _judged(plan, books, seconds, killer.struck, office=office)


def _wait_for_outbox(fleet: Fleet, database: str) -> None:
    left = outbox_left(database)
    until = time.monotonic() + 60
    while left and time.monotonic() < until:
        pause()
        fleet.office.revive()
        now = outbox_left(database)
        if now < left:
            left, until = now, time.monotonic() + 60


def _judged(plan: Plan, books: Books, seconds: float, kills: dict[str, int], *, office: bool) -> Result:
    statements = statements_of(plan)
    verdict = judge(plan.payments(), statements, books, processor=office)
    relay = json.loads(plan.file("relay.json").read_text())
    resumed = sum(
        int(line)
        for number in range(plan.clients)
        for line in plan.file(f"resumed-{number}.txt").read_text().splitlines()
    )
    return summary(plan, statements, books, verdict, relay=relay, seconds=seconds, kills=kills, resumed=resumed)


def statements_of(plan: Plan) -> list[Statement]:
    """All that was told, by any client."""
    return [statement for number in range(plan.clients) for statement in read(plan.file(f"statements-{number}.jsonl"))]


def scaled(plan: Plan, operations: int) -> Plan:
    """The same storm with another number of payments, and as many kills for their number."""
    factor = operations / plan.operations

    def kills(count: int) -> int:
        return max(1, round(count * factor)) if count else 0

    return replace(
        plan,
        operations=operations,
        client_kills=kills(plan.client_kills),
        server_kills=kills(plan.server_kills),
        office_kills=kills(plan.office_kills),
    )
