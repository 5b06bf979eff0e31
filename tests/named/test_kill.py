"""Real processes, killed by SIGKILL at every point, suspended by SIGSTOP; resumed in a new process."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from samekey.journal import RowState
from samekey.sqlite import SQLiteJournal
from samekey.testing import LedgerServer, faults
from tests.transport.harness import eventually

CHILD = Path(__file__).with_name("child.py")
LEASE = 45.0
"""Of the children: 30 s and the margin."""

BY_ITSELF = ["before claim", "after claim", "before send", "after answer", "before record", "after record"]


def start(url: str, where: Path | str, point: str) -> subprocess.Popen[str]:
    """A process of the shop."""
    command = [sys.executable, str(CHILD), url, str(where), point]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(child: subprocess.Popen[str]) -> dict[str, Any]:
    """What the process says at its end."""
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    return json.loads(out)  # type: ignore[no-any-return]


def killed(child: subprocess.Popen[str]) -> None:
    """The process has died."""
    _, err = child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, err


def lapse(where: Path) -> None:
    """Let the lease of the dead run out: what is written is moved into the past."""
    with closing(sqlite3.connect(where)) as connection, connection:
        connection.execute("UPDATE samekey_operations SET lease_until = lease_until - ? WHERE owner NOT NULL", [LEASE])


@pytest.fixture
def server() -> LedgerServer:
    return LedgerServer()


@pytest.fixture
def where(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.mark.parametrize("point", [*BY_ITSELF, "after send", "after effect"])
def test_br_67_killed(server: LedgerServer, where: Path, point: str) -> None:
    """BR-67: at most one effect, one key, the same bytes; the new process tells the truth."""
    running = threading.Event()
    if point == "after send":
        server.script(faults.hold(running))
    elif point == "after effect":
        server.script(faults.never())
    with server.listen() as url:
        child = start(url, where, point)
        if point not in BY_ITSELF:
            eventually(lambda: server.effects if point == "after effect" else server.requests)
            child.kill()
            running.set()
        killed(child)
        if where.exists():
            lapse(where)
        told = said(start(url, where, "never"))

    sent_before = point in ("after answer", "before record", "after record", "after send", "after effect")
    server.assert_executed_once()
    server.assert_same_key()
    server.assert_same_body()
    assert told["status"] == 201
    assert told["key"] == server.keys[0]
    assert told["body"] == {"id": "effect-1", "n": 1}
    assert told["source"] == ("journal" if point == "after record" else "network")
    assert len(server.requests) == (2 if sent_before and point != "after record" else 1)
    with SQLiteJournal(where) as journal:
        (entry,) = journal.entries()
    assert (entry.state, entry.status, entry.key) == (RowState.EXECUTED, 201, told["key"])


def test_killed_again_and_again(server: LedgerServer, where: Path) -> None:
    """Six processes die one after the other, each elsewhere; the seventh finishes."""
    with server.listen() as url:
        for point in BY_ITSELF[:-1]:
            killed(start(url, where, point))
            if where.exists():
                lapse(where)
        told = said(start(url, where, "never"))

    server.assert_executed_once()
    server.assert_same_key()
    server.assert_same_body()
    assert told["status"] == 201
    assert told["attempts"] == 1


def test_killed_before_a_renewal(server: LedgerServer, where: Path) -> None:
    """After a lost answer, before the second attempt."""
    server.script(faults.lost())
    with server.listen() as url:
        killed(start(url, where, "before renew"))
        lapse(where)
        told = said(start(url, where, "never"))

    server.assert_executed_once()
    server.assert_same_key()
    assert told["status"] == 201


def test_the_lease_of_the_dead_is_waited_for(server: LedgerServer, where: Path) -> None:
    """A new process that comes at once waits; it takes over when the lease has run out."""
    with server.listen() as url:
        killed(start(url, where, "after claim"))
        child = start(url, where, "never")
        time.sleep(0.5)
        assert child.poll() is None
        assert server.requests == []
        lapse(where)
        told = said(child)

    assert told["status"] == 201
    server.assert_executed_once()


@pytest.mark.parametrize("point", ["suspended after claim", "suspended in a wait"])
def test_suspended_owner_sends_nothing_more(server: LedgerServer, where: Path, point: str) -> None:
    """It stood still while its lease ran out; another process took over; it wakes, and follows the row."""
    if point == "suspended in a wait":
        server.script(faults.status(503))
    with server.listen() as url:
        owner = start(url, where, point)
        os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
        before = len(server.requests)
        lapse(where)
        told = said(start(url, where, "never"))
        after = len(server.requests)
        owner.send_signal(signal.SIGCONT)
        late = said(owner)

    assert before == (1 if point == "suspended in a wait" else 0)
    assert after == before + 1
    assert len(server.requests) == after
    assert told["status"] == 201
    assert late.get("error") in (None, "StillInProgress", "OutcomeUnknown")
    assert late.get("body", told["body"]) == told["body"]
    assert late["key"] == told["key"]
    assert late["attempts"] == before
    server.assert_executed_once()
    server.assert_same_key()


def test_br_68_four_processes_one_name(server: LedgerServer, where: Path) -> None:
    """BR-68: whoever comes, one sends; all get the same answer."""
    server.script(faults.slow(0.3))
    with server.listen() as url:
        children = [start(url, where, "never") for _ in range(4)]
        told = [said(child) for child in children]

    assert [one["status"] for one in told] == [201] * 4
    assert sorted(one["source"] for one in told) == ["journal"] * 3 + ["network"]
    assert len({json.dumps(one["body"]) for one in told}) == 1
    assert len(server.requests) == 1
    server.assert_executed_once()
