"""Lay out the pages of the site in build/docs: docs/, and pages whose text has its one place elsewhere.

- `index.md` shows the README.
- `project/*.md` are CHANGELOG.md, CONTRIBUTING.md, SECURITY.md and the licence.
- `examples/index.md` is examples/README.md, and each example is a page of its own.

A page's links to files of the repository are turned to the pages that show them; one that no page shows stays as it is,
and the strict build refuses it.

python tools/docs_pages.py build/docs
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
INDEX = "index.md"
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^ *(`{3,}|~{3,})")


def made() -> dict[str, str]:
    """The pages that are made from something outside of docs/, and from what."""
    found = {
        INDEX: "README.md",
        "project/changelog.md": "CHANGELOG.md",
        "project/contributing.md": "CONTRIBUTING.md",
        "project/security.md": "SECURITY.md",
        "project/license.md": "LICENSE",
        "examples/index.md": "examples/README.md",
    }
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix == ".py" or (path / "README.md").exists() or (path / "__init__.py").exists():
            found[f"examples/{path.stem}.md"] = f"examples/{path.name}"
    return found


def shown() -> dict[str, str]:
    """Which page shows a file or folder of the repository."""
    found = {"examples": "examples/index.md"}
    docs = ROOT / "docs"
    for path in docs.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(ROOT))] = str(path.relative_to(docs))
    for page, source in made().items():
        found[source] = page
        found |= {str(part.relative_to(ROOT)): page for part in (ROOT / source).rglob("*") if part.is_file()}
    return found


def text_of(source: str) -> str:
    """The Markdown that shows the file or folder *source*."""
    path = ROOT / source
    if path.is_dir():
        parts = [f"## {part.relative_to(path)}\n\n{fenced(part)}" for part in sorted(path.rglob("*.py"))]
        told = path / "README.md"
        about = told.read_text() if told.exists() else f"# {path.name}\n\n{_docstring(path / '__init__.py')}"
        return "\n\n".join([about, *parts])
    text = path.read_text()
    if path.suffix == ".md":
        return text
    if path.suffix != ".py":
        return f"# Licence\n\n```text\n{text}```\n"
    about, _, _ = _docstring(path).partition("\n\npython ")
    return f"# {path.name}\n\n{about}\n\n```console\n$ python {source}\n```\n\n{fenced(path)}\n"


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def fenced(path: Path) -> str:
    """A file as a block of code."""
    return f"````python\n{path.read_text().rstrip()}\n````"


def turned(markdown: str, source: str, own: str) -> str:
    """*markdown* of the file *source* with its links turned to pages, as seen from the page *own*."""
    known = shown()
    here, folder = os.path.dirname(source), os.path.dirname(own) or "."  # noqa: PTH120 - not files, places in a tree

    def turn(link: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(here, link["path"]))  # noqa: PTH118
        if target not in known:
            return link[0]
        return os.path.relpath(known[target], folder) + (link["anchor"] or "")

    lines: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        opened = FENCE.match(line)
        if opened and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else opened[1]
        lines.append(line if fence else LINK.sub(turn, line))
    return "\n".join(lines) + "\n"


def lay_out(target: Path) -> None:
    """Write all pages into the folder *target*, which is made anew."""
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(ROOT / "docs", target)
    texts = {}
    for path in target.rglob("*.md"):
        page = str(path.relative_to(target))
        texts[page] = (f"docs/{page}", path.read_text())
    for page, source in made().items():
        texts[page] = (f"{source}/README.md" if (ROOT / source).is_dir() else source, text_of(source))
    for page, (source, text) in texts.items():
        path = target / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(turned(text, source, page))


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
