"""What is known of one key, shared by every call that sends it."""

from __future__ import annotations

from samekey._model import Outcome
from samekey._state import KeyState
from tests.core.playing import given, made


def test_the_first_request_binds_the_key() -> None:
    """Whoever comes second is told what the key stands for."""
    state = made()
    assert state.fingerprint is None

    assert state.bind("a") == "a"
    assert state.bind("b") == "a"
    assert state.fingerprint == "a"


def test_outcome_between_two_calls() -> None:
    """Only a key that samekey made and that nobody has sent is known not to have been sent."""
    assert made().outcome() is Outcome.NOT_SENT
    assert given().outcome() is Outcome.UNKNOWN

    sent, running, done = made(), made(), made()
    sent.reached.add(1)
    running.open[1] = ""
    done.reached.add(1)
    done.executed = True
    assert [state.outcome() for state in (sent, running, done)] == ["unknown", "unknown", "executed"]


def test_an_attempt_does_not_count_as_open_beside_itself() -> None:
    """Only another one does."""
    state = made()
    state.open[7] = ""

    assert not state.open_besides(7)
    assert state.open_besides(8)


class TestAbsorb:
    """Two clients that know the same key."""

    def known(self) -> KeyState:
        other = given()
        other.bind("a")
        other.open[3] = "ReadTimeout"
        other.reached.add(1)
        other.first_sent = (10.0, 1e9)
        other.executed = True
        return other

    def test_everything_is_taken_over(self) -> None:
        """Binding, open attempts, calls, age and what was executed."""
        state = given()

        assert state.absorb(self.known())
        assert state.fingerprint == "a"
        assert state.open == {3: "ReadTimeout"}
        assert state.reached == {1}
        assert state.first_sent == (10.0, 1e9)
        assert state.executed

    def test_the_older_first_send_counts(self) -> None:
        """The server counts from the first time it saw the key."""
        for first_sent, expected in ((5.0, 5.0), (50.0, 10.0)):
            state = given()
            state.first_sent = (first_sent, 1e9)
            state.absorb(self.known())
            assert state.first_sent[0] == expected

    def test_a_state_that_was_never_used_changes_nothing(self) -> None:
        """No binding, no age."""
        state = self.known()

        assert state.absorb(given())
        assert (state.fingerprint, state.first_sent, state.executed) == ("a", (10.0, 1e9), True)

    def test_a_key_that_stands_for_another_request_there_is_refused(self) -> None:
        """And nothing is taken over."""
        state = made()
        state.bind("b")

        assert not state.absorb(self.known())
        assert not state.open
        assert not state.executed
