"""What an operator sees: every event, on every colour; listeners that fail harm nothing (BR-65)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tenacity import stop_after_attempt, wait_fixed, wait_none

import samekey
from samekey import KeyMismatch, NotSent, OutcomeUnknown, RetryPolicy
from samekey._keys import digest
from samekey.events import (
    AttemptFinished,
    CallFinished,
    CallStarted,
    DuplicateSuspected,
    Event,
    MismatchFound,
    UnresolvedRepeated,
    WaitScheduled,
)
from samekey.testing import faults
from tests.transport.harness import Api, closed_port, raises, the

QUICK = RetryPolicy(wait=wait_none())
ONCE = RetryPolicy(stop=stop_after_attempt(1))


def names(api: Api) -> list[str]:
    return [type(event).__name__ for event in api.events]


async def test_br_65_retries_are_visible(api: Api) -> None:
    """Two 503s and a success: number, reason, wait, status and a short key of each attempt."""
    api.server.script(faults.status(503), faults.status(503))
    async with api.client(policy=RetryPolicy(wait=wait_fixed(1.5)), listen=True) as client:
        response = await client.post("/charges?secret=1")

    assert names(api) == [
        "CallStarted", "AttemptStarted", "AttemptFinished", "WaitScheduled", "AttemptStarted", "AttemptFinished",
        "WaitScheduled", "AttemptStarted", "AttemptFinished", "CallFinished",
    ]  # fmt: skip
    key = digest(api.server.keys[0])
    assert {(event.key, event.method, event.url, event.name) for event in api.events} == {
        (key, "POST", f"{api.url}/charges", None)
    }
    attempts = [event.attempt for event in api.events if isinstance(event, AttemptFinished)]
    assert [(attempt.number, attempt.kind, attempt.status, attempt.open) for attempt in attempts] == [
        (1, "first", 503, True), (2, "retry", 503, True), (3, "retry", 201, False),
    ]  # fmt: skip
    assert tuple(attempts) == the(samekey.report(response)).attempts
    assert api.waits == [1.5, 1.5]
    end = api.events[-1]
    assert isinstance(end, CallFinished)
    assert (end.outcome, end.attempts, end.replayed, end.gave_up, end.error) == ("executed", 3, None, None, None)
    assert end.elapsed >= 3


async def test_polls_are_told_apart(api: Api) -> None:
    api.server.script(faults.lost(), faults.in_progress())
    async with api.client(listen=True, policy=QUICK) as client:
        await client.post()

    assert [event.poll for event in api.events if isinstance(event, WaitScheduled)] == [False, True]
    assert isinstance(api.events[-1], CallFinished)
    assert api.events[-1].replayed is True


async def test_an_error_at_the_end(api: Api) -> None:
    """Its class name, and which limit ended the call."""
    async with api.client(listen=True, policy=QUICK, base_url=closed_port()) as client:
        with raises(NotSent):
            await client.post()
    api.server.script(then=faults.lost())
    async with api.client(listen=True, policy=QUICK) as client:
        with raises(OutcomeUnknown):
            await client.post()
        with raises(api.httpx.RemoteProtocolError):
            await client.get()

    ends = [event for event in api.events if isinstance(event, CallFinished)]
    assert [(end.error, end.outcome, end.gave_up) for end in ends] == [
        ("NotSent", "not_sent", "attempts"),
        ("OutcomeUnknown", "unknown", "attempts"),
        ("RemoteProtocolError", "unknown", "attempts"),
    ]
    assert ends[-1].key is None


async def test_mismatches(api: Api) -> None:
    """Found here before sending, or told by the server."""
    api.server.script(faults.ok(), faults.mismatch())
    async with api.client(listen=True) as client:
        with samekey.operation():
            await client.post(json={"n": 1})
            with raises(KeyMismatch):
                await client.post(json={"n": 2})
        with raises(KeyMismatch):
            await client.post(json={"n": 3})

    assert [event.local for event in api.events if isinstance(event, MismatchFound)] == [True, False]


@pytest.mark.parametrize("mode", ["raise", "resume"])
async def test_unresolved_repeats(api: Api, mode: Any) -> None:
    api.server.script(faults.lost())
    policy = RetryPolicy(stop=stop_after_attempt(1), on_unresolved=mode)
    async with api.client(listen=True, policy=policy) as client:
        with raises(OutcomeUnknown):
            await client.post()
        if mode == "raise":
            with raises(OutcomeUnknown):
                await client.post()
        else:
            await client.post()

    repeated = [event for event in api.events if isinstance(event, UnresolvedRepeated)]
    assert [(event.resumed, event.key) for event in repeated] == [(mode == "resume", digest(api.server.keys[0]))]


async def test_suspected_duplicates(api: Api) -> None:
    """Told "not replayed" after an open attempt; a second success that differs from the first."""
    fresh = {"Idempotent-Replayed": "false"}
    api.server.script(
        faults.lost(),
        faults.status(201, json={"id": 2}, headers=fresh),
        faults.status(201, json={"id": 3}),
        faults.status(201, json={"id": 3}),
        faults.status(201, json={"id": 4}),
    )
    async with api.client(listen=True) as client:
        response = await client.post()
        assert the(samekey.report(response)).replayed is False
        with samekey.operation():
            for _ in range(3):
                await client.post()

    reasons = [event.reason for event in api.events if isinstance(event, DuplicateSuspected)]
    assert reasons == [
        "the server says that this answer is not a replay",
        "a second answer differs from the first",
    ]


async def test_no_suspicion_without_cause(api: Api) -> None:
    """A first answer that says "not replayed", and true replays."""
    fresh = {"Idempotent-Replayed": "false"}
    api.server.script(faults.status(201, headers=fresh), faults.ok(), faults.lost(), faults.ok())
    async with api.client(listen=True) as client:
        await client.post(json={"n": 1})
        with samekey.operation():
            for _ in range(3):
                await client.post()

    assert DuplicateSuspected not in map(type, api.events)


async def test_a_listener_that_fails_harms_nothing(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the others are told all the same, and the call is as it was."""

    def broken(event: Event) -> None:
        raise ZeroDivisionError

    api.server.script(faults.lost())
    with caplog.at_level(logging.ERROR, "samekey"):
        async with api.client(listeners=[broken], listen=True) as client:
            response = await client.post()

    assert samekey.is_replayed(response)
    assert "CallStarted" in names(api)
    assert "CallFinished" in names(api)
    assert "a samekey listener failed on CallStarted" in caplog.text


async def test_log_events(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """One record each; trouble as a warning, the rest as debug; the fields as extras."""
    api.server.script(faults.status(503))
    with caplog.at_level(logging.DEBUG, "samekey"):
        async with api.client(listeners=[samekey.log_events], policy=ONCE) as client:
            with raises(OutcomeUnknown):
                await client.post(json={"n": 1})
            await client.post(json={"n": 2})
            with raises(OutcomeUnknown):
                await client.post(json={"n": 1})

    records = [record for record in caplog.records if record.name == "samekey"]
    events = [vars(record)["samekey_event"] for record in records]
    assert events == [
        "CallStarted", "AttemptStarted", "AttemptFinished", "GivenUp", "CallFinished",
        "CallStarted", "AttemptStarted", "AttemptFinished", "CallFinished", "UnresolvedRepeated",
    ]  # fmt: skip
    warnings = [event for event, record in zip(events, records, strict=True) if record.levelno == logging.WARNING]
    assert warnings == ["CallFinished", "UnresolvedRepeated"]
    assert vars(records[4])["samekey_outcome"] == "unknown"
    assert f"key={digest(api.server.keys[0])}" in records[0].getMessage()


async def test_unkeyed_calls_have_events_too(api: Api) -> None:
    api.server.script(faults.status(503))
    async with api.client(listen=True, policy=QUICK) as client:
        await client.get("/x?y=z")

    assert names(api) == [
        "CallStarted", "AttemptStarted", "AttemptFinished", "WaitScheduled", "AttemptStarted", "AttemptFinished",
        "CallFinished",
    ]  # fmt: skip
    assert {(event.key, event.method, event.url) for event in api.events} == {(None, "GET", f"{api.url}/x")}


async def test_a_redirected_call_starts_once_for_each_leg(api: Api) -> None:
    """Each transport call has its start and end; attempts are counted on."""
    api.server.script(faults.redirect(307, "/b"))
    async with api.client(listen=True, follow_redirects=True) as client:
        await client.post()

    starts = [event.url for event in api.events if isinstance(event, CallStarted)]
    assert starts == [f"{api.url}/charges", f"{api.url}/b"]
    assert [event.attempt.number for event in api.events if isinstance(event, AttemptFinished)] == [1, 2]
