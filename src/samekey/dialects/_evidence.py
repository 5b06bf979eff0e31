"""Collect what an answer says in words: machine codes and messages, out of any body, within fixed bounds.

Bodies come from anywhere and lie about their type, so nothing here may raise, and nothing reads without end.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from samekey._model import Answer
from samekey.dialects._classify import LOOKED_AT

_DEPTH = 6
_CONTAINERS = 500
_STRINGS = 200
_LENGTH = 400

_CODES = frozenset(
    {"code", "type", "name", "reason", "error", "errortype", "errorcode", "errorid", "errorname", "issue"}
    | {"reasoncode", "title"}
)
_TEXTS = frozenset(
    {"error", "errors", "errormessage", "errormessages", "errordescription", "title", "detail", "details", "message"}
    | {"messages", "msg", "description", "reason", "sysmessage", "developermessage", "usermessage", "summary"}
)
_FIELDS = frozenset(
    {"field", "fields", "loc", "location", "path", "param", "parameter", "pointer", "attribute", "header"}
)
_CODE_HEADERS = frozenset({"x-amzn-errortype", "x-ms-error-code"})

_XML_CODE = re.compile(r"<(?:\w{1,20}:)?code>\s*([^<\s]{1,200})\s*<", re.IGNORECASE)
_XML_ERROR = re.compile(r"<error\s[^>]{0,200}?\bcode=[\"']([^\"'<>]{1,200})[\"']", re.IGNORECASE)
_LINES = re.compile(r"(?:<!\[CDATA\[|\]\]>|[\r\n<>])+")
_LINES_OF_JSON = re.compile(r"[\r\n<>\"{}\[\]]+")
_JOINTS = re.compile(r"[\W_]+")


@dataclass(slots=True)
class Evidence:
    """What was found; codes are single words, texts are for people."""

    codes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    data: Any = None
    """The decoded JSON document, None if there is none."""

    @property
    def names_key(self) -> bool:
        """Whether anything that was found has the word."""
        return any("idempot" in value.lower() for value in (*self.codes, *self.texts))

    def add(self, value: object, *, code: bool, text: bool) -> None:
        """Sort one value that stood under a telling name."""
        if isinstance(value, int) and not isinstance(value, bool) and code:
            value = str(value)
        if not isinstance(value, str) or not value or len(self.codes) + len(self.texts) >= _STRINGS:
            return
        value = value[:_LENGTH].strip()
        if code and not any(map(str.isspace, value)):
            self.codes.append(value)
        elif code or text:
            self.texts.append(value)


def collect(answer: Answer) -> Evidence:
    """Read the headers and the first part of the body of *answer*."""
    found = Evidence()
    for name, value in answer.headers:
        if name in _CODE_HEADERS:
            found.add(value.split(":")[0], code=True, text=False)
    body = answer.body[:LOOKED_AT]
    if body.strip():
        try:
            found.data = json.loads(body)
        except (ValueError, RecursionError):
            _plain(body.decode("utf-8", "replace"), found)
        else:
            _walk(found)
    return found


def graphql_codes(found: Evidence) -> list[str]:
    """The values of members called exactly ``code`` in lists of errors: all that counts in a 2xx body."""
    lists = [
        value
        for node in _objects(found.data)
        for name, value in node.items()
        if name.lower().endswith("errors") and isinstance(value, list)
    ]
    return [node["code"] for value in lists for node in _objects(value) if isinstance(node.get("code"), str)][:_STRINGS]


def at(data: Any, path: str) -> Any:
    """The first value at a dotted *path*, looking into every element of lists on the way; None if there is none."""
    nodes = [data]
    for name in path.split("."):
        flat = [item for node in nodes for item in (node if isinstance(node, list) else (node,))][:_CONTAINERS]
        nodes = [node[name] for node in flat if isinstance(node, dict) and name in node]
    return next((node for node in nodes if node is not None), None)


def seconds(value: Any) -> float | None:
    """*value* as a waiting time, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _objects(data: Any) -> list[dict[str, Any]]:
    """The objects of a document, outer ones first."""
    found: list[dict[str, Any]] = []
    queue = deque([(data, 0)])
    for _ in range(_CONTAINERS):
        if not queue:
            break
        node, depth = queue.popleft()
        if isinstance(node, dict):
            found.append(node)
        if depth < _DEPTH:
            inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            queue.extend((value, depth + 1) for value in inner if isinstance(value, dict | list))
    return found


def _walk(found: Evidence) -> None:
    if isinstance(found.data, str):
        found.add(found.data, code=False, text=True)
    for node in _objects(found.data):
        members = [(_JOINTS.sub("", name.lower()), value) for name, value in node.items()]
        about_key = any("idempot" in _subject(value) for name, value in members if name in _FIELDS)
        for name, value in members:
            code, text, own = name in _CODES, name in _TEXTS, "idempot" in name
            for item in value[:_STRINGS] if isinstance(value, list) else (value,):
                found.add(item, code=code, text=text)
                # What is said of the field that holds the key is said of the key, whether it names it or not; the
                # bare value of such a member may be the key itself and says nothing.
                if isinstance(item, str) and ((own and " " in item.strip()) or (about_key and (code or text))):
                    found.add(f"idempotency key: {item}", code=False, text=True)


def _subject(value: Any) -> str:
    parts = value if isinstance(value, list) else [value]
    return " ".join(part.lower() for part in parts[:_STRINGS] if isinstance(part, str))


def _plain(text: str, found: Evidence) -> None:
    """XML, HTML, plain text, or JSON that was cut: never parsed, only searched."""
    for pattern in (_XML_CODE, _XML_ERROR):
        for code in pattern.findall(text)[:_STRINGS]:
            found.add(code, code=True, text=False)
    for line in (_LINES_OF_JSON if text.lstrip()[:1] in ("{", "[") else _LINES).split(text):
        found.add(line.strip(), code=False, text=True)
