"""The short look that is enough for nearly every answer: a success without anything to say about the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samekey._model import Reading, Verdict
from samekey.dialects._classify import LOOKED_AT
from samekey.dialects._dialect import Dialect

if TYPE_CHECKING:
    import httpx

PLAIN_SUCCESS = Reading(Verdict.OK)


def plain_success(response: httpx.Response, body: bytes, dialect: Dialect) -> bool:
    """Whether `classify` would read this answer as a success and nothing more; it saves taking it apart."""
    if not 200 <= response.status_code < 300 or response.status_code == 202:
        return False
    if not dialect.markers.keys().isdisjoint([name.lower().decode("latin-1") for name, _ in response.headers.raw]):
        return False
    return not dialect.inspect_2xx or not (dialect.rules or b"idempot" in body[:LOOKED_AT].lower())
