"""Names of samekey in a docstring become links to their place in the reference.

A docstring writes `Report` or `samekey.Report`; which names have a place is read from the `:::` lines of the reference;
a member is linked to its class. (A griffe extension, loaded by mkdocstrings.)
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import griffe

REFERENCE = Path(__file__).parent.parent / "docs/reference/api"
PLACE = re.compile(r"^::: (?P<name>[\w.]+)$", re.MULTILINE)
NAME = re.compile(r"(?<![`\w\[])`(?P<name>[A-Za-z_][\w.]*?)(?P<call>\(\))?`(?![`\w])")
SHOWN_CODE = re.compile(r"(?<=\w)::$", re.MULTILINE)


@cache
def places() -> dict[str, str]:
    """Each name under which a docstring may speak of something, and its place."""
    found: dict[str, str] = {}
    for page in sorted(REFERENCE.glob("*.md")):
        for match in PLACE.finditer(page.read_text()):
            name = match["name"]
            found.setdefault(name.rpartition(".")[2], name)
            found[name] = name
            found.setdefault(name.removeprefix("samekey."), name)
    return found


def linked(text: str) -> str:
    """*text* with the names that have a place made into links."""

    def link(match: re.Match[str]) -> str:
        known, name = places(), match["name"]
        owner = name.rpartition(".")[0]
        shown = f"`{name}{match['call'] or ''}`"
        if name in known:
            return f"[{shown}][{known[name]}]"
        if owner in known and owner[:1].isupper():
            # Settings and attributes have no place of their own, but that of their class.
            return f"[{shown}][{known[owner]}]"
        return match[0]

    # "...::" before a block of code is how reStructuredText says it; Markdown needs one colon.
    return NAME.sub(link, SHOWN_CODE.sub(":", text))


class Links(griffe.Extension):
    """Turns the docstring of each object that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Turn one."""
        if obj.docstring is not None:
            obj.docstring.value = linked(obj.docstring.value)
