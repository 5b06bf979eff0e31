"""A Celery application over files: `celery -A tests.jobs.celery_app worker`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery  # type: ignore[import-untyped]

import samekey
from samekey.jobs import celery_job
from samekey.sqlite import SQLiteJournal
from tests.jobs.work import charge_and_mail

FOLDER = Path(os.environ["JOBS_FOLDER"])
for name in ("queue", "control"):
    (FOLDER / name).mkdir(exist_ok=True)

app = Celery("jobs", broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(FOLDER / "queue"),
        "data_folder_out": str(FOLDER / "queue"),
        "control_folder": str(FOLDER / "control"),
        "polling_interval": 0.1,
    },
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task(bind=True, max_retries=20)  # type: ignore[untyped-decorator]
def pay(self: Any, order: int) -> str:
    """Charge; come back later while another delivery of this job is at it."""
    try:
        return charge_and_mail(celery_job(), SQLiteJournal(FOLDER / "journal.db"), order)
    except samekey.OutcomeUnknown as error:
        raise self.retry(countdown=0.5) from error
