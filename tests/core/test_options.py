"""`options()`: per-request settings."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

import samekey
from samekey._options import DEFAULT, EXTENSION, Options
from samekey._settings import UNSET


def test_it_makes_the_extensions_of_one_request() -> None:
    """One entry, which merges with others."""
    made = samekey.options(key="k", scope="acct", retry=False, buffer_response=False, total_timeout=3)

    assert made == {EXTENSION: Options(key="k", scope="acct", retry=False, buffer_response=False, total_timeout=3.0)}
    assert {"timeout": 5, **made} == {"timeout": 5, EXTENSION: made[EXTENSION]}


def test_nothing_given_is_the_default() -> None:
    """A key is made, the answer is buffered, the policy's time holds."""
    assert samekey.options() == {EXTENSION: DEFAULT}
    assert DEFAULT.total_timeout is UNSET


def test_no_limit_is_not_the_same_as_no_setting() -> None:
    """`None` lifts the policy's limit."""
    assert samekey.options(total_timeout=None)[EXTENSION].total_timeout is None
    assert samekey.options(total_timeout=timedelta(seconds=2))[EXTENSION].total_timeout == 2.0


def test_a_read_needs_no_key_and_no_key_may_be_a_read() -> None:
    """What agrees is accepted."""
    assert samekey.options(idempotent=True, key=False)[EXTENSION].idempotent
    assert samekey.options(key=False)[EXTENSION].key is False
    assert samekey.options(name="order-7", scope="acct")[EXTENSION].name == "order-7"


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"key": ""}, ValueError, "empty"),
        ({"key": "  "}, ValueError, "blank"),
        ({"key": "é"}, ValueError, "ASCII"),
        ({"key": "a\r\nb"}, ValueError, "ASCII"),
        ({"key": "k" * 1025}, ValueError, "1025 bytes"),
        ({"key": True}, TypeError, "str, not bool"),
        ({"key": 0}, TypeError, "str, not int"),
        ({"key": b"k"}, TypeError, "str, not bytes"),
        ({"name": ""}, ValueError, "name"),
        ({"name": 7}, TypeError, "name"),
        ({"scope": " "}, ValueError, "scope"),
        ({"scope": b"a"}, TypeError, "scope"),
        ({"idempotent": 1}, TypeError, "idempotent must be True or False"),
        ({"buffer_response": None}, TypeError, "buffer_response"),
        ({"retry": "no"}, TypeError, "retry"),
        ({"total_timeout": 0}, ValueError, "total_timeout"),
        ({"total_timeout": -1}, ValueError, "total_timeout"),
        ({"total_timeout": float("nan")}, ValueError, "total_timeout"),
        ({"total_timeout": float("inf")}, ValueError, "total_timeout"),
        ({"total_timeout": "5"}, TypeError, "total_timeout"),
        ({"total_timeout": True}, TypeError, "total_timeout"),
        ({"key": False, "name": "n"}, ValueError, "nothing to keep"),
        ({"idempotent": True, "key": "k"}, ValueError, "needs no key"),
        ({"idempotent": True, "name": "n"}, ValueError, "needs no key"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: type[Exception], words: str) -> None:
    """Each is refused where it is made."""
    with pytest.raises(error, match=words):
        samekey.options(**settings)


def test_the_repr_shows_no_key() -> None:
    """BR-66: a digest stands for it; that none is sent may be read."""
    assert "alice@example.test-1" not in repr(samekey.options(key="alice@example.test-1", name="n"))
    assert repr(Options(key="key-1")).startswith("Options(key=<be297454>")
    assert "key=False" in repr(Options(key=False))
    assert "key=None" in repr(DEFAULT)


def test_options_travel() -> None:
    """A request with its extensions may be pickled, and "unset" stays unset."""
    assert pickle.loads(pickle.dumps(DEFAULT)) == DEFAULT
    assert pickle.loads(pickle.dumps(DEFAULT)).total_timeout is UNSET
