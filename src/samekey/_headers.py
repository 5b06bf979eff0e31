"""What the headers of an answer say: whether it ends, and how long to wait."""

from __future__ import annotations

import email.utils
import math
from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

STREAMING_TYPES = frozenset(
    {
        b"text/event-stream",
        b"application/x-ndjson",
        b"application/ndjson",
        b"application/jsonl",
        b"application/x-jsonlines",
        b"application/json-seq",
        b"multipart/x-mixed-replace",
    }
)
"""Media types of answers that may never end; they are handed on unread."""

_WAITS = (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1.0))
ASK_TO_WAIT = frozenset(name.encode() for name, _ in _WAITS)
"""Headers in which servers say how long to wait."""


def may_never_end(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the answer with these headers is of a type that streams."""
    return any(name.lower() == b"content-type" and streams(value) for name, value in headers)


def streams(content_type: bytes) -> bool:
    """Whether a body of this type may never end."""
    return content_type.partition(b";")[0].strip().lower() in STREAMING_TYPES


def retry_after(headers: httpx.Headers, wall: float) -> float | None:
    """Seconds the server asks to wait, from `retry-after-ms` (which wins), its Azure name, or `Retry-After`.

    A date is compared with the server's own `Date`, so that a wrong local clock does no harm. Anything malformed,
    negative or not finite is as if it were not there.
    """
    for name, unit in _WAITS:
        text = headers.get(name)
        if text is None:
            continue
        seconds = _number(text.strip())
        if seconds is not None:
            return seconds * unit
        if name == "retry-after" and (then := _date(text)) is not None:
            now = _date(headers.get("date", ""))
            return max(0.0, then - (wall if now is None else now))
    return None


def _number(text: str) -> float | None:
    if not text[:1].isdigit() or not text.isascii():
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _date(text: str) -> float | None:
    try:
        parsed = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    # "-0000" says UTC, and comes without a zone.
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
