"""BR-68 for real with Celery: the pool child is killed, the job is delivered again, one charge is made."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from samekey import jobs
from tests.jobs.conftest import Runner

WORKER = ("-m", "celery", "-A", "tests.jobs.celery_app", "worker", "--concurrency=1", "--pool=prefork", "-l", "INFO")
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


@pytest.fixture
def pay(runner: Runner) -> Any:
    sys.modules.pop("tests.jobs.celery_app", None)
    app = importlib.import_module("tests.jobs.celery_app")
    yield app.pay
    app.app.close()


def test_br_68_killed_and_delivered_again(runner: Runner, pay: Any) -> None:
    """One key for the charge, one for the mail, across the two deliveries; the job's id is the name."""
    runner.never_answer()
    runner.worker(*WORKER, *QUIET)
    job = pay.delay(4821)
    runner.kill_while_charging()
    runner.wait(lambda: runner.done)

    assert set(runner.done) == {f"celery:{job.id}"}
    assert {name for _, name in runner.runs} == {f"celery:{job.id}"}
    assert len({process for process, _ in runner.runs}) >= 2
    runner.seen_once()


def test_equal_arguments_enqueued_anew(runner: Runner, pay: Any) -> None:
    """Two jobs with equal arguments are two operations: the customer bought twice."""
    first, second = pay.delay(4821), pay.delay(4821)
    runner.worker(*WORKER, *QUIET)
    runner.wait(lambda: len(runner.done) == 2)

    assert set(runner.done) == {f"celery:{first.id}", f"celery:{second.id}"}
    assert len(runner.server.effects) == len(runner.server.keys) == 4


def test_in_the_process(runner: Runner, pay: Any) -> None:
    """A task that is applied in the process has an id, too."""
    job = pay.apply([4821])

    assert job.successful()
    assert runner.done == [f"celery:{job.id}"]


def test_outside_a_task(pay: Any) -> None:
    """Outside, and where the task is called as a function, there is no identity."""
    with pytest.raises(RuntimeError, match="no Celery task is running here"):
        jobs.celery_job()
    with pytest.raises(RuntimeError, match="no Celery task is running here"):
        pay(4821)
