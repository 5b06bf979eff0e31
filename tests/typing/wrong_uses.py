"""What must not pass a type checker. Never run; each line is an error that is expected, and one that is missing fails.

mypy reads the `type: ignore` (an unused one is an error), pyright the `pyright: ignore`.
"""

from __future__ import annotations

import httpx
import tenacity

import samekey
from samekey.events import Event
from samekey.journal import AsyncJournal, Journal
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal

client = samekey.wrap(httpx.Client(), origins="*")

# -- settings of the wrong type, or misspelt
samekey.RetryPolicy(stop=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.RetryPolicy(wait=1.0)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.RetryPolicy(total_timeout="60")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.RetryPolicy(on_unresolved="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.RetryPolicy(attempts=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
samekey.RetryPolicy(tenacity.stop_after_attempt(3))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
samekey.RetryBudget(50)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
samekey.options(retries=False)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
samekey.options(key=True)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.wrap(client, dialect="stripe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.wrap(client, policy={"stop": 3})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.Dialect(name="mine", retention="1 day")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# -- a policy is frozen
policy = samekey.RetryPolicy()
policy.total_timeout = 5  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]

# -- the transport of the other colour
httpx.AsyncClient(transport=samekey.IdempotentTransport())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
httpx.Client(transport=samekey.AsyncIdempotentTransport())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# -- the journal of the other colour
journal: Journal = AsyncSQLiteJournal("a")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
async_journal: AsyncJournal = SQLiteJournal("a")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


# -- operations are no decorators, and take a name or a key as text
@samekey.operation()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]
def pay() -> None:
    """A decorator would sit inside the retry as easily as outside."""


samekey.operation(4821)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
samekey.operation("a", "key")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# -- a report may be missing
samekey.report(httpx.Response(200)).outcome  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]


# -- a listener takes one event
def two(event: Event, more: int) -> None:
    """Not a listener."""


listener: samekey.Listener = two  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
