"""From an ending to the exception that the caller sees."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ._decide import Raise
from ._messages import message
from ._wire import decoded as decoded_body
from .errors import AlreadyExecuted, IdempotencyError, JournalError, OutcomeUnknown, paired

if TYPE_CHECKING:
    from ._call import Call
    from ._report import Report

LONGEST_BODY = 1024 * 1024
"""Bytes of a decoded body that an error's answer shows at the most."""
NEVER_SENT_CLASSES = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
"""Callers treat these as safe to repeat, so an unknown outcome never wears one of them."""


def ending_error(call: Call, ending: Raise, report: Report) -> IdempotencyError:
    """The error a call ends in."""
    response = None if call.response is None else readable(call, call.response, call.raw, decoded=call.decoded)
    situation = _situation(call, ending.error, response)
    if response is None and situation == "HTTPStatusError":
        # The attempt that is still open was answered, a later one was not: the error shows that answer.
        if call.previous is not None:
            before, raw, decoded = call.previous
            response = readable(call, before, raw, decoded=decoded)
        else:
            situation = "TransportError"
    status = None if response is None else response.status_code
    evidence = getattr(call.reading, "evidence", None) if response is not None else None
    kind = paired(ending.error, call.engine.backend.name, situation)
    error = _make(
        call,
        kind,
        call.text or message(ending.error, report, status, evidence, replayable=call.replayable),
        report,
        response,
    )
    if isinstance(error, AlreadyExecuted):
        error.resource = call.resource or getattr(call.reading, "resource", None)
    if ending.cause is not None:
        refusal = paired(ending.cause, call.engine.backend.name, "HTTPStatusError")
        error.__cause__ = _make(call, refusal, message(ending.cause, report, status, evidence), report, response)
    elif call.error is not None:
        error.__cause__ = call.error
    return error


def local_error(
    call: Call, kind: str, report: Report, text: str | None = None, situation: str | None = None
) -> IdempotencyError:
    """An error found on this side, without an answer."""
    situation = _unsafe(situation) or _situation(call, kind, None)
    if situation == "HTTPStatusError":
        situation = "TransportError"  # there is no answer to show
    error = _make(
        call, paired(kind, call.engine.backend.name, situation), text or message(kind, report, None, None), report, None
    )
    error.__cause__ = call.error
    return error


def _make(call: Call, kind: type[IdempotencyError], text: str, report: Report, response: Any) -> IdempotencyError:
    state = call.exchange.state
    # Which key the name has is the journal's to say, and it did not: one of our own would be another key.
    key = None if issubclass(kind, JournalError) else state.key or None
    return kind(text, key=key, name=state.name, report=report, request=call.request, response=response)


def _unsafe(situation: str | None) -> str | None:
    return "TransportError" if situation in NEVER_SENT_CLASSES else situation


def _situation(call: Call, kind: str, response: Any) -> str:
    """The name of the HTTP library's class that fits: for an unknown outcome, that of the last open attempt."""
    answered = None if response is None else "HTTPStatusError"
    if issubclass(paired(kind, "", ""), OutcomeUnknown):
        return _unsafe(call.exchange.state.last_open()) or answered or "TransportError"
    attempts = call.exchange.attempts
    failed = attempts[-1].error if attempts and kind == "NotSent" and call.error is not None else None
    return answered or failed or "RequestError"


def readable(call: Call, response: Any, raw: bytes | None, *, decoded: bool) -> Any:
    """An answer with its body as far as it was kept, decoded, tied to the caller's request."""
    backend, raw = call.engine.backend, raw or b""
    headers = response.headers
    if "content-encoding" in headers:
        plain = raw if decoded else decoded_body(backend, headers, raw, LONGEST_BODY)
        framing = {"content-encoding", "content-length"}
        headers = [pair for pair in headers.multi_items() if pair[0].lower() not in framing]
        raw = raw if plain is None else plain
    kept = backend.Response(
        response.status_code,
        headers=headers,
        stream=backend.ByteStream(raw),
        request=call.request,
        extensions=response.extensions,
    )
    kept.read()
    kept.elapsed = timedelta(seconds=call.exchange.last_attempt.elapsed)
    return kept
