"""All benchmarks in one run: ``make bench``, or ``python -m tests.benchmarks [--quick] [--only a,f] [--out FOLDER]``.

Prints tables, and writes ``benchmarks.json`` and charts. What counts are ratios: everybody is measured in turns, in one
process, in an order drawn anew each time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import stamina

from . import bench_journal, charts, imports, memory, outage, overhead
from .page import page
from .timing import Timing

PARTS = "abcdefg"
PACKAGES = ("httpx", "httpx2", "httpx-retries", "httpx-tenacity", "stamina", "tenacity", "anyio")
Rows = dict[str, Any]


class Run:
    """One run: how long it may take, and what it found."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.found: Rows = {
            "machine": {
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "platform": f"{platform.system()} {platform.machine()}",
                "load": round(os.getloadavg()[0], 1),
                **{name: version(name) for name in PACKAGES},
            }
        }

    def rounds(self, many: int) -> int:
        return max(2, many // 40) if self.quick else many

    def a(self) -> None:
        """The first attempt is ok."""
        for library in ("httpx", "httpx2"):
            for sync in (True, False):
                key = f"{library} {'sync' if sync else 'async'}"
                self.times(f"a transport {key}", overhead.transport(library, sync=sync, rounds=self.rounds(300)))
                self.times(f"a loopback {key}", overhead.loopback(library, sync=sync, rounds=self.rounds(120)))

    def b(self) -> None:
        """One retry, no wait."""
        for sync in (True, False):
            found = overhead.transport("httpx", sync=sync, rounds=self.rounds(150), failures=1)
            self.times(f"b one retry {'sync' if sync else 'async'}", found)

    def c(self) -> None:
        """In flight."""
        found = memory.measure(500 if self.quick else 10_000)
        self.table("c in flight, async", found, ("kib", "seconds", "calls"))

    def d(self) -> None:
        """Bodies."""
        sizes = dict(list(overhead.SIZES.items())[:2]) if self.quick else overhead.SIZES
        for key, found in overhead.bodies(sizes, self.rounds(60)).items():
            self.times(f"d body {key}", found)

    def e(self) -> None:
        """Named operations."""
        number = 30 if self.quick else 300
        self.times("e claim + record, SQLite", bench_journal.on_sqlite(number))
        self.times("e claim + record, PostgreSQL sync", bench_journal.on_postgres(number))
        self.times("e claim + record, PostgreSQL async", bench_journal.on_async_postgres(number))
        found = bench_journal.at_once(20 if self.quick else 200)
        self.table("e 200 operations, async", found, ("at_once_ms", "in_turn_ms", "ratio"))

    def f(self) -> None:
        """Imports."""
        self.table("f import and a transport", imports.measure(self.rounds(25)), ("ms", "ratio"))

    def g(self) -> None:
        """Outages."""
        found = outage.measure()
        for kind, rows in found.items():
            self.table(f"g {kind} outage, simulated", rows, tuple(rows["samekey"]))

    def times(self, title: str, found: Mapping[str, Timing]) -> None:
        self.table(title, {name: timing.as_dict() for name, timing in found.items()}, ("us", "above_us", "ratio"))

    def table(self, title: str, rows: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> None:
        """Print and keep."""
        self.found[title] = {name: dict(row) for name, row in rows.items()}
        width = [max(10, len(column) + 2) for column in columns]
        print(f"\n{title:34}" + "".join(f"{column:>{w}}" for column, w in zip(columns, width, strict=True)))
        for name, row in rows.items():
            print(f"  {name:32}" + "".join(f"{row[column]:>{w}g}" for column, w in zip(columns, width, strict=True)))
        sys.stdout.flush()


Chart = tuple[str, str, str, str, str]
"""Table, column, title, unit, note."""
CHARTS: dict[str, Chart] = {
    "overhead-sync": (
        "a transport httpx sync", "above_us", "Above a no-op wrapper, sync", " µs", "first attempt ok, no network",
    ),
    "overhead-async": (
        "a transport httpx async", "above_us", "Above a no-op wrapper, async", " µs", "first attempt ok, no network",
    ),
    "loopback-sync": (
        "a loopback httpx sync", "ratio", "A POST over loopback, sync", " x", "1 is bare httpx with a key header",
    ),
    "one-retry": ("b one retry sync", "us", "One retry, no wait, sync", " µs", "a 503, then a 201; no network"),
    "imports": ("f import and a transport", "ratio", "Import, and a transport made", " x", "1 is httpx alone"),
    "outage-load": (
        "g total outage, simulated", "requests_per_operation", "A minute's outage: requests for each operation", "",
        "20 operations a second, everybody's defaults; simulated time",
    ),
    "outage-recovery": (
        "g total outage, simulated", "seconds_until_load_is_usual", "Seconds until the load is usual again", " s",
        "after the server's return; it can answer twice the usual load",
    ),
}  # fmt: skip


def draw(found: Rows, folder: Path) -> None:
    """The charts of those tables that there are."""
    for name, (table, column, title, unit, note) in CHARTS.items():
        if table in found:
            values = {
                who: row[column] for who, row in found[table].items() if row[column] > 0 or who != "no-op wrapper"
            }
            values = {
                who: max(0.0, value) for who, value in values.items() if not (column == "above_us" and who == "bare")
            }
            mark = 1.0 if column == "ratio" else None
            (folder / f"{name}.svg").write_text(charts.bars(title, values, unit, note=note, mark=mark))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="a few rounds, to see that it works")
    parser.add_argument("--only", default=",".join(PARTS), metavar="a,b", help="parts: a to g")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="where JSON and charts go")
    parser.add_argument("--page", type=Path, help="write a page of the documentation there")
    given = parser.parse_args(arguments)
    run = Run(quick=given.quick)
    machine = run.found["machine"]
    print(f"{machine['cores']} cores, Python {machine['python']}, {machine['platform']}, load {machine['load']}")
    began = time.perf_counter()
    parts: dict[str, Callable[[], None]] = {part: getattr(run, part) for part in PARTS}
    stamina.instrumentation.set_on_retry_hooks([])  # it would log each retry
    for part in given.only.split(","):
        since = time.perf_counter()
        parts[part]()
        run.found["machine"][f"seconds_{part}"] = round(time.perf_counter() - since, 1)
    stamina.instrumentation.set_on_retry_hooks(None)
    run.found["machine"]["seconds"] = round(time.perf_counter() - began, 1)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "benchmarks.json").write_text(json.dumps(run.found, indent=1) + "\n")
    draw(run.found, given.out)
    if given.page is not None:
        given.page.write_text(page(run.found))
    print(f"\n{run.found['machine']['seconds']:g} s; {given.out}/benchmarks.json and charts")


if __name__ == "__main__":
    main()
