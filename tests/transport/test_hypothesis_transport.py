"""Any script of faults, through the real driver, the server in memory: one key, one body, one effect, a true report.

The server keeps the articles' contract. What it is made to say without meaning it (a canned answer) is limited to what
a gateway or a limiter in front of it could say as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st
from tenacity import stop_after_attempt, wait_fixed

import samekey
from samekey import IdempotencyError, NotSent, Outcome, OutcomeUnknown, Report, RetryPolicy
from samekey.events import WaitScheduled
from samekey.testing import Fault, LedgerServer, Reply, faults, no_waiting
from tests.transport.harness import the

MARKED = {"Idempotent-Replayed": "true"}
BEFORE_THE_SERVER = st.sampled_from([
    faults.drop(), faults.drop(reset=True), faults.refuse(), faults.refuse(),
    *[faults.status(code) for code in (400, 401, 403, 404, 407, 408, 409, 413, 425, 429, 500, 502, 503, 504)],
    faults.status(409, json={"code": "limited"}), faults.status(503, headers={"Retry-After": "7"}),
    faults.status(429, headers={"Retry-After": "61"}), faults.status(503, headers={"X-Should-Retry": "false"}),
    faults.status(404, headers={"X-Should-Retry": "true"}), faults.redirect(307, "/b"), faults.redirect(302, "/b"),
    faults.lost(executes=False), faults.reset(executes=False), faults.never(executes=False),
    faults.status(500, headers=MARKED), faults.in_progress(), faults.in_progress(status=202), faults.mismatch(),
])  # fmt: skip
AT_THE_SERVER = st.sampled_from([
    faults.ok(), faults.lost(), faults.lost(), faults.reset(), faults.never(), faults.cut(), faults.cut(0),
    faults.cut(3, end="reset"), faults.cut(end="stall"), faults.duplicated(),
    *[faults.status(code, executes=True) for code in (500, 502, 504, 408)],
])  # fmt: skip
SCRIPTS = st.lists(st.one_of(BEFORE_THE_SERVER, AT_THE_SERVER), max_size=8)
POLICY = RetryPolicy(stop=stop_after_attempt(4), wait=wait_fixed(1), poll_wait=wait_fixed(2), total_timeout=30)


def declining(_: object) -> Reply:
    return Reply.of_json(422, {"code": "card_declined"})


class World:
    """One server and one client."""

    def __init__(self, *, declines: bool, **policy: Any) -> None:
        self.server = LedgerServer(declining if declines else None)
        self.waits: list[float] = []
        settings = {name: getattr(POLICY, name) for name in ("stop", "wait", "poll_wait", "total_timeout")}
        self.client = samekey.wrap(
            httpx.Client(base_url="http://api.test", transport=self.server.transport(), timeout=0.001),
            policy=RetryPolicy(**{**settings, **policy}),
            listeners=[self.note],
        )

    def note(self, event: object) -> None:
        if isinstance(event, WaitScheduled):
            self.waits.append(event.seconds)

    def call(self) -> tuple[Report, httpx.Response | Exception]:
        """One POST, and the report of what came of it."""
        self.waits.clear()
        try:
            response = self.client.post("/charges", json={"amount": 1})
        except (httpx.HTTPError, IdempotencyError) as error:
            return the(samekey.report(error)), error
        return the(samekey.report(response)), response

    def check(self, told: Report, came: httpx.Response | Exception, before: int = 0) -> None:
        """What the report says is true of the server."""
        server = self.server
        effects = len(server.effects)
        assert effects <= 1
        assert len(server.keys) <= 1
        assert len({request.body for request in server.requests}) <= 1
        if told.outcome is Outcome.EXECUTED:
            assert effects == 1
        if told.outcome in (Outcome.REJECTED, Outcome.NOT_SENT):
            assert effects == before
        if isinstance(came, httpx.Response):
            assert told.outcome in (Outcome.EXECUTED, Outcome.REJECTED) or came.status_code in REPORTED_UNKNOWN
            if came.is_success or not before:
                assert came.is_success is (told.outcome is Outcome.EXECUTED)
        if isinstance(came, NotSent):
            assert effects == before
        if told.outcome is Outcome.UNKNOWN and isinstance(came, IdempotencyError):
            assert isinstance(came, OutcomeUnknown) or type(came).__name__ == "KeyMismatch"
            assert not isinstance(came, httpx.ConnectError)
        tries = [attempt for attempt in told.attempts if attempt.kind != "poll"]
        assert len(tries) <= 4
        assert sum(self.waits) < 30
        for attempt, wait in zip(told.attempts, self.waits, strict=False):
            assert wait >= (2.0 if attempt.status in (409, 202) and attempt.verdict == "in_progress" else 1.0)


REPORTED_UNKNOWN = {401, 407, 302, 307, 400, 403, 404, 413, 422, 425, 429}
"""401, 407 and 3xx go back to httpx; front-door answers come under a key that is not fresh, nothing known open."""


@contextmanager
def world(**settings: Any) -> Iterator[World]:
    made = World(**settings)
    with made.client, no_waiting():
        yield made


@given(script=SCRIPTS, declines=st.booleans(), then=st.sampled_from([faults.ok(), faults.lost(), faults.status(503)]))
def test_one_call(script: list[Fault], then: Fault, *, declines: bool) -> None:
    """Whatever happens on the way; and whatever is unknown at the end is resolved by going on with its key."""
    with world(declines=declines) as at:
        at.server.script(*script, then=then)
        told, came = at.call()
        at.check(told, came)
        if told.outcome is Outcome.UNKNOWN:
            resolve(at, told, declines=declines)


def resolve(at: World, told: Report, *, declines: bool) -> None:
    """Go on with the key of an unknown outcome, at a server that is well again.

    A 422 without the mark of a replay may come from in front of the key's lookup; asked again, it has the mark.
    """
    at.server.script()
    assert told.key is not None
    with samekey.operation(key=told.key):
        with suppress(OutcomeUnknown):
            at.client.post("/charges", json={"amount": 1})
        response = at.client.post("/charges", json={"amount": 1})
    assert samekey.is_replayed(response)
    assert the(samekey.report(response)).outcome == ("rejected" if declines else "executed")
    assert response.status_code == (422 if declines else 201)
    assert len(at.server.effects) == (0 if declines else 1)
    assert len(at.server.keys) == 1


@given(scripts=st.lists(SCRIPTS, min_size=1, max_size=3), declines=st.booleans())
def test_several_calls_of_one_operation(scripts: list[list[Fault]], *, declines: bool) -> None:
    """One key over all calls; "executed" sticks."""
    with world(declines=declines) as at, samekey.operation() as op:
        executed = False
        for script in scripts:
            at.server.script(*script)
            before = len(at.server.effects)
            told, came = at.call()
            at.check(told, came, before)
            assert told.key == op.key
            executed = executed or told.outcome is Outcome.EXECUTED
            if executed:
                assert told.outcome is Outcome.EXECUTED


@given(scripts=st.lists(SCRIPTS, min_size=1, max_size=4), resume=st.booleans(), declines=st.booleans())
def test_a_loop_without_an_operation(scripts: list[list[Fault]], *, resume: bool, declines: bool) -> None:
    """The caller repeats until something final comes back: one effect at most, however often he does."""
    mode = "resume" if resume else "raise"
    with world(declines=declines, on_unresolved=mode) as at:
        for script in scripts:
            at.server.script(*script)
            told, came = at.call()
            assert len(at.server.effects) <= 1
            if told.outcome is not Outcome.UNKNOWN:
                # Final: another call would be an operation of its own.
                assert len(at.server.effects) == (told.outcome is Outcome.EXECUTED)
                break
            assert isinstance(came, OutcomeUnknown | httpx.Response)
