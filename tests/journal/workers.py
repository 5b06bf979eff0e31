"""What the tests run in processes of their own: ``python -m tests.journal.workers COMMAND JOURNAL TARGET ...``.

A worker says "ready", waits for a line, does its work, and prints what it saw as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samekey.journal import Claim, Ended, Journal, RowState

if TYPE_CHECKING:
    from samekey.postgres import PostgresJournal
    from samekey.sqlite import SQLiteJournal

ROOT = Path(__file__).parent.parent.parent


def claim(name: str, owner: str) -> Claim:
    """A claim that takes what it can get."""
    return Claim(scope="", name=name, key=f"key-{owner}", fingerprint="f", owner=owner, lease=600)


def executed(name: str, owner: str) -> Ended:
    """A recorded success."""
    return Ended(scope="", name=name, owner=owner, state=RowState.EXECUTED, status=200, body=b"x" * 500)


def one(journal: Journal, name: str, owner: str) -> str | None:
    """Claim one name; who has it?"""
    return journal.claim(claim(name, owner)).owner


def many(journal: Journal, owner: str, number: str) -> float:
    """Claim and record many names; how long did the longest step take?"""
    longest = 0.0
    for index in range(int(number)):
        name = f"{owner}-{index}"
        began = time.monotonic()
        assert one(journal, name, owner) == owner
        between = time.monotonic()
        assert journal.record(executed(name, owner))
        longest = max(longest, between - began, time.monotonic() - between)
    return longest


def forever(journal: Journal, owner: str) -> None:
    """Claim and record, and tell each step that is done, until killed."""
    for index in count():
        name = f"{owner}-{index}"
        assert journal.claim(claim(name, owner)).owner == owner
        print("claimed", name, flush=True)
        assert journal.record(executed(name, owner))
        print("executed", name, flush=True)


def fork(journal: Journal) -> list[str | None]:
    """Use one journal before a fork, in the child, and after it."""
    owners = [one(journal, "before", "parent")]
    child = os.fork()
    if child == 0:
        ok = one(journal, "before", "child") == "parent" and one(journal, "in-child", "child") == "child"
        journal.close()
        os._exit(0 if ok else 1)
    owners.append(str(os.waitpid(child, 0)[1]))
    owners.append(one(journal, "in-child", "parent"))
    owners.append(one(journal, "after", "parent"))
    return owners


COMMANDS: dict[str, Callable[..., Any]] = {"one": one, "many": many, "forever": forever, "fork": fork}


def open_journal(kind: str, target: str) -> SQLiteJournal | PostgresJournal:
    """The journal at a path, or at "URI TABLE"; a worker imports no more than it needs."""
    if kind == "sqlite":
        from samekey.sqlite import SQLiteJournal

        return SQLiteJournal(target)
    from samekey.postgres import PostgresJournal

    uri, table = target.split()
    return PostgresJournal(uri, table=table)


def main(command: str, kind: str, target: str, *rest: str) -> None:
    """Do as the command line says."""
    journal = open_journal(kind, target)
    print("ready", flush=True)
    sys.stdin.readline()
    result = COMMANDS[command](journal, *rest)
    journal.close()
    print(json.dumps(result), flush=True)


def start(*arguments: str) -> subprocess.Popen[str]:
    """A worker."""
    line = [sys.executable, "-W", "ignore", "-m", "tests.journal.workers", *arguments]
    return subprocess.Popen(line, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def play(commands: Sequence[Sequence[str]]) -> list[Any]:
    """Start all workers, let them go at once, and collect what they saw."""
    with ExitStack() as stack:
        workers = [stack.enter_context(start(*arguments)) for arguments in commands]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        return [json.loads(worker.communicate(timeout=100)[0]) for worker in workers]


if __name__ == "__main__":
    main(*sys.argv[1:])
