"""The demo's bank: a server that charges cards, and the faults in front of it, drawn from a seed."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from samekey.testing import Fault, LedgerServer, ReceivedRequest, Reply, faults

PATH = "/v1/charges"
READ_TIMEOUT = 0.3
"""Seconds the clients wait for an answer."""
SLOW = 0.7
"""Seconds of work that outlasts the clients' patience: a repeat is then told "in progress"."""
UNLUCKY_REQUESTS = 6
"""So many requests of an unlucky payment meet a fault: more than the attempts of one call."""
LAST_FAULT = 12
"""No later request of one payment meets a fault, so that every demo ends."""

STEPS: tuple[tuple[str, Fault], ...] = (
    ("answer lost", faults.lost()),
    ("answer cut", faults.cut()),
    ("stall", faults.never()),
    ("slow work", faults.slow(SLOW)),
    ("504 after the work", faults.status(504, executes=True)),
    ("503", faults.status(503)),
    ("request lost", faults.lost(executes=False)),
)
"""The faults; the first five charge the card all the same."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options of the command say."""

    payments: int = 300
    seed: int = 7
    faults: float = 0.3


@dataclass(frozen=True, slots=True)
class Payment:
    """One thing to be done once; its order number tells it apart from all others."""

    order: str
    amount: int
    declined: bool = False

    def body(self) -> dict[str, object]:
        """What is sent."""
        card = "tok_declined" if self.declined else "tok_good"
        return {"order": self.order, "amount": self.amount, "currency": "eur", "card": card}


@dataclass(frozen=True, slots=True)
class Charge:
    """Money that really moved."""

    id: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Books:
    """The truth: what the bank did, by order number."""

    charges: dict[str, list[Charge]]
    keys: dict[str, set[str | None]]
    """The keys that arrived."""
    met: dict[str, list[str]]
    """The faults that its requests met, in order; "" for none."""
    requests: int


def payments_of(settings: Settings) -> list[Payment]:
    """The payments to be made, the same for the same seed; a few will be declined."""
    draw = random.Random(f"{settings.seed}")
    return [
        Payment(f"order-{number:04}", draw.randrange(500, 20_000), declined=draw.random() < 0.03)
        for number in range(1, settings.payments + 1)
    ]


def fault_of(settings: Settings, order: str, visit: int) -> tuple[str, Fault]:
    """What the request number *visit* (from 1) of an order meets: the same, whoever sends it and whenever."""
    unlucky = random.Random(f"{settings.seed} {order}").random() < settings.faults / 10
    draw = random.Random(f"{settings.seed} {order} {visit}")
    faulty = draw.random() < settings.faults or (unlucky and visit <= UNLUCKY_REQUESTS)
    return draw.choice(STEPS) if faulty and visit <= LAST_FAULT else ("", faults.ok())


class Bank:
    """An idempotent server behind faults."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._ids: dict[ReceivedRequest, str] = {}
        self._met: dict[str, list[str]] = defaultdict(list)
        self._busy_until = 0.0
        self.server = LedgerServer(self._charge)
        self.server.script(then=self._meet)

    def _charge(self, request: ReceivedRequest) -> Reply:
        body = json.loads(request.body)
        if body["card"] == "tok_declined":
            return Reply.of_json(402, {"error": {"code": "card_declined"}})
        with self._lock:
            charge = self._ids[request] = f"ch_{len(self._ids) + 1}"
        return Reply.of_json(201, {"id": charge, "order": body["order"], "amount": body["amount"]})

    def _meet(self, request: ReceivedRequest) -> Fault:
        order = _order(request)
        with self._lock:
            met = self._met[order]
            name, step = fault_of(self._settings, order, len(met) + 1)
            met.append(name)
            if step.pause is not None:
                self._busy_until = time.monotonic() + SLOW
        return step

    def close_books(self) -> Books:
        """The truth, once the work that is still under way is done; nobody sends any more."""
        time.sleep(max(0.0, self._busy_until - time.monotonic()))
        charges: dict[str, list[Charge]] = defaultdict(list)
        for effect in self.server.effects:
            charges[_order(effect.request)].append(Charge(self._ids[effect.request], effect.key))
        keys: dict[str, set[str | None]] = defaultdict(set)
        requests = self.server.requests
        for request in requests:
            keys[_order(request)].add(request.key)
        return Books(dict(charges), dict(keys), dict(self._met), len(requests))


def _order(request: ReceivedRequest) -> str:
    return str(json.loads(request.body)["order"])
