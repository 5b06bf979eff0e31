"""`samekey demo`: the same payments, behind the same faults, sent in two ways; the numbers side by side."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samekey import Outcome

from ._audit import Findings, audit
from ._bank import Bank, Books, Payment, Settings, payments_of
from ._screen import Screen
from ._show import heading, story_of, table, verdict
from ._story import Story, pick
from ._ways import Statement, Way, pay_plainly, pay_with_samekey, plain_client, samekey_client

if TYPE_CHECKING:
    import httpx

WORKERS = 8


@dataclass(frozen=True, slots=True)
class Run:
    """One way to send all payments: what was told, what was done, how long it took."""

    statements: tuple[Statement, ...]
    books: Books
    findings: Findings
    seconds: float

    def numbers(self, payments: list[Payment]) -> dict[str, float]:
        """The figures of the table."""
        last = {statement.order: statement.outcome for statement in self.statements}
        unknown = {statement.order for statement in self.statements if statement.outcome is Outcome.UNKNOWN}
        charged = self.books.charges
        return {
            "payments": len(payments),
            "declined": sum(outcome is Outcome.REJECTED for outcome in last.values()),
            "charges": sum(map(len, charged.values())),
            "doubled": len(self.findings.doubled),
            "executed_but_reported_failed": sum(
                order in charged and outcome not in (Outcome.EXECUTED, Outcome.UNKNOWN)
                for order, outcome in last.items()
            ),
            "reported_unknown_then_settled": sum(last[order] is not Outcome.UNKNOWN for order in unknown),
            "replayed": sum(statement.replayed for statement in self.statements),
            "requests": self.books.requests,
            "seconds": round(self.seconds, 2),
        }


def demo(settings: Settings, *, plain: bool = False, as_json: bool = False) -> int:
    """Run the demo and print it.

    Returns:
        0 if samekey doubled nothing, lost nothing, and each of its reports was true; else 1.
    """
    screen = Screen(plain=plain, quiet=as_json)
    payments = payments_of(settings)
    if not as_json:
        screen.show(heading(settings))
    with screen.progress(len(payments)) as track:
        without = run(settings, payments, plain_client, pay_plainly, track("httpx + tenacity, no key"))
        keyed = run(settings, payments, samekey_client, pay_with_samekey, track("samekey"))
    story = pick(keyed.statements, keyed.books, without.statements, without.books)
    numbers = without.numbers(payments), keyed.numbers(payments)
    if as_json:
        sys.stdout.write(_as_json(settings, numbers, keyed.findings, story))
    else:
        screen.show(table(*numbers))
        if story is not None:
            screen.show(story_of(story))
        screen.show(verdict(keyed.findings, len(keyed.statements)))
    return 1 if keyed.findings.all else 0


def run(
    settings: Settings,
    payments: list[Payment],
    make_client: Callable[[str], httpx.Client],
    pay: Way,
    advance: Callable[[], None],
) -> Run:
    """Send all *payments* one way to a bank of their own, with a few threads, and audit it."""
    bank = Bank(settings)
    statements: list[Statement] = []
    with bank.server.listen() as url, make_client(url) as client, ThreadPoolExecutor(WORKERS) as pool:
        started = time.monotonic()
        try:
            for paid in as_completed([pool.submit(pay, client, payment) for payment in payments]):
                statements += paid.result()
                advance()
        finally:
            pool.shutdown(cancel_futures=True)
        seconds = time.monotonic() - started
    books = bank.close_books()
    return Run(tuple(statements), books, audit(payments, statements, books), seconds)


def _as_json(
    settings: Settings, numbers: tuple[dict[str, float], dict[str, float]], findings: Findings, story: Story | None
) -> str:
    document = {
        "seed": settings.seed,
        "faults": settings.faults,
        "httpx_tenacity": numbers[0],
        "samekey": numbers[1],
        "findings": {"doubled": findings.doubled, "lost": findings.lost, "untrue": findings.untrue},
        "ok": not findings.all,
        "timeline": None if story is None else story.as_dict(),
    }
    return json.dumps(document, indent=2) + "\n"
