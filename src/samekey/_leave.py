"""After the last attempt: what the caller gets, and what is remembered."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import _pause
from ._decide import Deliver, Raise, Reraise
from ._memory import Unresolved
from ._model import Failure
from ._options import EXTENSION
from ._outgoing import credentials
from ._raising import ending_error, local_error, readable
from ._steps import Record, Step
from ._telling import tell_finished
from ._trail import Told

if TYPE_CHECKING:
    import httpx

    from ._call import Call


def deliver(call: Call) -> httpx.Response:
    """The answer, with its report."""
    response, told = call.response, _told(call)
    status = response.status_code
    if status in (401, 407) or 300 <= status < 400:
        told.report()  # made now, since httpx may go on with the call
        call.the_trail.pending = status
        call.the_trail.request = weakref.ref(call.request)
    if status < 500 and status not in (408, 425, 429) and call.engine.budget is not None:
        call.engine.budget.deposit(call.the_trail.origin, _pause.common())
    response.extensions[EXTENSION] = told
    return response  # type: ignore[no-any-return]


def error_for(call: Call, ending: Raise | Reraise) -> BaseException:
    """The exception to raise; a `Reraise` gives the attempt's own, with the report noted on it."""
    report = _told(call).report()
    if isinstance(ending, Raise):
        error: BaseException = ending_error(call, ending, report)
    else:
        assert call.error is not None
        error = call.error
        with suppress(Exception):  # an exception of somebody's own may refuse attributes
            error.samekey_report = report  # type: ignore[attr-defined]
    call.raised = type(error).__name__
    return error


def leave(call: Call) -> None:
    """The call is over, whichever way: an answer, an error, or broken off between two attempts."""
    exchange = call.exchange
    if exchange.keyed and exchange.state.open:
        exchange.state.bind(call.the_trail.fingerprint)
        remember(call)
    if not call.the_trail.pending:
        exchange.forget_number()
    if call.operation is not None:
        call.operation.told = call.the_trail.told or _told(call)
    if call.engine.listeners:
        tell_finished(call)


def ended_late(call: Call, step: Step) -> Step:
    """The time ran out while an answer was drained, which was to be handed on if nothing more could be sent."""
    ending = step.ending if isinstance(step, Record) else step
    if not isinstance(ending, Deliver):
        return step
    if call.raw is None:
        call.error = call.out_of_time()
        return Reraise(ending.outcome)
    call.response = readable(call, call.response, call.raw, decoded=call.decoded)
    return step


def rest_failed(call: Call, error: Exception) -> Exception:
    """What to raise when the part of an answer that was not read ahead breaks off in the caller's hands."""
    failure, name = call.engine.backend.classify(error, replayable=True)
    if failure is Failure.UNFORESEEN:
        return error
    call.exchange.reopen(name)
    remember(call)
    call.error = error
    return local_error(call, "OutcomeUnknown", _told(call).report(), situation=name)


def remember(call: Call) -> None:
    """Keep what is open, so that whoever comes back with the same key or the same request finds it."""
    state, memory, trail = call.exchange.state, call.engine.memory, call.the_trail
    ttl: Any = call.engine.policy.unresolved_ttl
    if trail.automatic and ttl:
        now = call.now()
        entry = Unresolved(state, now, now + ttl, credentials(call.request))
        memory.remember((state.scope, trail.fingerprint), entry, first=call.taken is not None)
    else:
        with memory.lock:
            memory.state_of(state)


def _told(call: Call) -> Told:
    call.the_trail.told = told = Told(call.exchange, call.now())
    return told
