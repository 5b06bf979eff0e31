"""A procrastinate application: `procrastinate --app tests.jobs.procrastinate_app.app worker`."""

from __future__ import annotations

import os
from typing import Any

import procrastinate

from samekey.jobs import procrastinate_job
from samekey.postgres import PostgresJournal
from tests.jobs.work import charge_and_mail

DSN = os.environ.get("JOBS_DSN", "")
app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=DSN))
worker_app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=DSN))


def pay(context: Any, order: int) -> str:
    """Charge; an error makes procrastinate try again."""
    return charge_and_mail(procrastinate_job(context), PostgresJournal(DSN), order)


for each in (app, worker_app):
    each.task(name="pay", pass_context=True, retry=procrastinate.RetryStrategy(max_attempts=20, wait=1))(pay)
