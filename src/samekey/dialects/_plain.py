"""The short look that is enough for nearly every answer: a success without anything to say about the key."""

from __future__ import annotations

from samekey._model import Reading, Verdict
from samekey.dialects._classify import LOOKED_AT
from samekey.dialects._dialect import Dialect

PLAIN_SUCCESS = Reading(Verdict.OK)


def plain_success(status: int, body: bytes, dialect: Dialect) -> bool:
    """Whether `classify` would read this answer, which has no replay marker, as a success and nothing more."""
    if not 200 <= status < 300 or status == 202:
        return False
    return not dialect.inspect_2xx or not (dialect.rules or b"idempot" in body[:LOOKED_AT].lower())
