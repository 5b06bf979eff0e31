"""What is killed, and when: at points of the progress that are drawn from the seed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from examples.payments_api.embedded import EmbeddedPostgres

from .fleet import Fleet
from .plan import Plan

FIRST, LAST = 0.05, 0.85
"""The part of the storm in which something is killed; the rest is for what was interrupted."""


@dataclass(frozen=True, slots=True, order=True)
class Blow:
    """Kill *victim* number *number* when *progress* of the payments have been told about."""

    progress: float
    victim: str
    number: int = 0


def blows(plan: Plan) -> list[Blow]:
    """All kills of a storm, in order."""
    draw = random.Random(f"{plan.seed} kills")

    def several(count: int, victim: str, of: int) -> Iterator[Blow]:
        for turn in range(count):
            # One in each part of equal length: at random, and yet all over the storm.
            part = (turn + draw.random()) / count
            yield Blow(FIRST + (LAST - FIRST) * part, victim, draw.randrange(of))

    found = [
        *several(plan.client_kills, "client", plan.clients),
        *several(plan.server_kills, "server", plan.servers),
        *several(plan.office_kills, "office", 1),
        *(Blow((turn + 1) / (plan.database_restarts + 1), "database") for turn in range(plan.database_restarts)),
    ]
    return sorted(found)


class Progress:
    """How many payments the clients have made a statement about, counted by the lines in their files."""

    def __init__(self, plan: Plan) -> None:
        self._total = plan.operations
        self._files: dict[Path, int] = {plan.file(f"statements-{n}.jsonl"): 0 for n in range(plan.clients)}
        self.lines = 0

    def share(self) -> float:
        """How much is done, from 0 to about 1; a little early, since some payments take several statements."""
        for path, seen in self._files.items():
            if path.exists():
                with path.open("rb") as file:
                    file.seek(seen)
                    new = file.read()
                self._files[path] = seen + len(new)
                self.lines += new.count(b"\n")
        return self.lines / self._total


class Killer:
    """Strikes when it is time."""

    def __init__(self, fleet: Fleet, database: EmbeddedPostgres) -> None:
        self._fleet = fleet
        self._database = database
        self._left = blows(fleet.plan)[::-1]
        self.struck: dict[str, int] = {"client": 0, "server": 0, "office": 0, "database": 0}

    def strike(self, progress: float) -> None:
        """Do what is due."""
        while self._left and self._left[-1].progress <= progress:
            blow = self._left.pop()
            if blow.victim == "database":
                self.struck["database"] += 1
                self._database.stop("immediate")
                self._database.start()
                continue
            process = {
                "client": self._fleet.clients,
                "server": self._fleet.servers,
                "office": [self._fleet.office],
            }[blow.victim][blow.number]
            if not process.running():
                continue  # it has done its share, or takes no part
            process.kill()
            process.start()
            self.struck[blow.victim] += 1


def pause() -> None:
    """Between two looks at the progress."""
    time.sleep(0.05)
