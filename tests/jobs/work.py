"""What the jobs of all runners do: charge, then mail, and note who they were."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
from tenacity import stop_after_attempt, wait_fixed

import samekey
from samekey import _named

POLICY = samekey.RetryPolicy(
    stop=stop_after_attempt(1), poll_wait=wait_fixed(0.1), wait=wait_fixed(0.1), total_timeout=2.0
)


def note(text: str) -> None:
    """Leave a line for the test."""
    with (Path(os.environ["JOBS_FOLDER"]) / "notes").open("a") as notes:
        notes.write(f"{text}\n")


def charge_and_mail(name: str, journal: Any, order: int) -> str:
    """The job."""
    _named.LEASE_MARGIN = 0.3  # type: ignore[attr-defined]
    note(f"{os.getpid()} {name}")
    raw = httpx.Client(base_url=os.environ["JOBS_URL"], trust_env=False, verify=False, timeout=30)
    with journal, samekey.wrap(raw, policy=POLICY, journal=journal) as client:
        job = samekey.operation(name)
        with job.step("charge"):
            charge = client.post("/charges", json={"order": order})
        with job.step("mail"):
            client.post("/mails", json={"order": order})
    note(f"done {name}")
    return str(charge.json()["id"])
