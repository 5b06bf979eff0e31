"""The tables of behaviour in README and docs, made from the code.

A page says `<!-- table: name -->` and `<!-- /table -->`; what stands between is made here. tests/test_docs_tables.py
fails while a page shows anything else, and this mends it:

python -m tools.docs_tables
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from samekey import _messages, _model, errors, operation, options
from samekey._decide import (
    MAX_CONFLICT_POLLS,
    Again,
    Decision,
    Deliver,
    Ending,
    Facts,
    Raise,
    Reraise,
    after_answer,
    after_failure,
)
from samekey._model import Answer, Failure, GaveUp, Kind, Outcome, Reading, Verdict
from samekey.budget import RetryBudget
from samekey.dialects import GENERIC, classify
from samekey.policy import RetryPolicy
from tools import dialect_tables

ROOT = Path(__file__).parent.parent
MARKED = re.compile(
    r"(?P<open><!-- table: (?P<name>[\w-]+) -->\n).*?(?P<close>\n<!-- /table -->)", re.DOTALL | re.MULTILINE
)

NAMES = re.compile(r"samekey\.\w+\([\w.=]*\)|\berror\.\w+")

KEYED = Facts()
"""A key that samekey has made, and nothing open."""
OPEN = Facts(open=True, at_the_door=False)
GIVEN = Facts(fresh=False)
IDEMPOTENT = Facts(keyed=False, repeatable=True)
UNKEYED = Facts(keyed=False)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    cells = [list(head), *(list(row) for row in rows)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def told(decision: Decision) -> str:
    """What a decision means, in a few words."""
    if not isinstance(decision, Again):
        return _ending(decision)
    end = _ending(decision.ending)
    if decision.conflict:
        return f"asked again, at most {MAX_CONFLICT_POLLS} times; then {end}"
    return f"{'asked again' if decision.poll else 'retry'}; at the end {end}"


def _ending(ending: Ending) -> str:
    match ending:
        case Deliver(outcome=outcome):
            return f"returned: {outcome}"
        case Raise(error=error, outcome=outcome, cause=cause):
            usual = {"OutcomeUnknown": "unknown", "StillInProgress": "unknown", "KeyExpired": "unknown"}
            usual |= {"NotSent": "not_sent", "AlreadyExecuted": "executed", "KeySpent": "rejected"}
            more = "" if usual.get(error) == outcome else f": {outcome}"
            return f"`{error}`{f' from `{cause}`' if cause else ''}{more}"
        case Reraise():
            return f"raised as it is: {ending.outcome}"


@dataclass(frozen=True)
class Row:
    """One kind of answer, told in words."""

    words: str
    verdict: Verdict
    status: int = 400
    empty: bool = False
    settles: bool = False
    same_bytes: bool = True
    believe_done: bool = False
    only_open: bool = False

    def cell(self, facts: Facts) -> str:
        """What it means under *facts*."""
        if self.only_open and not facts.open:
            return ""
        asked = {"settles": self.settles, "same_bytes": self.same_bytes, "believe_done": self.believe_done}
        known = facts._replace(**asked)
        return told(after_answer(Reading(self.verdict, empty=self.empty), self.status, known))


ANSWERS = (
    Row("2xx, 303", Verdict.OK, 201),
    Row("a replay of a 4xx", Verdict.STORED_ERROR, 402),
    Row("a replay of a 5xx or 408: it would come again", Verdict.STORED_ERROR, 500),
    Row('"a request with this key is in progress" (409, 202 ...)', Verdict.IN_PROGRESS, 409),
    Row(
        '"this key was used with another request", and these very bytes are open', Verdict.MISMATCH, 422, only_open=True
    ),
    Row('"this key was used with another request", otherwise', Verdict.MISMATCH, 422, same_bytes=False),
    Row('"done before", and the dialect says to believe it', Verdict.ALREADY_DONE, 409, believe_done=True),
    Row('"done before", otherwise', Verdict.ALREADY_DONE, 409),
    Row('"this key is spent"', Verdict.KEY_SPENT, 409),
    Row('"this key is too old"', Verdict.KEY_EXPIRED, 400),
    Row('"a key is missing"', Verdict.KEY_MISSING, 400),
    Row('"a key of this form is not accepted"', Verdict.KEY_REFUSED, 400),
    Row("another 409, with an empty body", Verdict.CONFLICT, 409, empty=True, settles=True),
    Row("another 409, with a body", Verdict.CONFLICT, 409, settles=True),
    Row("425, 429", Verdict.RATE_LIMITED, 429),
    Row("408, 5xx", Verdict.TRANSIENT, 503),
    Row("401, 407: httpx goes on, or the caller gets it", Verdict.CHALLENGE, 401),
    Row("307, 308: httpx goes on, or the caller gets it", Verdict.REDIRECT, 307),
    Row("another 3xx", Verdict.MOVED, 302),
    Row("another 4xx, made behind the lookup of the key", Verdict.REFUSED, 404, settles=True),
    Row("another 4xx, such as a front door gives", Verdict.REFUSED, 403),
)


def answers() -> str:
    """After an answer to a keyed request."""
    if {row.verdict for row in ANSWERS} != set(Verdict):
        raise LookupError("a verdict has no row")
    head = ("the answer", "key made by samekey, nothing open", "key not fresh, nothing open", "something open")
    return table(head, ((row.words, *(row.cell(facts) for facts in (KEYED, GIVEN, OPEN))) for row in ANSWERS))


FAILURES = {
    Failure.NEVER_SENT: "nothing was sent: no connection, no free place in the pool, proxy refused",
    Failure.UNKNOWN: "it may have been sent: read or write error, timeout, disconnect",
    Failure.PERMANENT: "nothing can help: unknown scheme, request that HTTP forbids, certificate refused",
    Failure.UNFORESEEN: "any other exception, such as one of your generator",
    Failure.CANCELLED: "cancellation, `KeyboardInterrupt`, `SystemExit`",
}


def failures() -> str:
    """After an attempt without an answer."""
    head = (
        "what happened",
        "keyed, nothing open",
        "keyed, something open",
        "no key, idempotent",
        "no key, POST or PATCH",
    )
    columns = (KEYED, OPEN, IDEMPOTENT, UNKEYED)
    return table(head, ((FAILURES[kind], *(told(after_failure(kind, facts)) for facts in columns)) for kind in Failure))


def retried() -> str:
    """What is retried, in short."""

    def short(decision: Decision) -> str:
        if isinstance(decision, Again):
            if decision.conflict:
                return f"asked again, at most {MAX_CONFLICT_POLLS} times"
            return "asked again until it is done" if decision.poll else "yes"
        unknown = isinstance(decision, Raise) and decision.error == "OutcomeUnknown"
        return "no: `OutcomeUnknown`" if unknown else "no"

    columns = (KEYED, IDEMPOTENT, UNKEYED)
    rows = [
        ("no connection", *(short(after_failure(Failure.NEVER_SENT, facts)) for facts in columns)),
        ("timeout, disconnect, reset", *(short(after_failure(Failure.UNKNOWN, facts)) for facts in columns)),
    ]
    groups: dict[tuple[str, ...], list[int]] = {}
    for status in range(400, 600):
        reading = _bare(status, body=b"{}")
        groups.setdefault(tuple(short(after_answer(reading, status, facts)) for facts in columns), []).append(status)
    for cells, statuses in sorted(groups.items(), key=lambda group: len(group[1])):
        if set(cells) != {"no"}:
            many = len(statuses) > 20
            rows.append(("any other 5xx" if many else ", ".join(map(str, statuses)), *cells))
    running = Reading(Verdict.IN_PROGRESS)
    rows.append(('409 or 202 "in progress"', *(short(after_answer(running, 409, facts)) for facts in columns)))
    empty = _bare(409, body=b"")
    rows.append(("a 409 without a word", *(short(after_answer(empty, 409, facts)) for facts in columns)))
    rows.append(("all else", *(short(after_answer(_bare(404, body=b"{}"), 404, facts)) for facts in columns)))
    return table(("after", "POST, PATCH (keyed)", "GET, HEAD, PUT, DELETE ...", "POST, PATCH without a key"), rows)


def _bare(status: int, body: bytes) -> Reading:
    return classify(Answer(status, body=body), GENERIC, fresh=True, repeat=False)


def statuses() -> str:
    """What `GENERIC` reads from a status alone."""
    groups: dict[str, list[int]] = {}
    for status in range(200, 600):
        groups.setdefault(_bare(status, body=b"{}").verdict, []).append(status)
    listed = sorted(groups.items(), key=lambda group: group[1][0])
    return table(("status", "verdict"), ((_ranges(numbers), f"`{verdict}`") for verdict, numbers in listed))


def _ranges(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def members(kind: type[StrEnum]) -> str:
    """The members of an enumeration, with what the code says of each."""
    body = ast.parse(inspect.getsource(_model)).body
    made = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    said: dict[str, str] = {}
    name = ""
    for node in made.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            said[name] = " ".join(str(node.value.value).split())
    return table((kind.__name__.lower(), "meaning"), ((f"`{one}`", said[one.name]) for one in kind))


def error_classes() -> str:
    """Each error: what happened, what it means for the money, what to do."""
    kinds = [kind for kind in errors.KINDS.values() if kind is not errors.IdempotencyError]
    meanings = _messages._MEANING  # noqa: SLF001 - the one place of these words
    rows = [
        (f"`{kind.__name__}`", *(NAMES.sub(r"`\g<0>`", part) for part in meanings[kind.__name__])) for kind in kinds
    ]
    return table(("error", "what happened", "what it means for the money", "what to do"), rows)


def settings(kind: Callable[..., Any]) -> str:
    """The arguments of *kind*: default, and what its docstring says of each."""
    said = _arguments(inspect.getdoc(kind) or "")
    rows = []
    for name, parameter in inspect.signature(kind).parameters.items():
        default = parameter.default
        shown = "policy's" if type(default).__name__ == "_Unset" else _shown(name, default)
        about = said[name].removesuffix(f" Default {shown}.").removesuffix(f" Default `{shown}`.")
        rows.append((f"`{name}`", f"`{shown}`" if shown != "policy's" else "what the policy says", about))
    return table(("setting", "default", "what it is"), rows)


def _shown(name: str, default: object) -> str:
    if name.endswith("_buffer"):
        return f"{int(str(default)) // 2**20} MiB"
    return f"{default:g}" if isinstance(default, float) else repr(default)


def _arguments(docstring: str) -> dict[str, str]:
    section = re.split(r"^(?:Args|Returns|Raises):$", docstring, flags=re.MULTILINE)[1]
    entries = re.split(r"^    (?=\w+: )", section, flags=re.MULTILINE)[1:]
    parts = (entry.partition(": ") for entry in entries)
    return {name: " ".join(text.split("\n\n")[0].split()).replace("``", "`") for name, _, text in parts}


TABLES: dict[str, Callable[[], str]] = {
    "retried": retried,
    "answers": answers,
    "failures": failures,
    "statuses": statuses,
    "outcomes": lambda: members(Outcome),
    "verdicts": lambda: members(Verdict),
    "failure-kinds": lambda: members(Failure),
    "kinds": lambda: members(Kind),
    "gave-up": lambda: members(GaveUp),
    "errors": error_classes,
    "policy": lambda: settings(RetryPolicy),
    "budget": lambda: settings(RetryBudget),
    "options": lambda: settings(options),
    "operation": lambda: settings(operation),
    **dialect_tables.TABLES,
}


def renewed(text: str) -> str:
    """The text of a page with its tables made anew."""
    return MARKED.sub(lambda found: f"{found['open']}\n{TABLES[found['name']]()}\n{found['close']}", text)


def pages() -> list[Path]:
    """The pages that have tables."""
    listed = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in listed if MARKED.search(page.read_text())]


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page.read_text()))
