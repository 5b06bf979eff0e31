"""A call's hold on a named operation: what it asks the journal, and what it makes of the row. No I/O.

`NamedExchange` holds the order: the claim before the first send, a renewal before every later one, the record before
the caller gets the answer.
"""

from __future__ import annotations

from ._decide import TURNED_AWAY, Again, Deliver, Ending, Raise
from ._journal_rows import Entry, RowState
from ._model import Outcome
from ._state import OTHERS, KeyState, serial
from ._steps import Recall

LEASE_MARGIN = 15.0
"""Seconds by which a lease outlasts the total timeout, for the writes at both ends."""


class Holding:
    """One call's hold on one name."""

    __slots__ = ("_asked", "_grants", "_until", "failed", "fingerprint", "given", "lease", "owned", "owner", "waits")

    def __init__(self, owner: str, lease: float, given: str | None) -> None:
        self.owner = owner
        self.lease = lease
        self.fingerprint = ""
        self.given = given
        """The key that the caller chose, if any."""
        self.owned = False
        self.waits = 0
        """How often somebody else was at it."""
        self.failed = False
        """The last step failed, and was not tried again yet."""
        self._asked = self._until = (0.0, 0.0)
        """(monotonic, wall clock) of the last question about the lease, and of the lease's end."""
        self._grants = 0
        """How many of the row's sends are this call's."""

    def asks(self, now: float, wall: float) -> None:
        """The journal is about to be asked; the (more) time that it may grant counts from now on."""
        self._asked = (now, wall)

    @property
    def asked(self) -> float:
        """Monotonic seconds of the last question."""
        return self._asked[0]

    def taken(self, entry: Entry, state: KeyState, now: float, wall: float) -> None:
        """The row is ours: the key is the row's, and what earlier processes may have sent is open."""
        self.owned = True
        self.renewed()
        self._grants += 1
        state.key = entry.key
        if entry.sends > self._grants and OTHERS not in state.reached:
            state.reached.add(OTHERS)
            state.open[next(serial)] = "TransportError"
        if entry.age > 0 or OTHERS in state.reached:
            state.first_sent = (now - entry.age, wall - entry.age)
        if entry.request is not None:
            state.snapshot = (entry.content_type or "", entry.request)

    def follow(self, entry: Entry) -> Raise | Recall | Again:
        """The row is somebody else's, or has ended."""
        if entry.fingerprint != self.fingerprint:
            return Raise("KeyMismatch", _OUTCOMES.get(entry.state, Outcome.UNKNOWN))
        if entry.state is RowState.EXECUTED and entry.status is None:
            return Raise("AlreadyExecuted", Outcome.EXECUTED)
        if entry.state in _OUTCOMES:
            return Recall(_OUTCOMES[entry.state])
        self.waits += 1
        return Again(Raise("StillInProgress", Outcome.UNKNOWN), poll=True)

    def renewed(self) -> None:
        """The lease runs anew, since it was asked for: whoever is suspended during the answer has lost that time."""
        now, wall = self._asked
        self._until = (now + self.lease, wall + self.lease)

    def stale(self, now: float, wall: float) -> bool:
        """Whether the lease has run out unnoticed, as after a suspension: then somebody else may be sending.

        By either clock, since the monotonic one may stand still while the machine sleeps.
        """
        return self.owned and (now > self._until[0] or wall > self._until[1])

    def released(self, state: RowState) -> None:
        """The row was written for the last time by this call."""
        self.owned = False
        if state is RowState.CLAIMED:
            self._grants -= 1

    def row_after(self, ending: Ending, status: int | None, state: KeyState, *, at_the_door: bool) -> RowState:
        """Where the operation stands after *ending*. 401, 407 and 429 never close a name."""
        untouched = at_the_door and OTHERS not in state.reached and not state.open
        if ending.outcome is Outcome.EXECUTED:
            return RowState.EXECUTED
        if ending.outcome is Outcome.NOT_SENT or status in TURNED_AWAY or _not_accepted(ending):
            return RowState.CLAIMED if untouched or _not_accepted(ending) else RowState.UNKNOWN
        closes = isinstance(ending, Deliver) or (isinstance(ending, Raise) and ending.error == "KeySpent")
        if ending.outcome is Outcome.REJECTED and closes and status != 425:
            return RowState.REJECTED
        return RowState.UNKNOWN


def _not_accepted(ending: Ending) -> bool:
    """The server refused the key before it looked at anything: a fault of settings that may be mended by the rerun."""
    rejected = ending.outcome is Outcome.REJECTED
    return rejected and isinstance(ending, Raise) and ending.error == "KeyNotAccepted"


_OUTCOMES = {RowState.EXECUTED: Outcome.EXECUTED, RowState.REJECTED: Outcome.REJECTED}
