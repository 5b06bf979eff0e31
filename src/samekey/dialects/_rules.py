"""How one API words its answers: rules, replay markers and retry hints."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from samekey._model import Verdict
from samekey.dialects._carriers import header_name
from samekey.dialects._keyrule import compiled

TURNED_AWAY = frozenset({401, 407})
"""Answers that only the authentication of the HTTP client can read."""
_TRUE = frozenset({"true", "1", "yes", "hit"})
_FALSE = frozenset({"false", "0", "no", "miss"})
_STATUS = {"replayed": True, "replay": True, "hit": True, "processed": False, "new": False, "miss": False}
IGNORED = frozenset({"ignored", "unsupported", "not-supported", "not_supported", "disabled"})
"""Values of a status marker with which a server says that it does not honour keys."""


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One line of a dialect: an answer that fits every given condition has *verdict*.

    Args:
        verdict: What such an answer means for the key.
        status: One status, several, or None for every 4xx and 5xx (and, with ``inspect_2xx``, every 2xx).
        code: Regular expression for a *whole* machine code of the answer (a member such as ``code``, ``type``,
            ``reason``, at any depth; an error header; an XML ``<Code>``), letter case ignored.
        header: Name of a header and a regular expression for its *whole* value, letter case ignored.
        text: Regular expression searched in the messages meant for people, letter case ignored.

    Raises:
        ValueError: No condition at all, a status no rule can speak for, or an invalid regular expression.
        TypeError: An argument has the wrong type.
    """

    verdict: Verdict
    status: int | Collection[int] | None = None
    code: str | None = None
    header: tuple[str, str] | None = None
    text: str | None = None
    statuses: frozenset[int] | None = field(init=False, repr=False, compare=False)
    """*status* as a set."""
    _code: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _header: tuple[str, re.Pattern[str]] | None = field(init=False, repr=False, compare=False)
    _text: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", verdict_of_rule(self.verdict, "Rule.verdict"))
        if self.status is None and self.code is None and self.header is None and self.text is None:
            raise ValueError("a Rule without a condition fits every answer; give a status, code, header or text")
        statuses = None
        if self.status is not None:
            given = (self.status,) if isinstance(self.status, int) else self.status
            statuses = frozenset(status_of_rule(status, "Rule.status") for status in given)
            if not statuses:
                raise ValueError("Rule.status is empty; leave it out to fit every status")
            object.__setattr__(self, "status", statuses)
        header = None
        if self.header is not None:
            name, pattern = _pair(self.header)
            header = header_name(name, "Rule.header").lower(), compiled(pattern, "Rule.header", re.IGNORECASE)
        object.__setattr__(self, "statuses", statuses)
        object.__setattr__(self, "_code", _pattern(self.code, "Rule.code"))
        object.__setattr__(self, "_header", header)
        object.__setattr__(self, "_text", _pattern(self.text, "Rule.text"))

    def fits(
        self, status: int, codes: Collection[str], texts: Collection[str], headers: Collection[tuple[str, str]]
    ) -> str | None:
        """A short token of what fitted, or None. *headers* have lower-case names."""
        if self.statuses is not None and status not in self.statuses:
            return None
        token = f"status {status}"
        if self._text is not None:
            found = next((match for text in texts if (match := self._text.search(text))), None)
            if found is None:
                return None
            token = found[0]
        if self._header is not None:
            wanted, pattern = self._header
            if not any(name == wanted and pattern.fullmatch(value.strip()) for name, value in headers):
                return None
            token = wanted
        if self._code is not None:
            return next((code for code in codes if self._code.fullmatch(code)), None)
        return token


@dataclass(frozen=True, slots=True)
class ReplayMarker:
    """
    A header with which a server marks an answer as the stored one of an earlier request.

    Args:
        header: Its name.
        kind: How to read the value, letter case ignored. ``"bool"`` (default): true or false. ``"status"``: a word
            such as replayed, processed or ignored, the last of which says that the server does not honour keys.
            ``"presence"``: the header only exists on replayed answers.

    Raises:
        ValueError: Not a header name, or an unknown kind.
        TypeError: The name is not a string.
    """

    header: str
    kind: Literal["bool", "status", "presence"] = "bool"

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", header_name(self.header, "ReplayMarker.header").lower())
        if self.kind not in ("bool", "status", "presence"):
            raise ValueError("ReplayMarker.kind must be 'bool', 'status' or 'presence'")

    def read(self, value: str) -> tuple[bool | None, bool | None]:
        """What *value* says: replayed or not, keys supported or not; None where it says nothing."""
        if self.kind == "presence":
            return True, None
        if self.kind == "bool":
            return truth(value), None
        word = value.strip().lower()
        return _STATUS.get(word), False if word in IGNORED else None


@dataclass(frozen=True, slots=True)
class RetryHint:
    """
    A header with which a server says whether the same request is worth another try.

    Args:
        header: Its name; the value is true or false.
        absent: What it means that an answer of 400 or more lacks the header; default None, nothing.

    Raises:
        ValueError: Not a header name.
        TypeError: An argument has the wrong type.
    """

    header: str
    absent: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "header", header_name(self.header, "RetryHint.header").lower())
        if self.absent not in (True, False, None):
            raise TypeError("RetryHint.absent must be True, False or None")


def truth(value: str) -> bool | None:
    """A header value read as true, false, or neither."""
    word = value.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def verdict_of_rule(verdict: Verdict, what: str) -> Verdict:
    """*verdict* if a dialect may give it."""
    try:
        verdict = Verdict(verdict)
    except ValueError:
        raise ValueError(f"{what} must be a Verdict, not {verdict!r}") from None
    if verdict in (Verdict.CHALLENGE, Verdict.REDIRECT, Verdict.MOVED):
        raise ValueError(f"{what} cannot be {verdict.value!r}: the HTTP client alone acts on 401, 407 and 3xx")
    return verdict


def status_of_rule(status: int, what: str) -> int:
    """*status* if a dialect may speak for it."""
    if type(status) is not int:
        raise TypeError(f"{what} must be a status code or several, not {type(status).__name__}")
    if not (200 <= status <= 299 or 400 <= status <= 599) or status in TURNED_AWAY:
        raise ValueError(f"{what} cannot be {status}: only 2xx, 4xx and 5xx, and neither 401 nor 407")
    return status


def _pattern(pattern: str | None, what: str) -> re.Pattern[str] | None:
    return None if pattern is None else compiled(pattern, what, re.IGNORECASE)


def _pair(header: object) -> tuple[str, str]:
    if isinstance(header, tuple) and len(header) == 2:
        return header
    raise TypeError("Rule.header must be a pair (name, regular expression)")
