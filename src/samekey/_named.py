"""Named operations: from a call to the journal's steps and back, without I/O."""

from __future__ import annotations

import hashlib
import math
import uuid
from typing import TYPE_CHECKING, Any

from . import _pause
from ._decide import Deliver
from ._holding import LEASE_MARGIN, Holding
from ._journal_rows import Claim as ClaimRow
from ._journal_rows import Ended, Entry, RowState
from ._messages import HELD, JOURNAL_FAILED, LOCAL_MISMATCH, NAMED_MISMATCH, compose, stored_outcome
from ._model import Outcome
from ._named_exchange import NamedExchange
from ._state import KeyState
from ._steps import CLAIM, SEND, Claim, JournalStep, Recall, Record, Step
from ._telling import tell_of
from .errors import SECRET_HEADERS

if TYPE_CHECKING:
    from ._call import Call


def scope_of(call: Call) -> str | None:
    """What the name of the call's operation is unique in: the request says, or the operation, or the journal."""
    operation, journal = call.operation, call.engine.journal
    return call.options.scope or (operation.scope if operation else None) or getattr(journal, "scope", None) or None


def bind_named(call: Call, name: str, given: str | None) -> None:
    """Begin a call of a named operation; which key it sends is known once the journal was asked.

    Raises:
        ValueError: There is no journal, no total timeout to make a lease of, or the request is signed already.
    """
    journal: Any = call.engine.journal
    if journal is None:
        raise ValueError(
            f"the operation is named {name!r}, but the client has no journal to keep names in; nothing was sent. Give "
            "it one, such as wrap(client, journal=SQLiteJournal('operations.sqlite3')) with samekey.sqlite, or leave "
            "out the name"
        )
    if call.total_timeout is None:
        raise ValueError(
            "a named operation needs a finite total_timeout, which says how long its name is held; nothing was sent. "
            "Set RetryPolicy(total_timeout=60) or options(total_timeout=60)"
        )
    if not call.replayable:
        raise ValueError(
            f"the body of {name!r} is longer than max_request_buffer, so it could not be repeated after a crash; "
            "nothing was sent. Raise RetryPolicy(max_request_buffer=...)"
        )
    if call.signed is not None:
        raise ValueError(
            "KeyedAuth has signed a key already, but that of a named operation is the journal's to say; nothing was "
            "sent. Use operation() without a name, or operation(key=...)"
        )
    if given is not None:
        call.dialect.key.check(given)
    operation = call.operation
    scope = scope_of(call)
    early = None  # the key that somebody has read off the operation before anything was sent
    if operation is not None and operation.state is not None and not operation.state.reached:
        early = operation.state.key
    key = given or early or call.dialect.key.make()
    holding = Holding(uuid.uuid4().hex, call.total_timeout + LEASE_MARGIN, given)
    call.begin(KeyState(key, made_here=given is None, name=name, scope=scope), automatic=False, holding=holding)
    call.the_trail.body_counts = not call.stores_request
    holding.fingerprint = call.the_trail.fingerprint
    if operation is not None:
        operation.state = call.exchange.state


def _exchange(call: Call) -> NamedExchange:
    exchange = call.exchange
    assert isinstance(exchange, NamedExchange)
    return exchange


def _told(call: Call, step: str, state: str, *, granted: bool) -> None:
    elapsed = max(0.0, call.now() - _exchange(call).holding.asked)
    tell_of(call, "JournalStepped", step=step, state=state, granted=granted, elapsed=elapsed)


def claim_of(call: Call) -> ClaimRow:
    """What to ask the journal for."""
    state, holding = call.exchange.state, _exchange(call).holding
    assert state.name is not None
    holding.asks(call.now(), _pause.wall())
    stores = call.stores_request
    return ClaimRow(
        scope=state.scope or "",
        name=state.name,
        key=state.key,
        fingerprint=holding.fingerprint,
        owner=holding.owner,
        lease=holding.lease,
        content_type=call.the_trail.content_type if stores else None,
        request=call.content() if stores else None,
        retry_rejected=call.operation is not None and call.operation.retry_rejected,
    )


def lease_of(call: Call) -> tuple[str, str, str, float]:
    """Which row to hold on to, as whom, and for how many seconds."""
    state, holding = call.exchange.state, _exchange(call).holding
    holding.asks(call.now(), _pause.wall())
    return state.scope or "", str(state.name), holding.owner, holding.lease


def claimed(call: Call, entry: Entry) -> Step:
    """The journal has answered a claim."""
    exchange = _exchange(call)
    holding, state = exchange.holding, exchange.state
    holding.failed = False
    if holding.given is None:
        state.key = entry.key
    _told(call, "claim", str(entry.state), granted=entry.owner == holding.owner)
    if entry.owner == holding.owner:
        holding.taken(entry, state, call.now(), _pause.wall())
        if holding.given not in (None, entry.key):
            call.text = compose(LOCAL_MISMATCH, entry.key, known="kept with the name", found="given by the caller")
            return exchange.keys_differ()
        if not call.stores_request and call.the_trail.rebuilt_differently:
            state.same_bytes = False
        return call.check_age(call.now()) or SEND
    state.key = entry.key
    step = exchange.followed(entry)
    if isinstance(step, Recall):
        call.response = _answer(call, entry)
        call.raw = entry.body or b""
        return Deliver(step.outcome)
    call.resource = entry.resource
    if entry.fingerprint != holding.fingerprint:
        known, found = (entry.fingerprint or "none yet")[:8], holding.fingerprint[:8]
        outcome = stored_outcome(exchange.outcome or Outcome.UNKNOWN)
        call.text = compose(NAMED_MISMATCH, entry.key, name=entry.name, known=known, found=found, outcome=outcome)
    elif entry.state is RowState.IN_FLIGHT:
        call.text = compose(HELD, entry.key, name=entry.name, seconds=math.ceil(max(0.0, entry.lease_left)))
    return step


def _answer(call: Call, entry: Entry) -> Any:
    backend = call.engine.backend
    stream = backend.ByteStream(entry.body or b"")
    kept = [pair for pair in entry.headers if entry.body is not None or pair[0].lower() not in FRAMING]
    return backend.Response(entry.status or 200, headers=kept, stream=stream, request=call.request)


FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that describe a body which was not kept."""


def renewed(call: Call, *, held: bool) -> Step:
    """The lease was prolonged, or the row was lost to somebody else: then it is followed, and nothing is sent."""
    holding = _exchange(call).holding
    holding.failed = False
    _told(call, "renew", "in_flight", granted=held)
    if not held:
        holding.owned = False
        return CLAIM
    holding.renewed()
    return call.check_age(call.now()) or SEND


def ended_of(call: Call, record: Record) -> Ended:
    """What to write down."""
    state, holding = call.exchange.state, _exchange(call).holding
    assert state.name is not None
    holding.asks(call.now(), _pause.wall())
    row: dict[str, Any] = {}
    if record.state in (RowState.EXECUTED, RowState.REJECTED) and isinstance(record.ending, Deliver):
        response = call.response
        headers = response.headers.multi_items()
        row["status"] = response.status_code
        row["headers"] = tuple((name, value) for name, value in headers if name.lower().encode() not in SECRET_HEADERS)
        row.update(_body(call))
    elif record.ending.outcome is Outcome.EXECUTED:
        row["resource"] = getattr(call.reading, "resource", None)
    elif record.state is RowState.REJECTED:
        row["status"] = call.response.status_code
        row.update(_body(call))
    return Ended(scope=state.scope or "", name=state.name, owner=holding.owner, state=record.state, **row)


def _body(call: Call) -> dict[str, Any]:
    """The body if it was read to its end and may be kept, else its digest, else nothing."""
    journal: Any = call.engine.journal
    if call.raw is None or call.partly_read:
        return {}
    if journal.store_body:
        return {"body": call.raw}
    return {"body_digest": hashlib.sha256(call.raw).hexdigest()}


def recorded(call: Call, record: Record, *, done: bool) -> Step:
    """The row was written, or was lost meanwhile."""
    holding = call.exchange.holding
    assert holding is not None
    holding.failed = False
    _told(call, "record", str(record.state), granted=done)
    return _exchange(call).was_recorded(record, done=done)


def abandoned(call: Call) -> Step:
    """The call was broken off while it held the name."""
    return _exchange(call).abandon()


def journal_failed(call: Call, step: JournalStep, error: Exception) -> Step:
    """The journal raised: closed before anything was sent, open for an answer that is there.

    Each step is tried once more first. The connection may be a new one by then, and a step that was done and reported
    an error all the same is recognised as one's own.
    """
    holding = _exchange(call).holding
    holding.failed = not holding.failed
    if holding.failed:
        return step
    _told(call, type(step).__name__.lower(), type(error).__name__, granted=False)
    if isinstance(step, Record):
        return _exchange(call).was_recorded(step, done=False)
    call.error = error
    call.response = None
    call.text = (
        compose(JOURNAL_FAILED, None, error=f"{type(error).__name__}: {error}") if isinstance(step, Claim) else None
    )
    return _exchange(call).journal_failed()
