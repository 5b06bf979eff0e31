"""A worker is killed when the charge is made; its job is delivered again, and makes no second one.

python examples/job_runner/run.py

Takes half a minute: the lease of the killed process has to run out before another one goes on with its job.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from samekey.testing import LedgerServer, faults

HERE = Path(__file__).parent
COMMAND = [
    "celery",
    "--quiet",
    "--workdir",
    str(HERE),
    "-A",
    "tasks",
    "worker",
    "--concurrency",
    "1",
    "--loglevel",
    "WARNING",
]
QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


def wait(condition: Callable[[], object], worker: subprocess.Popen[bytes]) -> None:
    """Wait for what the worker does."""
    while not condition():
        if worker.poll() is not None:
            raise RuntimeError("the worker has left")
        time.sleep(0.1)


def main() -> None:
    """Enqueue a job, kill its process, wait for its end."""
    bank = LedgerServer(lambda request: {"id": f"ch_{request.json()['order']}"})
    bank.script(faults.never(), path="/v1/charges")  # the first charge is made, and its answer never comes
    with tempfile.TemporaryDirectory() as folder, bank.listen() as url:
        os.environ |= {"PAYMENTS_API": url, "JOBS_FOLDER": folder}
        sys.path.insert(0, str(HERE))
        from tasks import app, charge  # here, for it reads the environment

        job = charge.delay(4821)
        print(f"job {job.id} is enqueued")
        worker = subprocess.Popen([sys.executable, "-m", *COMMAND, *QUIET])  # noqa: S603 - our own worker
        try:
            wait(lambda: bank.effects, worker)
            victim = int(bank.effects[0].request.header("X-Process") or 0)
            os.kill(victim, signal.SIGKILL)
            print(f"process {victim} is killed: the charge is made, and nobody here knows it")
            wait(job.ready, worker)
            print("the job is done:", job.get())
        finally:
            worker.terminate()
            worker.wait()
        app.close()
    charges = [effect for effect in bank.effects if effect.request.path == "/v1/charges"]
    keys = {request.key for request in bank.requests if request.path == "/v1/charges"}
    print(
        f"charge requests: {sum(request.path == '/v1/charges' for request in bank.requests)}, charges: {len(charges)}"
    )
    assert len(charges) == len(keys) == 1
    assert len(bank.effects) == 2, "one charge, one mail"


if __name__ == "__main__":
    main()
