"""A server that counts, a folder for notes, and worker processes that are cleaned up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from samekey.testing import LedgerServer, faults
from tests.transport.harness import eventually

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Runner:
    """The surroundings of one job runner."""

    folder: Path
    server: LedgerServer
    url: str
    settings: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def environment(self) -> dict[str, str]:
        """Of workers, and of the test while it enqueues."""
        return {"JOBS_FOLDER": str(self.folder), "JOBS_URL": self.url, **self.settings}

    def worker(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a worker; its whole process group is killed at the end."""
        log = self.stack.enter_context((self.folder / "log").open("ab"))
        child = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, **self.environment, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

        def end() -> None:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()

        self.stack.callback(end)
        return child

    @property
    def notes(self) -> list[str]:
        """What the jobs have written."""
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def runs(self) -> list[tuple[int, str]]:
        """Process and name of each run."""
        return [(int(first), name) for first, name in (line.split() for line in self.notes) if first != "done"]

    @property
    def done(self) -> list[str]:
        """Names of the jobs that went through."""
        return [line.partition(" ")[2] for line in self.notes if line.startswith("done ")]

    def never_answer(self) -> None:
        """The first charge is made, and its answer never comes."""
        self.server.script(faults.never(), path="/charges")

    def kill_while_charging(self) -> None:
        """Kill the process of the job when the charge is made and its answer is still out (see `never_answer`)."""
        self.wait(lambda: self.server.effects)
        os.kill(self.runs[0][0], signal.SIGKILL)

    def wait(self, condition: object) -> None:
        """Wait for the workers, and show their log if they do not come."""
        try:
            eventually(condition, 40)  # type: ignore[arg-type]
        except AssertionError:
            print((self.folder / "log").read_text()[-4000:])
            raise

    def seen_once(self) -> None:
        """One charge and one mail, each under one key of its own, however often it was asked for."""
        keys = {path: {request.key for request in self.server.requests if request.path == path} for path in PATHS}
        assert sorted(effect.request.path for effect in self.server.effects) == list(PATHS)
        assert [len(keys[path]) for path in PATHS] == [1, 1]
        assert keys["/charges"] != keys["/mails"]
        assert len({request.body for request in self.server.requests if request.path == "/charges"}) == 1


PATHS = ("/charges", "/mails")


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    server = LedgerServer()
    monkeypatch.setattr("samekey._named.LEASE_MARGIN", 0.3)  # a job may run in this process
    with server.listen() as url:
        made = Runner(tmp_path, server, url)
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        with made.stack:
            yield made
