"""Every event, on every colour; as plain key-values; and nothing secret in any of them."""

from __future__ import annotations

import json
import logging
from dataclasses import fields
from typing import Any

import pytest
import structlog
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import IdempotencyError, RetryPolicy, StillInProgress, events
from samekey._keys import digest
from samekey.events import Event, JournalStepped, WaitScheduled, as_dict
from samekey.journal import AsyncMemoryJournal, MemoryJournal
from samekey.testing import faults
from tests.transport.harness import Api, Client, on_httpx, raises, the

QUICK = RetryPolicy(wait=wait_none(), poll_wait=wait_none())
EVENTS = {kind.__name__: kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)}
del EVENTS["Event"]

SECRETS = {
    "token": "Bearer tok-5f3a-secret",
    "cookie": "session-9b1c-secret",
    "key": "key-77aa-secret-of-a-person",
    "query": "query-41d0-secret",
    "request body": "body-c0ff-secret",
    "answer body": "answer-e11e-secret",
    "answer header": "header-d00d-secret",
}


def journal_of(api: Api) -> Any:
    return MemoryJournal() if api.sync else AsyncMemoryJournal()


async def everything(api: Api, client: Client) -> None:
    """Calls that end in every way there is, with secrets wherever a request or an answer has a place for one."""
    answer: dict[str, Any] = {
        "json": {"card": SECRETS["answer body"]},
        "headers": {"X-Trace": SECRETS["answer header"]},
    }
    settings: dict[str, Any] = {
        "headers": {"Authorization": SECRETS["token"], "Cookie": f"id={SECRETS['cookie']}"},
        "params": {"q": SECRETS["query"]},
        "json": {"card": SECRETS["request body"]},
    }
    keyed = samekey.options(key=SECRETS["key"])
    api.server.script(
        faults.lost(),
        faults.in_progress(),
        faults.status(503, headers={"Retry-After": "3"}),
        faults.status(201, **answer),
    )
    await client.post(**settings, extensions=keyed)
    api.server.script(faults.mismatch())
    with raises(IdempotencyError):
        await client.post(**{**settings, "json": {"other": 1}}, extensions=keyed)
    api.server.script(faults.mismatch())
    with raises(IdempotencyError):
        await client.post(**settings)
    api.server.script(then=faults.status(503))
    with raises(IdempotencyError):
        await client.post(**settings)
    with raises(IdempotencyError):
        await client.post(**settings)
    api.server.script(faults.status(201, **answer), faults.status(201, json={"card": 2}))
    with samekey.operation():
        await client.post("/b", **settings)
        await client.post("/b", **settings)
    api.server.script(faults.lost(), faults.ok())
    with samekey.operation("order-1:charge"):
        await client.post("/named", **settings)
    with samekey.operation("order-1:charge"):
        await client.post("/named", **settings)


@pytest.fixture
def emitted(api: Api) -> list[Event]:
    """All events of `everything`."""

    async def play() -> None:
        policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_none(), poll_wait=wait_none())
        async with api.client(policy=policy, journal=journal_of(api), listen=True) as client:
            await everything(api, client)

    api.run(play)
    return api.events


@pytest.mark.parametrize("kind", EVENTS)
def test_every_event_is_produced(emitted: list[Event], kind: str) -> None:
    """On every colour, with both libraries."""
    assert kind in {type(event).__name__ for event in emitted}


def test_every_event_is_plain_when_it_is_asked_to_be(emitted: list[Event]) -> None:
    """Strings, numbers, booleans and None, and nothing is lost."""
    for event in emitted:
        values = as_dict(event)
        assert values.pop("event") == type(event).__name__
        assert {type(value) for value in values.values()} <= {str, int, float, bool, type(None)}, values
        assert {field.name for field in fields(event)} - {"attempt"} <= values.keys()
        json.dumps(values)


@pytest.mark.parametrize("what", SECRETS)
def test_no_event_has_a_secret(emitted: list[Event], what: str) -> None:
    """Authorization, cookies, the key, the query and the bodies are in no event, whichever way it is shown."""
    secret = SECRETS[what]
    for event in emitted:
        assert secret not in repr(event)
        assert secret not in json.dumps(as_dict(event))


async def test_nothing_secret_is_logged(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """By `log_events`, and by what else is logged meanwhile under the name samekey."""
    with caplog.at_level(logging.DEBUG, "samekey"):
        policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_none(), poll_wait=wait_none())
        async with api.client(policy=policy, journal=journal_of(api), listeners=[samekey.log_events]) as client:
            await everything(api, client)

    records = [record for record in caplog.records if record.name == "samekey"]
    assert len(records) > 30
    shown = "\n".join(f"{record.getMessage()} {vars(record)}" for record in records)
    assert [what for what, secret in SECRETS.items() if secret in shown] == []
    assert digest(SECRETS["key"]) in shown


async def test_what_others_say_is_not_repeated(api: Api) -> None:
    """The text of an exception that is not the HTTP library's may have anything in it; so may a quoted header line."""

    def unforeseen(request: Any) -> Any:
        raise ZeroDivisionError(SECRETS["request body"])

    def quoting(request: Any) -> Any:
        raise api.httpx.RemoteProtocolError(f"illegal header line: bytearray(b'Set-Cookie: {SECRETS['cookie']}')")

    for handle in (unforeseen, quoting):
        async with api.client(transport=api.inner(handle), listen=True, policy=QUICK) as client:
            with pytest.raises(Exception, match=r"secret|no answer"):
                await client.post(json={"n": str(handle)})

    shown = repr(api.events) + repr([as_dict(event) for event in api.events])
    assert [what for what, secret in SECRETS.items() if secret in shown] == []
    assert "bytearray((not shown))" in shown


# -- what they say


@pytest.mark.parametrize(
    ("answer", "why", "seconds"),
    [
        (faults.status(503), "backoff", 1.5),
        (faults.status(503, headers={"Retry-After": "1"}), "backoff", 1.5),
        (faults.status(503, headers={"Retry-After": "7"}), "retry_after", 7.0),
        (faults.lost(), "backoff", 1.5),
        (faults.in_progress(), "in_progress", 2.5),
        (faults.status(409), "conflict", 2.5),
    ],
)
async def test_why_a_wait(api: Api, answer: Any, why: str, seconds: float) -> None:
    api.server.script(answer)
    policy = RetryPolicy(wait=wait_fixed(1.5), poll_wait=wait_fixed(2.5))
    async with api.client(policy=policy, listen=True) as client:
        await client.post()

    waits = [event for event in api.events if isinstance(event, WaitScheduled)]
    assert [(event.why, event.seconds, event.poll) for event in waits] == [(why, seconds, seconds == 2.5)]


async def test_the_wait_for_another_process(api: Api) -> None:
    """Nothing was sent, and nothing was asked of the server."""
    journal = journal_of(api)
    policy = RetryPolicy(poll_wait=wait_fixed(20), total_timeout=50)
    async with api.client(policy=policy, journal=journal, listen=True) as client:

        async def elsewhere(request: Any) -> Any:
            with samekey.operation("order-1:charge"), raises(StillInProgress):
                await client.post()
            return api.httpx.Response(201)

        def handle(request: Any) -> Any:
            if not api.sync:
                return elsewhere(request)
            api.run(lambda: elsewhere(request))
            return api.httpx.Response(201)

        async with api.client(journal=journal, transport=api.inner(handle)) as holder:
            with samekey.operation("order-1:charge"):
                await holder.post()

    assert {event.why for event in api.events if isinstance(event, WaitScheduled)} == {"held"}
    assert api.server.requests == []
    steps = [event for event in api.events if isinstance(event, JournalStepped)]
    assert {(event.step, event.granted) for event in steps} == {("claim", False)}


async def test_the_steps_of_the_journal_take_their_time(api: Api) -> None:
    """`elapsed` is that of the step, not of the call."""
    journal = journal_of(api)
    api.server.script(faults.status(503))
    async with api.client(policy=RetryPolicy(wait=wait_fixed(10)), journal=journal, listen=True) as client:
        with samekey.operation("order-1:charge"):
            response = await client.post()

    assert the(samekey.report(response)).elapsed > 10
    steps = [event for event in api.events if isinstance(event, JournalStepped)]
    assert [(event.step, event.granted) for event in steps] == [("claim", True), ("renew", True), ("record", True)]
    assert all(0 < event.elapsed < 1 for event in steps)


async def test_calls_are_told_apart(api: Api) -> None:
    """By a number: the legs of one call share it, two calls never do."""
    api.server.script(faults.redirect(307, "/b"), faults.ok())
    async with api.client(listen=True, follow_redirects=True) as client:
        await client.post()
        first = {event.call for event in api.events}
        ends = [event.pending for event in api.events if isinstance(event, events.CallFinished)]
        api.events.clear()
        await api.together(client.post, client.post)  # type: ignore[arg-type]

    assert len(first) == 1
    assert ends == [True, False]
    assert len({event.call for event in api.events} | first) == 3


@on_httpx
async def test_structlog_takes_plain_key_values(api: Api) -> None:
    """As the documentation shows it."""
    capture = structlog.testing.LogCapture()
    log = structlog.wrap_logger(None, processors=[structlog.processors.add_log_level, capture])
    api.server.script(faults.status(503))
    async with api.client(policy=QUICK, listeners=[lambda event: log.info(**as_dict(event))]) as client:
        await client.post()

    names = [entry["event"] for entry in capture.entries]
    assert names == [
        "CallStarted", "AttemptStarted", "AttemptFinished", "WaitScheduled", "AttemptStarted", "AttemptFinished",
        "CallFinished",
    ]  # fmt: skip
    attempt = capture.entries[2]
    assert (attempt["number"], attempt["kind"], attempt["status"], attempt["verdict"]) == (1, "first", 503, "transient")
    assert type(attempt["kind"]) is str


@on_httpx
async def test_records_have_plain_extras(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Prefixed, so that they never clash with what a record has."""
    with caplog.at_level(logging.DEBUG, "samekey"):
        async with api.client(listeners=[samekey.log_events]) as client:
            await client.post()

    extras = {name: value for name, value in vars(caplog.records[2]).items() if name.startswith("samekey_")}
    assert (extras["samekey_event"], extras["samekey_status"], extras["samekey_kind"]) == (
        "AttemptFinished", 201, "first",
    )  # fmt: skip
    json.dumps(extras)


@on_httpx
async def test_a_level_that_is_off_costs_nothing(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "samekey"):
        async with api.client(listeners=[samekey.log_events]) as client:
            await client.post()

    assert caplog.records == []


@pytest.mark.parametrize("kind", EVENTS)
@on_httpx
async def test_a_listener_that_raises_never_harms(api: Api, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whichever event it fails on, each call ends as it does without a listener."""

    def broken(event: Event) -> None:
        if type(event).__name__ == kind:
            raise ZeroDivisionError(kind)

    policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_none(), poll_wait=wait_none())
    with caplog.at_level(logging.ERROR, "samekey"):
        async with api.client(policy=policy, journal=journal_of(api), listeners=[broken, api.events.append]) as client:
            await everything(api, client)

    assert f"a samekey listener failed on {kind}" in caplog.text
    assert {type(event).__name__ for event in api.events} == set(EVENTS)
