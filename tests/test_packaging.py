"""What is promised about the distribution, read from the files; nothing is built."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import tomllib
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
            *PYPROJECT["dependency-groups"]["dev"],
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
