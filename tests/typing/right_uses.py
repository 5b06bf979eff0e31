"""What users write, as type checkers see it. Never run: mypy and pyright read it (`make types`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, assert_type

import httpx
import httpx2
import tenacity

import samekey
from samekey.dialects import STRIPE, Header, JsonField, KeyRule, Rule
from samekey.events import AttemptFinished, Event
from samekey.journal import AsyncJournal, AsyncMemoryJournal, Entry, Journal, MemoryJournal
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal


class Shop(httpx.Client):
    """A client of a user's own keeps its type."""


# -- wrap gives back what it was given

client = samekey.wrap(httpx.Client(base_url="https://api.example.com"))
assert_type(client, httpx.Client)
assert_type(samekey.wrap(httpx.AsyncClient(), origins="*"), httpx.AsyncClient)
assert_type(samekey.wrap(Shop(), origins=["https://api.example.com"]), Shop)
assert_type(samekey.wrap(httpx2.Client(), origins={"https://api.stripe.com": STRIPE}), httpx2.Client)
assert_type(client.post("/v1/charges", extensions=samekey.options(retry=False)), httpx.Response)

# -- settings

policy = samekey.RetryPolicy(
    stop=tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(10),
    wait=tenacity.wait_random_exponential(max=5) + tenacity.wait_fixed(1),
    total_timeout=timedelta(seconds=30),
    budget=samekey.SharedBudget(samekey.RetryBudget(capacity=10)),
    on_unresolved="resume",
)
samekey.wrap(httpx.Client(), origins="*", policy=policy, listeners=[samekey.log_events])
samekey.RetryPolicy(total_timeout=None, budget=None)
assert_type(samekey.options(key=False, total_timeout=None), dict[str, Any])
dialect = samekey.Dialect(
    name="mine",
    carrier=JsonField("meta.key") if policy.budget else Header(name="X-Key"),
    key=KeyRule(form="uuid4"),
    retention=timedelta(hours=6),
    rules=(Rule(samekey.Verdict.IN_PROGRESS, status=423),),
    bare_status={409: samekey.Verdict.IN_PROGRESS},
)

# -- transports fit where httpx wants one

httpx.Client(transport=samekey.IdempotentTransport(httpx.HTTPTransport(), dialect=dialect))
httpx.AsyncClient(transport=samekey.AsyncIdempotentTransport())
httpx.Client(mounts={"https://": samekey.IdempotentTransport()})

# -- operations

with samekey.operation("order-4821:charge", scope="shop") as op:
    assert_type(op, samekey.Operation)
    assert_type(op.key, str)
    assert_type(op.report, samekey.Report | None)
    with op.step("mail") as part:
        assert_type(part, samekey.Operation)
assert_type(samekey.current_operation(), samekey.Operation | None)
assert_type(samekey.new_key(), str)
assert_type(samekey.derive_key("shop", "order-4821"), str)

# -- answers and errors


def pay() -> str | None:
    """The code of a caller."""
    try:
        response = client.post("/v1/charges")
    except samekey.AlreadyExecuted as error:
        return error.resource
    except samekey.OutcomeUnknown as error:
        assert_type(error.key, str | None)
        assert_type(error.report, samekey.Report)
        return error.key
    except samekey.IdempotencyError as error:
        return str(error)
    report = samekey.report(response)
    assert_type(report, samekey.Report | None)
    if report is not None:
        assert_type(report.outcome, samekey.Outcome)
        assert_type(report.attempts, tuple[samekey.Attempt, ...])
        assert_type(report.replayed, bool | None)
        match report.outcome:
            case samekey.Outcome.EXECUTED | samekey.Outcome.REJECTED:
                return "done"
            case samekey.Outcome.NOT_SENT | samekey.Outcome.UNKNOWN:
                return None
    return "replayed" if samekey.is_replayed(response) else "first"


# -- listeners: a function, a method, an object


def count(event: Event) -> None:
    """A function will do."""
    if isinstance(event, AttemptFinished):
        assert_type(event.attempt.status, int | None)


class Watch:
    """So will an object that can be called."""

    def __call__(self, event: Event, /) -> None:
        """Take note."""


listener: samekey.Listener = count
listeners: list[samekey.Listener] = [count, Watch(), samekey.log_events]

# -- journals fit their ports

journal: Journal = SQLiteJournal("operations.sqlite3")
memory: Journal = MemoryJournal()
async_journal: AsyncJournal = AsyncSQLiteJournal("operations.sqlite3")
async_memory: AsyncJournal = AsyncMemoryJournal()
assert_type(journal.unresolved(), list[Entry])
samekey.wrap(httpx.Client(), origins="*", journal=journal)

origins: Mapping[str, samekey.Dialect] = {"https://api.example.com": samekey.GENERIC}
samekey.wrap(httpx.Client(), origins=origins)
