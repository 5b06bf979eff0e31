"""What the network does to each request, and what is to be paid: drawn from the seed, the same for every contender."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

FAULTY = 0.30
"""Share of requests that meet a fault."""
UNLUCKY = 0.04
"""Share of payments whose first requests all meet one: more of them than a call has attempts."""
UNLUCKY_REQUESTS = 7
LAST_FAULT = 14
"""No later request of one payment meets a fault, so that every storm ends."""
DECLINED = 0.03
SLOW = 0.02
"""Share of payments whose work outlasts the patience of the client."""
VERY_SLOW = 0.003
"""Share of payments whose work outlasts the lease of the server's worker."""


class Fault(StrEnum):
    """What happens to one request on its way through the relay."""

    NONE = "none"
    DROP_BEFORE = "drop before"
    DROP_AFTER = "drop after"
    RESET_BEFORE = "reset before"
    RESET_AFTER = "reset after"
    CUT = "cut in the body"
    STALL_BEFORE = "stall before"
    STALL_AFTER = "stall after"
    DRIP = "slow drip"
    TWICE = "sent twice at once"
    LATE_COPY = "sent again later"
    BAD_GATEWAY = "502 before"
    BAD_GATEWAY_AFTER = "502 after"
    UNAVAILABLE = "503 before"
    UNAVAILABLE_AFTER = "503 after"
    GATEWAY_TIMEOUT = "504 after"
    UNAUTHORIZED = "401 from the gateway"
    TOO_MANY = "429 from the gateway"


BEFORE = frozenset(
    {
        Fault.DROP_BEFORE,
        Fault.RESET_BEFORE,
        Fault.STALL_BEFORE,
        Fault.BAD_GATEWAY,
        Fault.UNAVAILABLE,
        Fault.UNAUTHORIZED,
        Fault.TOO_MANY,
    }
)
"""Faults with which the request never reaches the server."""

_WEIGHTS = {fault: 2 if fault in {Fault.DROP_AFTER, Fault.CUT, Fault.TWICE, Fault.LATE_COPY} else 1 for fault in Fault}
del _WEIGHTS[Fault.NONE]
_FAULTS, _WEIGHT = tuple(_WEIGHTS), tuple(_WEIGHTS.values())


def fault_of(seed: int, order: str, visit: int) -> Fault:
    """What the request number *visit* (from 1) of *order* meets, whoever sends it and whenever."""
    unlucky = random.Random(f"{seed} {order}").random() < UNLUCKY
    draw = random.Random(f"{seed} {order} {visit}")
    faulty = draw.random() < FAULTY or (unlucky and visit <= UNLUCKY_REQUESTS)
    return draw.choices(_FAULTS, _WEIGHT)[0] if faulty and visit <= LAST_FAULT else Fault.NONE


@dataclass(frozen=True, slots=True)
class Payment:
    """One thing to be done once."""

    order: str
    amount: int
    declined: bool
    work: float
    """Seconds of work before the effect."""

    def body(self) -> dict[str, Any]:
        """What is sent."""
        card = "tok_declined" if self.declined else "tok_good"
        return {"order": self.order, "amount": self.amount, "currency": "eur", "card": card}


def payment(seed: int, number: int, *, slow: float, very_slow: float) -> Payment:
    """Payment *number* of the storm with *seed*; its work may take *slow* or *very_slow* seconds."""
    draw = random.Random(f"{seed} payment {number}")
    amount, declined, chance = draw.randrange(100, 50_000), draw.random() < DECLINED, draw.random()
    work = very_slow if chance < VERY_SLOW else slow if chance < VERY_SLOW + SLOW else 0.0
    return Payment(f"order-{number:06}", amount, declined, work)
