"""Real processes on one journal: races, a crowd, forks, sudden deaths."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from samekey.journal import Journal, RowState
from samekey.postgres import PostgresJournal
from tests.journal.servers import Server, new_table
from tests.journal.workers import open_journal, play, start


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Kind and target of a journal that several processes can open."""
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "journal.db")
    server: Server = request.getfixturevalue("server")
    table = new_table()
    with PostgresJournal(server.uri, table=table) as journal:
        journal.migrate()
    return "postgres", f"{server.uri} {table}"


@pytest.fixture
def journal(place: tuple[str, str]) -> Journal:
    """The test's own look at it."""
    return open_journal(*place)


def test_one_winner(place: tuple[str, str], journal: Journal) -> None:
    """Eight processes claim one name at once: all see the same owner, and the key is the owner's."""
    owners = play([("one", *place, "order-1", f"owner-{number}") for number in range(8)])

    (winner,) = set(owners)
    entry = journal.get("", "order-1")
    journal.close()
    assert entry is not None
    assert (entry.owner, entry.key, entry.sends) == (winner, f"key-{winner}", 1)


def test_a_crowd(place: tuple[str, str], journal: Journal) -> None:
    """Eight processes do 200 operations each: no error, nothing lost, and nobody waits for long."""
    longest = play([("many", *place, f"owner-{number}", "200") for number in range(8)])

    entries = journal.entries(limit=2000)
    journal.close()
    assert max(longest) < 25
    assert {entry.name for entry in entries} == {f"owner-{a}-{b}" for a in range(8) for b in range(200)}
    assert {(entry.state, entry.body) for entry in entries} == {(RowState.EXECUTED, b"x" * 500)}


def test_a_fork(place: tuple[str, str], journal: Journal) -> None:
    """The child opens the journal anew, and the parent goes on with what it had."""
    (owners,) = play([("fork", *place)])

    journal.close()
    assert owners == ["parent", "0", "child", "parent"]


@pytest.mark.parametrize("steps", [4, 15, 40])
def test_sudden_death(steps: int, tmp_path: Path) -> None:
    """Killed in the middle of a write, the file is whole, and what was reported as done is there."""
    path = tmp_path / "journal.db"
    with start("forever", "sqlite", str(path), "a") as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
        for _ in range(steps):
            worker.stdout.readline()
        worker.kill()
        told = worker.stdout.read().splitlines()

    with open_journal("sqlite", str(path)) as journal:
        states = {entry.name: str(entry.state) for entry in journal.entries()}
    for line in told:
        step, name = line.split()
        assert states[name] in {step.replace("claimed", "in_flight"), "executed"}
    assert len(states) >= steps // 2
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
