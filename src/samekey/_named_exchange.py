"""The order of steps of a call that holds a name in the journal.

The claim is durable before the first byte leaves, the lease is renewed before every later send, the answer is recorded
before the caller gets it; nothing of this depends on the driver.
"""

from __future__ import annotations

from ._decide import Ending, Raise, Reraise
from ._exchange import Exchange
from ._holding import Holding
from ._journal_rows import Entry
from ._model import GaveUp, Kind, Outcome
from ._state import OTHERS, KeyState
from ._steps import CLAIM, RENEW, SEND, Recall, Record, Step


class NamedExchange(Exchange):
    """An `Exchange` that has to hold a name to go on."""

    holding: Holding

    def __init__(self, state: KeyState, holding: Holding, *, retry: bool) -> None:
        super().__init__(state, keyed=True, repeatable=False, retry=retry)
        self.holding = holding

    def next_kind(self, kind: Kind) -> None:
        """Why the next attempt is sent; who waits for somebody else's has sent none."""
        if self.holding.owned:
            super().next_kind(kind)

    def end(self, ending: Ending, gave_up: GaveUp | None = None) -> Step:
        """Close the call; whoever holds the name first writes down where the operation stands."""
        step = super().end(ending, gave_up)
        if not self.holding.owned:
            return step
        status = self.last_status
        return Record(self.holding.row_after(ending, status, self.state, at_the_door=self.at_the_door), ending)

    def first_step(self) -> Step:
        """A name is claimed, durably, before the first byte leaves."""
        return CLAIM if self.keyed and not self.holding.owned else SEND

    def next_step(self) -> Step:
        """After a wait: who holds a name renews the lease, who waited for another asks again."""
        if not self.keyed:
            return SEND
        return RENEW if self.holding.owned else CLAIM

    def followed(self, entry: Entry) -> Step:
        """The journal has the row in other hands, or at its end."""
        step = self.holding.follow(entry)
        if isinstance(step, Recall):
            self.source, self.recorded = "journal", True
            self.outcome = step.outcome
            return step
        return self.limited(step)

    def keys_differ(self) -> Step:
        """The name is kept with another key than the one the caller gave: nothing is sent."""
        touched = self.state.open or OTHERS in self.state.reached
        return self.end(Raise("KeyMismatch", Outcome.UNKNOWN if touched else Outcome.NOT_SENT))

    def abandon(self) -> Step:
        """The call was broken off between two attempts: the name must not stay held, and must not come free."""
        return self.end(Reraise(Outcome.UNKNOWN if self.state.open or not self.at_the_door else Outcome.NOT_SENT))

    def journal_failed(self) -> Raise:
        """The journal cannot be asked: nothing more is sent."""
        self.holding.owned = False
        touched = self.state.open or not self.at_the_door
        self.outcome = Outcome.EXECUTED if self.state.executed else Outcome.UNKNOWN
        return Raise("OutcomeUnknown" if touched else "JournalError", Outcome.UNKNOWN)

    def was_recorded(self, record: Record, *, done: bool) -> Ending:
        """The row was written, or could not be; the caller gets the answer all the same."""
        self.holding.released(record.state)
        self.recorded = done
        return record.ending
