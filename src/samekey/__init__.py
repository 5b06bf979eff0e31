"""samekey: retries that cannot charge twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._httpx import AsyncIdempotentTransport, IdempotentTransport, KeyedAuth
from ._keys import derive_key, new_key
from ._model import Failure, GaveUp, Kind, Outcome, Verdict
from ._operation import Operation, current_operation, operation
from ._options import options
from ._report import Attempt, Report, is_replayed, report
from ._wrap import wrap
from .budget import RetryBudget, SharedBudget
from .dialects import GENERIC, Dialect
from .errors import (
    AlreadyExecuted,
    IdempotencyError,
    JournalError,
    KeyExpired,
    KeyMismatch,
    KeyNotAccepted,
    KeySpent,
    NotSent,
    OutcomeUnknown,
    StillInProgress,
)
from .policy import RetryPolicy

if TYPE_CHECKING:
    from . import events as events
    from . import journal as journal
    from .events import Listener, log_events
    from .journal import AsyncJournal, AsyncMemoryJournal, Journal, MemoryJournal

__version__ = "0.1.0.dev0"

__all__ = [
    "GENERIC",
    "AlreadyExecuted",
    "AsyncIdempotentTransport",
    "AsyncJournal",
    "AsyncMemoryJournal",
    "Attempt",
    "Dialect",
    "Failure",
    "GaveUp",
    "IdempotencyError",
    "IdempotentTransport",
    "Journal",
    "JournalError",
    "KeyExpired",
    "KeyMismatch",
    "KeyNotAccepted",
    "KeySpent",
    "KeyedAuth",
    "Kind",
    "Listener",
    "MemoryJournal",
    "NotSent",
    "Operation",
    "Outcome",
    "OutcomeUnknown",
    "Report",
    "RetryBudget",
    "RetryPolicy",
    "SharedBudget",
    "StillInProgress",
    "Verdict",
    "current_operation",
    "derive_key",
    "is_replayed",
    "log_events",
    "new_key",
    "operation",
    "options",
    "report",
    "wrap",
]

_LATE = {
    "Listener": "events",
    "log_events": "events",
    "AsyncJournal": "journal",
    "AsyncMemoryJournal": "journal",
    "Journal": "journal",
    "MemoryJournal": "journal",
}
"""Names that are loaded on first use, and their modules."""

if not TYPE_CHECKING:  # pragma: no branch

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _LATE and name not in _LATE.values():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_LATE.get(name, name)}")
        found = globals()[name] = getattr(module, name) if name in _LATE else module
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATE, *_LATE.values()})
