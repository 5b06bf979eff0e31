"""What one engine remembers of keys and of calls that ended unknown; both bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._forks import forget_after_fork

if TYPE_CHECKING:
    from ._state import KeyState

MAX_KEYS = 4096
"""Keys given by callers, or of unresolved calls, whose binding is remembered."""
MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024
"""Bytes of forms that are kept so that a repeat sends the same ones."""
MAX_UNRESOLVED = 1024
"""Calls without an operation that ended unknown and are remembered."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An auto-keyed call that ended with something open."""

    state: KeyState
    since: float
    until: float
    credentials: bytes
    """Digest of the Authorization it was sent with."""


Identity = tuple[str | None, str]


class Memory:
    """Key -> state for keys that come back, and fingerprint -> unresolved calls, oldest first."""

    def __init__(self) -> None:
        self.keys: OrderedDict[Identity, KeyState] = OrderedDict()
        self.unresolved: OrderedDict[Identity, deque[Unresolved]] = OrderedDict()
        self.lock = threading.RLock()
        self._kept = 0
        self._snapshots: deque[KeyState] = deque()
        self._kept_bytes = 0
        forget_after_fork(self)

    def state_of(self, state: KeyState) -> KeyState:
        """The state already known for this key, or *state*, from now on."""
        identity = (state.scope, state.key)
        known = self.keys.get(identity)
        if known is None:
            known = self.keys[identity] = state
            if len(self.keys) > MAX_KEYS:
                self.keys.popitem(last=False)
        else:
            self.keys.move_to_end(identity)
        return known

    def remember(self, identity: Identity, entry: Unresolved, *, first: bool = False) -> None:
        """Keep an unresolved call; *first* puts one back that was taken."""
        with self.lock:
            self.state_of(entry.state)
            entries = self.unresolved.setdefault(identity, deque())
            if any(entry.state is kept.state for kept in entries):
                return
            if first:
                entries.appendleft(entry)
            else:
                entries.append(entry)
            self.unresolved.move_to_end(identity)
            self._kept += 1
            if self._kept > MAX_UNRESOLVED:
                stalest = next(iter(self.unresolved))
                self._drop(stalest, self.unresolved[stalest][0])

    def oldest(self, identity: Identity, now: float) -> Unresolved | None:
        """The oldest call with this fingerprint that is still open; those settled or outlived are dropped.

        The caller holds the lock.
        """
        for entry in list(self.unresolved.get(identity, ())):
            if entry.until > now and entry.state.open:
                return entry
            self._drop(identity, entry)
        return None

    def pending(self, now: float) -> bool:
        """Whether any call is unresolved. What is settled or outlived at the old end is dropped on the way."""
        if not self.unresolved:
            return False
        with self.lock:
            while self.unresolved and self.oldest(next(iter(self.unresolved)), now) is None:
                pass
            return bool(self.unresolved)

    def keep_snapshot(self, state: KeyState) -> None:
        """Count the bytes that are kept for repeats; the oldest give way, and their bytes are then built anew."""
        with self.lock:
            self._snapshots.append(state)
            self._kept_bytes += len(state.snapshot[1]) if state.snapshot else 0
            while self._kept_bytes > MAX_SNAPSHOT_BYTES and len(self._snapshots) > 1:
                oldest = self._snapshots.popleft()
                self._kept_bytes -= len(oldest.snapshot[1]) if oldest.snapshot else 0
                oldest.snapshot, oldest.same_bytes = None, False

    def take(self, identity: Identity, entry: Unresolved) -> None:
        """Give an entry to the call that goes on with it. The caller holds the lock."""
        self._drop(identity, entry)

    def _drop(self, identity: Identity, entry: Unresolved) -> None:
        entries = self.unresolved[identity]
        entries.remove(entry)
        self._kept -= 1
        if not entries:
            del self.unresolved[identity]

    def forget(self) -> None:
        """Start anew in a forked child: the parent's calls are not the child's, and its lock may be held for ever."""
        self.lock = threading.RLock()
        self._kept = self._kept_bytes = 0
        self._snapshots.clear()
        self.keys.clear()
        self.unresolved.clear()
