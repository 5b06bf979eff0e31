"""`samekey journal`: look at named operations, decide those that nobody knows the end of, sweep old ones."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samekey.journal import Entry, RowState

from ._journal_show import as_dict, brief, details, listing
from ._screen import Screen

if TYPE_CHECKING:
    from samekey.journal import Journal

VARIABLE = "SAMEKEY_JOURNAL"
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
BATCH = 1000


class Refused(Exception):
    """What was asked for cannot be done; the text says why."""


def add_journal(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "journal",
        help="look at named operations, and decide those that nobody knows the end of",
        description=(
            "Works on the journal that the clients use: a SQLite file or a PostgreSQL database. "
            "Keys are shown as a short digest."
        ),
    )
    steps = parser.add_subparsers(dest="step", title="commands", metavar="command", required=True)

    step = _step(steps, "list", list_rows, "the operations, those that were written first at the top")
    step.add_argument(
        "--state", action="append", type=_state, metavar="STATE", help=f"only these: {', '.join(RowState)}"
    )
    step.add_argument(
        "--unresolved", action="store_true", help="only those that nobody is at and nobody knows the end of"
    )
    step.add_argument(
        "--older-than", type=_duration, default=0.0, metavar="T", help="not written for T, as in 90s, 15m, 2d"
    )
    step.add_argument("--scope", metavar="SCOPE", help="only those of this scope")
    step.add_argument("--limit", type=_count, default=BATCH, metavar="N", help=f"at most N (default {BATCH})")
    _output(step)

    step = _step(steps, "show", show_row, "everything about one operation")
    _name(step)
    step.add_argument("--reveal", action="store_true", help="show the key and the stored bodies in clear")
    _output(step)

    step = _step(steps, "resolve", resolve_row, "decide an operation by hand, once you have looked it up at the API")
    _name(step)
    decision = step.add_mutually_exclusive_group(required=True)
    decision.add_argument("--executed", action="store_true", help="it was done; a rerun raises AlreadyExecuted")
    decision.add_argument("--not-executed", action="store_true", help="it was not done; a rerun starts with a new key")
    step.add_argument("--resource", metavar="R", help="with --executed: what it made, such as a charge's id")
    step.add_argument("--yes", action="store_true", help="do not ask")
    _output(step)

    step = _step(steps, "sweep", sweep_rows, "drop headers and bodies of operations that have ended; unknown ones stay")
    step.add_argument("--older-than", type=_duration, required=True, metavar="T", help="that ended before T, as in 30d")
    _output(step)


def _step(steps: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    step: argparse.ArgumentParser = steps.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    step.set_defaults(run=run)
    step.add_argument(
        "--journal",
        default=os.environ.get(VARIABLE),
        metavar="PATH_OR_DSN",
        help=f"a SQLite file, or a DSN such as postgresql://host/database (default: the variable {VARIABLE})",
    )
    step.add_argument("--table", metavar="TABLE", help="the table in PostgreSQL (default samekey_operations)")
    return step


def _name(step: argparse.ArgumentParser) -> None:
    step.add_argument("name", metavar="NAME", help="name of the operation")
    step.add_argument("--scope", default="", metavar="SCOPE", help="its scope (default: none)")


def _output(step: argparse.ArgumentParser) -> None:
    step.add_argument("--json", action="store_true", help="print JSON")
    step.add_argument("--plain", action="store_true", help="no colours")


# -- the commands


def list_rows(given: argparse.Namespace) -> int:
    """Print the rows that were asked for."""
    with _opened(given) as journal:
        if given.unresolved:
            rows = journal.unresolved(older_than=given.older_than, limit=given.limit)
        else:
            rows = journal.entries(states=given.state or (), older_than=given.older_than, limit=given.limit)
    full = len(rows) == given.limit
    if given.scope is not None:
        rows = [row for row in rows if row.scope == given.scope]
    if given.unresolved and given.state:
        rows = [row for row in rows if row.state in given.state]
    if given.json:
        _print_json([as_dict(row) for row in rows])
        return 0
    _screen(given).show(listing(rows))
    if full:
        sys.stderr.write(f"(at most {given.limit} rows are looked at; --limit changes that)\n")
    return 0


def show_row(given: argparse.Namespace) -> int:
    """Print one row."""
    with _opened(given) as journal:
        row = _row(journal, given)
    if given.json:
        _print_json(as_dict(row, whole=True, reveal=given.reveal))
    else:
        _screen(given).show(details(row, reveal=given.reveal))
    return 0


def resolve_row(given: argparse.Namespace) -> int:
    """Decide one operation, after asking."""
    if given.resource is not None and not given.executed:
        raise Refused("--resource says what an executed operation made; it does not go with --not-executed")
    with _opened(given) as journal:
        if not given.yes:
            _ask(_row(journal, given), given)
        try:
            row = journal.resolve(given.name, executed=given.executed, scope=given.scope, resource=given.resource)
        except (KeyError, ValueError) as error:
            raise Refused(str(error.args[0])) from error
    if given.json:
        _print_json(as_dict(row, whole=True))
    else:
        _screen(given).show([brief(row)])
    return 0


def sweep_rows(given: argparse.Namespace) -> int:
    """Sweep in batches, so that nobody waits long."""
    swept = 0
    with _opened(given) as journal:
        while done := journal.sweep(older_than=given.older_than, limit=BATCH):
            swept += done
    if given.json:
        _print_json({"swept": swept})
    else:
        sys.stdout.write(f"swept {swept} operation{'' if swept == 1 else 's'}\n")
    return 0


def _row(journal: Journal, given: argparse.Namespace) -> Entry:
    row = journal.get(given.scope, given.name)
    if row is not None:
        return row
    others = sorted({found.scope for found in journal.entries() if found.name == given.name})
    there = f"; it is in the scope{'s' * (len(others) > 1)} {', '.join(map(repr, others))}" if others else ""
    scope = f" in scope {given.scope!r}" if given.scope else ""
    raise Refused(f"the journal has no operation {given.name!r}{scope}{there}")


def _ask(row: Entry, given: argparse.Namespace) -> None:
    screen = Screen(plain=given.plain, quiet=True, results=sys.stderr)
    screen.show(details(row, reveal=False))
    then = "a rerun raises AlreadyExecuted and sends nothing" if given.executed else "a rerun sends it with a NEW key"
    sys.stderr.write(f"\nResolve as {'executed' if given.executed else 'NOT executed'}: {then}.\nType yes to do so: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise Refused("nothing was changed")


# -- the journal


@contextmanager
def _opened(given: argparse.Namespace) -> Iterator[Journal]:
    """The journal, its errors as `Refused`."""
    where = given.journal
    if not where:
        raise Refused(f"which journal? Give --journal PATH_OR_DSN, or set {VARIABLE}")
    journal = _postgres(where, given.table) if is_dsn(where) else _sqlite(where, given.table)
    try:
        yield journal
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"the journal could not be used ({type(error).__name__}: {str(error).strip()})") from error
    finally:
        journal.close()


def is_dsn(where: str) -> bool:
    """Whether *where* is a PostgreSQL connection string and no path."""
    return bool(re.match(r"postgres(ql)?://|(\w+\s*=\s*\S+\s+)*(host|hostaddr|dbname|service)\s*=", where))


def _postgres(dsn: str, table: str | None) -> Any:
    try:
        import psycopg

        from samekey.postgres import PostgresJournal
    except ImportError as error:
        raise Refused("PostgreSQL needs psycopg 3 and its pool: pip install 'samekey[postgres]'") from error
    try:
        # Asked first: a pool tries for half a minute, and then does not say why.
        psycopg.connect(dsn).close()
        return PostgresJournal(dsn, table=table or "samekey_operations")
    except psycopg.Error as error:
        raise Refused(f"the database cannot be reached ({str(error).strip()})") from error
    except ValueError as error:
        raise Refused(str(error)) from error


def _sqlite(path: str, table: str | None) -> Any:
    import sqlite3
    from contextlib import closing

    from samekey.sqlite import SQLiteJournal

    if table is not None:
        raise Refused("--table is for PostgreSQL")
    # Looked at first, for a journal makes its file and its table where there are none.
    if not Path(path).is_file():
        raise Refused(f"there is no file {path!r}")
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'samekey_operations'").fetchone()
    except sqlite3.Error as error:
        raise Refused(f"{path!r} cannot be read as a SQLite database ({error})") from error
    if found is None:
        raise Refused(f"{path!r} is a SQLite database, but no journal of samekey")
    return SQLiteJournal(path)


# -- arguments and output


def _screen(given: argparse.Namespace) -> Screen:
    return Screen(plain=given.plain, quiet=True)


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _state(text: str) -> RowState:
    try:
        return RowState(text.replace("-", "_"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"one of {', '.join(RowState)}, not {text!r}") from None


def _duration(text: str) -> float:
    found = DURATION.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"a time such as 90s, 15m, 12h or 30d, not {text!r}")
    return float(found[1]) * UNITS[found[2]]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1, not {text!r}")
    return int(text)
