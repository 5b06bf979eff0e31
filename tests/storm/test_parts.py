"""The parts of the storm: chance that repeats itself, statements that survive, kills in order, table and picture."""

from __future__ import annotations

import asyncio
import itertools
import json
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.storm.__main__ import STORM
from tests.storm.books import Books
from tests.storm.checker import Verdict
from tests.storm.client import Work
from tests.storm.conduct import scaled
from tests.storm.killer import FIRST, LAST, Progress, blows
from tests.storm.picture import picture
from tests.storm.plan import Plan
from tests.storm.relay import HOST, Gone, Relay, Upstream, read_message
from tests.storm.render import main, results_in
from tests.storm.report import markdown, table
from tests.storm.result import Result, percentile, summary
from tests.storm.statements import Statement, Writer, read
from tests.storm.weather import BEFORE, FAULTY, LAST_FAULT, Fault, fault_of

STALLS = {Fault.STALL_BEFORE, Fault.STALL_AFTER}
STATEMENT = Statement(order="order-000001", outcome="executed", final=True, charge="ch_1", amount=1)


def test_weather_repeats_itself() -> None:
    """The same seed, order and visit meet the same fault; another seed another one; it ends."""
    visits = [(f"order-{number}", visit) for number in range(200) for visit in range(1, 20)]
    first = [fault_of(1, order, visit) for order, visit in visits]

    assert first == [fault_of(1, order, visit) for order, visit in visits]
    assert first != [fault_of(2, order, visit) for order, visit in visits]
    assert {fault for fault, (_, visit) in zip(first, visits, strict=True) if visit > LAST_FAULT} == {Fault.NONE}
    assert set(first) == set(Fault)
    share = sum(fault is not Fault.NONE for fault in first) / len(first) * 19 / LAST_FAULT
    assert FAULTY * 0.9 < share < FAULTY * 1.2


def test_payments_repeat_themselves() -> None:
    """A plan has the same payments in every process; shares divide them without a rest."""
    plan = replace(STORM, operations=3000)
    again = Plan.from_text(plan.to_text())

    assert again == plan
    assert again.payments() == plan.payments()
    shares = [payment for client in range(plan.clients) for payment in plan.shard(client)]
    assert sorted(shares, key=lambda payment: payment.order) == plan.payments()
    assert 0 < sum(payment.declined for payment in shares) < 200
    assert {payment.work for payment in shares} == {0.0, plan.read_timeout * 1.3, plan.lease * 1.3}


def test_blows() -> None:
    """Kills are the same for the same seed, all over the storm, and leave its end to those that were interrupted."""
    found = blows(STORM)

    assert found == blows(STORM) == sorted(found)
    assert found != blows(replace(STORM, seed=1))
    counts = Counter(blow.victim for blow in found)
    assert counts == {"client": 60, "server": 40, "office": 10, "database": 1}
    assert all(FIRST <= blow.progress <= LAST for blow in found)
    fewer = scaled(STORM, 1000)
    assert (fewer.operations, fewer.client_kills, fewer.database_restarts) == (1000, 1, 1)


def test_statements_survive(tmp_path: Path) -> None:
    """A line torn by a kill is as if it had never been written, and does not swallow the next."""
    path = tmp_path / "statements-0.jsonl"
    assert list(read(path)) == []
    with Writer(path) as writer:
        writer.write(STATEMENT)
    with path.open("ab") as file:
        file.write(b'{"order": "order-00')
    with Writer(path) as writer:
        writer.write(STATEMENT)

    found = list(read(path))
    assert [replace(statement, at=0.0) for statement in found] == [STATEMENT, STATEMENT]
    assert found[0].at > 0


def test_progress(tmp_path: Path) -> None:
    """Progress is counted by the lines that were added."""
    plan = replace(STORM, operations=4, clients=1, folder=str(tmp_path))
    progress = Progress(plan)
    assert progress.share() == 0
    with Writer(plan.file("statements-0.jsonl")) as writer:
        writer.write(STATEMENT)
        assert progress.share() == 0.25
        writer.write(STATEMENT)
        assert progress.share() == 0.5


def test_work_waits_for_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process held comes when its lease has run out; the rest at once; what failed comes again.

    Time passes by looking at the clock.
    """
    monkeypatch.setattr("tests.storm.client.time", SimpleNamespace(monotonic=partial(next, itertools.count(0, 0.02))))
    payments = replace(STORM, operations=3).payments()

    async def take_all() -> list[str]:
        work = Work(payments, {payments[0].order: 0.1})
        taken: list[str] = []
        again = True
        while (payment := await work.next()) is not None:
            taken.append(payment.order)
            if again:
                work.again(payment)
                again = False
            else:
                work.done()
        return taken

    assert asyncio.run(take_all()) == ["order-000001", "order-000002", "order-000000", "order-000001"]


@pytest.mark.parametrize("fault", Fault)
def test_relay(fault: Fault) -> None:
    """Each fault does what it says: whether the server sees the request, how often, and what the client gets."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                seen.append((await read_message(reader)).body)
                writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n" + b'{"id": "c1"}')
        except Gone:
            writer.close()

    async def exchange() -> tuple[int | None, str | None]:
        async with await asyncio.start_server(serve, HOST, 0) as server:
            relay = Relay(Upstream([server.sockets[0].getsockname()[1]]), lambda _order, _visit: fault)
            async with await asyncio.start_server(relay.serve, HOST, 0) as front:
                url = f"http://{HOST}:{front.sockets[0].getsockname()[1]}"
                try:
                    timeout = httpx.Timeout(30, read=0.5 if fault in STALLS else 30)
                    async with httpx.AsyncClient(timeout=timeout, trust_env=False) as client:
                        response = await client.post(url, json={"order": "order-1"})
                        outcome: tuple[int | None, str | None] = (response.status_code, None)
                except httpx.TransportError as error:
                    outcome = (None, type(error).__name__)
                await relay.end()
        assert relay.requests == 1
        return outcome

    status, error = asyncio.run(exchange())

    assert len(seen) == (0 if fault in BEFORE else 2 if fault in {Fault.TWICE, Fault.LATE_COPY} else 1)
    assert set(seen) <= {b'{"order":"order-1"}'}
    if fault in {Fault.NONE, Fault.DRIP, Fault.TWICE, Fault.LATE_COPY}:
        assert (status, error) == (201, None)
    elif fault[:3].isdigit():
        assert (status, error) == (int(fault[:3]), None)
    elif fault in STALLS:
        assert error == "ReadTimeout"
    elif fault in {Fault.RESET_BEFORE, Fault.RESET_AFTER}:
        assert error == "ReadError"
    else:
        assert error == "RemoteProtocolError"


def test_relay_without_a_server() -> None:
    """A server that is down is a 502 of the gateway."""

    async def ask() -> bytes:
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), HOST, 0) as server:
            port = server.sockets[0].getsockname()[1]
            dying = Upstream([port])
            died = await dying.ask(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        return died + await Upstream([port]).ask(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")

    assert asyncio.run(ask()).count(b"HTTP/1.1 502") == 2


def result(**changes: Any) -> Result:
    """A result of a storm in which one of four payments was told "unknown" first."""
    plan = replace(STORM, operations=4, seed=1)
    unknown = replace(STATEMENT, outcome="unknown", final=False)
    slow = replace(STATEMENT, order="order-000002", seconds=2.0, replayed=True)
    kills = {"client": 1, "server": 0, "office": 0, "database": 1}
    relay = {"requests": 6, "met": {"none": 6}}
    statements = [unknown, STATEMENT, slow]
    made = summary(plan, statements, Books(), Verdict(), relay=relay, seconds=2.0, kills=kills, resumed=1)
    return replace(made, **changes)


def test_summary() -> None:
    """What is counted: calls and final words apart, and each unknown that was resolved."""
    found = result()

    assert (found.calls, found.reports) == ({"executed": 2, "unknown": 1}, {"executed": 2})
    assert (found.unknown, found.resolved, found.replays, found.p50, found.p99) == (1, 1, 1, 0.0, 2.0)
    assert found.clean
    assert json.loads(json.dumps(found.to_json()))["requests"] == 6
    assert [result(**{wrong: 1}).clean for wrong in ("doubled", "lost", "false", "unresolved", "processor")] == 5 * [
        False
    ]
    assert percentile([], 0.5) == 0.0


def test_table_and_picture() -> None:
    """Both name each contender and show what went wrong; the picture is well-formed."""
    results = [result(), replace(result(doubled=1), contender="tenacity", title="tenacity & <friends>")]

    text = table(results)
    assert "1 (25.00 %)" in next(line for line in text.splitlines() if line.startswith("doubled"))
    assert len({len(line) for line in text.splitlines()}) == 1
    assert "| samekey | 4 | 0 | 0 | 0 | 1 (25.00 %), 1 | 1.50 | 2.00 s |" in markdown(results)
    drawn = ET.fromstring(picture(results))
    shown = {element.text for element in drawn.iter() if element.text}
    assert {"samekey", "tenacity & <friends>", "25.00 %"} <= shown


def test_figures_of_the_docs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table and picture of the docs are those of the figures beside them, and samekey kept its promise in them."""
    root = Path(__file__).parent.parent.parent / "docs"
    drawing = tmp_path / "storm.svg"

    main(root / "assets/storm.json", drawing)

    assert drawing.read_text() == (root / "assets/storm.svg").read_text()
    assert capsys.readouterr().out in (root / "explanation/the-storm.md").read_text()
    mine = next(made for made in results_in(root / "assets/storm.json") if made.contender == "samekey")
    assert mine.clean
    assert (mine.operations, mine.resolved) == (100_000, mine.unknown)
