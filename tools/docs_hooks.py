"""What mkdocs has to know beyond mkdocs.yml: pages whose text has its one place elsewhere in the repository.

- `index.md` shows the README.
- `project/*.md` are CHANGELOG.md, CONTRIBUTING.md and SECURITY.md.
- `examples/index.md` is examples/README.md, and each example is a page of its own.

A page's links to files of the repository are turned to the pages that show them; one that no page shows stays as it is,
and the strict build refuses it.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
INDEX = "index.md"
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^ *(`{3,}|~{3,})")


def made() -> dict[str, str]:
    """The pages that are made from something outside of docs/, and from what."""
    found = {
        "project/changelog.md": "CHANGELOG.md",
        "project/contributing.md": "CONTRIBUTING.md",
        "project/security.md": "SECURITY.md",
        "project/license.md": "LICENSE",
        "examples/index.md": "examples/README.md",
    }
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix == ".py" or (path / "README.md").exists():
            found[f"examples/{path.stem}.md"] = f"examples/{path.name}"
    return found


def shown() -> dict[str, str]:
    """Which page shows a file or folder of the repository."""
    found = {"README.md": INDEX, "examples": "examples/index.md"}
    for page, source in made().items():
        found[source] = page
        found |= {str(part.relative_to(ROOT)): page for part in (ROOT / source).rglob("*") if part.is_file()}
    docs = ROOT / "docs"
    return found | {
        str(path.relative_to(ROOT)): str(path.relative_to(docs)) for path in docs.rglob("*") if path.is_file()
    }


def text_of(source: str) -> str:
    """The Markdown that shows the file or folder *source*."""
    path = ROOT / source
    if path.is_dir():
        parts = [f"## {part.relative_to(path)}\n\n{fenced(part)}" for part in sorted(path.rglob("*.py"))]
        return "\n\n".join([(path / "README.md").read_text(), *parts])
    text = path.read_text()
    if path.suffix == ".md":
        return text
    if path.suffix != ".py":
        return f"# Licence\n\n```text\n{text}```\n"
    about, _, _ = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")
    return f"# {path.name}\n\n{about}\n\n```console\n$ python {source}\n```\n\n{fenced(path)}\n"


def fenced(path: Path) -> str:
    """A file as a block of code."""
    return f"````python\n{path.read_text().rstrip()}\n````"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    from mkdocs.structure.files import File

    for page, source in made().items():
        files.append(File.generated(config, page, content=text_of(source)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with the README in its place, and its links turned to pages."""
    own = page.file.src_uri
    if own == INDEX:
        return turned((ROOT / "README.md").read_text(), "README.md", own)
    source = made().get(own, f"docs/{own}")
    return turned(markdown, f"{source}/README.md" if (ROOT / source).is_dir() else source, own)


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
