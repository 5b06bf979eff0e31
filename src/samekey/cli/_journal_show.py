"""Rows of a journal as lines for people, and as data for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from samekey._keys import digest
from samekey.journal import Entry, RowState

from ._show import Line, Span

STYLES = {
    RowState.CLAIMED: "",
    RowState.IN_FLIGHT: "cyan",
    RowState.UNKNOWN: "bold yellow",
    RowState.EXECUTED: "green",
    RowState.REJECTED: "magenta",
}
LAPSED = "bold yellow"
HEADINGS = ("state", "age", "written", "owner", "key", "name")
MEANING = {
    RowState.CLAIMED: "its key is reserved; nothing of it was sent",
    RowState.IN_FLIGHT: "a process is at it",
    RowState.UNKNOWN: "it may have been executed; the next run asks with the same key",
    RowState.EXECUTED: "done; a rerun gets this answer and sends nothing",
    RowState.REJECTED: "refused; an equal rerun gets this answer and sends nothing",
}
SHOWN_OWNER = 8


def listing(rows: Sequence[Entry]) -> list[Line]:
    """A table with a line for each row."""
    if not rows:
        return [(("no operations", "dim"),)]
    scoped = any(row.scope for row in rows)
    cells = [_cells(row, scoped=scoped) for row in rows]
    widths = [
        max(len(heading), *(len(line[column][0]) for line in cells)) for column, heading in enumerate(HEADINGS[:-1])
    ]
    lines: list[Line] = [_row([(heading, "bold") for heading in HEADINGS], widths)]
    lines += [_row(line, widths) for line in cells]
    counts = {state: sum(row.state is state for row in rows) for state in RowState}
    told = ", ".join(f"{count} {_words(state)}" for state, count in counts.items() if count)
    return [*lines, ((f"{len(rows)} operation{'' if len(rows) == 1 else 's'}: {told}", "dim"),)]


def _row(cells: Sequence[Span], widths: Sequence[int]) -> Line:
    padded = [(f"{text:{width}}  ", style) for (text, style), width in zip(cells[:-1], widths, strict=True)]
    return (*padded, cells[-1])


def _cells(row: Entry, *, scoped: bool) -> list[Span]:
    lapsed = _lapsed(row)
    state = _words(row.state) + ("" if row.status is None else f" {row.status}")
    owner, style = "-", "dim"
    if row.owner is not None:
        left = "lapsed" if lapsed else f"{ago(row.lease_left)} left"
        owner, style = f"{row.owner[:SHOWN_OWNER]} {left}", LAPSED if lapsed else "cyan"
    name = f"{printable(row.scope) or '-'} / {printable(row.name)}" if scoped else printable(row.name)
    return [
        (state, LAPSED if lapsed else STYLES[row.state]),
        (ago(row.age) if row.sends else "-", ""),
        (ago(row.updated), ""),
        (owner, style),
        (digest(row.key), "dim"),
        (name, ""),
    ]


def details(row: Entry, *, reveal: bool) -> list[Line]:
    """Everything about one row."""
    lapsed = _lapsed(row)
    meaning = "its process is gone; the next run takes over, with the same key" if lapsed else MEANING[row.state]
    if row.state is RowState.EXECUTED and row.status is None:
        meaning = "done, without a stored answer; a rerun raises AlreadyExecuted"
    if row.state is RowState.REJECTED and row.status is None:
        meaning = "resolved as not executed; a rerun starts with a new key"
    lines: list[Line] = [
        ((printable(row.name), "bold"), (f"  in scope {printable(row.scope)}" if row.scope else "", "")),
        _pair("state", _words(row.state), LAPSED if lapsed else STYLES[row.state]),
        _pair("", meaning),
        _pair(
            "key", row.key if reveal else digest(row.key), "", "" if reveal else "  (a digest; --reveal shows the key)"
        ),
        _pair("first sent", f"{ago(row.age)} ago" if row.sends else "never"),
        _pair("written", f"{ago(row.updated)} ago"),
        _pair("processes", f"{row.sends} may have sent it"),
    ]
    if row.owner is not None:
        left = f"lapsed {ago(-row.lease_left)} ago" if lapsed else f"{ago(row.lease_left)} left"
        lines.append(_pair("owner", f"{row.owner[:SHOWN_OWNER]}, lease {left}"))
    if row.fingerprint is not None:
        lines.append(_pair("request", f"fingerprint {row.fingerprint[:8]}"))
    if row.request is not None:
        lines.append(_pair("", f"{len(row.request)} bytes stored, {row.content_type or 'without a content type'}"))
        lines += _body(row.request, shown=reveal)
    if row.resource is not None:
        lines.append(_pair("resource", printable(row.resource)))
    return lines + (_answer(row, reveal=reveal) if row.status is not None else [])


def _answer(row: Entry, *, reveal: bool) -> list[Line]:
    kept = "body not kept"
    if row.swept:
        kept = "headers and body swept"
    elif row.body is not None:
        kept = f"{len(row.body)} bytes"
    elif row.body_digest is not None:
        kept = f"body not kept, SHA-256 {row.body_digest[:16]}…"
    lines = [_pair("answer", f"{row.status}, {kept}")]
    lines += [_pair("", f"{printable(name)}: {printable(value)}", "dim") for name, value in row.headers]
    return lines + (_body(row.body, shown=reveal) if row.body is not None else [])


def _body(body: bytes, *, shown: bool) -> list[Line]:
    if not shown:
        return []
    return [_pair("", printable(line)) for line in body.decode("utf-8", "backslashreplace").splitlines()]


def brief(row: Entry) -> Line:
    """What became of an operation that was decided."""
    made = f", {printable(row.resource)}" if row.resource else ""
    then = "a rerun raises AlreadyExecuted" if row.state is RowState.EXECUTED else "a rerun starts with a new key"
    return ((f"{printable(row.name)}: ", ""), (_words(row.state), STYLES[row.state]), (f"{made}; {then}", ""))


def as_dict(row: Entry, *, whole: bool = False, reveal: bool = False) -> dict[str, Any]:
    """A row for machines; bodies as text, and the key, only if they are to be revealed."""
    told: dict[str, Any] = {
        "scope": row.scope,
        "name": row.name,
        "state": str(row.state),
        "lapsed": _lapsed(row),
        "key_digest": digest(row.key),
        "owner": row.owner,
        "lease_left": round(row.lease_left, 3) if row.owner is not None else None,
        "age": round(row.age, 3),
        "updated": round(row.updated, 3),
        "sends": row.sends,
        "status": row.status,
        "resource": row.resource,
        "swept": row.swept,
    }
    if whole:
        told |= {
            "fingerprint": row.fingerprint,
            "headers": [list(pair) for pair in row.headers],
            "body_bytes": None if row.body is None else len(row.body),
            "body_digest": row.body_digest,
            "content_type": row.content_type,
            "request_bytes": None if row.request is None else len(row.request),
        }
    if reveal:
        told |= {"key": row.key, "body": _text(row.body), "request": _text(row.request)}
    return told


def _text(body: bytes | None) -> str | None:
    return None if body is None else body.decode("utf-8", "backslashreplace")


def _pair(label: str, text: str, style: str = "", more: str = "") -> Line:
    return ((f"  {label:12}", "dim"), (text, style), (more, ""))


def _words(state: RowState) -> str:
    return str(state).replace("_", " ")


def _lapsed(row: Entry) -> bool:
    return row.state is RowState.IN_FLIGHT and row.lease_left <= 0


def ago(seconds: float) -> str:
    """A time in its largest unit that gives two digits or so."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    for unit, length, most in (("min", 60, 100), ("h", 3600, 72)):
        if seconds < most * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def printable(text: Iterable[str]) -> str:
    """*text* without what a terminal would act on: names come from far away."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
