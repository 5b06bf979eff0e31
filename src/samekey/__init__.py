"""samekey: retries that cannot charge twice."""

from __future__ import annotations

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
from .events import Listener, log_events
from .journal import AsyncJournal, AsyncMemoryJournal, Journal, MemoryJournal
from .policy import RetryPolicy

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
