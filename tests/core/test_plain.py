"""The short look at an answer: it never says other than the long one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekey import dialects
from samekey._model import Answer, Verdict
from samekey.dialects import Dialect, RetryHint, classify
from samekey.dialects._plain import plain
from tests.core.dialect_answers import bodies, headers, statuses, words

DIALECTS = [
    dialects.GENERIC,
    dialects.IETF_DRAFT,
    dialects.STRIPE,
    dialects.AZURE_REPEATABILITY,
    Dialect(inspect_2xx=True),
]
WORDS = st.sampled_from(
    words(
        "a the same other previous original request requests idempotency key token is are was still already being in "
        "not yet progress flight concurrent outstanding locked pending processed processing executed running use used "
        "finished completed InProgress RequestInUse in_flight in-use reused different payload error server broke"
    )
)
MESSAGES = st.lists(WORDS, max_size=8).map(" ".join)


def written(message: str, code: str) -> st.SearchStrategy[bytes]:
    """A body with these words, in the ways of servers."""
    document = json.dumps({"error": {"code": code, "message": message}})
    return st.sampled_from(
        [
            document.encode(),
            document.encode("utf-16"),
            document.replace("i", "\\u0069").encode(),
            document.replace(" ", "\\n").replace("_", "\\t").encode(),
            document.replace("k", "\u212a").encode(),
            json.dumps({"type": code.replace(" ", ""), "detail": message}).encode(),
            f"<h1>{message}</h1>".encode(),
            f"<Error><Code>{code.replace(' ', '')}</Code></Error>".encode(),
            message.encode(),
        ]
    )


wordy = st.tuples(MESSAGES, MESSAGES).flatmap(lambda said: written(*said))


@given(statuses | st.sampled_from([500, 503]), headers, bodies | wordy, st.booleans(), st.sampled_from(DIALECTS))
def test_it_says_what_the_long_look_says(
    status: int, lines: tuple[tuple[str, str], ...], body: bytes, fresh: bool, dialect: Dialect
) -> None:
    short = plain(status, {name.encode() for name, _ in lines}, body, dialect)

    if short is not None:
        assert short == classify(Answer(status, lines, body), dialect, fresh=fresh, repeat=not fresh)


@pytest.mark.parametrize("body", [b"", b'{"error": "the database is down"}', b"<h1>Service Unavailable</h1>"])
def test_it_is_enough_for_an_ordinary_failure(body: bytes) -> None:
    found = plain(503, {b"content-type", b"retry-after"}, body, dialects.GENERIC)
    assert found is not None
    assert (found.verdict, found.empty) == (Verdict.TRANSIENT, body == b"")


@pytest.mark.parametrize("body", [b"", b"{}"])
def test_it_is_enough_for_an_ordinary_success(body: bytes) -> None:
    found = plain(201, {b"content-type"}, body, dialects.GENERIC)
    assert found is not None
    assert (found.verdict, found.empty) == (Verdict.OK, body == b"")


@pytest.mark.parametrize(
    ("status", "name", "body", "dialect"),
    [
        (503, "stripe-should-retry", b"", Dialect()),
        (503, "idempotent-replayed", b"", Dialect()),
        (503, "content-encoding", b"\x1f\x8b", Dialect()),
        (503, "date", b'{"message": "the first request is still being processed"}', Dialect()),
        (503, "date", b"", Dialect(bare_status={503: Verdict.IN_PROGRESS})),
        (503, "date", b"", Dialect(hints=(RetryHint("X-Retry", absent=False),))),
        (503, "date", b"", replace(Dialect(), body_delay="error.wait")),
        (501, "repeatability-result", b"", dialects.AZURE_REPEATABILITY),
        (200, "idempotent-replayed", b"{}", Dialect()),
        (202, "date", b"{}", Dialect()),
        (409, "date", b"", Dialect()),
    ],
)
def test_whatever_may_say_more_gets_the_long_look(status: int, name: str, body: bytes, dialect: Dialect) -> None:
    assert plain(status, {name.encode()}, body, dialect) is None
