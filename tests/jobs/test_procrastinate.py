"""BR-68 for real with procrastinate: the worker is killed, its stalled job is tried again."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from samekey import jobs
from samekey.postgres import PostgresJournal
from samekey.testing import faults
from tests.jobs.conftest import Runner
from tests.journal.servers import Server

APP = "tests.jobs.procrastinate_app.worker_app"
WORKER = ("-m", "procrastinate", "--app", APP, "worker", "--fetch-job-polling-interval", "0.2")


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def app(runner: Runner, database: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    runner.settings["JOBS_DSN"] = database.uri
    monkeypatch.setenv("JOBS_DSN", database.uri)
    sys.modules.pop("tests.jobs.procrastinate_app", None)
    app = importlib.import_module("tests.jobs.procrastinate_app").app
    with app.open():
        if not app.check_connection():
            app.schema_manager.apply_schema()
        with PostgresJournal(database.uri) as journal:
            journal.migrate()
        yield app


def test_br_68_killed_and_tried_again(runner: Runner, app: Any) -> None:
    """One key for the charge, one for the mail, across the two workers; the job's id is the name."""
    worker = runner.worker(*WORKER)
    runner.server.script(faults.never(), path="/charges")
    job = app.tasks["pay"].defer(order=4821)
    runner.wait(lambda: runner.server.effects)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    rescue(app, job)
    runner.worker(*WORKER)
    runner.wait(lambda: runner.done)

    assert set(runner.done) == {f"procrastinate:{job}"}
    assert {name for _, name in runner.runs} == {f"procrastinate:{job}"}
    assert len({process for process, _ in runner.runs}) >= 2
    runner.seen_once()


def rescue(app: Any, job: int) -> None:
    """What a periodic task of procrastinate's documentation does with jobs whose worker is gone."""
    app.job_manager.retry_job_by_id(job_id=job, retry_at=dt.datetime.now(dt.UTC))


def test_equal_arguments_enqueued_anew(runner: Runner, app: Any) -> None:
    """Two jobs with equal arguments are two operations."""
    first, second = (app.tasks["pay"].defer(order=4821) for _ in range(2))
    runner.worker(*WORKER)
    runner.wait(lambda: len(runner.done) == 2)

    assert set(runner.done) == {f"procrastinate:{first}", f"procrastinate:{second}"}
    assert len(runner.server.effects) == len(runner.server.keys) == 4


def test_not_a_context() -> None:
    """The task was made without `pass_context=True`."""
    with pytest.raises(TypeError, match=r"pass_context=True\); not int"):
        jobs.procrastinate_job(4821)


def test_job_without_an_id() -> None:
    """A job that was never stored."""

    class Context:
        class job:  # noqa: N801 - procrastinate's attribute
            id = None

    with pytest.raises(RuntimeError, match="no procrastinate job is running here"):
        jobs.procrastinate_job(Context())
