"""The order of steps of a dangerous request: claim, effect and record in one transaction, answer.

The claim is committed first, so that a second request sees it and is told to wait. The effect and the answer are
committed together, so that a crash leaves both or neither. In between, the lease: whoever finds it run out takes the
request over, and the record of the first worker, should it still come, finds the name of another owner and is undone.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .answers import Answer, Refused, problem
from .database import Database, Transaction, Unavailable
from .keys import Claimed, Identity, Keys, Mismatched, Running, Stored
from .logs import digest
from .metrics import Metrics
from .reading import Order
from .settings import Settings

Effect = Callable[[Transaction, Order], Answer]
Point = Callable[[str, Order], None]
"""Called with "claimed", "effect", "recorded" and "committed"; tests make a process slow, or kill it, there."""

_UNAVAILABLE = problem(503, "unavailable", "The database does not answer; try again", ("Retry-After", "1"))
_BROKEN = problem(500, "internal_error", "Something broke; the payment was not made")


class _Fenced(Exception):
    """Another worker has taken the request over."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Executes dangerous requests, once per key."""

    database: Database
    keys: Keys
    settings: Settings
    metrics: Metrics
    log: Any
    point: Point = lambda _name, _order: None

    def handle(self, order: Order, effect: Effect) -> Answer:
        """The answer to *order*."""
        try:
            if order.identity is None:
                return self._unkeyed(order, effect)
            return self._keyed(order, order.identity, effect)
        except Unavailable:
            self.log.warning("database unavailable", exc_info=True)
            return _UNAVAILABLE

    def _unkeyed(self, order: Order, effect: Effect) -> Answer:
        with self.database.transaction() as transaction:
            try:
                answer = effect(transaction, order)
            except Refused as refused:
                return refused.answer
            self.point("effect", order)
            return answer

    def _keyed(self, order: Order, identity: Identity, effect: Effect) -> Answer:
        started = time.perf_counter()
        found = self.keys.claim(identity, order.request_hash)
        match found:
            case Claimed():
                return self._execute(order, identity, found, effect)
            case Stored():
                self._told(order, "replayed", "completed")
                self.metrics.replay.labels(order.endpoint).observe(time.perf_counter() - started)
                return found.answer.replayed()
            case Running():
                self._told(order, "in_progress", "in_progress")
                return self._running()
            case Mismatched():
                self._told(order, "mismatch", "unchanged", stored_hash=found.stored_hash)
                return problem(
                    self.settings.on_mismatch,
                    "idempotency_key_mismatch",
                    "This idempotency key was used with a different request body",
                )

    def _execute(self, order: Order, identity: Identity, claimed: Claimed, effect: Effect) -> Answer:
        if claimed.takeover:
            self.metrics.timeouts.labels(order.endpoint).inc()
            self._log(order, "in_progress -> in_progress (takeover)")
        else:
            self._log(order, "new -> in_progress")
        self.point("claimed", order)
        try:
            with self.database.transaction() as transaction:
                try:
                    answer = effect(transaction, order)
                except Refused as refused:
                    answer = refused.answer
                self.point("effect", order)
                if not self.keys.complete(transaction, identity, claimed.owner, answer):
                    raise _Fenced  # noqa: TRY301 - out of the transaction, so that it is rolled back
                self.point("recorded", order)
        except _Fenced:
            self._told(order, "in_progress", "in_progress (taken over from us)")
            return self._running()
        except Unavailable:
            # Whether the commit was done nobody knows here; the key says so to whoever asks next.
            raise
        except Exception:
            self.log.exception("effect failed", **self._fields(order))
            self._release(identity, claimed)
            self._told(order, "broken", "in_progress -> new")
            return _BROKEN
        self.point("committed", order)
        status = "succeeded" if answer.status < 400 else "failed"
        self._told(order, "executed" if answer.status < 400 else "refused", f"in_progress -> {status}")
        return answer

    def _release(self, identity: Identity, claimed: Claimed) -> None:
        with contextlib.suppress(Unavailable):  # then the lease runs out
            self.keys.release(identity, claimed.owner)

    def _running(self) -> Answer:
        waits = self.settings.on_in_progress == 202
        headers = [("Retry-After", str(self.settings.retry_after))] if waits else []
        return problem(
            self.settings.on_in_progress,
            "request_in_progress",
            "A request with this idempotency key is still in progress",
            *headers,
        )

    def _told(self, order: Order, result: str, transition: str, **more: str) -> None:
        self.metrics.count(order.endpoint, result)
        self._log(order, transition, result=result, **more)

    def _log(self, order: Order, transition: str, **more: str) -> None:
        self.log.info("idempotency", transition=transition, **self._fields(order), **more)

    def _fields(self, order: Order) -> dict[str, str]:
        return {
            "tenant": order.tenant,
            "endpoint": order.endpoint,
            "key": digest(order.key or ""),
            "request_hash": order.request_hash,
        }
