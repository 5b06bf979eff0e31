"""Answers for the classifier: one by hand, and any shape from Hypothesis."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from samekey._model import Answer, Reading
from samekey.dialects import GENERIC, Dialect, classify

FRESH = {"fresh": True, "repeat": False}
REPEAT = {"fresh": True, "repeat": True}
GIVEN = {"fresh": False, "repeat": False}


def read(
    status: int,
    body: Any = b"",
    /,
    dialect: Dialect = GENERIC,
    *,
    when: Mapping[str, bool] = FRESH,
    complete: bool = True,
    **headers: str,
) -> Reading:
    """Classify an answer; header names are written with underscores."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return classify(Answer(status, lines, raw, complete), dialect, **when)


LINK = '<https://example.com/docs/idempotency>; rel="describedby"'


def words(text: str) -> list[str]:
    """The words of *text*."""
    return text.split()


telling = st.sampled_from(["code", "type", "error", "errors", "message", "field", "loc", "idempotency_key", "title"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10) | telling, inner, max_size=4),
    max_leaves=15,
)
key_words = st.lists(
    st.sampled_from(
        words(
            "idempotency key idempotent request id with same this is in progress already used different body missing "
            "invalid client token processing reused exists , . - _ / # :"
        )
    ),
    max_size=12,
).map(" ".join)
bodies = st.one_of(
    st.binary(max_size=300),
    json_values.map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    st.builds(lambda name, text: json.dumps({name: text}).encode(), telling, key_words),
    key_words.map(str.encode),
    st.builds(lambda name, text: f"<{name}>{text}</{name}>".encode(), st.sampled_from(["Code", "error"]), key_words),
)
headers = st.lists(
    st.tuples(
        st.sampled_from(
            words("link retry-after repeatability-result idempotent-replayed idempotency-status x-amzn-errortype")
        ),
        st.text(max_size=20) | st.sampled_from(["true", "rejected", "accepted", "ignored", LINK]) | key_words,
    ),
    max_size=3,
).map(tuple)
statuses = st.integers(100, 599) | st.sampled_from([200, 202, 400, 409, 412, 422, 429, 500, 501])
business = st.lists(
    st.sampled_from(
        words(
            "order invoice payment name account email amount already exists duplicate mismatch different does not"
            " match in progress processing pending locked conflict missing required invalid expired reused used before"
            " seen the signature token version other body is was has been currently"
        )
    ),
    min_size=1,
    max_size=10,
)
