"""Spans and metrics, with the real SDK: on every colour, alone and beside the instrumentation of httpx."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tenacity import stop_after_attempt, wait_none

import samekey
from samekey import KeyMismatch, OutcomeUnknown, RetryBudget, RetryPolicy, StillInProgress, events
from samekey._keys import digest
from samekey._model import GaveUp, Kind, Outcome
from samekey._report import Attempt
from samekey.opentelemetry import OpenTelemetry
from samekey.testing import faults
from tests.transport.harness import Api, on_httpx, raises
from tests.transport.test_events_all import SECRETS, everything, journal_of

QUICK = RetryPolicy(wait=wait_none(), poll_wait=wait_none())
ONCE = RetryPolicy(stop=stop_after_attempt(1), unresolved_ttl=0)


@dataclass
class Telemetry:
    """One SDK in memory, and our listener on it."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    tracers: TracerProvider
    meters: MeterProvider
    listener: OpenTelemetry

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """The data points by the metric's name without its prefix."""
        data = self.reader.get_metrics_data()
        return {
            metric.name.removeprefix("samekey."): list(metric.data.data_points)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def total(self, name: str) -> Any:
        """Of a counter, over all attributes; of a histogram, how many."""
        return sum(
            point.count if isinstance(point, HistogramDataPoint) else point.value
            for point in self.metrics.get(name, [])
        )


@pytest.fixture
def otel() -> Iterator[Telemetry]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    yield Telemetry(exporter, reader, tracers, meters, OpenTelemetry(tracers, meters))
    tracers.shutdown()
    meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    found = span.get_span_context()
    assert found is not None
    return found.span_id


async def test_a_call_with_retries(api: Api, otel: Telemetry) -> None:
    """One span for the operation, one below it for each attempt, which say what became of them."""
    api.server.script(faults.status(503), faults.lost())
    async with api.client(policy=QUICK, listeners=[otel.listener]) as client:
        await client.post("/charges?secret=1")

    operation, *attempts = otel.spans
    key = digest(api.server.keys[0])
    host, port = api.url.removeprefix("http://").split(":")
    assert operation.name == "samekey POST"
    assert operation.parent is None
    assert attributes(operation) == {
        "http.request.method": "POST", "server.address": host, "server.port": int(port),
        "url.full": f"{api.url}/charges", "samekey.key": key, "samekey.outcome": "executed",
        "samekey.replayed": True, "samekey.source": "network", "samekey.attempts": 3, "samekey.verdict": "ok",
    }  # fmt: skip
    assert operation.status.status_code is StatusCode.UNSET
    assert [event.name for event in operation.events] == ["samekey.WaitScheduled"] * 2
    assert dict(operation.events[0].attributes or {})["samekey.why"] == "backoff"
    assert [(span.name, parent(span)) for span in attempts] == [("samekey attempt", id_of(operation))] * 3
    first, second, third = map(attributes, attempts)
    assert first == {
        "http.request.method": "POST", "samekey.attempt.kind": "first", "http.response.status_code": 503,
        "error.type": "503", "samekey.verdict": "transient", "samekey.attempt.open": True,
    }  # fmt: skip
    assert (second["http.request.resend_count"], second["error.type"]) == (1, "RemoteProtocolError")
    assert (third["http.request.resend_count"], third["http.response.status_code"]) == (2, 201)
    assert [span.status.status_code for span in attempts] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]


async def test_it_belongs_to_the_callers_span(api: Api, otel: Telemetry) -> None:
    """And leaves the context as it was, whichever way a call ends."""
    api.server.script(faults.ok(), faults.lost())
    tracer = otel.tracers.get_tracer("app")
    async with api.client(policy=ONCE, listeners=[otel.listener]) as client:
        with tracer.start_as_current_span("handler") as span:
            await client.post(json={"n": 1})
            with raises(OutcomeUnknown):
                await client.post(json={"n": 2})
            assert trace.get_current_span() is span
        assert context.get_current() == {}

    (handler,) = otel.named("handler")
    operations = otel.named("samekey POST")
    assert [parent(span) for span in operations] == [id_of(handler)] * 2
    assert [attributes(span)["samekey.outcome"] for span in operations] == ["executed", "unknown"]
    assert operations[1].status.status_code is StatusCode.ERROR
    assert (attributes(operations[1])["error.type"], attributes(operations[1])["samekey.gave_up"]) == (
        "OutcomeUnknown", "attempts",
    )  # fmt: skip


async def test_each_attempt_is_current_while_it_runs(api: Api, otel: Telemetry) -> None:
    """So whatever the inner transport reports is its child; calls at the same time do not mix."""
    tracer = otel.tracers.get_tracer("inner")
    seen: list[tuple[int, str]] = []

    def handle(request: Any) -> Any:
        with tracer.start_as_current_span("wire") as span:
            seen.append((span.get_span_context().span_id, request.headers["idempotency-key"]))
        failures = sum(key == request.headers["idempotency-key"] for _, key in seen)
        return api.httpx.Response(503 if failures < 3 else 201, request=request)

    async def slow(request: Any) -> Any:
        await api.sleep(0.01)
        return handle(request)

    async with api.client(
        policy=QUICK, transport=api.inner(handle if api.sync else slow), listeners=[otel.listener]
    ) as client:

        def call(number: int) -> Any:
            async def post() -> None:
                await client.post(json={"n": number})

            return post

        await api.together(*map(call, range(5)))

    attempts = {id_of(span): span for span in otel.named("samekey attempt")}
    operations = {id_of(span): span for span in otel.named("samekey POST")}
    assert (len(operations), len(attempts)) == (5, 15)
    keys = dict(seen)
    for wire in otel.named("wire"):
        attempt = attempts[parent(wire) or 0]
        operation = operations[parent(attempt) or 0]
        assert attributes(operation)["samekey.key"] == digest(keys[id_of(wire)])


@on_httpx
async def test_beside_the_instrumentation_of_httpx(api: Api, otel: Telemetry) -> None:
    """Its HTTP spans are children of the attempts, and the server is told of them."""
    HTTPXClientInstrumentor().instrument(tracer_provider=otel.tracers, meter_provider=otel.meters)
    try:
        api.server.script(faults.status(503))
        async with api.client(policy=QUICK, listeners=[otel.listener]) as client:
            await client.post()
    finally:
        HTTPXClientInstrumentor().uninstrument()

    attempts, wires = otel.named("samekey attempt"), otel.named("POST")
    assert len(attempts) == 2
    assert [parent(span) for span in wires] == [id_of(span) for span in attempts]
    told = [dict(request.headers)["traceparent"] for request in api.server.requests]
    assert [f"{id_of(span):016x}" in header for span, header in zip(wires, told, strict=True)] == [True, True]


async def test_operations_by_outcome(api: Api, otel: Telemetry) -> None:
    api.server.script(faults.ok(), faults.status(402), faults.lost(), faults.never())
    async with api.client(policy=ONCE, listeners=[otel.listener], hurry={4: "head"}) as client:
        await client.post(json={"n": 1})
        await client.post(json={"n": 2})
        for number in (3, 4):
            with raises(OutcomeUnknown):
                await client.post(json={"n": number})

    found = {point.attributes["samekey.outcome"]: point.value for point in _merged(otel.metrics["operations"])}
    assert found == {"executed": 1, "rejected": 1, "unknown": 2}
    assert otel.total("operation.attempts") == otel.total("operation.duration") == 4


def _merged(points: list[Any]) -> list[Any]:
    """One point for each outcome."""
    merged: dict[Any, Any] = {}
    for point in points:
        outcome = point.attributes["samekey.outcome"]
        if outcome in merged:
            merged[outcome] = type(point)(
                point.attributes, point.start_time_unix_nano, point.time_unix_nano, merged[outcome].value + point.value
            )
        else:
            merged[outcome] = point
    return list(merged.values())


async def test_replays_polls_and_timeouts(api: Api, otel: Telemetry) -> None:
    """The duplicate hit rate is replays by operations; a replay's time is that of the attempt that brought it."""
    api.server.script(faults.lost(), faults.in_progress(), faults.in_progress())
    policy = RetryPolicy(wait=wait_none(), poll_wait=wait_none(), total_timeout=100)
    async with api.client(policy=policy, listeners=[otel.listener]) as client:
        await client.post()
        await client.post(json={"other": 1})
        api.server.script(then=faults.in_progress(retry_after=60))
        with raises(StillInProgress):
            await client.post(json={"third": 1})

    assert (otel.total("replays"), otel.total("operations")) == (1, 3)
    assert otel.total("replay.duration") == 1
    assert otel.total("polls") >= 3
    assert otel.total("in_progress_timeouts") == 1


async def test_mismatches_duplicates_and_repeats(api: Api, otel: Telemetry) -> None:
    """What is found before a call has begun is told on the caller's own span."""
    api.server.script(
        faults.ok(),
        faults.mismatch(),
        faults.lost(),
        faults.status(201, json={"id": 1}),
        faults.status(201, json={"id": 2}),
    )
    tracer = otel.tracers.get_tracer("app")
    once = RetryPolicy(stop=stop_after_attempt(1))
    async with api.client(listeners=[otel.listener], policy=once) as client:
        with tracer.start_as_current_span("handler"), samekey.operation():
            await client.post(json={"n": 1})
            with raises(KeyMismatch):
                await client.post(json={"n": 2})
        with raises(KeyMismatch):
            await client.post(json={"n": 3})
        for _ in range(2):
            with raises(OutcomeUnknown):
                await client.post(json={"n": 4})
        with samekey.operation():
            await client.post(json={"n": 5})
            await client.post(json={"n": 5})

    found = {point.attributes["samekey.local"]: point.value for point in otel.metrics["mismatches"]}
    assert found == {True: 1, False: 1}
    assert otel.total("unresolved_repeats") == otel.total("suspected_duplicates") == 1
    (handler,) = otel.named("handler")
    (event,) = handler.events
    assert event.name == "samekey.MismatchFound"
    assert dict(event.attributes or {}) == {"samekey.key": digest(api.server.keys[0]), "samekey.local": True}
    told = [event.name for span in otel.named("samekey POST") for event in span.events]
    assert told.count("samekey.MismatchFound") == told.count("samekey.DuplicateSuspected") == 1


async def test_budget_refusals(api: Api, otel: Telemetry) -> None:
    api.server.script(then=faults.status(503))
    budget = RetryBudget(capacity=1, per_second=0)
    policy = RetryPolicy(wait=wait_none(), budget=budget, unresolved_ttl=0)
    async with api.client(policy=policy, listeners=[otel.listener]) as client:
        for _ in range(2):
            with raises(OutcomeUnknown):
                await client.post()

    assert otel.total("budget.refusals") == 2
    assert [event.name for event in otel.named("samekey POST")[1].events] == ["samekey.GivenUp"]


async def test_the_journal_s_time(api: Api, otel: Telemetry) -> None:
    """Each step, and answers that come from there, which are no replays of the server."""
    async with api.client(policy=QUICK, listeners=[otel.listener], journal=journal_of(api)) as client:
        for _ in range(2):
            with samekey.operation("order-1:charge"):
                await client.post()

    steps = {
        (point.attributes["samekey.step"], point.attributes["samekey.state"]): point.count
        for point in otel.metrics["journal.duration"]
    }
    assert steps == {("claim", "in_flight"): 1, ("record", "executed"): 1, ("claim", "executed"): 1}
    assert {point.attributes["samekey.source"] for point in otel.metrics["operations"]} == {"network", "journal"}
    assert otel.total("replays") == 0
    first, second = otel.named("samekey POST")
    assert attributes(first)["samekey.name"] == "order-1:charge"
    assert attributes(first)["samekey.key"] == attributes(second)["samekey.key"] == digest(api.server.keys[0])
    assert (attributes(second)["samekey.attempts"], attributes(second)["samekey.source"]) == (0, "journal")


async def test_legs_of_a_call(api: Api, otel: Telemetry) -> None:
    """Each has a span; attempts are counted once, at the end."""
    api.server.script(faults.redirect(307, "/b"))
    async with api.client(listeners=[otel.listener], follow_redirects=True) as client:
        await client.post()

    legs = [attributes(span) for span in otel.named("samekey POST")]
    assert [leg.get("samekey.pending") for leg in legs] == [True, None]
    (point,) = otel.metrics["operation.attempts"]
    assert (point.count, point.sum) == (1, 2)


async def test_broken_off(api: Api, otel: Telemetry) -> None:
    """An exception that nobody foresaw: all spans end."""

    def handle(request: Any) -> Any:
        raise ZeroDivisionError("secret")

    async with api.client(transport=api.inner(handle), listeners=[otel.listener]) as client:
        with pytest.raises(ZeroDivisionError):
            await client.post()

    operation, attempt = otel.spans
    assert attributes(attempt)["error.type"] == "ZeroDivisionError"
    assert attributes(operation)["samekey.outcome"] == "unknown"
    assert otel.listener._calls == {}


@on_httpx
async def test_nothing_secret(api: Api, otel: Telemetry) -> None:
    """Neither in spans nor in metrics."""
    policy = RetryPolicy(stop=stop_after_attempt(3), wait=wait_none(), poll_wait=wait_none())
    async with api.client(policy=policy, listeners=[otel.listener], journal=journal_of(api)) as client:
        await everything(api, client)

    shown = "\n".join(span.to_json() for span in otel.spans) + repr(otel.metrics)
    assert len(otel.spans) > 15
    assert [what for what, secret in SECRETS.items() if secret in shown] == []
    assert otel.listener._calls == {}


def test_the_global_providers_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an SDK nothing happens."""
    OpenTelemetry()(_started(1))


def _started(call: int, url: str = "https://h/x") -> events.CallStarted:
    return events.CallStarted(call=call, key=None, name=None, method="POST", url=url)


def _about(url: str = "https://h/x") -> dict[str, Any]:
    return {"call": 7, "key": None, "name": None, "method": "POST", "url": url}


def _finished() -> events.CallFinished:
    return events.CallFinished(
        **_about(), outcome=Outcome.UNKNOWN, replayed=None, attempts=1, elapsed=1.0, gave_up=GaveUp.DEADLINE,
        error=None, source="network", pending=False,
    )  # fmt: skip


def test_calls_that_began_unseen(otel: Telemetry) -> None:
    """A listener may be asked about a call whose start it has missed: it counts, and has no span."""
    otel.listener(events.AttemptStarted(**_about(), number=1, kind=Kind.FIRST))
    otel.listener(events.AttemptFinished(**_about(), attempt=Attempt(1, Kind.POLL, 0.0, 0.1)))
    otel.listener(_finished())

    assert otel.spans == []
    assert otel.total("polls") == otel.total("operations") == 1
    assert otel.metrics["operations"][0].attributes["server.port"] == 443


def test_an_attempt_that_never_came_back(otel: Telemetry) -> None:
    """Its span ends with the call's; where the context has changed meanwhile, it is left alone."""
    otel.listener(_started(7))
    otel.listener(events.AttemptStarted(**_about(), number=1, kind=Kind.FIRST))
    token = context.attach(context.set_value("other", 1))
    otel.listener(_finished())
    assert context.get_value("other") == 1
    context.detach(token)
    context.attach(context.Context())

    assert len(otel.spans) == 2


def test_without_the_package_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.delitem(sys.modules, "samekey.opentelemetry")
    with pytest.raises(ImportError, match=r"pip install 'samekey\[opentelemetry\]'"):
        importlib.import_module("samekey.opentelemetry")
