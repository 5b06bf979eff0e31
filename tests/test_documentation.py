"""The documentation cannot go stale: tables, reference and docstrings are held against the code, links against pages.

That its examples run is tests/test_docs.py; that the site builds is `make docs`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import samekey
from samekey import cli
from samekey.testing import faults
from tools import docs_check, docs_pages, docs_tables

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
PLACE = re.compile(r"^::: (?P<name>[\w.]+)$", re.MULTILINE)

INTERNAL = {"samekey.errors.paired": "makes a class of two", "samekey.events.tell": "calls the listeners"}
"""Names of public modules that are for samekey itself."""


def public_modules() -> list[str]:
    """The modules that users import: no underscore in their names, and no commands."""
    found = []
    for path in sorted((SRC / "samekey").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(part.startswith("_") for part in name.split(".")) and ".cli" not in name:
            found.append(name)
    return found


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: its `__all__`, or what is defined in it."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    own = [(name, thing) for name, thing in vars(module).items() if inspect.isfunction(thing) or inspect.isclass(thing)]
    named = [name for name, thing in own if not name.startswith("_") and thing.__module__ == module.__name__]
    return [name for name in named if f"{module.__name__}.{name}" not in INTERNAL]


def resolved(name: str) -> Any:
    """The thing that a dotted name stands for."""
    module, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), last)


def places() -> list[Any]:
    """Everything, modules included, that the reference has a place for."""
    pages = sorted((ROOT / "docs/reference/api").glob("*.md"))
    return [resolved(match["name"]) for page in pages for match in PLACE.finditer(page.read_text())]


@pytest.mark.parametrize("page", docs_tables.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_those_of_the_code(page: Path) -> None:
    """The tables of a page are what the code says today (`python -m tools.docs_tables` renews them)."""
    assert docs_tables.renewed(page.read_text()) == page.read_text()


def test_every_table_is_shown() -> None:
    """A table that is made is on some page."""
    shown = {match["name"] for page in docs_tables.pages() for match in docs_tables.MARKED.finditer(page.read_text())}

    assert shown == set(docs_tables.TABLES)


@pytest.mark.parametrize("name", public_modules())
def test_reference_is_whole(name: str) -> None:
    """Each public name of each public module has a place in the reference, alone or with its whole module."""
    module, known = importlib.import_module(name), places()
    offered = {one: getattr(module, one) for one in public_names(module)}
    # The presets stand together, with the modules that they are made in.
    wanted = {one: thing for one, thing in offered.items() if not isinstance(thing, ModuleType | samekey.Dialect)}

    whole = any(place is module for place in known)
    assert [one for one, thing in wanted.items() if not whole and not any(place is thing for place in known)] == []


def _described(name: str) -> Iterator[tuple[str, Any]]:
    module = importlib.import_module(name)
    yield name, module
    for one in public_names(module):
        thing = getattr(module, one)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            yield f"{name}.{one}", thing
        if inspect.isclass(thing) and thing.__module__.startswith("samekey"):
            for member, value in vars(thing).items():
                is_described = inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
                if is_described and not member.startswith("_"):
                    yield f"{name}.{one}.{member}", value


@pytest.mark.parametrize("name", public_modules())
def test_everything_public_has_a_docstring(name: str) -> None:
    """Modules, functions, classes, methods and properties that users can name say what they are."""
    assert [what for what, thing in _described(name) if not (thing.__doc__ or "").strip()] == []


def test_every_fault_is_in_the_table() -> None:
    """The table of steps in the reference has each one."""
    page = (ROOT / "docs/reference/testing.md").read_text()

    assert [name for name in faults.__all__ if f"`{name}(" not in page] == []


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, part in action.choices.items():
                yield name
                yield from _options(part)
        yield from (option for option in action.option_strings if option not in ("-h", "--help", "--version"))


def test_every_option_of_the_command_is_in_the_reference() -> None:
    """Each command, and each of its options, is on the page of the command."""
    page = (ROOT / "docs/reference/command.md").read_text()

    assert [option for option in _options(cli._parser()) if not re.search(rf"`[^`]*{option}\b", page)] == []


def test_every_page_is_in_the_navigation() -> None:
    """No page of docs is left out of the nav of mkdocs.yml, and none is named there that does not exist."""
    named = set(re.findall(r"(?<=[ :]) ?([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}

    assert named == there | {
        page for page in docs_pages.made() if page.startswith(("project/c", "project/s", "examples/i"))
    }


def test_every_example_is_in_the_table() -> None:
    """The README of the examples has each one."""
    readme = (ROOT / "examples/README.md").read_text()
    there = [path for path in (ROOT / "examples").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]

    assert [path.name for path in there if f"({path.name})" not in readme] == []


# -- the tools that build the site


def test_links_are_turned_to_pages() -> None:
    """A link to a file of the repository leads to the page that shows it; code and addresses stay."""
    text = "[a](docs/tutorial.md) [b](CHANGELOG.md#x) [c](examples/quickstart.py) [d](https://e.example)\n"
    code = "```python\n[a](docs/tutorial.md)\n```\n"

    turned = docs_pages.turned(text + code, "README.md", "index.md")

    assert turned == (
        "[a](tutorial.md) [b](project/changelog.md#x) [c](examples/quickstart.md) [d](https://e.example)\n" + code
    )


def test_links_are_turned_from_where_they_stand() -> None:
    """What a link is relative to may be at another depth than its page."""
    turned = docs_pages.turned("[a](../../README.md) [b](../tutorial.md)", "docs/how-to/x.md", "how-to/x.md")

    assert turned == "[a](../index.md) [b](../tutorial.md)\n"


def test_pages_are_laid_out(tmp_path: Path) -> None:
    """The site has the README as its index, the changelog, and a page for each example."""
    docs_pages.lay_out(tmp_path / "docs")

    assert "Retries that cannot charge twice" in (tmp_path / "docs/index.md").read_text()
    assert (tmp_path / "docs/project/changelog.md").exists()
    assert "faults.lost()" in (tmp_path / "docs/examples/quickstart.md").read_text()


def site(folder: Path, **pages: str) -> list[str]:
    """What is wrong with a site of these pages."""
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return docs_check.faults(folder)


def test_a_whole_site_is_well(tmp_path: Path) -> None:
    """Links to pages and to places in them; addresses elsewhere are not looked at."""
    links = '<a href="b.html#there">b</a> <a href="#here" id="here">a</a> <a href="https://e.example/">e</a>'

    assert site(tmp_path, a=links, b='<h2 id="there">x</h2>') == []


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="gone.html">x</a>', "gone.html leads nowhere"),
        ('<a href="a.html#gone">x</a>', "names a place that a.html does not have"),
        ('<a href="#gone">x</a>', "names a place that a.html does not have"),
        ('<img src="gone.png">', "loads gone.png, which is not there"),
        ('<script src="https://e.example/x.js"></script>', "from elsewhere"),
        ('<link rel="stylesheet" href="//e.example/x.css">', "from elsewhere"),
        ('<pre class="mermaid"></pre>', "from elsewhere"),
        ("<style>@font-face { src: url(https://e.example/x.woff) }</style>", "from elsewhere"),
    ],
)
def test_faults_of_a_site_are_found(tmp_path: Path, page: str, fault: str) -> None:
    """Dead links, dead places, and everything that is loaded from elsewhere."""
    (found,) = site(tmp_path, a=page)

    assert fault in found
