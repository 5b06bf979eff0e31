"""From a call to the events that its listeners see."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._keys import digest

if TYPE_CHECKING:
    from ._call import Call


Kind: TypeAlias = Literal[
    "CallStarted",
    "AttemptStarted",
    "AttemptFinished",
    "WaitScheduled",
    "MismatchFound",
    "UnresolvedRepeated",
    "DuplicateSuspected",
    "JournalStepped",
    "GivenUp",
    "CallFinished",
]
"""Names of the events; their classes are loaded with the first listener's first event."""


def tell_of(call: Call, kind: Kind, /, **values: object) -> None:
    """Hand an event about *call* to the listeners, if there are any."""
    if not call.engine.listeners:
        return
    from . import events

    state, url = call.exchange.state, call.request.url
    where = f"{url.scheme}://{url.netloc.decode('ascii')}{url.raw_path.decode('ascii').partition('?')[0]}"
    holding = call.exchange.holding
    decided = holding is None or holding.owned or call.exchange.attempts or kind != "CallStarted"
    key = digest(state.key) if state.key and decided else None
    about: dict[str, Any] = {"key": key, "name": state.name, "method": call.request.method, "url": where, **values}
    events.tell(call.engine.listeners, getattr(events, kind)(call=call.exchange.number, **about))


def tell_sending(call: Call) -> None:
    """The next attempt leaves."""
    if call.engine.listeners:
        tell_of(call, "AttemptStarted", number=call.exchange.tries + call.exchange.polls, kind=call.exchange.kind)


def tell_attempt(call: Call) -> None:
    """The newest attempt has ended."""
    if call.engine.listeners:
        tell_of(call, "AttemptFinished", attempt=call.exchange.last_attempt)


def tell_finished(call: Call) -> None:
    """The call has ended."""
    report = call.exchange.report(call.now())
    if report.gave_up is not None:
        tell_of(call, "GivenUp", why=report.gave_up)
    tell_of(
        call,
        "CallFinished",
        outcome=report.outcome,
        replayed=report.replayed,
        attempts=len(report.attempts),
        elapsed=report.elapsed,
        gave_up=report.gave_up,
        error=call.raised,
        source=report.source,
        pending=bool(call.the_trail.pending),
    )


def suspect(call: Call, replayed: bool | None) -> None:
    """Look for signs in a success that the server executed twice under one key."""
    exchange, trail = call.exchange, call.trail
    state = exchange.state
    if replayed is False and state.open_besides(exchange.running):
        tell_of(call, "DuplicateSuspected", reason="the server says that this answer is not a replay")
    if trail is None or trail.automatic or call.raw is None:
        return  # a key of one call alone has one success
    answer = hashlib.sha256(b"%d " % call.response.status_code + call.raw).hexdigest()
    if state.answer is None:
        state.answer = answer
    elif state.answer != answer:
        tell_of(call, "DuplicateSuspected", reason="a second answer differs from the first")
