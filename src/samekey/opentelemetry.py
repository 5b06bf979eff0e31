"""Traces and metrics of OpenTelemetry, from a listener (extra ``samekey[opentelemetry]``).

One span per call with a child span per attempt. Each is the current span while its part of the call runs, so those of
an instrumentation below (``opentelemetry-instrumentation-httpx``) become children of the attempt. No keys, headers or
bodies are in them: a key is shown as its short digest, a URL without its query.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlsplit

try:
    from opentelemetry import context, metrics, trace
except ImportError as error:
    raise ImportError(
        "samekey.opentelemetry needs the API of OpenTelemetry: pip install 'samekey[opentelemetry]'"
    ) from error
from opentelemetry.trace import Span, Status, StatusCode

from .events import (
    AttemptFinished,
    AttemptStarted,
    CallFinished,
    CallStarted,
    DuplicateSuspected,
    Event,
    JournalStepped,
    MismatchFound,
    UnresolvedRepeated,
    as_dict,
)

__all__ = ["OpenTelemetry"]

Attributes: TypeAlias = dict[str, Any]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0)
"""Bounds of the histograms of times: those of the HTTP conventions, and two more for calls that wait."""
ATTEMPTS = (1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0)
COMMON = frozenset({"event", "call", "name", "method", "url"})
"""What a span says already, so that its events need not."""


@dataclass(slots=True)
class _Running:
    """A span that is the current one, until it ends."""

    span: Span
    inside: context.Context = field(init=False)
    _token: Any = field(init=False)

    def __post_init__(self) -> None:
        self.inside = trace.set_span_in_context(self.span)
        self._token = context.attach(self.inside)

    def end(self) -> None:
        self.span.end()
        # A coroutine that is thrown away unfinished may end in another context, where nothing is to be put back.
        if context.get_current() is self.inside:
            context.detach(self._token)


@dataclass(slots=True)
class _Call:
    """What is remembered of a call while it runs."""

    operation: _Running
    attempt: _Running | None = None
    last: AttemptFinished | None = None


class OpenTelemetry:
    """A listener that makes spans and metrics.

    Used as ``samekey.wrap(client, listeners=[samekey.opentelemetry.OpenTelemetry()])``. Spans: ``samekey POST`` for a
    call, with ``samekey attempt`` below it. Each leg of a redirect or of an auth flow is a call of its own here
    (``samekey.pending`` is True on the one before). What is found before anything is sent (a mismatch, a repeat of an
    unresolved request) becomes an event of the caller's own span.

    Args:
        tracer_provider: Default: the global one.
        meter_provider: Default: the global one.
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("samekey", tracer_provider=tracer_provider)
        self._calls: dict[int, _Call] = {}
        meter = metrics.get_meter("samekey", meter_provider=meter_provider)
        count, spread = meter.create_counter, meter.create_histogram
        self._operations = count("samekey.operations", "{operation}", "Calls that have ended, by outcome.")
        self._replays = count("samekey.replays", "{operation}", "Calls whose answer the server had stored before.")
        self._mismatches = count("samekey.mismatches", "{operation}", "Keys that stand for another request.")
        self._duplicates = count("samekey.suspected_duplicates", "{operation}", "Signs that a server executed twice.")
        self._repeats = count("samekey.unresolved_repeats", "{operation}", "Equal requests after an unknown outcome.")
        self._polls = count("samekey.polls", "{attempt}", "Attempts because the server was still at it.")
        self._timeouts = count("samekey.in_progress_timeouts", "{operation}", "Calls that ended while it still was.")
        self._refusals = count("samekey.budget.refusals", "{operation}", "Calls that the retry budget ended.")
        self._attempts = spread(
            "samekey.operation.attempts",
            "{attempt}",
            "Attempts of a call.",
            explicit_bucket_boundaries_advisory=ATTEMPTS,
        )
        self._duration, self._replay_duration, self._journal_duration = (
            spread(f"samekey.{name}.duration", "s", text, explicit_bucket_boundaries_advisory=SECONDS)
            for name, text in (
                ("operation", "Time of a call, waits included."),
                ("replay", "Time of the attempt that brought a stored answer."),
                ("journal", "Time of one step of the journal."),
            )
        )

    def __call__(self, event: Event, /) -> None:
        """Take note of *event*."""
        call = self._calls.get(event.call)
        if isinstance(event, CallStarted):
            self._start(event)
        elif isinstance(event, AttemptStarted):
            if call is not None:
                self._send(event, call)
        elif isinstance(event, AttemptFinished):
            self._answered(event, call)
        elif isinstance(event, CallFinished):
            self._finish(event, self._calls.pop(event.call, None))
        else:
            self._note(event, trace.get_current_span() if call is None else call.operation.span)

    # -- spans

    def _start(self, event: CallStarted) -> None:
        attributes = {**_where(event), "url.full": event.url, "samekey.key": event.key, "samekey.name": event.name}
        span = self._tracer.start_span(f"samekey {event.method}", attributes=_known(attributes))
        self._calls[event.call] = _Call(_Running(span))

    def _send(self, event: AttemptStarted, call: _Call) -> None:
        attributes: Attributes = {"http.request.method": event.method, "samekey.attempt.kind": event.kind.value}
        if event.number > 1:
            attributes["http.request.resend_count"] = event.number - 1
        span = self._tracer.start_span("samekey attempt", context=call.operation.inside, attributes=attributes)
        call.attempt = _Running(span)

    def _answered(self, event: AttemptFinished, call: _Call | None) -> None:
        attempt = event.attempt
        if attempt.kind.value == "poll":
            self._polls.add(1, _where(event))
        if call is None or call.attempt is None:
            return
        call.last = event
        span = call.attempt.span
        failed = attempt.status is not None and attempt.status >= 400
        error = attempt.error or (str(attempt.status) if failed else None)
        attributes = {
            "http.response.status_code": attempt.status,
            "error.type": error,
            "samekey.verdict": attempt.verdict and attempt.verdict.value,
            "samekey.attempt.open": attempt.open,
        }
        span.set_attributes(_known(attributes))
        if error is not None:
            span.set_status(Status(StatusCode.ERROR))
        call.attempt.end()
        call.attempt = None

    def _finish(self, event: CallFinished, call: _Call | None) -> None:
        told = {
            "samekey.outcome": event.outcome.value,
            "samekey.replayed": event.replayed,
            "samekey.gave_up": event.gave_up and event.gave_up.value,
            "samekey.source": event.source,
            "samekey.pending": event.pending or None,
            "error.type": event.error,
        }
        last = call.last.attempt if call is not None and call.last is not None else None
        if call is not None:
            span = call.operation.span
            verdict = last.verdict.value if last is not None and last.verdict is not None else None
            # The key of a named operation is known only after it was claimed.
            more = {"samekey.key": event.key, "samekey.attempts": event.attempts, "samekey.verdict": verdict}
            span.set_attributes(_known({**told, **more}))
            if event.error is not None:
                span.set_status(Status(StatusCode.ERROR))
            if call.attempt is not None:
                call.attempt.end()
            call.operation.end()
        self._count(event, {**_where(event), **_known(told)}, last.elapsed if last is not None else event.elapsed)

    # -- metrics

    def _count(self, event: CallFinished, attributes: Attributes, last: float) -> None:
        where = _where(event)
        self._operations.add(1, attributes)
        if not event.pending:  # else the next leg counts on
            self._attempts.record(event.attempts, where)
            self._duration.record(event.elapsed, {**where, "samekey.outcome": event.outcome.value})
        if event.replayed and event.source == "network":
            self._replays.add(1, where)
            self._replay_duration.record(last, where)
        if event.error == "StillInProgress":
            self._timeouts.add(1, where)
        if event.gave_up is not None and event.gave_up.value == "budget":
            self._refusals.add(1, where)

    def _note(self, event: Event, span: Span) -> None:
        values = {f"samekey.{name}": value for name, value in as_dict(event).items() if name not in COMMON}
        span.add_event(f"samekey.{type(event).__name__}", _known(values))
        where = _where(event)
        if isinstance(event, MismatchFound):
            self._mismatches.add(1, {**where, "samekey.local": event.local})
        elif isinstance(event, UnresolvedRepeated):
            self._repeats.add(1, {**where, "samekey.resumed": event.resumed})
        elif isinstance(event, DuplicateSuspected):
            self._duplicates.add(1, where)
        elif isinstance(event, JournalStepped):
            what: Attributes = {
                "samekey.step": event.step,
                "samekey.state": event.state,
                "samekey.granted": event.granted,
            }
            self._journal_duration.record(event.elapsed, what)


def _where(event: Event) -> Attributes:
    """Which API: few values, so that metrics may have them."""
    parts = urlsplit(event.url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return _known({"http.request.method": event.method, "server.address": parts.hostname, "server.port": port})


def _known(values: Attributes) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}
