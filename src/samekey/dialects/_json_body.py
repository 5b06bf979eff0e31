"""Put one string into a JSON document without touching any other byte.

Decoding and encoding again would change numbers, spaces and escapes, and with them a signature made over the body.
"""

from __future__ import annotations

import json
from typing import Any

_SPACE = " \t\n\r"
_MISSING = object()
_decode = json.JSONDecoder().raw_decode


# Where the key belongs: the index just behind the brace of the deepest object on the path that exists, whether that
# object is empty, the names that do not exist yet (none: the field exists), and what the field holds or `_MISSING`.
_Place = tuple[int, bool, tuple[str, ...], object]


def find(body: bytes, path: tuple[str, ...]) -> str | None:
    """The string at *path*, or None if there is no such field."""
    text = _text(body)
    *_, value = _locate(text, _skip(text, 0) + 1, path)
    return None if value is _MISSING else _string(value, path)


def insert(body: bytes, path: tuple[str, ...], key: str) -> bytes:
    """*body* with *key* at *path*."""
    text = _text(body)
    opening, empty, rest, value = _locate(text, _skip(text, 0) + 1, path)
    if not rest:
        if _string(value, path) != key:
            raise ValueError(f"the body holds another key in {'.'.join(path)!r}")
        return body
    member = json.dumps(key)
    for name in reversed(rest[1:]):
        member = f"{{{json.dumps(name)}:{member}}}"
    comma = "" if empty else ","
    added = f"{json.dumps(rest[0])}:{member}{comma}"
    return (text[:opening] + added + text[opening:]).encode()


def _text(body: bytes) -> str:
    try:
        text = body.decode()
        document = json.loads(text)
    except (ValueError, RecursionError):
        # The decoder's own message and its context quote the body, so neither is shown.
        raise ValueError("the key belongs into a JSON body, and this body is not a JSON document in UTF-8") from None
    _object(document, "the JSON body")
    return text


def _locate(text: str, start: int, path: tuple[str, ...], parents: tuple[str, ...] = ()) -> _Place:
    """Follow *path* into the object whose brace is just before *start*."""
    name, rest = path[0], path[1:]
    value, begin = _member(text, start, name)
    if value is _MISSING or not rest:
        empty = text[_skip(text, start)] == "}"
        return start, empty, path if value is _MISSING else (), value
    parents = (*parents, name)
    _object(value, f"{'.'.join(parents)!r} in the JSON body")
    return _locate(text, begin + 1, rest, parents)


def _member(text: str, index: int, wanted: str) -> tuple[Any, int]:
    """The value called *wanted* in the object that opens before *index*, and where it begins. The text is valid."""
    found: tuple[Any, int] = _MISSING, index
    index = _skip(text, index)
    while text[index] != "}":
        name, index = _decode(text, index)
        begin = _skip(text, _skip(text, index) + 1)
        value, index = _decode(text, begin)
        if name == wanted:
            if found[0] is not _MISSING:
                raise ValueError(f"{wanted!r} occurs twice in one object of the JSON body")
            found = value, begin
        index = _skip(text, index)
        if text[index] == ",":
            index = _skip(text, index + 1)
    return found


def _skip(text: str, index: int) -> int:
    while text[index] in _SPACE:
        index += 1
    return index


def _object(value: object, what: str) -> None:
    if not isinstance(value, dict):
        raise TypeError(f"{what} must be an object to hold the key, not {_kind(value)}")


def _string(value: object, path: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{'.'.join(path)!r} in the JSON body must be a string, not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return kinds.get(type(value), "a number")
