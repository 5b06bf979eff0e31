"""The shape of the code: which module may import what, read from the sources (design, section 9).

The tables come first. A new module is put into `LAYERS`; a new exception gets a row with its reason.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"
PACKAGE = "samekey"
MAX_LINES = 320

# A module may import from its own layer and from those before it. An entry stands for a module and what is below it.
LAYERS: dict[str, tuple[str, ...]] = {
    "core": (
        "errors",
        "policy",
        "dialects",
        "events",
        "journal",
        "_journal_awaited",
        "_journal_memory",
        "_journal_rows",
        "_memory",
        "_messages",
        "_model",
        "_named_exchange",
        "_decide",
        "_exchange",
        "_forks",
        "budget",
        "_holding",
        "_keys",
        "_operation",
        "_options",
        "_report",
        "_settings",
        "_state",
        "_steps",
        "_strategies",
        "_timeline",
        "_trail",
    ),
    "wire": (
        "_deadlines",
        "_headers",
        "_pause",
        "_wire",
        "_engine",
        "_outgoing",
        "_raising",
        "_telling",
        "_leave",
        "_judge",
        "_straight",
        "_call",
        "_admit",
        "_bind",
        "_inner",
        "_colour",
        "_signing",
        "_named",
        "_sql",
        "_sql_sync",
        "_sql_async",
    ),
    "drivers": ("_sync", "_async", "sqlite", "postgres", "opentelemetry"),
    "backends": ("_httpx", "httpx2", "_wrap"),
    "root": ("",),
    "outside": ("testing", "cli", "jobs", "__main__"),
}

# The decision core: imports none of these, not even for types.
PURE = ("_model", "_decide", "_exchange")
NOT_IN_PURE = ("time", "random", "logging", "httpx", "httpx2", "anyio", "tenacity", "asyncio", "threading", "datetime")

# Who may import what at run time, inside functions too; everybody else may not.
OWNERS: dict[str, tuple[str, ...]] = {
    "time": ("_sync", "_async", "_pause", "_journal_memory", "sqlite", "testing", "cli"),
    "anyio": ("_sync", "_async", "_deadlines", "_pause", "sqlite", "testing", "cli"),
    "asyncio": ("_deadlines", "postgres", "testing", "cli"),
    "trio": (),
    "socket": ("testing", "cli"),
    "random": ("testing", "cli"),
    "sqlite3": ("sqlite", "cli"),
    "psycopg": ("postgres", "cli"),
    "httpx": ("_httpx", "testing._memory", "cli"),
    "httpx2": ("httpx2",),
    "httpcore": (),
    "tenacity": ("cli",),
    "uuid6": (),
    "opentelemetry": ("opentelemetry",),
    "rich": ("cli",),
}

# (module, imported): inside a function only, each with the reason why the table above has a hole here.
LATE: dict[tuple[str, str], str] = {
    ("_keys", "uuid6"): "makes the keys, and costs a tenth of `import httpx`: loaded with the first key",
    ("_strategies", "tenacity"): "a strategy is asked only when something is to be repeated",
    ("policy", "tenacity"): "the default strategies, loaded with the first policy",
    ("_timeline", "rich"): "rich itself asks for the table, so it is there",
}

# `import samekey` is paid by programs that never send a keyed request.
NOT_AT_IMPORT = (
    "tenacity",
    "uuid6",
    "rich",
    "httpx2",
    "sqlite3",
    "opentelemetry",
    "asyncio",
    "samekey._deadlines",
    "samekey._timeline",
    "samekey.events",
    "samekey.journal",
    "samekey.testing",
    "samekey.cli",
)


@dataclass(frozen=True)
class Import:
    """One import statement, seen from the module that holds it."""

    target: str
    line: int
    late: bool = False
    typing: bool = False

    @property
    def top(self) -> str:
        """The distribution, more or less: the first part of the name."""
        return self.target.partition(".")[0]


class Reader(ast.NodeVisitor):
    """Collect the imports of one module, `import_module("…")` included."""

    def __init__(self, package: str, modules: set[str]) -> None:
        self.package = package
        self.modules = modules
        self.found: list[Import] = []
        self.late = False
        self.typing = False

    def add(self, target: str, node: ast.AST) -> None:
        self.found.append(Import(target, getattr(node, "lineno", 0), self.late, self.typing))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        parents = self.package.split(".")
        base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])
        base = base if node.level else node.module or ""
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            self.add(whole if whole in self.modules else base, node)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in {"import_module", "__import__"} and node.args and isinstance(node.args[0], ast.Constant):
            self.add(str(node.args[0].value), node)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        before, self.late = self.late, True
        self.generic_visit(node)
        self.late = before

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        before = self.typing
        self.typing = before or ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for statement in node.body:
            self.visit(statement)
        self.typing = before
        self.visit(node.test)
        for statement in node.orelse:
            self.visit(statement)


def name_of(path: Path) -> str:
    """`src/samekey/dialects/__init__.py` is `samekey.dialects`."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_in(source: str, module: str, *, package: bool, modules: set[str]) -> list[Import]:
    """The imports of *source*; *package* tells whether it is an `__init__.py`."""
    reader = Reader(module if package else module.rpartition(".")[0], modules)
    reader.visit(ast.parse(source))
    return reader.found


def short(module: str) -> str:
    """The name below the package: `samekey._keys` is `_keys`, the package itself is the empty name."""
    return module.removeprefix(PACKAGE).removeprefix(".")


def within(module: str, entries: tuple[str, ...]) -> bool:
    """Whether *module* (a short name) is one of *entries* or below one."""
    return any(module == entry or (entry != "" and module.startswith(f"{entry}.")) for entry in entries)


def layer_of(module: str) -> int | None:
    """The number of the layer of *module* (a short name)."""
    return next((number for number, names in enumerate(LAYERS.values()) if within(module, names)), None)


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """One line for each way back to where one started."""
    found: list[str] = []
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for target in sorted(edges.get(module, ())):
                walk(target, [*path, module])
            done.add(module)

    for module in sorted(edges):
        walk(module, [])
    return found


FILES = {name_of(path): path for path in sorted(SRC.glob(f"{PACKAGE}/**/*.py"))}
IMPORTS = {
    name: imports_in(path.read_text(), name, package=path.name == "__init__.py", modules=set(FILES))
    for name, path in FILES.items()
}

every_module = pytest.mark.parametrize("module", FILES, ids=lambda name: short(name) or PACKAGE)


@every_module
def test_module_has_a_layer(module: str) -> None:
    """A module that nobody placed has no direction to keep."""
    assert layer_of(short(module)) is not None, f"put {short(module)} into LAYERS"


@every_module
def test_imports_point_one_way(module: str) -> None:
    """No module imports from a layer above its own, not even inside a function."""
    own = layer_of(short(module))
    wrong = [
        f"line {found.line}: {found.target}"
        for found in IMPORTS[module]
        if found.top == PACKAGE and not found.typing and (layer_of(short(found.target)) or 0) > (own or 0)
    ]
    # The package itself and the command load their optional parts on first use.
    assert own == list(LAYERS).index("root") or wrong == []


@every_module
def test_only_owners_import_what_is_owned(module: str) -> None:
    """Clocks, event loops, sockets, HTTP and databases each have few doors."""
    wrong = [
        f"line {found.line}: {found.target}"
        for found in IMPORTS[module]
        if found.top in OWNERS
        and not found.typing
        and not within(short(module), OWNERS[found.top])
        and not (found.late and (short(module), found.top) in LATE)
    ]

    assert wrong == []


@pytest.mark.parametrize("module", [name for name in FILES if short(name) in PURE], ids=short)
def test_decision_core_is_pure(module: str) -> None:
    """No clock, no random number, no logger, no HTTP: not in a function and not for a type."""
    assert [found for found in IMPORTS[module] if found.top in NOT_IN_PURE] == []


def test_no_import_cycles() -> None:
    """The modules can be imported in any order."""
    edges = {
        module: {found.target for found in imports if found.target in FILES and not (found.late or found.typing)}
        for module, imports in IMPORTS.items()
    }

    assert cycles(edges) == []


@every_module
def test_files_stay_small(module: str) -> None:
    """A file has one responsibility and fits into a head."""
    assert len(FILES[module].read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize(("module", "imported"), LATE)
def test_exceptions_are_in_use(module: str, imported: str) -> None:
    """An exception that nothing needs any longer goes away."""
    name = f"{PACKAGE}.{module}"

    assert name not in FILES or any(found.top == imported and found.late for found in IMPORTS[name])


def test_import_is_light() -> None:
    """`import samekey` loads nothing that a first request can load."""
    # httpx loads rich itself where its command's own requirements happen to be installed.
    before = "import sys, httpx; before = set(sys.modules)"
    loaded = f"[name for name in {NOT_AT_IMPORT!r} if name in sys.modules.keys() - before]"
    code = f"{before}; import {PACKAGE}; print(*{loaded})"
    # Coverage in the child would load sqlite3 itself.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SRC, env=environment
    )

    assert done.stdout.split() == []


def read(source: str, module: str = "samekey._wire", *, package: bool = False) -> list[Import]:
    """Read a small source as if it were *module*."""
    return imports_in(source, module, package=package, modules={"samekey", "samekey._model", "samekey._keys"})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time", Import("time", 1)),
        ("import os.path", Import("os.path", 1)),
        ("from time import sleep", Import("time", 1)),
        ("from samekey import _model", Import("samekey._model", 1)),
        ("from samekey import wrap", Import("samekey", 1)),
        ("from samekey._model import Outcome", Import("samekey._model", 1)),
        ("from . import _keys", Import("samekey._keys", 1)),
        ("from ._keys import new_key", Import("samekey._keys", 1)),
        ("def late():\n import uuid6", Import("uuid6", 2, late=True)),
        ("async def late():\n import uuid6", Import("uuid6", 2, late=True)),
        ("late = lambda: importlib.import_module('rich')", Import("rich", 1, late=True)),
        ("__import__('rich')", Import("rich", 1)),
        ("if TYPE_CHECKING:\n import httpx", Import("httpx", 2, typing=True)),
        ("if TYPE_CHECKING:\n pass\nelse:\n import httpx", Import("httpx", 4)),
        ("try:\n import rich\nexcept ImportError:\n pass", Import("rich", 2)),
    ],
)
def test_reader(source: str, expected: Import) -> None:
    """Every way to import is seen, with where it stands."""
    assert read(source) == [expected]


def test_reader_knows_packages() -> None:
    """In an `__init__.py` one dot is the package itself; in a module below it, two dots are."""
    assert read("from . import _keys", "samekey", package=True) == [Import("samekey._keys", 1)]
    assert read("from .._keys import new_key", "samekey.dialects._stripe") == [Import("samekey._keys", 1)]


def test_cycles_are_found() -> None:
    """The finder is not blind: a cycle is told, a diamond is not one."""
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b -> c -> b"]
    assert cycles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}) == []


def test_layers_are_told_apart() -> None:
    """An entry covers the modules below it and no namesakes."""
    assert layer_of("dialects._classify") == layer_of("dialects") == 0
    assert layer_of("_keysmith") is None
    assert layer_of("") == list(LAYERS).index("root")
