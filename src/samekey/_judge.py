"""After an attempt: what came back, in the words of the core, and whether and when to go on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from . import _pause
from ._decide import UNKNOWN, Again, Facts, Reraise
from ._headers import ASK_TO_WAIT, retry_after
from ._model import Failure, GaveUp, Reading, Verdict
from ._steps import Step, Wait
from ._strategies import ask
from ._telling import suspect, tell_attempt, tell_of
from ._wire import decoded_answer, text_of
from .dialects import classify
from .dialects._plain import plain

if TYPE_CHECKING:
    from ._call import Call
    from ._wire import Backend


TRANSIENT_FACTS = Facts()
"""What a dialect says does not matter where the status says that anything may have happened."""


def judge_answer(call: Call) -> Step:
    """A complete answer was read."""
    response, exchange, dialect = call.response, call.exchange, call.dialect
    status = response.status_code
    names = {name.lower() for name, _ in response.headers.raw}
    call.reading = reading = plain(status, names, call.raw, dialect) or _read(call)
    if exchange.keyed and reading.verdict is Verdict.OK:
        return _succeeded(call, status, reading)
    asked = retry_after(response.headers, _pause.wall()) if not names.isdisjoint(ASK_TO_WAIT) else None
    hint = max(asked or 0.0, reading.delay or 0.0) or None
    facts = TRANSIENT_FACTS
    if reading.verdict is not Verdict.TRANSIENT:
        facts = Facts(settles=_settles(call, status), believe_done=dialect.believe_done)
    step = exchange.answered(status, reading, call.now(), facts, hint)
    if reading.verdict is Verdict.MISMATCH and exchange.keyed:
        tell_of(call, "MismatchFound", local=False)
    tell_attempt(call)
    return step


def _read(call: Call) -> Reading:
    """What the answer says."""
    exchange, raw = call.exchange, call.raw or b""
    complete = call.raw is not None and not call.partly_read
    answer = decoded_answer(call.engine.backend, call.response, raw, complete=complete, encoded=not call.decoded)
    return classify(answer, call.dialect, fresh=exchange.state.fresh(exchange.number), repeat=exchange.repeat)


def _settles(call: Call, status: int) -> bool:
    """Whether an ordinary refusal speaks for the other attempts of the operation too.

    For one that is in flight only if the server stores refusals: else it may execute that one yet.
    """
    exchange, dialect = call.exchange, call.dialect
    stores = dialect.stores is not None and "4xx" in dialect.stores
    return dialect.settles(status) and (stores or not exchange.state.in_flight_besides(exchange.running))


def _succeeded(call: Call, status: int, reading: Reading) -> Step:
    if call.engine.listeners:
        suspect(call, reading.replayed)
    step = call.exchange.succeeded(status, call.now(), reading)
    if call.raw is None and status != 101:
        # Handed on unread; if it breaks off, the caller must not take that for a failure.
        call.has_read([], call.response.stream)
    tell_attempt(call)
    return step


def judge_failure(call: Call, error: BaseException) -> Step:
    """The attempt brought no complete answer."""
    response = call.response
    failure, name = call.engine.backend.classify(error, replayable=call.replayable)
    status = hint = None
    if response is not None:
        status, hint = response.status_code, retry_after(response.headers, _pause.wall())
        if failure in (Failure.NEVER_SENT, Failure.PERMANENT):
            failure = Failure.UNKNOWN  # an answer had begun
    call.error = error
    call.response = None
    # What somebody else's code says may quote a body or a credential; the caller gets the exception itself.
    text = None if failure is Failure.UNFORESEEN else text_of(error, name)
    step = call.exchange.failed(failure, name, text, call.now(), Facts(), status, hint)
    tell_attempt(call)
    return step


def pace(call: Call, again: Again) -> Step:
    """Ask the strategies how long to wait, and whether at all."""
    exchange, now = call.exchange, call.now()
    policy: Any = call.engine.policy
    try:
        shown = partial(_shown, call.engine.backend, call.request, call.response, call.error)
        backoff, stopped = ask(policy, again, exchange, shown, now)
    except Exception as error:  # noqa: BLE001 - whatever a user's strategy raises
        call.error = error
        return exchange.end(UNKNOWN if exchange.state.open else Reraise(again.ending.outcome))
    least = call.dialect.min_wait if exchange.keyed else 0.0
    longest = policy.max_retry_after
    step = exchange.paced(again, now, stopped=stopped, backoff=backoff, longest_floor=longest, least=least)
    if isinstance(step, Wait) and not again.poll and not _afford(call):
        step = exchange.end(again.ending, GaveUp.BUDGET)
    if isinstance(step, Wait) and call.engine.listeners:
        why = _why(call, again, step.seconds, max(backoff, least))
        tell_of(call, "WaitScheduled", seconds=step.seconds, poll=again.poll, why=why)
    return step


def _why(call: Call, again: Again, seconds: float, backoff: float) -> str:
    """What a wait is for, in the words of `WaitScheduled`."""
    if again.conflict:
        return "conflict"
    if again.poll:
        holding = call.exchange.holding
        return "in_progress" if holding is None or holding.owned else "held"
    return "retry_after" if seconds > backoff else "backoff"


def _afford(call: Call) -> bool:
    """Whether the origin's retry budget has a token left; asked before the wait, so that a refused retry costs none."""
    budget = call.engine.budget
    return budget is None or budget.withdraw(call.the_trail.origin, _pause.common())


def _shown(backend: Backend, request: Any, response: Any, error: BaseException | None) -> BaseException:
    """What a strategy sees of the last attempt."""
    if error is not None:
        return error
    if response is None:
        return TimeoutError("another process is at work on the operation")
    text = f"the server answered with status {response.status_code}"
    return backend.HTTPStatusError(text, request=request, response=response)
