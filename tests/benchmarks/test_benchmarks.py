"""The benchmarks themselves: each part runs, and what it writes can be read. Their figures are not judged here."""

from __future__ import annotations

import asyncio
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.benchmarks import bench_journal, imports, memory, outage, overhead
from tests.benchmarks.__main__ import CHARTS, Run, draw
from tests.benchmarks.charts import bars
from tests.benchmarks.contenders import names
from tests.benchmarks.page import page
from tests.benchmarks.timing import Timing, summary


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
@pytest.mark.parametrize("failures", [0, 1])
def test_everybody_sends(library: str, sync: bool, failures: int) -> None:
    found = overhead.transport(library, sync=sync, rounds=1, failures=failures, count=2)

    assert set(names(library)) - set(found) == ({"bare", "no-op wrapper"} if failures else set())
    assert all(timing.median > 0 for timing in found.values())


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_over_loopback(sync: bool) -> None:
    assert list(overhead.loopback("httpx", sync=sync, rounds=1, count=1)) == names("httpx")


def test_bodies_there_and_back() -> None:
    assert list(overhead.bodies({"1 KB": 1000}, rounds=1)) == ["1 KB sent", "1 KB received"]


def test_in_flight() -> None:
    kib, seconds = asyncio.run(memory.in_flight("samekey", 20))

    assert kib < 1000
    assert seconds > 0


def test_named_operations() -> None:
    """The bare writes come first: they are what the others are compared with."""
    for measure in (bench_journal.on_sqlite, bench_journal.on_postgres, bench_journal.on_async_postgres):
        found = measure(2)
        assert next(iter(found)) == bench_journal.BARE
        assert found["samekey"].ratio > 0
    assert set(bench_journal.at_once(2)) == {"SQLite", "PostgreSQL"}


def test_imports() -> None:
    """Everybody can be imported."""
    assert set(imports.measure(1)) == set(imports.PROGRAMS)


def test_an_outage_in_simulated_time() -> None:
    """The budget's promise, with the real client: at 20 operations a second, at most 1.2 requests for each."""
    found = outage.total("samekey")

    assert found["requests_per_operation"] <= 1.2
    assert found["seconds_until_all_succeed"] <= 3
    assert outage.total("samekey without budget")["requests_per_operation"] > 4
    assert outage.partial("samekey")["succeeded_percent"] > 99


def test_ratios_are_of_the_same_turn() -> None:
    found = summary({"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 3.0]}, "a")

    assert found["b"] == Timing(3e6, 2e6, 2.0, 1e6)
    assert found["b"].as_dict() == {"us": 3e6, "best_us": 2e6, "ratio": 2.0, "above_us": 1e6}


def test_charts_are_well_formed(tmp_path: Path) -> None:
    root = ET.fromstring(bars("A < B", {"samekey": 1.5, "x & y": 0.0}, " µs", note="n", mark=1.0))
    assert root.tag.endswith("svg")
    assert len(root.findall("{*}rect")) == 2

    row = {"samekey": {"us": 1.0, "above_us": 1.0, "ratio": 1.0}, "bare": {"us": 1.0, "above_us": -1.0, "ratio": 1.0}}
    draw({table: row for table, column, *_ in CHARTS.values() if column in row["bare"]}, tmp_path)
    assert len(list(tmp_path.glob("*.svg"))) == 5


def test_the_page_shows_every_table() -> None:
    """With its chart, where there is one."""
    run = Run(quick=True)
    run.found["f import and a transport"] = {"httpx": {"ms": 90.0, "ratio": 1}, "samekey": {"ms": 99.5, "ratio": 1.1}}
    text = page(run.found)

    assert "## Import and a transport" in text
    assert "| **samekey** | 99.5 | 1.1 |" in text
    assert "(../assets/benchmarks/imports.svg)" in text


def test_a_run_prints_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(quick=True)
    run.table("title", {"row": {"a": 1.25, "b": 2}}, ("a", "b"))

    assert capsys.readouterr().out.split() == ["title", "a", "b", "row", "1.25", "2"]
    assert json.loads(json.dumps(run.found))["title"] == {"row": {"a": 1.25, "b": 2}}
    assert run.rounds(80) == 2
