"""`samekey journal`: what it shows, what it changes, what it refuses, and that keys stay hidden."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from samekey._keys import digest
from samekey.cli import _journal, main
from samekey.cli._journal_show import ago, printable
from samekey.journal import Claim, Ended, RowState
from samekey.sqlite import SQLiteJournal

HEADERS = (("content-type", "application/json"), ("x-id", "a\x1b[2J"))


@dataclass
class Book:
    """A journal file with rows of every kind, and the command for it."""

    path: Path
    behind: list[float] = field(default_factory=lambda: [0.0])

    def __post_init__(self) -> None:
        self.journal = SQLiteJournal(self.path, clock=lambda: time.time() - self.behind[0])

    def row(self, name: str, state: RowState | None = None, *, age: float = 0.0, scope: str = "", **ended: Any) -> None:
        """A row that was written *age* seconds ago; in flight without *state*."""
        self.behind[0] = age
        stored = {"content_type": ended.pop("content_type", None), "request": ended.pop("request", None)}
        owner = f"owner-of-{name}"
        claim = Claim(
            scope=scope, name=name, key=f"key-of-{name}", fingerprint="f" * 64, owner=owner, lease=75, **stored
        )
        self.journal.claim(claim)
        if state is not None:
            self.journal.record(Ended(scope=scope, name=name, owner=owner, state=state, **ended))
        self.behind[0] = 0.0

    def __call__(self, *arguments: str) -> int:
        """Run the command on it."""
        return main(["journal", arguments[0], "--journal", str(self.path), *arguments[1:]])


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("SAMEKEY_JOURNAL", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    made = Book(tmp_path / "journal.db")
    answer: dict[str, Any] = {"status": 201, "headers": HEADERS, "body": b'{"id": "ch_1"}\nsecond \xff line'}
    made.row("order-1", RowState.EXECUTED, age=3 * 86400, **answer)
    made.row("order-2", RowState.REJECTED, age=30 * 3600, status=402, body_digest="d" * 64)
    made.row("order-3", RowState.UNKNOWN, age=25 * 3600, request=b"amount=1", content_type="text/plain")
    made.row("order-4", RowState.CLAIMED, age=7200)
    made.row("order-5", age=300)
    made.row("order-6")
    yield made
    made.journal.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed."""
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


TABLE = """\
state         age   written  owner             key       name
executed 201  3 d   3 d      -                 {0}  order-1
rejected 402  30 h  30 h     -                 {1}  order-2
unknown       25 h  25 h     -                 {2}  order-3
claimed       -     2 h      -                 {3}  order-4
in flight     5 min 5 min    owner-of lapsed   {4}  order-5
in flight     0 s   0 s      owner-of 75 s left {5}  order-6
6 operations: 1 claimed, 2 in flight, 1 unknown, 1 executed, 1 rejected"""


@pytest.mark.parametrize("plain", [True, False])
def test_list(book: Book, capsys: pytest.CaptureFixture[str], *, plain: bool) -> None:
    """A table that fits into 80 columns, the oldest first; with rich and without it the same."""
    assert book("list", *["--plain"] * plain) == 0

    shown = lines(capsys)
    keys = [digest(f"key-of-order-{number}") for number in range(1, 7)]
    assert [line.split() for line in shown] == [line.split() for line in TABLE.format(*keys).splitlines()]
    assert max(map(len, shown)) < 80
    assert len({line.index("order-") for line in shown[1:7]}) == 1


def test_list_without_rich(book: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain text, and no word about what is missing among the data."""
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert book("list") == 0

    told = capsys.readouterr()
    assert told.err == ""
    assert "order-3" in told.out


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--state", "unknown"], ["order-3"]),
        (["--state", "in-flight", "--state", "claimed"], ["order-4", "order-5", "order-6"]),
        (["--unresolved"], ["order-3", "order-5"]),
        (["--unresolved", "--state", "in_flight"], ["order-5"]),
        (["--unresolved", "--older-than", "1h"], ["order-3"]),
        (["--older-than", "1d"], ["order-1", "order-2", "order-3"]),
        (["--older-than", "2d"], ["order-1"]),
        (["--scope", "nowhere"], []),
        (["--limit", "2"], ["order-1", "order-2"]),
    ],
)
def test_filters(book: Book, capsys: pytest.CaptureFixture[str], arguments: list[str], names: list[str]) -> None:
    """State, age, scope, number; as JSON."""
    assert book("list", "--json", *arguments) == 0

    told = capsys.readouterr().out
    assert [row["name"] for row in json.loads(told)] == names
    assert "key-of" not in told


def test_limit_is_told(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """A list that may be cut says so, on the other channel."""
    book("list", "--limit", "2")
    assert "at most 2 rows" in capsys.readouterr().err
    book("list", "--json", "--limit", "2")
    assert capsys.readouterr().err == ""


def test_scopes(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """Once there are scopes, they are shown; `--scope` chooses."""
    book.row("order-1", RowState.UNKNOWN, scope="shop-7")
    book("list")
    shown = lines(capsys)
    assert shown[1].endswith("- / order-1")
    assert shown[-2].endswith("shop-7 / order-1")
    book("list", "--json", "--scope", "shop-7")
    assert [row["scope"] for row in json.loads(capsys.readouterr().out)] == ["shop-7"]
    assert book("show", "order-1", "--scope", "shop-7") == 0
    assert lines(capsys)[0] == "order-1  in scope shop-7"


def test_empty(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to show is said."""
    book("list", "--scope", "nowhere")
    assert lines(capsys) == ["no operations"]
    book("list", "--json", "--scope", "nowhere")
    assert json.loads(capsys.readouterr().out) == []


def test_json(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """What a machine gets of one row."""
    book("list", "--json", "--state", "in_flight")
    lapsed, live = json.loads(capsys.readouterr().out)

    assert (lapsed["lapsed"], live["lapsed"]) == (True, False)
    assert 70 < live.pop("lease_left") <= 75
    assert live.pop("age") < 5
    assert live.pop("updated") < 5
    assert live == {
        "scope": "",
        "name": "order-6",
        "state": "in_flight",
        "lapsed": False,
        "key_digest": digest("key-of-order-6"),
        "owner": "owner-of-order-6",
        "sends": 1,
        "status": None,
        "resource": None,
        "swept": False,
    }


SHOWN = {
    "order-1": ["executed", "done; a rerun gets this answer", "3 d ago", "201, 28 bytes", "x-id: a\\x1b[2J"],
    "order-2": ["rejected", "an equal rerun", "402, body not kept, SHA-256 dddddddddddddddd…"],
    "order-3": ["unknown", "may have been executed", "8 bytes stored, text/plain", "fingerprint ffffffff"],
    "order-4": ["claimed", "nothing of it was sent", "first sent  never"],
    "order-5": ["in flight", "its process is gone", "owner-of, lease lapsed 4 min ago"],
    "order-6": ["in flight", "a process is at it", "owner-of, lease 75 s left"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_show(book: Book, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Everything about one, but not its key and no body; within 80 columns."""
    assert book("show", name) == 0

    shown = lines(capsys)
    text = "\n".join(shown)
    assert shown[0] == name
    assert digest(f"key-of-{name}") in text
    assert f"key-of-{name}" not in text
    assert "ch_1" not in text
    assert "amount" not in text
    assert "\x1b" not in text
    for part in SHOWN[name]:
        assert part in text
    assert max(map(len, shown)) < 80


def test_show_reveals(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """`--reveal` shows key and bodies."""
    book("show", "order-1", "--reveal")
    text = capsys.readouterr().out
    assert "key-of-order-1" in text
    assert '{"id": "ch_1"}' in text
    assert "second \\xff line" in text
    book("show", "order-3", "--reveal")
    assert "amount=1" in capsys.readouterr().out


def test_show_json(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """As data: with and without what is to be revealed."""
    book("show", "order-1", "--json")
    hidden = json.loads(capsys.readouterr().out)
    book("show", "order-3", "--json", "--reveal")
    revealed = json.loads(capsys.readouterr().out)

    assert "key" not in hidden
    assert "body" not in hidden
    assert (hidden["body_bytes"], hidden["headers"][0]) == (28, ["content-type", "application/json"])
    assert (revealed["key"], revealed["request"], revealed["body"]) == ("key-of-order-3", "amount=1", None)


def test_show_other_ends(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that were decided by hand, that were swept, that nobody has asked a request of."""
    book.journal.resolve("order-3", executed=True, resource="ch_3")
    book.journal.resolve("order-5", executed=False)
    book.journal.sweep(older_than=86400)
    texts = {}
    for number in (1, 2, 3, 5):
        book("show", f"order-{number}")
        texts[number] = capsys.readouterr().out
    with closing(sqlite3.connect(book.path)) as connection, connection:
        connection.execute("UPDATE samekey_operations SET fingerprint = NULL")
        connection.execute("UPDATE samekey_operations SET status = 200, swept = 0 WHERE name = 'order-1'")
        connection.execute("UPDATE samekey_operations SET request = x'00' WHERE name = 'order-4'")
    for number in (1, 4):
        book("show", f"order-{number}")
        texts[number + 10] = capsys.readouterr().out

    assert "headers and body swept" in texts[1]
    assert "ch_3" in texts[3]
    assert "a rerun raises AlreadyExecuted" in texts[3]
    assert "resolved as not executed" in texts[5]
    assert "fingerprint" not in texts[11]
    assert "200, body not kept" in texts[11]
    assert "1 bytes stored, without a content type" in texts[14]


# -- resolve


def test_resolve_yes(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """Both decisions, without asking."""
    assert book("resolve", "order-3", "--executed", "--resource", "ch_3", "--yes") == 0
    assert lines(capsys) == ["order-3: executed, ch_3; a rerun raises AlreadyExecuted"]
    assert book("resolve", "order-5", "--not-executed", "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["state"] == "rejected"
    row = book.journal.get("", "order-3")
    assert row is not None
    assert (row.state, row.resource) == (RowState.EXECUTED, "ch_3")


@pytest.mark.parametrize(("answer", "done"), [("yes\n", True), ("YES \n", True), ("y\n", False), ("", False)])
@pytest.mark.parametrize("decision", ["--executed", "--not-executed"])
def test_resolve_asks(
    book: Book,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    decision: str,
    *,
    done: bool,
) -> None:
    """It shows the row and what follows, and does nothing unless the answer is "yes"."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert book("resolve", "order-3", decision) == (0 if done else 1)

    told = capsys.readouterr()
    row = book.journal.get("", "order-3")
    assert row is not None
    assert (row.state is RowState.UNKNOWN) is not done
    assert "order-3" in told.err
    assert ("with a NEW key" if decision == "--not-executed" else "raises AlreadyExecuted") in told.err
    assert ("nothing was changed" in told.err) is not done
    assert bool(told.out) is done
    assert "key-of" not in told.err + told.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["order-6", "--executed", "--yes"], "somebody is at operation 'order-6'"),
        (["order-1", "--executed", "--yes"], "operation 'order-1' has ended already: executed"),
        (["order-9", "--executed", "--yes"], "the journal has no operation 'order-9'"),
        (["order-9", "--executed"], "the journal has no operation 'order-9'"),
        (["order-3", "--not-executed", "--resource", "x", "--yes"], "does not go with --not-executed"),
    ],
)
def test_resolve_refuses(book: Book, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    """A live lease, an end, no row: exit code 1, one line, no traceback."""
    assert book("resolve", *arguments) == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert text in told.err
    assert len(told.err.splitlines()) == 1


def test_no_row_but_in_another_scope(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """The usual reason is a forgotten `--scope`."""
    book.row("x", RowState.UNKNOWN, scope="shop-7")
    assert book("show", "x") == 1
    assert "it is in the scope 'shop-7'" in capsys.readouterr().err
    book.row("x", RowState.UNKNOWN, scope="shop-8")
    assert book("show", "x", "--scope", "shop-9") == 1
    assert "in scope 'shop-9'; it is in the scopes 'shop-7', 'shop-8'" in capsys.readouterr().err


# -- sweep


def test_sweep(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what has ended; a tombstone stays."""
    assert book("sweep", "--older-than", "2d") == 0
    assert lines(capsys) == ["swept 1 operation"]
    assert book("sweep", "--older-than", "1h", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"swept": 1}
    assert book("sweep", "--older-than", "0") == 0
    assert lines(capsys) == ["swept 0 operations"]
    assert [entry.swept for entry in book.journal.entries()].count(True) == 2


def test_sweep_in_batches(book: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As many batches as there are rows for."""
    monkeypatch.setattr(_journal, "BATCH", 1)
    book("sweep", "--older-than", "1h")
    assert lines(capsys) == ["swept 2 operations"]


# -- which journal


def test_variable(book: Book, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal can be named by the environment."""
    monkeypatch.setenv("SAMEKEY_JOURNAL", str(book.path))
    assert main(["journal", "list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 6


def test_no_journal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each mistake has its words, and nothing is made on the way."""
    monkeypatch.delenv("SAMEKEY_JOURNAL", raising=False)
    other, text, folder = tmp_path / "other.db", tmp_path / "text", tmp_path / "missing.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE t (a)")
    text.write_text("no database at all, but long enough to be taken for one" * 30)
    before = other.read_bytes()
    asked = [[], ["--journal", str(folder)], ["--journal", str(text)], ["--journal", str(other)]]
    asked.append(["--journal", str(other), "--table", "t"])
    told = []
    for arguments in asked:
        assert main(["journal", "list", *arguments]) == 1
        told.append(capsys.readouterr().err)

    assert "give --journal" in told[0].lower()
    assert "there is no file" in told[1]
    assert "cannot be read as a SQLite database" in told[2]
    assert "no journal of samekey" in told[3]
    assert "--table is for PostgreSQL" in told[4]
    assert other.read_bytes() == before
    assert not folder.exists()


def test_later_schema(book: Book, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal of a newer samekey is left alone."""
    with closing(sqlite3.connect(book.path)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    assert book("list") == 1
    assert "has schema 99" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "dsn"),
    [
        ("postgresql://host/db", True),
        ("postgres://host/db", True),
        ("host=localhost dbname=x", True),
        ("user=me dbname = x", True),
        ("service=payments", True),
        ("journal.db", False),
        ("/var/lib/shop/journal=1.db", False),
        ("C:\\journal.db", False),
    ],
)
def test_paths_and_dsns(text: str, *, dsn: bool) -> None:
    """A DSN is told from a path."""
    assert _journal.is_dsn(text) is dsn


def test_without_psycopg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The extra is named."""
    monkeypatch.delitem(sys.modules, "samekey.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert main(["journal", "list", "--journal", "postgresql://host/db"]) == 1
    assert "samekey[postgres]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["list", "--state", "gone"],
        ["list", "--older-than", "soon"],
        ["list", "--limit", "0"],
        ["sweep"],
        ["resolve", "order-3"],
        ["resolve", "order-3", "--executed", "--not-executed"],
    ],
)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be parsed is exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(["journal", *arguments])
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (0, "0 s"), (99, "99 s"), (100, "2 min"), (5400, "90 min"), (7200, "2 h"), (260_000, "3 d")],
)
def test_ages(seconds: float, text: str) -> None:
    """Short, and never negative."""
    assert ago(seconds) == text


def test_printable() -> None:
    """Nothing that a terminal would act on."""
    assert printable("a\x1b[31m\nü€\u202e") == "a\\x1b[31m\\nü€\\u202e"


def test_as_a_command(book: Book) -> None:
    """The installed command, in a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "samekey", "journal", "list", "--unresolved"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SAMEKEY_JOURNAL": str(book.path)},
    )
    assert "order-3" in done.stdout
    assert "\x1b" not in done.stdout
