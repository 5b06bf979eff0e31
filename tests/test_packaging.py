"""What is promised about the distribution. The wheel is built here once and looked at; `make package` installs it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
PINS = dict(
    line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")
)


def normal(name: str) -> str:
    """The name of a distribution in its normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: list[str]) -> set[str]:
    """The distributions that *requirements* name."""
    return {normal(re.split(r"[\[<>=~! ;]", requirement)[0]) for requirement in requirements}


def test_package_is_typed() -> None:
    """Type checkers of users read our annotations."""
    assert (ROOT / "src/samekey/py.typed").exists()


def test_one_version() -> None:
    """The installed distribution, pyproject.toml and `samekey.__version__` agree."""
    import samekey

    assert importlib.metadata.version("samekey") == PROJECT["version"]
    assert getattr(samekey, "__version__", PROJECT["version"]) == PROJECT["version"]


@pytest.mark.parametrize(
    "classifier",
    [
        "Typing :: Typed",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)
def test_classifiers(classifier: str) -> None:
    """The metadata says what is tested."""
    assert classifier in PROJECT["classifiers"]
    assert classifier in (importlib.metadata.metadata("samekey").get_all("Classifier") or [])


def test_floor_is_said_once() -> None:
    """The oldest Python of the metadata, of the classifiers and of mypy is the same."""
    oldest = min(re.findall(r":: 3\.(\d+)", " ".join(PROJECT["classifiers"])), key=int)

    assert PROJECT["requires-python"] == f">=3.{oldest}"
    assert PYPROJECT["tool"]["mypy"]["python_version"] == f"3.{oldest}"


def test_command_exists() -> None:
    """`samekey` on the command line starts something that is there."""
    module, _, function = PROJECT["scripts"]["samekey"].partition(":")

    assert importlib.util.find_spec(module) is not None
    assert callable(getattr(importlib.import_module(module), function))


def test_everything_is_pinned() -> None:
    """Each direct dependency, of whatever kind, has its exact version in constraints.txt."""
    wanted = names(
        [
            *PROJECT["dependencies"],
            *PYPROJECT["build-system"]["requires"],
            *(requirement for group in PYPROJECT["dependency-groups"].values() for requirement in group),
            *(requirement for extra in PROJECT["optional-dependencies"].values() for requirement in extra),
            "pip",
        ]
    )

    assert wanted - {normal(name) for name in PINS} == set()


def test_pins_are_plain() -> None:
    """A pin is a name and a version: no address, no path, no hash, no marker."""
    assert [pin for pin in PINS.items() if not re.fullmatch(r"[\w.-]+ \d[\w.]*", " ".join(pin))] == []


def test_makefile_installs_every_extra() -> None:
    """An extra that is added is tested, too."""
    extras = re.search(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert extras is not None
    assert set(extras[1].split(",")) == set(PROJECT["optional-dependencies"])


def test_changelog_is_open() -> None:
    """There is always a place for the next change."""
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], check=True, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """What an index would read from it."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(packed.read(name).decode())


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Every module and the marker for type checkers; no tests, no tools."""
    with zipfile.ZipFile(wheel) as packed:
        inside = {name for name in packed.namelist() if ".dist-info/" not in name}
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}

    assert inside == sources | {"samekey/py.typed"}


def test_metadata(metadata: Message) -> None:
    """Name, version, licence and what it needs; the README is its description."""
    assert (metadata["Name"], metadata["Version"]) == ("samekey", PROJECT["version"])
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_wheel_needs_nothing_optional(wheel: Path, tmp_path: Path) -> None:
    """From the wheel, with everything optional made impossible to import: a keyed call, the command and the journal."""
    code = """
import sys
for name in ("httpx2", "rich", "psycopg", "psycopg_pool", "opentelemetry", "trio"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv.pop(1))
import httpx, samekey, samekey.cli
from samekey.sqlite import SQLiteJournal
from samekey.testing import LedgerServer, faults, no_waiting
assert "whl" in samekey.__file__
server = LedgerServer()
server.script(faults.lost())
journal = SQLiteJournal("operations.sqlite3")
client = samekey.wrap(httpx.Client(transport=server.transport(), base_url="https://api.example.com"), journal=journal)
with no_waiting(), samekey.operation("order-1"):
    assert samekey.is_replayed(client.post("/", json={}))
journal.close()
server.assert_executed_once()
samekey.cli.main(["journal", "list", "--journal", "operations.sqlite3"])
"""
    command = [sys.executable, "-c", code, str(wheel)]
    # Coverage counts the source tree; the wheel's copy would only be missed afterwards.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True, env=environment)

    assert "1 operation: 1 executed" in done.stdout


def test_python_m_samekey() -> None:
    """The command can be run as a module."""
    done = subprocess.run([sys.executable, "-m", "samekey", "--version"], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == f"samekey {PROJECT['version']}"
