"""The pages about dialects say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from samekey import dialects
from samekey.dialects import Dialect
from tools.dialect_tables import TABLES, about, presets, said
from tools.docs_tables import MARKED, renewed

DOCS = Path(__file__).parent.parent.parent / "docs"
CHOOSE, REFERENCE = DOCS / "how-to" / "choose-a-dialect.md", DOCS / "reference" / "dialects.md"
PRESETS = [name for name in dialects.__all__ if isinstance(getattr(dialects, name), Dialect)]


@pytest.mark.parametrize("page", [CHOOSE, REFERENCE], ids=lambda page: page.name)
def test_the_tables_are_those_of_the_code(page: Path) -> None:
    """`python -m tools.docs_tables` mends a page that fails here."""
    text = page.read_text()
    assert MARKED.search(text)
    assert renewed(text) == text


def test_every_preset_is_in_the_tables() -> None:
    """With its place, its age, what it cannot tell, its source and how sure that is."""
    assert set(presets()) == set(PRESETS)
    listed = {line.split(" | ")[0].strip("| `"): line for line in TABLES["presets"]().splitlines()[2:]}
    assert set(listed) == set(PRESETS)
    for name in PRESETS:
        facts = about(name)
        assert all(facts.values()), name
        assert said()[name].count("Source: ") == 1
        assert all(value in listed[name] for value in facts.values())
        assert name in REFERENCE.read_text()


def test_every_table_is_on_a_page() -> None:
    """None is made for nothing."""
    shown = {found["name"] for page in (CHOOSE, REFERENCE) for found in MARKED.finditer(page.read_text())}
    assert shown == set(TABLES)


def test_a_preset_that_does_not_say_its_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new preset needs all three."""
    monkeypatch.setattr("tools.dialect_tables.said", lambda: {"NEW": "Source: hearsay. Retention: unknown."})
    with pytest.raises(ValueError, match="the docstring of NEW"):
        about("NEW")
