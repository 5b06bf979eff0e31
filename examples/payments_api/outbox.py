"""The transactional outbox: what the card processor has to be told, written in the transaction of the effect.

A worker claims the intents, calls the processor through samekey and records the outcome. It may die anywhere: the
intent is claimed again when its lease has run out, and goes out with the same key, which the processor honours.
"""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import httpx

import samekey

from .database import Database, Row, Transaction
from .metrics import Metrics
from .reading import Order

NAMESPACE = uuid.UUID("5b1d8f2e-6f7b-5c56-9d0a-3b2f0c9e7a11")

_CLAIM = """
UPDATE outbox SET owner = :owner, locked_until = {later}, attempts = attempts + 1 WHERE id IN (
    SELECT id FROM outbox
    WHERE state = 'waiting' AND due_at <= {now} AND (locked_until IS NULL OR locked_until <= {now})
    ORDER BY due_at, id LIMIT :batch {skip_locked}
) RETURNING id, processor_key, charge_id, request, attempts
"""
_SETTLE = """
UPDATE outbox SET state = :state, owner = NULL, locked_until = NULL WHERE id = :id AND owner = :owner RETURNING id
"""
_POSTPONE = """
UPDATE outbox SET owner = NULL, locked_until = NULL, due_at = {later} WHERE id = :id AND owner = :owner
"""
_CAPTURED = """
UPDATE charges SET status = :status, processor_ref = :ref WHERE id = :charge_id AND status = 'authorized'
"""


def intend(transaction: Transaction, order: Order, charge_id: str, request: dict[str, object]) -> None:
    """Note what the processor has to be told, in the transaction that makes it true.

    The caller's key is passed on, in a form that is unique across tenants, endpoints and time: two tenants may choose
    the same key, and a key that has expired here may still be known there.
    """
    passed_on = f"{order.tenant} {order.endpoint} {order.key} {request.get('refund', charge_id)}"
    transaction.rows(
        "INSERT INTO outbox (processor_key, charge_id, request, due_at) VALUES (:key, :charge_id, :request, {now})",
        key=samekey.derive_key(NAMESPACE, passed_on),
        charge_id=charge_id,
        request=json.dumps(request),
    )


class Worker:
    """Tells the processor what waits in the outbox; any number of them may run, in any number of processes."""

    def __init__(
        self,
        database: Database,
        processor: httpx.Client,
        metrics: Metrics,
        log: Any,
        *,
        lease_seconds: float = 60.0,
        batch: int = 20,
    ) -> None:
        self._database = database
        self._processor = processor
        self._metrics = metrics
        self._log = log
        self._lease = lease_seconds
        self._batch = batch
        self._owner = uuid.uuid4().hex

    def run(self, stop: threading.Event, pause: float) -> None:
        """Work until *stop* is set."""
        while not stop.is_set():
            try:
                done = self.run_once()
            except Exception:  # noqa: BLE001 - whatever it was, the intents are still there
                # The database may be away; what was claimed comes back when its lease has run out.
                self._log.exception("outbox")
                done = 0
            if not done:
                stop.wait(pause)

    def run_once(self) -> int:
        """Work on one batch; how many intents there were."""
        with self._database.transaction() as transaction:
            rows = transaction.rows(_CLAIM, owner=self._owner, seconds=self._lease, batch=self._batch)
        for row in sorted(rows, key=lambda row: int(row["id"])):
            self._tell(row)
        return len(rows)

    def _tell(self, row: Row) -> None:
        ref = None
        try:
            with samekey.operation(key=row["processor_key"]):
                response = self._processor.post("/v1/instructions", json=json.loads(row["request"]))
        except (samekey.KeyMismatch, samekey.KeyExpired):
            state = "review"  # never a new key: a person looks it up
        except samekey.IdempotencyError as error:
            self._log.warning("processor", intent=row["id"], outcome=str(error.report.outcome), error=str(error))
            state = "waiting"
        else:
            told = samekey.report(response)
            outcome = "unknown" if told is None else str(told.outcome)
            state = {"executed": "done", "rejected": "refused"}.get(outcome, "waiting")
            if state == "done":
                ref = response.json()["id"]
        self._record(row, state, ref)

    def _record(self, row: Row, state: str, ref: str | None) -> None:
        self._metrics.outbox.labels(state).inc()
        with self._database.transaction() as transaction:
            if state == "waiting":
                later = min(60.0, 0.5 * 2.0 ** min(row["attempts"], 7))
                transaction.rows(_POSTPONE, id=row["id"], owner=self._owner, seconds=later)
                return
            settled = transaction.rows(_SETTLE, id=row["id"], owner=self._owner, state=state)
            if settled and json.loads(row["request"])["action"] == "capture" and state != "review":
                status = "captured" if state == "done" else "refused"
                transaction.rows(_CAPTURED, charge_id=row["charge_id"], status=status, ref=ref)
