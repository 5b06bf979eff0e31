"""What the errors say: what happened, what it means for the money, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._keys import digest
from ._model import Outcome

if TYPE_CHECKING:
    from ._report import Report

_MEANING = {
    "KeyMismatch": (
        "the server says that this key was used with another request",
        "this request was not executed",
        "send it under a key, or an operation, of its own",
    ),
    "OutcomeUnknown": (
        "no answer says what became of the request",
        "it may have been executed once; do not treat it as failed, and do not send it under another key",
        "keep error.key and repeat the same request inside samekey.operation(key=error.key), or look it up at the API",
    ),
    "StillInProgress": (
        "the server was still working on the first request when the time was up",
        "it may be executed at any moment; do not send it under another key",
        "ask again later: repeat the same request inside samekey.operation(key=error.key)",
    ),
    "KeyExpired": (
        "the key is older than the server keeps keys, and what became of the request was never learnt",
        "it may have been executed; sent again, it could be executed a second time, so it was not sent again",
        "look it up at the provider and decide by hand",
    ),
    "NotSent": (
        "no attempt got as far as the server's business code",
        "nothing was executed",
        "it is safe to start over, with this key or another",
    ),
    "AlreadyExecuted": (
        "the server says that this was done before, and does not repeat its answer",
        "it was executed, once",
        "fetch the result from the API; error.resource names it if the server did",
    ),
    "KeySpent": (
        "the server has burnt this key on a try that failed",
        "nothing was executed under it",
        "start a new operation, which has a new key",
    ),
    "JournalError": (
        "the journal could not be used",
        "nothing was sent",
        "mend the journal, then run the operation again: it has the same key",
    ),
    "KeyNotAccepted": (
        "the server wants an idempotency key in another form or place",
        "nothing was executed",
        "check the dialect: the header it sends and the form of its keys",
    ),
}

_GAVE_UP = {
    "attempts": "the attempts were used up",
    "deadline": "the total timeout ran out",
    "retry_after": "the server asked for a longer wait than allowed",
    "budget": "the retry budget is empty",
    "retry_off": "retries are off",
}

EXECUTED_BEFORE = "an earlier answer said that it was executed, but this repeat got no answer"
USED_BEFORE = "it was not executed now, but what was sent under this key before may have been"
LOCAL_MISMATCH = (
    "this key already stands for another request (fingerprint {known}, this one {found})",
    "nothing was sent",
    "give each request an operation of its own, or a step of this one: operation.step(...)",
)
KEYS_DIFFER = (
    "two different keys were given for one request ({where})",
    "nothing was sent",
    "give the key in one place only",
)
REPEATED = (
    "an identical request ended {age} with its outcome unknown, and this one came without an operation",
    "the first may have been executed, so this one was not sent",
    (
        "go on with the first: samekey.operation(key=error.key); a payment that is meant to be a second one needs an "
        "operation of its own. RetryPolicy(on_unresolved='resume') goes on by itself"
    ),
)
NAMED_MISMATCH = (
    "the name {name!r} already stands for another request (fingerprint {known}, this one {found}), {outcome}",
    "nothing was sent",
    "give each request a name of its own, or a step of this one: operation.step(...)",
)
_AS_RECORDED = {
    Outcome.EXECUTED: "which was executed",
    Outcome.REJECTED: "which was refused",
}
HELD = (
    "another process is at work on the operation {name!r}, or was killed at it; the name is held for {seconds} s more",
    "it may be executed at any moment; nothing was sent from here",
    "run it again later: it then gets the recorded answer, or takes the operation over with the same key",
)
JOURNAL_FAILED = (
    "the journal could not be used ({error})",
    "nothing was sent",
    "mend the journal, then run the operation again: it has the same key",
)
UNFIT_HOP = (
    "the server redirects this request to {origin}, where the key cannot go with it ({why})",
    "it was not sent there",
    "send it to that API directly, or give both the same dialect in origins=",
)
REFUSED_HOP = (
    "the server redirects this request to another origin ({origin}), which is not named in origins",
    "it was not sent there",
    "name that origin in origins= if it honours the same keys",
)


HOP_FATE = {
    "NotSent": "nothing was executed",
    "OutcomeUnknown": "what was sent before may have been executed, so keep error.key",
}
"""What a refused redirect means for the money, by the error that it ends in."""


def stored_outcome(outcome: Outcome) -> str:
    """How a message tells what the journal knows of the other request."""
    return _AS_RECORDED.get(outcome, "of which nobody knows the outcome yet")


def compose(parts: tuple[str, str, str], key: str | None, **values: object) -> str:
    """One message from its three parts; the key is shown as a digest."""
    what, money, advice = (part.format(**values) for part in parts)
    shown = f" [key {digest(key)}]" if key else ""
    return f"{what}: {money}. To do: {advice}.{shown}"


UNKEYED = (
    "no answer says what became of the request, which was sent without a key",
    "it may have been executed once; a repeat could execute it again",
    "look it up at the API before anything is sent again",
)


def message(kind: str, report: Report, status: int | None, evidence: str | None, *, replayable: bool = True) -> str:
    """The message of an error that a call ended in."""
    unkeyed = report.key is None and kind == "OutcomeUnknown"
    what, money, advice = UNKEYED if unkeyed else _MEANING[kind]
    if report.name is not None:
        again = f"samekey.operation({report.name!r})"
        advice = advice.replace("samekey.operation(key=error.key)", again).replace("keep error.key and ", "")
    if report.outcome is Outcome.EXECUTED and kind in ("OutcomeUnknown", "StillInProgress", "KeyExpired"):
        what, money = EXECUTED_BEFORE, "it was executed; do not send it under another key"
    elif report.outcome is Outcome.UNKNOWN and kind in ("KeyMismatch", "KeyNotAccepted"):
        money = USED_BEFORE
    details = []
    if report.attempts:
        last = report.attempts[-1]
        count = len(report.attempts)
        seen = last.error or f"status {last.status}"
        details.append(f"{count} attempt{'s' if count != 1 else ''} in {report.elapsed:.2f} s, the last one: {seen}")
    if evidence and status:
        details.append(f"the server said: {evidence}")
    if not replayable:
        details.append("its body was longer than max_request_buffer, so it could not be repeated")
    if report.gave_up:
        details.append(_GAVE_UP[report.gave_up])
    if report.retry_after is not None:
        details.append(f"the server asks to wait {report.retry_after:g} s")
    told = f" ({'; '.join(details)})" if details else ""
    # As values: a name or what a server said may have braces.
    return compose(
        ("{what}{told}", "{money}", "{advice}"), report.key, what=what, told=told, money=money, advice=advice
    )
