"""What a key of one API looks like: how it is made, and what a caller's own key is checked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from samekey._keys import check_key, new_key

_SAMPLES = {
    "uuid7": "01890a5d-ac96-774b-bcce-b302099a8057",
    "uuid4": "9b2c8c1e-3f4d-4a6b-8c7d-1e2f3a4b5c6d",
    "hex": "01890a5dac96774bbcceb302099a8057",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """
    The form of the keys of one API.

    Args:
        form: How a new key is made: ``"uuid7"`` (default), ``"uuid4"``, ``"hex"`` (a UUIDv7 as 32 hex digits, for APIs
            with short limits) or a callable without arguments that returns a new string each time.
        min_length: Fewest bytes, default 1.
        max_length: Most bytes, default 255.
        pattern: Regular expression that the whole key must match, or None.

    Raises:
        ValueError: The limits contradict one another, the pattern is no regular expression, or keys of *form* would
            not pass.
        TypeError: An argument has the wrong type.
    """

    form: Literal["uuid7", "uuid4", "hex"] | Callable[[], str] = "uuid7"
    min_length: int = 1
    max_length: int = 255
    pattern: str | None = None
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("min_length", "max_length"):
            if type(getattr(self, name)) is not int:
                raise TypeError(f"KeyRule.{name} must be a whole number of bytes")
        if not 1 <= self.min_length <= self.max_length:
            raise ValueError("KeyRule needs 1 <= min_length <= max_length")
        pattern = None if self.pattern is None else compiled(self.pattern, "KeyRule.pattern")
        object.__setattr__(self, "_pattern", pattern)
        if callable(self.form):
            return
        if self.form not in _SAMPLES:
            raise ValueError("KeyRule.form must be 'uuid7', 'uuid4', 'hex' or a callable that returns a string")
        try:
            self.check(_SAMPLES[self.form])
        except ValueError as error:
            raise ValueError(
                f"KeyRule: keys of form {self.form!r} would be refused ({error}); use another form ('hex' has 32 bytes,"
                " 'uuid7' and 'uuid4' have 36) or a callable"
            ) from error

    def make(self) -> str:
        """
        A new key.

        Returns:
            A key that `check` accepts.

        Raises:
            ValueError: A callable *form* returned a key that `check` refuses.
            TypeError: A callable *form* returned something that is not a string.
        """
        form = self.form
        if form == "uuid7":
            return new_key()
        if form == "hex":
            return new_key().replace("-", "")
        if form == "uuid4":
            import uuid

            return str(uuid.uuid4())
        key = form()
        self.check(key)
        return key

    def check(self, key: str) -> None:
        """
        Refuse a key that this API, or HTTP itself, could not carry.

        Args:
            key: The key, without quotes or escapes of the carrier.

        Raises:
            ValueError: Empty, blank, space at an end, a byte outside printable ASCII, wrong length, or the pattern
                does not match. The message never shows the key.
            TypeError: Not a string.
        """
        check_key(key, shortest=self.min_length, longest=self.max_length)
        if self._pattern is not None and not self._pattern.fullmatch(key):
            raise ValueError(f"the idempotency key ({len(key)} bytes) does not match {self.pattern!r}")


def compiled(pattern: str, what: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """The compiled *pattern*; *what* names the setting in the error."""
    if not isinstance(pattern, str):
        raise TypeError(f"{what} must be a regular expression as a str, not {type(pattern).__name__}")
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise ValueError(f"{what} is not a valid regular expression: {error}") from error
