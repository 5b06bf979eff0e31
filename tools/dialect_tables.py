"""The tables of the presets and of what a dialect is made of, from the code and its docstrings; see docs_tables.py."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from samekey import dialects
from samekey.dialects import Dialect, Header, JsonField, KeyRule, RepeatabilityHeaders

FOLDER = Path(inspect.getfile(dialects)).parent
FACTS = re.compile(
    r"Source: (?P<source>.*?)\. Confidence: (?P<confidence>.*?)\.(?: (?=[A-Z])|$).*Cannot tell: (?P<cannot>.*?)\.?$"
)
DAY, HOUR = 86400, 3600


def presets() -> dict[str, Dialect]:
    """Every preset, the general ones first."""
    names = [name for name in dialects.__all__ if isinstance(getattr(dialects, name), Dialect)]
    return {name: getattr(dialects, name) for name in sorted(names, key=lambda name: (name not in STANDARDS, name))}


STANDARDS = ("GENERIC", "IETF_DRAFT", "AZURE_REPEATABILITY", "UK_OPEN_BANKING")


def said() -> dict[str, str]:
    """What stands under each preset, in one line."""
    found: dict[str, str] = {}
    for module in ("_standards.py", "_presets.py"):
        body = ast.parse((FOLDER / module).read_text()).body
        for node, text in pairwise(body):
            named = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if named and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[node.targets[0].id] = " ".join(str(text.value.value).split())  # type: ignore[attr-defined]
    return found


def about(name: str) -> dict[str, str]:
    """Source, confidence, and what cannot be told, of one preset.

    Raises:
        ValueError: Its docstring does not say one of them.
    """
    match = FACTS.search(said()[name])
    if match is None:
        raise ValueError(f"the docstring of {name} must have Source, Confidence, and end with what it cannot tell")
    return match.groupdict()


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def preset_table() -> str:
    """Where the key goes, for how long, what cannot be told, and where the facts come from."""
    rows = []
    for name, preset in presets().items():
        facts = about(name)
        methods = ", ".join(sorted(preset.methods, key=("POST", "PUT", "PATCH", "DELETE").index))
        kept = span(preset.retention)
        rows.append((f"`{name}`", place(preset), methods, kept, facts["cannot"], facts["source"], facts["confidence"]))
    head = ("preset", "the key goes into", "methods", "kept for", "cannot tell", "source", "confidence")
    return table(head, rows)


def place(preset: Dialect) -> str:
    """Where the key goes."""
    match preset.carrier:
        case JsonField(path=path):
            return f"body, `{path}`"
        case RepeatabilityHeaders(name=name, date_name=date):
            return f"`{name}`, with `{date}`"
        case Header(name=name, quoted=quoted):
            return f"`{name}`" + (", in quotes" if quoted else "")


def span(seconds: Any) -> str:
    """A retention in words."""
    if seconds is None:
        return "unknown"
    if math.isinf(seconds):
        return "ever"
    for unit, size in (("days", DAY), ("hours", HOUR), ("minutes", 60)):
        if seconds >= 2 * size or unit == "minutes":
            return f"{seconds / size:g} {unit}"
    raise AssertionError


def own_table() -> str:
    """The settings of each preset that differ from those of a plain `Dialect`, but for those of the other table."""
    plain = Dialect()
    elsewhere = {"name", "carrier", "methods", "retention", "detects_mismatch"}
    rows = []
    for name, preset in presets().items():
        own = [
            setting(part.name, getattr(preset, part.name))
            for part in fields(Dialect)
            if part.init and part.name not in elsewhere and getattr(preset, part.name) != getattr(plain, part.name)
        ]
        noticed = {None: "unknown", True: "yes", False: "no"}[preset.detects_mismatch]
        rows.append((f"`{name}`", noticed, "; ".join(own) or "none"))
    return table(("preset", "notices another request under the key", "other settings of its own"), rows)


def setting(name: str, value: Any) -> str:
    """One setting, shortly."""
    match name:
        case "key":
            plain = KeyRule()
            parts = [value.form] if value.form != plain.form else []
            parts += [f"at most {value.max_length} bytes"] if value.max_length != plain.max_length else []
            return "keys: " + ", ".join(parts)
        case "rules":
            return "rules: " + ", ".join(sorted({f"`{rule.verdict}`" for rule in value}))
        case "bare_status":
            return "a bare " + ", ".join(f"{status}: `{verdict}`" for status, verdict in value.items())
        case "hints":
            return "hint: " + ", ".join(f"`{hint.header}`" for hint in value)
        case "margin" | "min_wait":
            return f"`{name}` {value:g} s"
        case "stores" | "never_stored" | "scope_headers" | "done_resource":
            texts = sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value)
            return f"`{name}` {', '.join(texts)}"
        case _:
            return f"`{name}`" if value is True else f"`{name}` {value}"


def settings_table(kind: Any) -> str:
    """The arguments of *kind*, with what its docstring says of each."""
    section = re.split(r"^(?:Args|Raises):$", inspect.getdoc(kind) or "", flags=re.MULTILINE)[1]
    entries = (entry.partition(": ") for entry in re.split(r"^    (?=\w+: )", section, flags=re.MULTILINE)[1:])
    told = {name: " ".join(text.split()).replace("``", "`") for name, _, text in entries}
    return table(("setting", "what it is"), [(f"`{name}`", told[name]) for name in inspect.signature(kind).parameters])


TABLES: dict[str, Callable[[], str]] = {
    "presets": preset_table,
    "preset-settings": own_table,
    "dialect": lambda: settings_table(Dialect),
    "rule": lambda: settings_table(dialects.Rule),
    "key-rule": lambda: settings_table(KeyRule),
    "header": lambda: settings_table(Header),
    "json-field": lambda: settings_table(JsonField),
    "replay-marker": lambda: settings_table(dialects.ReplayMarker),
    "retry-hint": lambda: settings_table(dialects.RetryHint),
}
