"""The commands of a call: what the driver is to do next. `_decide` has those that end it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ._decide import Again, Ending
from ._journal_rows import RowState
from ._model import Outcome


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request (again)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Discard the last answer, wait, then send again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask the journal for the name, before anything is sent."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Prolong the lease on the name, before anything more is sent."""


@dataclass(frozen=True, slots=True)
class Record:
    """Write down where the operation stands, then go on to *ending*."""

    state: RowState
    ending: Ending


@dataclass(frozen=True, slots=True)
class Recall:
    """Hand on the answer that the journal has, without sending anything."""

    outcome: Outcome


JournalStep: TypeAlias = Claim | Renew | Record
Step: TypeAlias = Send | Wait | Again | JournalStep | Recall | Ending

DURABLE = (Claim, Renew, Record)
"""The kinds of a `JournalStep`."""

SEND = Send()
CLAIM = Claim()
RENEW = Renew()
