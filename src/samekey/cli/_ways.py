"""The two ways to send a payment, and what its sender is told each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx
import tenacity

import samekey
from samekey import Outcome, Report

from ._bank import PATH, READ_TIMEOUT, Payment

CALLS = 6
"""How often an operation whose outcome is unknown is taken up again."""

WAIT = tenacity.wait_random_exponential(multiplier=0.05, max=0.4)
STOP = tenacity.stop_after_attempt(5)


@dataclass(frozen=True, slots=True)
class Statement:
    """What one call told its caller about a payment.

    *outcome* is None if it only failed, without a word about what that means. *charge* is the id in the answer.
    """

    order: str
    outcome: Outcome | None
    charge: str | None = None
    replayed: bool = False
    report: Report | None = None


Way = Callable[[httpx.Client, Payment], list[Statement]]


def plain_client(url: str) -> httpx.Client:
    """A client as everybody makes it (no proxy: the server is on loopback)."""
    return httpx.Client(base_url=url, timeout=httpx.Timeout(5.0, read=READ_TIMEOUT), trust_env=False)


def samekey_client(url: str) -> httpx.Client:
    """The same client, wrapped; as many attempts, and waits of the same length."""
    return samekey.wrap(plain_client(url), policy=samekey.RetryPolicy(stop=STOP, wait=WAIT, poll_wait=WAIT))


def pay_plainly(client: httpx.Client, payment: Payment) -> list[Statement]:
    """Httpx with a common retry layer around it: repeats after transport errors and 5xx, without a key."""

    @tenacity.retry(retry=tenacity.retry_if_exception(_is_transient), wait=WAIT, stop=STOP, reraise=True)
    def send() -> httpx.Response:
        response = client.post(PATH, json=payment.body())
        if response.status_code >= 500:
            response.raise_for_status()
        return response

    try:
        response = send()
    except httpx.HTTPError:
        return [Statement(payment.order, None)]
    return [_told(payment, response)]


def pay_with_samekey(client: httpx.Client, payment: Payment) -> list[Statement]:
    """samekey: one call; if it ends unknown, the same operation is taken up again with its key."""
    statements: list[Statement] = []
    key = None
    while len(statements) < CALLS:
        with samekey.operation(key=key):
            try:
                response = client.post(PATH, json=payment.body())
            except samekey.IdempotencyError as error:
                statements.append(_failed(payment, error))
                if statements[-1].outcome is not Outcome.UNKNOWN:
                    return statements
                key = error.key
            else:
                return [*statements, _told(payment, response)]
    return statements


def _failed(payment: Payment, error: samekey.IdempotencyError) -> Statement:
    return Statement(payment.order, error.report.outcome, report=error.report)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError | httpx.HTTPStatusError)


def _told(payment: Payment, response: httpx.Response) -> Statement:
    """What an answer says; the outcome is samekey's own word where there is one."""
    report = samekey.report(response)
    outcome = Outcome.EXECUTED if response.is_success else Outcome.REJECTED
    return Statement(
        payment.order,
        outcome if report is None else report.outcome,
        charge=response.json().get("id"),
        replayed=samekey.is_replayed(response),
        report=report,
    )
