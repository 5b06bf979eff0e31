"""The short look that is enough for nearly every answer: one without anything to say about the key."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from samekey._model import Reading, Verdict
from samekey.dialects._classify import LOOKED_AT, names_key
from samekey.dialects._dialect import Dialect

PLAIN_SUCCESS = Reading(Verdict.OK)
EMPTY_SUCCESS = Reading(Verdict.OK, empty=True)
PLAIN_FAILURE = Reading(Verdict.TRANSIENT)
EMPTY_FAILURE = Reading(Verdict.TRANSIENT, empty=True)

_RUNNING = re.compile(
    # Any word without which no code or message of `_wording` says that a request is running. Letters may be written
    # as escapes of JSON, or with a zero byte each. (Of "locked" the k may be the sign for Kelvin.)
    rb"idempot|progress|flight|concurrent|outstanding|loc|pending|being|running|process|executing|finished"
    rb"|completed|in(?:\\[nrtbf]|[\W_])*use|\\u|\0",
    re.IGNORECASE,
)


def plain(status: int, names: AbstractSet[bytes], body: bytes | None, dialect: Dialect) -> Reading | None:
    """What `classify` would read in a success, or a 5xx, that says no more than its status; None if it may say more.

    *names* are those of its headers, in lower case; *body* is None if it was not read.
    """
    if 200 <= status < 300:
        telling = dialect.inspect_2xx and (dialect.rules or names_key(body or b""))
        if status == 202 or telling or not names.isdisjoint(dialect.telling):
            return None
        return EMPTY_SUCCESS if body == b"" else PLAIN_SUCCESS
    if status < 500 or status == 501 or status in dialect.bare_status or dialect.telling_of_failure is None:
        return None
    if not names.isdisjoint(dialect.telling_of_failure) or (body and _RUNNING.search(body, 0, LOOKED_AT)):
        return None
    return EMPTY_FAILURE if body == b"" else PLAIN_FAILURE
