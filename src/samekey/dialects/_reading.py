"""Read an answer that is not plainly a success, from the strongest evidence to the weakest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus

from samekey._model import ABOUT_THE_KEY, Answer, Reading, Verdict
from samekey.dialects import _wording
from samekey.dialects._carriers import RepeatabilityHeaders
from samekey.dialects._dialect import Dialect
from samekey.dialects._evidence import Evidence, at, collect, graphql_codes, seconds
from samekey.dialects._rules import TURNED_AWAY, truth
from samekey.dialects._wording import Finding, words_of_code

_NEEDS_EARLIER_USE = ABOUT_THE_KEY - {Verdict.KEY_MISSING, Verdict.KEY_REFUSED}
_ELSEWHERE = ("location", "operation-location", "azure-asyncoperation")
_DESCRIBED_BY = re.compile(r"<[^<>]{0,1000}idempot[^<>]{0,1000}>[^<,]{0,200}\brel\s?=\s?\"?describedby", re.IGNORECASE)
_LINKED = {400: Verdict.KEY_MISSING, 409: Verdict.IN_PROGRESS, 422: Verdict.MISMATCH}
_STATUS = {408: Verdict.TRANSIENT, 409: Verdict.CONFLICT, 425: Verdict.RATE_LIMITED, 429: Verdict.RATE_LIMITED}


def read(
    answer: Answer, dialect: Dialect, *, replayed: bool | None, supported: bool | None, fresh: bool, used: bool
) -> Reading:
    """The reading of *answer*; *used* says that the server may have seen the key before."""
    status = answer.status
    facts = _Facts(answer, dialect, replayed, used=used, fresh=fresh)
    verdict, token = _verdict(facts)
    if status == 501 and facts.repeatability:
        supported = False
    told = status >= 400 and status not in TURNED_AWAY
    return Reading(
        verdict,
        replayed=replayed,
        supported=supported,
        should_retry=_hint(answer, dialect) if told else None,
        delay=None if dialect.body_delay is None or not told else seconds(at(facts.evidence.data, dialect.body_delay)),
        resource=_resource(facts) if verdict is Verdict.ALREADY_DONE else None,
        evidence=token,
        empty=not answer.body and answer.complete,
    )


@dataclass(frozen=True)
class _Facts:
    answer: Answer
    dialect: Dialect
    replayed: bool | None
    used: bool
    """The server may have seen the key before."""
    fresh: bool

    @cached_property
    def evidence(self) -> Evidence:
        return collect(self.answer)

    @property
    def repeatability(self) -> bool:
        return isinstance(self.dialect.carrier, RepeatabilityHeaders) or self.result is not None

    @property
    def result(self) -> str | None:
        value = self.answer.header("repeatability-result")
        return None if value is None else value.strip().lower()


def _verdict(facts: _Facts) -> Finding | tuple[Verdict, None]:
    status = facts.answer.status
    if 200 <= status <= 299 or status == 303:
        return (status != 303 and _success(facts)) or (Verdict.OK, None)
    if status < 400:
        return (Verdict.REDIRECT if status in (307, 308) else Verdict.MOVED), None
    if status in TURNED_AWAY:
        return Verdict.CHALLENGE, None
    for step in _STEPS:
        found = step(facts)
        if found is not None:
            return found
    return _STATUS.get(status, Verdict.TRANSIENT if status >= 500 else Verdict.REFUSED), None


def _success(facts: _Facts) -> Finding | None:
    """What a 2xx says other than "done". Its messages are the API's business; codes that name the key are not."""
    answer = facts.answer
    found = _by_rule(facts) or _wording.read_codes(
        code for code in graphql_codes(facts.evidence) if "idempot" in words_of_code(code)
    )
    if found or answer.status != 202:
        return found or _wording.read_ambiguous(graphql_codes(facts.evidence))
    found = _wording.read_running_elsewhere(facts.evidence.texts)
    waits = answer.header("retry-after") is not None and all(answer.header(name) is None for name in _ELSEWHERE)
    return found or ((Verdict.IN_PROGRESS, "retry-after") if waits and not facts.fresh else None)


def _by_rule(facts: _Facts) -> Finding | None:
    answer, evidence = facts.answer, facts.evidence
    for rule in facts.dialect.rules:
        token = rule.fits(answer.status, evidence.codes, evidence.texts, answer.headers)
        if token is not None:
            return rule.verdict, token[:64]
    return None


def _by_marker(facts: _Facts) -> Finding | None:
    """A replayed error is the answer to the *first* request, so its words say nothing of this one."""
    again = facts.dialect.reexecutes_failed and facts.answer.status >= 500
    return (Verdict.STORED_ERROR, "replay marker") if facts.replayed and not again else None


def _by_repeatability(facts: _Facts) -> Finding | None:
    token = f"repeatability-result: {facts.result}"
    if facts.result == "rejected":
        if facts.answer.status == 412:
            return Verdict.KEY_EXPIRED, token
        return (Verdict.MISMATCH if facts.used else Verdict.KEY_REFUSED), token
    if facts.result == "accepted" and facts.answer.status == 409 and facts.used:
        return Verdict.IN_PROGRESS, token
    return None


def _by_wording(facts: _Facts) -> Finding | None:
    status, evidence = facts.answer.status, facts.evidence
    ambiguous = _wording.read_ambiguous(evidence.codes)
    found = _wording.read_codes(evidence.codes)
    found = found or _wording.read_texts(evidence.texts, about_key=ambiguous is not None) or ambiguous
    if found is None or (status >= 500 and found[0] is not Verdict.IN_PROGRESS):
        # A server that stumbles over its own key store may have executed all the same.
        return None
    if found[0] is Verdict.ALREADY_DONE and status == 422 and facts.evidence.names_key:
        # The title that the IETF draft gives to a mismatch is "already used".
        return Verdict.MISMATCH, found[1]
    return found


def _by_link(facts: _Facts) -> Finding | None:
    """The form of the IETF draft that has no body: only a link to a page about idempotency."""
    if facts.answer.body or facts.answer.status not in _LINKED:
        return None
    links = (value for name, value in facts.answer.headers if name == "link")
    return (_LINKED[facts.answer.status], "link") if any(map(_DESCRIBED_BY.search, links)) else None


def _by_bare_status(facts: _Facts) -> Finding | None:
    status = facts.answer.status
    verdict = facts.dialect.bare_status.get(status)
    if verdict is None or (verdict in _NEEDS_EARLIER_USE and not facts.used):
        return None
    bare = all(_says_nothing(code, status) for code in facts.evidence.codes)
    return (verdict, f"status {status}") if bare else None


def _by_waiting(facts: _Facts) -> Finding | None:
    waits = facts.answer.status == 409 and facts.used and facts.answer.header("retry-after") is not None
    return (Verdict.IN_PROGRESS, "retry-after") if waits else None


_STEPS = (_by_rule, _by_marker, _by_repeatability, _by_wording, _by_link, _by_bare_status, _by_waiting)


def _says_nothing(code: str, status: int) -> bool:
    """A code that only repeats the status."""
    phrase = HTTPStatus(status).phrase.lower() if status in HTTPStatus._value2member_map_ else ""
    return words_of_code(code) in (str(status), phrase, "error", "blank", "about blank")


def _hint(answer: Answer, dialect: Dialect) -> bool | None:
    for hint in dialect.hints:
        value = answer.header(hint.header)
        told = hint.absent if value is None else truth(value)
        if told is not None:
            return told
    return None


def _resource(facts: _Facts) -> str | None:
    for path in facts.dialect.done_resource:
        value = at(facts.evidence.data, path)
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)[:256]
    return None
