"""Checks that settings share: each fails where the setting is made and says what to write instead."""

from __future__ import annotations

import math
from datetime import timedelta
from enum import Enum
from typing import Final, Literal, TypeAlias


class _Unset(Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET
Unset: TypeAlias = Literal[_Unset.UNSET]


def check_seconds(what: str, value: object, *, zero: bool = False) -> float | None:
    """Return *value* in seconds, or None for no limit.

    Raises:
        TypeError: Neither a number, a timedelta nor None.
        ValueError: Negative, zero (unless *zero*), or not finite.
    """
    if value is None:
        return None
    return check_number_of_seconds(what, value, zero=zero)


def check_number_of_seconds(what: str, value: object, *, zero: bool = False) -> float:
    """As `check_seconds`, for a setting that must have a limit."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number of seconds or a timedelta, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{what} must be {'zero or more' if zero else 'above zero'} and finite, not {value}")
    return float(value)


def check_amount(what: str, value: object, *, least: float) -> None:
    """Refuse what is no finite number of at least *least*."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number, not {type(value).__name__}")
    if not math.isfinite(value) or value < least:
        raise ValueError(f"{what} must be finite and at least {least:g}, not {value}")


def check_size(what: str, value: object) -> int:
    """Return *value*, a number of bytes, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a number of bytes (int), not {type(value).__name__}")
    if value < 0:
        raise ValueError(f"{what} must be zero or more bytes, not {value}")
    return value


def check_flag(what: str, value: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r}")
