"""The task: it charges for an order, once, however often Celery delivers the job.

    celery --workdir examples/job_runner -A tasks worker

`acks_late` and `reject_on_worker_lost` make Celery deliver a job again when its process was killed. That second
delivery has the same job id, so it is the same operation, with the same key.
"""

import os
from pathlib import Path

import httpx
from celery import Celery

import samekey
from samekey.jobs import celery_job
from samekey.sqlite import SQLiteJournal

PAYMENTS_API = os.environ.get("PAYMENTS_API", "http://127.0.0.1:8000")
FOLDER = Path(os.environ.get("JOBS_FOLDER", "."))
(FOLDER / "queue").mkdir(exist_ok=True)
(FOLDER / "control").mkdir(exist_ok=True)

app = Celery("tasks", broker="filesystem://", backend=f"file://{FOLDER.absolute()}")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_redirect_stdouts=False,
    broker_transport_options={  # files instead of a broker, so that the example needs no server
        "data_folder_in": str(FOLDER / "queue"),
        "data_folder_out": str(FOLDER / "queue"),
        "control_folder": str(FOLDER / "control"),
        "polling_interval": 0.2,
    },
)
journal = SQLiteJournal(FOLDER / "operations.sqlite3")
policy = samekey.RetryPolicy(total_timeout=5)


@app.task(bind=True, max_retries=50)
def charge(self, order: int) -> str:  # noqa: ANN001 - Celery's task
    """Charge for the order, then send a mail about it; gives the charge's id."""
    print(f"run {self.request.retries}, in process {os.getpid()}", flush=True)
    job = samekey.operation(celery_job())
    # A client of its own: connections must not be shared across Celery's forks.
    with samekey.wrap(httpx.Client(base_url=PAYMENTS_API), journal=journal, policy=policy) as client:
        try:
            with job.step("charge"):
                answer = client.post("/v1/charges", json={"order": order}, headers={"X-Process": str(os.getpid())})
            answer.raise_for_status()
            with job.step("mail"):
                client.post("/v1/mails", json={"order": order})
        except (samekey.OutcomeUnknown, samekey.NotSent, samekey.JournalError) as error:
            # Not a failure: come back with the same key.
            raise self.retry(exc=error, countdown=1) from error
    return str(answer.json()["id"])
