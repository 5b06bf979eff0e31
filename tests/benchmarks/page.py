"""The page of the documentation that shows a run: docs/reference/benchmarks.md, made by ``make bench``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INTRO = """# Benchmarks

Made by `make bench`, which measures all of it on your machine in one run. [Speed](../explanation/speed.md) says why it
costs what it costs.

{cores} cores, Python {python}, {platform}, load {load} at the start; {packages}.

Times are medians of blocks of calls, in turns, in an order drawn anew for each turn; `ratio` and `above_us` are medians
of the same turn, against the row that has 1 or 0.
"""

TEXTS = {
    "a transport": "The first attempt is ok, no network. Against a wrapper that does nothing; rivals put a key on.",
    "a loopback": "The first attempt is ok, over loopback, through a client; all send a key header.",
    "b one": "A 503, then a 201; no wait, no network.",
    "c in": "Async calls that are all in flight at once: memory for each, and seconds for all.",
    "d body": "Over loopback, sync.",
    "e claim": "A named operation's two durable steps against two bare writes of the same bytes, each its own commit, "
    "in the same database. On PostgreSQL both take a connection out of a pool for each write.",
    "e 200": "The same steps of many operations at once, against one after the other.",
    "f import": "In fresh processes.",
    "g total": "20 operations a second, their own defaults; nothing but 503 for a minute.",
    "g partial": "A quarter of the requests fails at random.",
}
CHARTED = {
    "a transport httpx sync": "overhead-sync",
    "a transport httpx async": "overhead-async",
    "a loopback httpx sync": "loopback-sync",
    "b one retry sync": "one-retry",
    "f import and a transport": "imports",
    "g total outage, simulated": "outage-load",
}


def page(found: Mapping[str, Any]) -> str:
    """The whole page, in Markdown."""
    machine = found["machine"]
    packages = ", ".join(
        f"{name} {machine[name]}" for name in machine if name.startswith(("httpx", "stam", "tena", "any"))
    )
    parts = [INTRO.format(**machine, packages=packages)]
    for title, rows in found.items():
        if title != "machine":
            parts.append(_section(title, rows))
    return "\n".join(parts)


def _section(title: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    text = next((text for start, text in TEXTS.items() if title.startswith(start)), "")
    columns = list(next(iter(rows.values())))
    lines = [f"## {title[2].upper()}{title[3:]}", "", text, ""]
    if title in CHARTED:
        lines += [f"![{title[2:]}](../assets/benchmarks/{CHARTED[title]}.svg)", ""]
    lines += ["| |" + "".join(f" `{column}` |" for column in columns), "|---|" + "---:|" * len(columns)]
    for name, row in rows.items():
        shown = f"**{name}**" if name.startswith("samekey") else name
        lines.append(f"| {shown} |" + "".join(f" {row[column]:g} |" for column in columns))
    return "\n".join([*lines, ""])
