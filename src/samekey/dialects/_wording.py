"""Read codes and messages of unknown servers: tables of words, from the most to the least telling.

The dangerous mistake is to take a running request for a finished refusal: its caller would start over and execute
twice. So where two readings are possible, the one stands first that leaves the outcome open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from samekey._model import Verdict

Finding = tuple[Verdict, str]

_KNOWN = {
    "concurrent idempotent requests": Verdict.IN_PROGRESS,
    "previous request in progress": Verdict.IN_PROGRESS,
    "request in progress": Verdict.IN_PROGRESS,
    "request already in progress": Verdict.IN_PROGRESS,
    "invalid idempotent request": Verdict.MISMATCH,
    "paypal request id previously used": Verdict.MISMATCH,
    "idempotent creation conflict": Verdict.ALREADY_DONE,
    "paypal request id required": Verdict.KEY_MISSING,
}
"""Codes seen in public APIs whose words alone would mislead, or do not name the key."""

_AMBIGUOUS = {
    "idempotency key in use": Verdict.IN_PROGRESS,
    "idempotency token in use": Verdict.IN_PROGRESS,
    "idempotency error": Verdict.MISMATCH,
    "idempotency conflict": Verdict.MISMATCH,
}
"""Codes that servers use in both senses: the message decides, and this only where it does not."""

# How clearly a string names the key. A bare "key" may be an API key or a primary key.
_IDEMPOTENT, _REQUEST_ID, _LOOSELY = 3, 2, 1
_NAMES = (
    (_IDEMPOTENT, re.compile(r"idempot")),
    (
        _REQUEST_ID,
        re.compile(
            # A "client token" or a "request token" alone is as likely a credential.
            r"\bgiven request token\b|\bclient (?:request )?token\b.*\b(?:param|payload|request|in progress)"
            r"|\b(?:same|this|given|duplicate|pay ?pal) request id\b|\brequest id (?:is|was|has) "
        ),
    ),
    (
        _LOOSELY,
        re.compile(
            r"\brequests? with (?:(?:this|that|the|the same|same|a given) )?key\b"
            r"|(?<!api )\bkey (?:(?:is|was|has been) )?(?:already )?reused\b.*\b(?:payload|body|request|param)"
            r"|\bsame key\b.*\b(?:different|other|another) (?:request )?(?:payload|body|param)"
        ),
    ),
)
_NAMES_IN_CODE = re.compile(r"\brequest id\b|\bclient (?:request )?token\b")

_DATA = r"(?:param|payload|body|bodies|value|endpoint|operation|data\b|content|argument|input|object|resource)"
_DIFFERENT = (
    r"mismatch",
    r"not match",
    # Neither "use a different key", which is advice, nor "a different request", which may be the one that runs.
    rf"\bdiffer\w*\b(?! (?:idempoten\w+ )?keys?\b)(?! request\b(?! {_DATA}))",
    rf"\b(?:other|another) (?:request )?{_DATA}",
    r"for another request",
    r"only (?:with|for) the\b",
)
_RUNNING = (
    r"in progress",
    r"in flight",
    r"concurrent",
    r"outstanding",
    r"\blocked",
    r"\bpending",
    r"being (?:processed|used|executed|handled)",
    r"\b(?:still|is|are) (?:being )?(?:running|processing|executing)",
    r"not (?:yet )?(?:been )?(?:finished|completed)",
)
_PROCESSING = (r"\bprocessing\b(?! (?:error|failed|of|the|your))", r"\bin use\b")
_MISSING = (
    r"\b(?:missing|required(?! to)|absent)\b",
    r"not (?:provided|supplied|present|set)\b",
    r"must be (?:provided|supplied|sent|set)\b",
)
_DONE = (
    r"\balready\b",
    r"(?<!not )\bexists?\b",
    r"duplicate",
    r"previously",
    r"\bused before",
    r"\b(?:was|been) used\b",
    r"\bseen\b",
)
_FORM = (
    r"invalid",
    r"malformed",
    r"format",
    r"too (?:long|short)",
    r"(?:long|short)er than",
    r"length",
    r"character",
    r"not (?:a )?valid",
    r"must (?:be|have|match|contain)",
    r"exceed",
    r"uuid",
)
_VERBS = tuple(
    (verdict, least, re.compile("|".join(patterns)))
    for verdict, least, patterns in (
        (Verdict.KEY_MISSING, _IDEMPOTENT, _MISSING),
        (Verdict.MISMATCH, _LOOSELY, _DIFFERENT),
        (Verdict.IN_PROGRESS, _LOOSELY, _RUNNING + _PROCESSING),
        (Verdict.MISMATCH, _LOOSELY, (r"\breused\b", r"\bdifferent request")),
        (Verdict.KEY_EXPIRED, _IDEMPOTENT, (r"\bexpired", r"\btoo old\b")),
        (Verdict.ALREADY_DONE, _REQUEST_ID, _DONE),
        (Verdict.KEY_REFUSED, _IDEMPOTENT, _FORM),
    )
)
_RUNS = re.compile("|".join(_RUNNING))
_SPENT = re.compile(r"idempot.*\b(?:previous|earlier|first|original) (?:attempt|request) failed\b")

# A request, not a refund, an order or a "refund request": those are the API's business.
_REQUEST_RUNS = re.compile(
    r"(?:^|[.;:!,] ?)"
    r"(?:(?:an?|the|your|this|that|another|original|previous|earlier|first|identical|same|concurrent) )*"
    r"(?:in progress request\b|requests? (?:(?:is|are|was) )?(?:(?:already|still|currently) )*(?:processed or )?"
    r"(?:in progress|in flight|being processed|being executed)\b)"
)
_ANOTHER = re.compile(r"\b(?:already|still|another|original|previous|earlier|first|identical|same|concurrent)\b")

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_A_WORD = re.compile(r"[\W_]+")
_DASHES = re.compile(r"[\s_\-]+")


def words_of_text(text: str) -> str:
    """A message in lower case, with one space for any run of spaces, dashes and underscores."""
    return _DASHES.sub(" ", text).strip().lower()


def words_of_code(code: str) -> str:
    """A machine code as plain words: last part of a URI, no ``Exception``, one space between words."""
    tail = code.rstrip("/#").rsplit("#", 1)[-1].rsplit("/", 1)[-1]
    return _NOT_A_WORD.sub(" ", _CAMEL.sub(" ", tail)).strip().lower().removesuffix(" exception")


def read_codes(codes: Iterable[str]) -> Finding | None:
    """The verdict that machine codes carry beyond doubt."""
    read = [(words, code[:64]) for code in codes if (words := words_of_code(code)) not in _AMBIGUOUS]
    for words, code in read:
        if words in _KNOWN:
            return _KNOWN[words], code
        if _SPENT.search(words):
            return Verdict.KEY_SPENT, code
    return _by_verb(
        [(words, _naming(words) or _REQUEST_ID * bool(_NAMES_IN_CODE.search(words)), code) for words, code in read]
    )


def read_ambiguous(codes: Iterable[str]) -> Finding | None:
    """What codes with two senses mean when nothing else decides."""
    read = {words_of_code(code): code[:64] for code in codes}
    return next(((verdict, read[words]) for words, verdict in _AMBIGUOUS.items() if words in read), None)


def read_texts(texts: Iterable[str], *, about_key: bool) -> Finding | None:
    """The verdict of messages that name the key or speak of a running request.

    With *about_key* a code has named the key already, so the messages need not to tell running from different.
    """
    read = [words_of_text(text) for text in texts]
    named = [(words, _naming(words) or _LOOSELY * about_key, "") for words in read]
    return _by_verb(named) or _running(read, _REQUEST_RUNS)


def read_running_elsewhere(texts: Iterable[str]) -> Finding | None:
    """IN_PROGRESS if a message speaks of a running request with the key, or of one that is not this one."""
    read = [words_of_text(text) for text in texts]
    return _running(filter(_naming, read), _RUNS) or _running(filter(_ANOTHER.search, read), _REQUEST_RUNS)


def _running(read: Iterable[str], pattern: re.Pattern[str]) -> Finding | None:
    match = next(filter(None, map(pattern.search, read)), None)
    return match and (Verdict.IN_PROGRESS, match[0].strip(" .;:!,")[:64])


def _naming(words: str) -> int:
    return next((level for level, pattern in _NAMES if pattern.search(words)), 0)


def _by_verb(read: list[tuple[str, int, str]]) -> Finding | None:
    """The first row of the table that fits any of (words, how clearly they name the key, code or "")."""
    for verdict, least, pattern in _VERBS:
        for words, level, code in read:
            if level >= least and (match := pattern.search(words)):
                return verdict, code or match[0][:64]
    return None
