"""The two drivers are twins written by hand; this keeps them from drifting apart.

Both files are parsed, imports and docstrings are dropped, `async` and `await` are stripped, a few names of the async
file are renamed, and what is left must be equal.
"""

from __future__ import annotations

import ast
import difflib
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "samekey"

# (sync file, async file): each pair must be equal after renaming.
TWINS = [
    ("_sync.py", "_async.py"),
    ("_sql_sync.py", "_sql_async.py"),
    ("postgres/_sync.py", "postgres/_async.py"),
]

# Async name -> sync name. A row that no async file needs fails the test.
RENAMES: dict[str, str] = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aiter": "iter",
    "handle_async_request": "handle_request",
}
# `AsyncX` -> `X` goes by this rule for every X; likewise `async_x` -> `x`, also behind an underscore.
PREFIX = re.compile(r"^(_*)(?:Async(?=[A-Z])|async_(?=\w))")

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


class Normaliser(ast.NodeTransformer):
    """Turn one driver into the form in which both are compared; without *renames*, names stay as they are."""

    def __init__(self, renames: dict[str, str] | None) -> None:
        self.renames = renames
        self.used: set[str] = set()

    def rename(self, name: str) -> str:
        if self.renames is None:
            return name
        if name in self.renames:
            self.used.add(name)
            return self.renames[name]
        return PREFIX.sub(r"\1", name)

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        first = statements[0] if statements else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            return statements[1:]
        return statements

    def visit_Module(self, node: ast.Module) -> ast.Module:
        return ast.Module(self.body(self.generic_visit(node).body), [])  # type: ignore[attr-defined]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = self.body(node.body)
        node.name = self.rename(node.name)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: AnyFunction) -> ast.AST:
        self.generic_visit(node)
        fields = {name: value for name, value in ast.iter_fields(node) if name not in {"name", "body"}}
        return ast.FunctionDef(name=self.rename(node.name), body=self.body(node.body), **fields)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        self.generic_visit(node)
        return ast.For(**dict(ast.iter_fields(node)))

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST:
        self.generic_visit(node)
        return ast.With(**dict(ast.iter_fields(node)))

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        node.is_async = 0
        return self.generic_visit(node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        return node.value

    def visit_Import(self, node: ast.Import) -> None:
        """Drop it."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Drop it."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Drop the blocks that held nothing but imports."""
        self.generic_visit(node)
        return node if node.body else None

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.rename(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self.rename(node.attr)
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Rename a string that is a name (`__all__`, a quoted annotation) like the name itself."""
        if isinstance(node.value, str):
            node.value = self.rename(node.value)
        return node


def normalise(source: str, renames: dict[str, str] | None) -> tuple[ast.AST, set[str]]:
    """The tree to compare, and which of *renames* it needed."""
    normaliser = Normaliser(renames)
    tree = normaliser.visit(ast.parse(source))
    return ast.fix_missing_locations(tree), normaliser.used


def drift(sync: str, asynchronous: str, renames: dict[str, str] = RENAMES) -> str:
    """A unified diff of the two sources after normalising; empty if they are twins."""
    # The sync side is not renamed: an async name in it is drift, too.
    left = normalise(sync, None)[0]
    right = normalise(asynchronous, renames)[0]
    if ast.dump(left) == ast.dump(right):
        return ""
    before, after = (ast.unparse(tree).splitlines() for tree in (left, right))
    lines = difflib.unified_diff(before, after, "sync", "async, normalised", lineterm="", n=2)
    return "\n".join(lines) or "the trees differ where their sources do not"


PAIRS = [(SRC / sync, SRC / other) for sync, other in TWINS if (SRC / sync).exists() or (SRC / other).exists()]


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS, ids=[sync.name for sync, _ in PAIRS])
def test_drivers_are_twins(sync: Path, asynchronous: Path) -> None:
    """What the sync driver does, the async driver does, in the same order."""
    difference = drift(sync.read_text(), asynchronous.read_text())

    assert difference == "", f"\n{difference}"


def test_every_rename_is_needed() -> None:
    """A row of the table that no driver needs any longer goes away."""
    used = [normalise(asynchronous.read_text(), RENAMES)[1] for _, asynchronous in PAIRS]

    assert PAIRS == [] or set().union(*used) == set(RENAMES)


SYNC = '''
"""The sync driver."""
import time

class Transport(Base):
    """Sends."""

    def __enter__(self) -> "Transport":
        return self

    def handle(self, request):
        with self.engine.claim(request) as claim:
            for part in claim.parts():
                response = self.inner.handle_request(part)
                response.close()
        return [line for line in response]
'''

ASYNC = '''
"""The async driver; other words."""
import anyio
from anyio import to_thread

class AsyncTransport(AsyncBase):
    """Sends, awaited."""

    async def __aenter__(self) -> "AsyncTransport":
        return self

    async def handle(self, request):
        """One more docstring."""
        async with self.engine.async_claim(request) as claim:
            async for part in claim.parts():
                response = await self.inner.handle_async_request(part)
                await response.aclose()
        return [line async for line in response]
'''


def test_twins_are_equal() -> None:
    """Only words, imports, `async` and the renamed names differ: no drift."""
    assert drift(SYNC, ASYNC) == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("await response.aclose()", "pass"),
        ("async def handle", "async def other"),
        ("(self, request)", "(self, request, timeout=None)"),
        ("return self", "return None"),
        ("AsyncBase", "Other"),
        ("await response.aclose()", "await response.aclose(); response.checked = True"),
        ('"AsyncTransport"', '"Other"'),
    ],
)
def test_drift_is_found(old: str, new: str) -> None:
    """A line that only one of the two has is shown as a diff."""
    assert old in ASYNC

    difference = drift(SYNC, ASYNC.replace(old, new))

    assert difference.startswith("--- sync")
    assert "\n+" in difference


def test_async_names_in_the_sync_driver_are_drift() -> None:
    """A call that belongs to the other colour is not renamed away."""
    assert "aclose" in drift(SYNC.replace(".close()", ".aclose()"), ASYNC)


def test_unneeded_renames_are_told() -> None:
    """The table knows which of its rows were used."""
    assert normalise(ASYNC, RENAMES)[1] == {"__aenter__", "aclose", "handle_async_request"}
