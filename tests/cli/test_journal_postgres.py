"""`samekey journal` on a PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from samekey.cli import main
from samekey.journal import Claim, Ended, RowState
from samekey.postgres import PostgresJournal
from tests.journal.servers import Server, new_table


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def asked(server: Server) -> list[str]:
    """A journal with one unknown operation, and the arguments that name it."""
    table = new_table()
    with PostgresJournal(server.uri, table=table) as journal:
        journal.migrate()
        journal.claim(Claim(scope="", name="order-1", key="the-key", fingerprint="f", owner="me", lease=75))
        journal.record(Ended(scope="", name="order-1", owner="me", state=RowState.UNKNOWN))
    return ["--journal", server.uri, "--table", table]


def test_list_resolve_sweep(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same commands."""
    assert main(["journal", "list", *asked]) == 0
    shown = capsys.readouterr().out
    assert "unknown" in shown
    assert "the-key" not in shown
    assert main(["journal", "resolve", "order-1", "--executed", "--resource", "ch_1", "--yes", *asked]) == 0
    assert main(["journal", "sweep", "--older-than", "0", *asked]) == 0
    capsys.readouterr()
    assert main(["journal", "show", "order-1", "--reveal", "--json", *asked]) == 0
    row = json.loads(capsys.readouterr().out)

    assert (row["state"], row["resource"], row["key"], row["swept"]) == ("executed", "ch_1", "the-key", True)


def test_no_table(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A database that nobody has migrated."""
    assert main(["journal", "list", "--journal", server.uri, "--table", "nothing"]) == 1
    assert '"nothing" does not exist' in capsys.readouterr().err


def test_wrong_table(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A table's name is checked."""
    assert main(["journal", "list", "--journal", server.uri, "--table", "a; drop"]) == 1
    assert "table must be" in capsys.readouterr().err


def test_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    """No answer is an error in one line, and the password is not in it."""
    where = "postgresql://user:PLANTED@127.0.0.1:1/nothing?connect_timeout=1"
    assert main(["journal", "list", "--journal", where]) == 1
    told = capsys.readouterr().err

    assert "cannot be reached" in told
    assert "PLANTED" not in told
