"""A client process: pays its share, and may be killed at any moment. Started again, it goes on where it was.

python -m tests.storm.client PLAN ADDRESS NUMBER
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import sys
import time

from samekey.journal import RowState
from samekey.sqlite import SQLiteJournal

from .contenders import CONTENDERS, Pay
from .plan import Plan
from .statements import Writer, read
from .weather import Payment

PAUSE = 0.2
"""Seconds after which a payment without a final answer is taken up again."""


class Work:
    """What is left to be paid: some of it now, some of it later."""

    def __init__(self, payments: list[Payment], held: dict[str, float]) -> None:
        now = time.monotonic()
        self._now = [payment for payment in reversed(payments) if payment.order not in held]
        self._later = [
            (now + held[payment.order], payment.order, payment) for payment in payments if payment.order in held
        ]
        heapq.heapify(self._later)
        self._under_way = 0

    async def next(self) -> Payment | None:
        """The next payment, when its time has come; None when all are done."""
        while True:
            if self._later and self._later[0][0] <= time.monotonic():
                self._under_way += 1
                return heapq.heappop(self._later)[2]
            if self._now:
                self._under_way += 1
                return self._now.pop()
            if not self._later and not self._under_way:
                return None
            await asyncio.sleep(0.02)

    def done(self) -> None:
        """The payment has its final answer."""
        self._under_way -= 1

    def again(self, payment: Payment) -> None:
        """The payment has none yet."""
        self._under_way -= 1
        heapq.heappush(self._later, (time.monotonic() + PAUSE, payment.order, payment))


def held_names(plan: Plan, client: int) -> dict[str, float]:
    """Seconds until the claims run out that a process left behind when it was killed, by order."""
    path = plan.file(f"journal-{client}.db")
    if not path.exists():
        return {}
    journal = SQLiteJournal(path)
    rows = journal.entries(states=[RowState.IN_FLIGHT])
    journal.close()
    return {row.name.partition(":")[0]: max(row.lease_left, 0.0) + 0.05 for row in rows}


async def pay_all(plan: Plan, url: str, client: int) -> None:
    """Pay what this client has to pay and has no final answer for."""
    path = plan.file(f"statements-{client}.jsonl")
    known = {statement.order for statement in read(path) if statement.final}
    left = [payment for payment in plan.shard(client) if payment.order not in known]
    contender = CONTENDERS[plan.contender]
    held = held_names(plan, client) if contender.resumes else {}
    with plan.file(f"resumed-{client}.txt").open("a") as file:
        file.write(f"{len(held)}\n")
    work = Work(left, held)
    with Writer(path) as writer:
        async with contender.opened(plan, url, client) as pay:
            begun: dict[str, float] = {}
            async with asyncio.TaskGroup() as group:
                for _ in range(plan.concurrency):
                    group.create_task(_keep_paying(work, pay, writer, begun))


async def _keep_paying(work: Work, pay: Pay, writer: Writer, begun: dict[str, float]) -> None:
    while (payment := await work.next()) is not None:
        start = begun.setdefault(payment.order, time.monotonic())
        statement = await pay(payment)
        writer.write(dataclasses.replace(statement, seconds=time.monotonic() - start))
        if statement.final:
            work.done()
        else:
            work.again(payment)


if __name__ == "__main__":
    asyncio.run(pay_all(Plan.from_text(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
