"""The checks that settings share."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import timedelta
from typing import Any

import pytest

from samekey._settings import UNSET, check_flag, check_number_of_seconds, check_seconds, check_size


@pytest.mark.parametrize(
    ("value", "seconds"), [(1, 1.0), (0.5, 0.5), (timedelta(minutes=1), 60.0), (timedelta(milliseconds=1), 0.001)]
)
def test_times_are_seconds(value: Any, seconds: float) -> None:
    """Numbers and timedeltas, always as a float."""
    for check in (check_seconds, check_number_of_seconds):
        found = check("t", value)
        assert found == seconds
        assert type(found) is float


def test_no_limit_only_where_it_makes_sense() -> None:
    """`None` passes one check and not the other; zero only if allowed."""
    assert check_seconds("t", None) is None
    with pytest.raises(TypeError, match="t must be a number of seconds or a timedelta, not NoneType"):
        check_number_of_seconds("t", None)
    assert check_seconds("t", 0, zero=True) == 0.0
    with pytest.raises(ValueError, match="t must be above zero and finite, not 0"):
        check_seconds("t", 0)
    with pytest.raises(ValueError, match="t must be zero or more and finite, not -1"):
        check_seconds("t", -1, zero=True)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, timedelta(days=-1)])
def test_times_are_finite_and_not_negative(value: Any) -> None:
    """Also those of a timedelta."""
    with pytest.raises(ValueError, match="t must be"):
        check_seconds("t", value, zero=True)


@pytest.mark.parametrize("value", ["1", True, [1], 1j])
def test_other_types_are_no_times(value: Any) -> None:
    """A flag in the place of a number is a mistake."""
    with pytest.raises(TypeError, match="t must be a number of seconds"):
        check_seconds("t", value)


def test_sizes_and_flags() -> None:
    """Whole numbers of bytes; True and False and nothing like them."""
    assert check_size("n", 0) == 0
    check_flag("f", value=True)
    check_flag("f", value=False)
    with pytest.raises(ValueError, match="n must be zero or more bytes, not -1"):
        check_size("n", -1)
    for size in (1.0, True, None, "1"):
        with pytest.raises(TypeError, match=r"n must be a number of bytes \(int\)"):
            check_size("n", size)
    for flag in (1, None, "yes"):
        with pytest.raises(TypeError, match="f must be True or False"):
            check_flag("f", flag)


def test_unset_is_one_object() -> None:
    """Copies and pickles of a setting that was not given are still not given."""
    assert pickle.loads(pickle.dumps(UNSET)) is copy.deepcopy(UNSET) is UNSET
