"""The ways to send a payment: samekey, and what people use instead. Each gives back what its caller is told."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import httpx_retries
import tenacity
from httpx_tenacity.async_tenacious_transport import AsyncTenaciousTransport

import samekey
from samekey.sqlite import AsyncSQLiteJournal

from .plan import Plan
from .statements import Statement
from .weather import Payment

PATH = "/v1/charges"
ATTEMPTS = 5
WAIT = tenacity.wait_random_exponential(multiplier=0.05, max=0.5)

Pay = Callable[[Payment], Awaitable[Statement]]
Opened = Callable[[Plan, str, int], contextlib.AbstractAsyncContextManager[Pay]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to pay.

    Attributes:
        title: For the table.
        keyed: Sends an idempotency key.
        resumes: Takes payments up again that ended without a final answer.
        opened: From the plan, the address and the number of the client process: the function that pays.
    """

    title: str
    keyed: bool
    resumes: bool
    opened: Opened


class Renewing(httpx.Auth):
    """A token that the gateway may refuse; then it is renewed, once a request."""

    def __init__(self) -> None:
        self._renewals = 0

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send, and send once more with another token after a 401."""
        request.headers["Authorization"] = f"Bearer token-{self._renewals}"
        response = yield request
        if response.status_code == 401:
            self._renewals += 1
            request.headers["Authorization"] = f"Bearer token-{self._renewals}"
            yield request


def _client(plan: Plan, url: str, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=url,
        timeout=httpx.Timeout(plan.read_timeout, connect=2.0, pool=10.0),
        transport=transport or httpx.AsyncHTTPTransport(),
        auth=Renewing(),
        trust_env=False,
    )


# -- samekey


@asynccontextmanager
async def _samekey(plan: Plan, url: str, client: int) -> AsyncGenerator[Pay, None]:
    journal = AsyncSQLiteJournal(plan.file(f"journal-{client}.db"))
    policy = samekey.RetryPolicy(
        stop=tenacity.stop_after_attempt(ATTEMPTS), wait=WAIT, poll_wait=WAIT, total_timeout=plan.total_timeout
    )
    async with samekey.wrap(_client(plan, url), policy=policy, journal=journal) as wrapped:

        async def pay(payment: Payment) -> Statement:
            try:
                with samekey.operation(f"{payment.order}:charge"):
                    response = await wrapped.post(PATH, json=payment.body())
            except samekey.IdempotencyError as error:
                return _told(payment, error.report, error.response, error)
            return _told(payment, samekey.report(response), response)

        yield pay
    await journal.aclose()


def _told(
    payment: Payment, report: samekey.Report | None, response: httpx.Response | None, error: Exception | None = None
) -> Statement:
    assert report is not None
    status = None if response is None else response.status_code
    # A 401 or 429 from the front door is no answer to the payment; the journal leaves the name open too.
    final = error is None and status not in {401, 429} and str(report.outcome) in {"executed", "rejected"}
    return _statement(
        payment,
        str(report.outcome),
        response if error is None else None,
        final=final,
        status=status,
        replayed=report.replayed is True,
        journal=report.source == "journal",
        attempts=len(report.attempts),
        error=type(error).__name__ if error else None,
    )


def _statement(payment: Payment, outcome: str, response: httpx.Response | None, **more: Any) -> Statement:
    made = response.json() if response is not None and response.is_success else {}
    return Statement(order=payment.order, outcome=outcome, charge=made.get("id"), amount=made.get("amount"), **more)


# -- the rivals


def _rival(
    send: Callable[[httpx.AsyncClient, Payment], Awaitable[httpx.Response]],
    transport: Callable[[], httpx.AsyncBaseTransport] = httpx.AsyncHTTPTransport,
) -> Opened:
    """A client without samekey; what its caller is told is read as most programs read it."""

    @asynccontextmanager
    async def opened(plan: Plan, url: str, client: int) -> AsyncIterator[Pay]:
        async with _client(plan, url, transport()) as plain:

            async def pay(payment: Payment) -> Statement:
                try:
                    response = await send(plain, payment)
                except (httpx.HTTPError, tenacity.RetryError) as error:
                    return _statement(payment, "failed", None, final=True, error=type(error).__name__)
                refused = "rejected" if response.status_code < 500 else "failed"
                outcome = "executed" if response.is_success else refused
                replayed = response.headers.get("Idempotent-Replay") == "true"
                return _statement(
                    payment, outcome, response, final=True, status=response.status_code, replayed=replayed
                )

            yield pay

    return opened


def _key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid.uuid4())}


async def _once(client: httpx.AsyncClient, payment: Payment) -> httpx.Response:
    return await client.post(PATH, json=payment.body())


async def _once_keyed(client: httpx.AsyncClient, payment: Payment) -> httpx.Response:
    return await client.post(PATH, json=payment.body(), headers=_key())


def _retrying() -> tenacity.AsyncRetrying:
    return tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=WAIT,
        retry=tenacity.retry_if_exception(_is_transient),
        reraise=True,
    )


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, httpx.TransportError | httpx.HTTPStatusError)


async def _send(client: httpx.AsyncClient, payment: Payment, headers: dict[str, str]) -> httpx.Response:
    response = await client.post(PATH, json=payment.body(), headers=headers)
    if response.status_code == 429 or response.status_code >= 500:
        response.raise_for_status()
    return response


async def _tenacious(client: httpx.AsyncClient, payment: Payment) -> httpx.Response:
    return await _retrying()(_send, client, payment, {})


async def _tenacious_keyed_inside(client: httpx.AsyncClient, payment: Payment) -> httpx.Response:
    async def send() -> httpx.Response:
        return await _send(client, payment, _key())

    return await _retrying()(send)


async def _tenacious_keyed_outside(client: httpx.AsyncClient, payment: Payment) -> httpx.Response:
    return await _retrying()(_send, client, payment, _key())


def _httpx_retries() -> httpx.AsyncBaseTransport:
    retry = httpx_retries.Retry(total=ATTEMPTS - 1, allowed_methods=["POST"], backoff_factor=0.1, max_backoff_wait=0.5)
    return httpx_retries.RetryTransport(transport=httpx.AsyncHTTPTransport(), retry=retry)


def _httpx_tenacity() -> httpx.AsyncBaseTransport:
    # It does not close the answers that it discards, so each keeps its connection: with the usual limit of 100 the
    # pool is exhausted after as many answers of 5xx, and nothing is sent any more.
    unlimited = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=None))
    return AsyncTenaciousTransport.create(
        max_attempts=ATTEMPTS, multiplier=0.05, max_wait_seconds=0.5, transport=unlimited
    )


CONTENDERS = {
    "samekey": Contender("samekey", keyed=True, resumes=True, opened=_samekey),
    "httpx": Contender("plain httpx", keyed=False, resumes=False, opened=_rival(_once)),
    "httpx-retries": Contender(
        "httpx-retries, POST allowed", keyed=False, resumes=False, opened=_rival(_once, _httpx_retries)
    ),
    "httpx-tenacity": Contender("httpx-tenacity", keyed=False, resumes=False, opened=_rival(_once, _httpx_tenacity)),
    "tenacity": Contender("tenacity around the call", keyed=False, resumes=False, opened=_rival(_tenacious)),
    "tenacity-key-inside": Contender(
        "tenacity, key made inside", keyed=True, resumes=False, opened=_rival(_tenacious_keyed_inside)
    ),
    "tenacity-key-outside": Contender(
        "tenacity, key made outside", keyed=True, resumes=False, opened=_rival(_tenacious_keyed_outside)
    ),
    "httpx-retries-key": Contender(
        "httpx-retries + a key", keyed=True, resumes=False, opened=_rival(_once_keyed, _httpx_retries)
    ),
}
