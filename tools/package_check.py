"""Try the built wheel in clean environments: bare, with each extra, and with the lowest versions that are admitted.

python tools/package_check.py dist

Environments are made in a folder for the time of the check, and nothing of the source tree can be imported in them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FLOOR = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w,]+\])?>=(?P<version>[\w.]+)")

BARE = """
import sys
import samekey, httpx
optional = {"httpx2", "rich", "psycopg", "opentelemetry"} & set(sys.modules)
assert not optional, optional
from samekey.testing import LedgerServer, faults, no_waiting
server = LedgerServer()
server.script(faults.lost())
client = samekey.wrap(httpx.Client(transport=server.transport(), base_url="https://api.example.com"))
with no_waiting():
    response = client.post("/v1/charges", json={})
assert samekey.is_replayed(response)
server.assert_executed_once()
assert not {"httpx2", "rich", "psycopg", "opentelemetry"} & set(sys.modules)
"""
SOCKETS = """
import anyio, httpx, samekey
from samekey.sqlite import AsyncSQLiteJournal
from samekey.testing import LedgerServer, faults
server = LedgerServer()
server.script(faults.lost(), faults.cut())

async def main() -> None:
    journal = AsyncSQLiteJournal("operations.sqlite3")
    with server.listen() as url:
        async with samekey.wrap(httpx.AsyncClient(base_url=url, trust_env=False), journal=journal) as client:
            with samekey.operation("order-1"):
                assert samekey.is_replayed(await client.post("/v1/charges", json={}))
    await journal.aclose()

anyio.run(main)
server.assert_executed_once()
"""
EXTRAS = {
    "cli": "import rich, samekey.cli",
    "httpx2": """
import httpx2, samekey, sys
from samekey.testing import LedgerServer
server = LedgerServer()
with server.listen() as url, samekey.wrap(httpx2.Client(base_url=url, trust_env=False)) as client:
    response = client.post("/v1/charges", json={})
assert samekey.report(response).outcome == "executed"
server.assert_executed_once()
""",
    "opentelemetry": "import opentelemetry.trace, samekey.opentelemetry",
    "postgres": """
from samekey.postgres import AsyncPostgresJournal, PostgresJournal
""",
}
# Without the strategies that later versions of tenacity brought.
TESTS = [
    "tests/core",
    "--ignore=tests/core/test_strategies.py",
    "tests/testing",
    "tests/transport/test_scenarios.py",
    "tests/transport/test_waiting.py",
]
FOR_TESTS = ["hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "trio", "httpx2", "respx", "h2", "trustme"]


class Environment:
    """A virtual environment with nothing but what is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        venv.create(folder, with_pip=True)

    def install(self, *what: str) -> None:
        """Install requirements, wheels or files."""
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([self.python, "-m", "pip", "install", *quiet, *what], check=True)

    def run(self, code: str) -> None:
        """Run a piece of Python, isolated from the source tree and from warnings that are let pass."""
        subprocess.run([self.python, "-I", "-W", "error", "-c", code], check=True, cwd=self.folder)

    def run_tests(self) -> None:
        """Run a part of the test suite against what is installed; warnings of old libraries are theirs."""
        options = ["-q", "-n", "2", "-p", "no:cacheprovider", "-W", "default"]
        subprocess.run([self.python, "-m", "pytest", *options, *TESTS], check=True, cwd=ROOT)

    def command(self, *arguments: str) -> str:
        """What a command of the environment prints."""
        done = subprocess.run(
            [self.folder / "bin" / arguments[0], *arguments[1:]], check=True, cwd=self.folder, capture_output=True
        )
        return done.stdout.decode()


def floors(extras: bool) -> list[str]:
    """The requirements of the project, each at the lowest version that it admits."""
    wanted = list(PROJECT["dependencies"])
    if extras:
        wanted += [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
    return [FLOOR.sub(r"\g<name>\g<extras>==\g<version>", requirement) for requirement in wanted]


def check_files(wheel: Path, sdist: Path) -> None:
    """Wheel and sdist hold what they must, and no more."""
    with zipfile.ZipFile(wheel) as packed_wheel, tarfile.open(sdist) as packed_sdist:
        names, inside = packed_wheel.namelist(), {name.partition("/")[2] for name in packed_sdist.getnames()}
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")} | {"samekey/py.typed"}
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == sources, packed ^ sources
    for needed in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "Makefile",
        "constraints.txt",
        "mkdocs.yml",
        "tests/conftest.py",
    ):
        assert needed in inside, needed


def main() -> int:
    """Check what lies in the folder named on the command line."""
    dist = Path(sys.argv[1]).resolve()
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_files(wheel, sdist)
    print("files: well")
    with tempfile.TemporaryDirectory() as folder:
        bare = Environment(Path(folder) / "bare")
        bare.install(str(wheel))
        bare.run(BARE)
        bare.run(SOCKETS)
        assert PROJECT["version"] in bare.command("samekey", "--version")
        assert PROJECT["version"] in bare.command("python", "-m", "samekey", "--version")
        assert "samekey" in bare.command("samekey", "demo", "--payments", "10", "--plain")
        print("without extras: well")
        for extra in PROJECT["optional-dependencies"]:
            one = Environment(Path(folder) / extra)
            one.install(f"{wheel}[{extra}]")
            one.run(EXTRAS[extra])
            one.run(BARE)
            print(f"with {extra}: well")
        lowest = Environment(Path(folder) / "lowest")
        lowest.install(str(wheel), *floors(extras=True), *FOR_TESTS)
        print("lowest:", *floors(extras=True))
        for code in (BARE, SOCKETS, *EXTRAS.values()):
            lowest.run(code)
        lowest.run_tests()
        print("with the lowest versions: well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
