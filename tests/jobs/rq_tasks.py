"""What an RQ worker runs."""

from __future__ import annotations

import os
from pathlib import Path

from samekey.jobs import rq_job
from samekey.sqlite import SQLiteJournal
from tests.jobs.work import charge_and_mail


def pay(order: int) -> str:
    """Charge; an error makes RQ try again."""
    return charge_and_mail(rq_job(), SQLiteJournal(Path(os.environ["JOBS_FOLDER"]) / "journal.db"), order)
