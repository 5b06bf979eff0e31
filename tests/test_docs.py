"""The examples of README and docs run as they are written.

The ```python blocks of one file run in order, in one namespace, in an empty folder. Requests to any host but loopback
(`https://api.example.com` …) go to one `samekey.testing.LedgerServer` per file: nothing leaves the process. A block may
use `await` at its top level. An HTML comment on a line before the block changes what is done with it:

    <!-- test: skip (reason) -->        only compiled
    <!-- test: fresh -->                starts a new namespace
    <!-- test: raises NameOfError -->   must end with this error, or one derived from it

The scripts in `examples/` run the same way, each as a whole. An example that is a package has tests of its own.
"""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(path for path in ROOT.glob("examples/**/*.py") if not (path.parent / "__init__.py").exists())
PAGES = [path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if path.exists()]

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*(?P<language>\w*)")
DIRECTIVE = re.compile(r"^\s*<!--\s*test:\s*(?P<text>.*?)\s*-->\s*$")
SKIP = re.compile(r"skip \(.+\)")
RAISES = re.compile(r"raises (?P<name>[\w.]+)")
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True)
class Block:
    """One ```python block; *line* is that of its opening fence."""

    code: str
    line: int
    skip: bool = False
    fresh: bool = False
    raises: str | None = None


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page. A directive that says nothing known, or stands before no block, is a `ValueError`."""
    found: list[Block] = []
    directives: list[str] = []
    opened: tuple[int, re.Match[str]] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if opened:
            start, fence = opened
            if re.fullmatch(rf" *{re.escape(fence['fence'])}{fence['fence'][0]}*\s*", line):
                if fence["language"] == "python":
                    code = textwrap.dedent("\n".join(lines))
                    found.append(Block(code, start, **_options(directives, start)))
                elif directives:
                    raise ValueError(f"line {start}: `test: {directives[0]}` stands before no python block")
                opened, directives, lines = None, [], []
            else:
                lines.append(line)
        elif fence_match := FENCE.match(line):
            opened = number, fence_match
        elif directive := DIRECTIVE.match(line):
            directives.append(directive["text"])
        elif line.strip() and directives:
            raise ValueError(f"line {number}: `test: {directives[0]}` stands before no python block")
    if opened or directives:
        raise ValueError("the page ends inside a block or after a directive")
    return found


def _options(directives: list[str], line: int) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for text in directives:
        if SKIP.fullmatch(text):
            options["skip"] = True
        elif text == "fresh":
            options["fresh"] = True
        elif raises := RAISES.fullmatch(text):
            options["raises"] = raises["name"]
        else:
            raise ValueError(f"line {line}: `test: {text}` is not known (a skip needs its reason in brackets)")
    return options


def run(text: str, filename: str) -> dict[str, Any]:
    """Run the blocks of a page, and return the last namespace. Tracebacks show the page's own lines."""
    namespace = _new_namespace()
    for block in blocks_of(text):
        if block.fresh:
            namespace = _new_namespace()
        code = compile(
            "\n" * block.line + block.code,
            filename,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        if block.skip:
            continue
        if block.raises is None:
            _execute(code, namespace)
            continue
        try:
            _execute(code, namespace)
        except Exception as error:
            # An error of samekey is of its own class and of httpx's: any name in its ancestry will do.
            if block.raises.rpartition(".")[2] not in {ancestor.__name__ for ancestor in type(error).__mro__}:
                raise
        else:
            raise AssertionError(f"{filename}, line {block.line}: raised no {block.raises}")
    return namespace


def _new_namespace() -> dict[str, Any]:
    return {"__name__": "__main__"}


def _execute(code: Any, namespace: dict[str, Any]) -> None:
    async def awaited() -> None:
        await eval(code, namespace)

    if code.co_flags & inspect.CO_COROUTINE:
        anyio.run(awaited)
    else:
        exec(code, namespace)


def stay_inside(
    monkeypatch: pytest.MonkeyPatch, sync: httpx.BaseTransport, asynchronous: httpx.AsyncBaseTransport
) -> None:
    """Send what httpx would send to another machine to *sync* and *asynchronous*; loopback stays real."""
    real, real_async = httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request

    def handle(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        return real(self, request) if request.url.host in LOOPBACK else sync.handle_request(request)

    async def handle_async(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.url.host in LOOPBACK:
            return await real_async(self, request)
        return await asynchronous.handle_async_request(request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle_async)


def of_root(path: Path) -> str:
    """The id of a test of *path*."""
    return str(path.relative_to(ROOT))


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and a ledger server in place of the world."""
    from samekey.testing import LedgerServer

    server = LedgerServer()
    stay_inside(monkeypatch, server.transport(), server.async_transport())
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("page", PAGES, ids=of_root)
def test_page(page: Path) -> None:
    """What a page shows can be pasted and works."""
    run(page.read_text(), str(page))


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("script", SCRIPTS, ids=of_root)
def test_script(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example runs from its first line to its last."""
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")


def page_of(*parts: str) -> str:
    """A page from directives and code: a part that is no comment becomes a block."""
    return "\n\n".join(part if part.startswith("<!--") else f"```python\n{part}\n```" for part in parts)


def test_blocks_share_a_namespace() -> None:
    """A later block uses the names of an earlier one."""
    assert run(page_of("a = 1", "b = a + 1"), "page.md")["b"] == 2


def test_fresh_starts_anew() -> None:
    """Names made before a fresh block are gone."""
    with pytest.raises(NameError):
        run(page_of("a = 1", "<!-- test: fresh -->", "a"), "page.md")


def test_skipped_blocks_are_compiled_only() -> None:
    """A skipped block does nothing, but must be Python."""
    assert "a" not in run(page_of("<!-- test: skip (needs a bank) -->", "a = 1"), "page.md")
    with pytest.raises(SyntaxError):
        run(page_of("<!-- test: skip (needs a bank) -->", "a ="), "page.md")


@pytest.mark.parametrize("name", ["KeyError", "LookupError", "builtins.KeyError"])
def test_expected_errors(name: str) -> None:
    """The error, or one it derives from, by its name; what ran before it stays."""
    assert run(page_of(f"<!-- test: raises {name} -->", "a = 1\n{}['b']"), "page.md")["a"] == 1


def test_other_errors_are_not_swallowed() -> None:
    """Another error than the page says, or none, fails the page."""
    with pytest.raises(ZeroDivisionError):
        run(page_of("<!-- test: raises KeyError -->", "1 / 0"), "page.md")
    with pytest.raises(AssertionError, match=r"page\.md, line 3: raised no KeyError"):
        run(page_of("<!-- test: raises KeyError -->", "pass"), "page.md")


def test_top_level_await() -> None:
    """An async example needs no `async def main()` around it, and its names stay."""
    code = "import anyio\nawait anyio.sleep(0)\nasync with anyio.Lock():\n    a = 1"
    namespace = run(page_of(code, "b = a"), "page.md")

    assert namespace["b"] == 1


def test_tracebacks_show_the_line_of_the_page() -> None:
    """A failing example is found by its line."""
    with pytest.raises(ZeroDivisionError) as caught:
        run("words\n\n```python\na = 1\n1 / 0\n```\n", "page.md")

    last = caught.traceback[-1]

    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 5)


def test_only_python_blocks_are_read() -> None:
    """Console, text and tilde fences are told apart; a block in a list loses its indent; a fence may hold a fence."""
    console = "```console\n$ rm\n```\n\n```\nno\n```\n\n"
    text = console + "- x\n\n  ```python\n  if 1:\n      a = 1\n  ```\n\n~~~~python\nb = '''\n```\n'''\n~~~~\n"

    assert [block.code for block in blocks_of(text)] == ["if 1:\n    a = 1", "b = '''\n```\n'''"]


@pytest.mark.parametrize(
    "text",
    [
        page_of("<!-- test: skip -->", "pass"),
        page_of("<!-- test: frehs -->", "pass"),
        "<!-- test: fresh -->\n\nwords\n",
        "<!-- test: fresh -->\n\n```console\n$ ls\n```\n",
        "<!-- test: fresh -->\n",
        "```python\na = 1\n",
    ],
)
def test_directives_are_checked(text: str) -> None:
    """A slip in a directive is an error, not a block that silently runs otherwise."""
    with pytest.raises(ValueError, match=r"line \d|page ends"):
        blocks_of(text)


def test_requests_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync and async clients made by an example reach the stand-in, whatever the host."""
    stand_in = httpx.MockTransport(lambda request: httpx.Response(201, text=request.url.host))
    stay_inside(monkeypatch, stand_in, stand_in)
    sync = "import httpx\na = httpx.post('https://api.example.com/v1/charges').text"
    asynchronous = "async with httpx.AsyncClient() as client:\n    b = (await client.get('https://other.example')).text"

    namespace = run(page_of(sync, asynchronous), "page.md")

    assert (namespace["a"], namespace["b"]) == ("api.example.com", "other.example")


def test_loopback_stays_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that an example starts itself is reached over its socket (here: nobody listens)."""
    stand_in = httpx.MockTransport(lambda _: httpx.Response(500))
    stay_inside(monkeypatch, stand_in, stand_in)

    with pytest.raises(httpx.ConnectError):
        httpx.get("http://127.0.0.1:1/")
    code = "import httpx\nasync with httpx.AsyncClient() as client:\n    await client.get('http://127.0.0.1:1/')"
    with pytest.raises(httpx.ConnectError):
        run(page_of(code), "page.md")
