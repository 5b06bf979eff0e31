"""What one answer means for the key it was sent with: pure and total.

The plain case, a 2xx, is decided here; the machinery for all others is loaded with the first of them.
"""

from __future__ import annotations

from dataclasses import replace

from samekey._model import Answer, Reading, Verdict
from samekey.dialects._dialect import Dialect

LOOKED_AT = 64 * 1024
"""How many bytes of a body are looked at."""
_DONE = Reading(Verdict.OK)
_DONE_EMPTY = Reading(Verdict.OK, empty=True)


def classify(answer: Answer, dialect: Dialect, *, fresh: bool, repeat: bool) -> Reading:
    """Read one answer.

    Args:
        answer: The answer; any bytes are allowed as its body.
        dialect: How the API speaks.
        fresh: The key was made here, and no attempt of another call may have reached the server.
        repeat: An earlier attempt with this key may have reached the server.

    Returns:
        The verdict and everything else that the answer says. Never raises.
    """
    replayed, supported = _markers(answer, dialect)
    if 200 <= answer.status <= 299 and answer.status != 202 and not _worth_reading(answer, dialect):
        done = _DONE if answer.body or not answer.complete else _DONE_EMPTY
        if replayed is None and supported is None:
            return done
        return replace(done, replayed=replayed, supported=supported)
    from samekey.dialects._reading import read

    return read(answer, dialect, replayed=replayed, supported=supported, fresh=fresh, used=repeat or not fresh)


def _worth_reading(answer: Answer, dialect: Dialect) -> bool:
    if not dialect.inspect_2xx:
        return False
    return bool(dialect.rules) or names_key(answer.body)


def names_key(body: bytes) -> bool:
    """Whether a code in the JSON document *body* may have the word, in either case; a longer one is never parsed."""
    return len(body) <= LOOKED_AT and (b"dempoten" in body or b"DEMPOTEN" in body)


def _markers(answer: Answer, dialect: Dialect) -> tuple[bool | None, bool | None]:
    replayed = supported = None
    markers = dialect.markers
    for name, value in answer.headers:
        if name in markers:
            read = markers[name].read(value)
            replayed = read[0] if replayed is None else replayed
            supported = read[1] if supported is None else supported
    return replayed, supported
