"""What one engine remembers: bounded, oldest first, and nothing of a parent process."""

from __future__ import annotations

import os
import runpy

import pytest

from samekey import _forks, _memory
from samekey._memory import Memory, Unresolved
from samekey._state import KeyState
from tests.core.playing import given, made

ONE = (None, "fingerprint-1")
TWO = (None, "fingerprint-2")


def unresolved(key: str = "k", until: float = 220.0) -> Unresolved:
    """A call that ended with something open."""
    state = made(key)
    state.open[1] = "ReadTimeout"
    return Unresolved(state, 100.0, until, b"")


@pytest.fixture
def memory() -> Memory:
    return Memory()


class TestKeys:
    """Key to state."""

    def test_a_key_that_comes_back_finds_its_state(self, memory: Memory) -> None:
        """Keys are unique within a scope."""
        first = given("k")

        assert memory.state_of(first) is first
        assert memory.state_of(given("k")) is first
        elsewhere = KeyState("k", made_here=False, scope="acct")
        assert memory.state_of(elsewhere) is elsewhere

    def test_the_longest_unused_is_forgotten(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        """The number is bounded; what is used stays."""
        monkeypatch.setattr(_memory, "MAX_KEYS", 3)
        a, b = given("a"), given("b")
        for state in (a, b, given("c")):
            memory.state_of(state)
        memory.state_of(given("a"))
        memory.state_of(given("d"))

        assert len(memory.keys) == 3
        assert memory.state_of(given("a")) is a
        assert memory.state_of(given("b")) is not b


class TestUnresolved:
    """Fingerprint to calls that ended unknown."""

    def test_every_one_is_kept_and_the_oldest_comes_first(self, memory: Memory) -> None:
        """A second one does not hide the first."""
        first, second = unresolved("a"), unresolved("b")
        memory.remember(ONE, first)
        memory.remember(ONE, second)

        assert memory.oldest(ONE, 150.0) is first
        memory.take(ONE, first)
        assert memory.oldest(ONE, 150.0) is second
        assert memory.oldest(TWO, 150.0) is None

    def test_its_key_is_known_too(self, memory: Memory) -> None:
        """So `operation(key=error.key)` finds what is open, and settles it."""
        entry = unresolved("a")
        memory.remember(ONE, entry)

        known = memory.state_of(given("a"))
        assert known is entry.state
        known.open.clear()
        assert memory.oldest(ONE, 150.0) is None
        assert not memory.unresolved

    def test_it_is_remembered_for_a_time_only(self, memory: Memory) -> None:
        """Then the next one is the oldest."""
        memory.remember(ONE, unresolved("a", until=220.0))
        later = unresolved("b", until=300.0)
        memory.remember(ONE, later)

        assert memory.oldest(ONE, 220.0) is later
        assert memory.oldest(ONE, 300.0) is None
        assert not memory.unresolved

    def test_one_that_is_put_back_is_first_again(self, memory: Memory) -> None:
        """Taken, continued, and unknown once more."""
        first, second = unresolved("a"), unresolved("b")
        memory.remember(ONE, first)
        memory.remember(ONE, second)
        memory.take(ONE, first)
        memory.remember(ONE, first, first=True)

        assert memory.oldest(ONE, 150.0) is first

    def test_none_is_kept_twice(self, memory: Memory) -> None:
        """Two legs of one call end unknown once."""
        entry = unresolved("a")
        memory.remember(ONE, entry)
        memory.remember(ONE, entry)
        memory.take(ONE, entry)

        assert memory.oldest(ONE, 150.0) is None

    def test_their_number_is_bounded(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        """The oldest of the fingerprint that was longest unused goes first; what was taken does not count."""
        monkeypatch.setattr(_memory, "MAX_UNRESOLVED", 3)
        entries = [unresolved(key) for key in "abcde"]
        memory.remember(ONE, entries[0])
        memory.remember(TWO, entries[1])
        memory.remember(ONE, entries[2])
        memory.remember(TWO, entries[3])

        assert memory.oldest(ONE, 150.0) is entries[2]
        assert memory.oldest(TWO, 150.0) is entries[1]
        memory.take(TWO, entries[1])
        memory.remember(ONE, entries[4])
        assert memory.oldest(ONE, 150.0) is entries[2]
        assert sum(map(len, memory.unresolved.values())) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_starts_anew_even_if_the_lock_was_held(memory: Memory) -> None:
    """BR-58: the parent's calls are not the child's."""
    memory.remember(ONE, unresolved())
    with memory.lock:
        child = os.fork()
        if child == 0:
            anew = not memory.keys and not memory.unresolved and memory.lock.acquire(blocking=False)
            os._exit(0 if anew else 1)
    assert os.waitpid(child, 0)[1] == 0

    assert memory.oldest(ONE, 150.0) is not None
    memory.forget()
    assert memory.oldest(ONE, 150.0) is None
    memory.remember(ONE, unresolved())
    assert memory.oldest(ONE, 150.0) is not None


def test_where_nobody_forks_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows `os` has no `register_at_fork`; the module works all the same."""
    monkeypatch.delattr(os, "register_at_fork", raising=False)

    assert "forget_after_fork" in runpy.run_path(_forks.__file__)
