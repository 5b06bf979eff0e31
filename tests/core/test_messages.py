"""What the errors say: what happened, what it means for the money, what to do; and never the key."""

from __future__ import annotations

import re

import pytest

from samekey import _messages
from samekey._keys import digest
from samekey._messages import KEYS_DIFFER, LOCAL_MISMATCH, REFUSED_HOP, REPEATED, compose, message, stored_outcome
from samekey._model import Failure, GaveUp, Kind, Outcome, Verdict
from samekey._report import Attempt, Report
from samekey.errors import KINDS

KEY = "alice@example.test-1"
SPOKEN = [kind for kind in KINDS if kind != "IdempotencyError"]
LOST = Attempt(1, Kind.FIRST, 0.0, 0.5, failure=Failure.UNKNOWN, error="ReadTimeout", message=f"key {KEY}", open=True)
BROKEN = Attempt(2, Kind.RETRY, 1.0, 0.5, status=503, verdict=Verdict.TRANSIENT, open=True)

# What each says of the money, in a word that must be there and one that must not.
MONEY = {
    "KeyMismatch": ("was not executed", "may have been"),
    "OutcomeUnknown": ("may have been executed", "not executed"),
    "StillInProgress": ("may be executed", "not executed"),
    "KeyExpired": ("may have been executed", "nothing was executed"),
    "NotSent": ("nothing was executed", "may"),
    "AlreadyExecuted": ("was executed, once", "may"),
    "KeySpent": ("nothing was executed", "may"),
    "KeyNotAccepted": ("nothing was executed", "may"),
    "JournalError": ("nothing was sent", "may"),
}
OUTCOMES = {
    "KeyMismatch": Outcome.REJECTED,
    "NotSent": Outcome.NOT_SENT,
    "AlreadyExecuted": Outcome.EXECUTED,
    "KeySpent": Outcome.REJECTED,
    "KeyNotAccepted": Outcome.REJECTED,
}


def report(outcome: Outcome = Outcome.UNKNOWN, *attempts: Attempt, **more: object) -> Report:
    """What is known."""
    return Report(KEY, None, outcome, attempts=attempts, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SPOKEN)
def test_every_kind_says_what_happened_what_it_means_and_what_to_do(kind: str) -> None:
    """Three parts, in this order, and the digest of the key."""
    text = message(kind, report(OUTCOMES.get(kind, Outcome.UNKNOWN)), None, None)

    assert re.fullmatch(r"[a-z].{15,}: .{10,}\. To do: .{15,}\. \[key [0-9a-f]{8}\]", text)
    there, not_there = MONEY[kind]
    money = text.partition(": ")[2].partition(" To do:")[0]
    assert there in money
    assert not_there not in money


@pytest.mark.parametrize("kind", SPOKEN)
def test_no_message_shows_the_key(kind: str) -> None:
    """BR-66: neither of itself, nor from the text of an exception."""
    text = message(kind, report(Outcome.UNKNOWN, LOST), 409, "code")

    assert "alice" not in text
    assert digest(KEY) in text


@pytest.mark.parametrize("kind", ["OutcomeUnknown", "StillInProgress", "KeyExpired"])
def test_what_is_known_to_be_executed_is_not_put_in_doubt(kind: str) -> None:
    """`executed` sticks: only this repeat got no answer."""
    text = message(kind, report(Outcome.EXECUTED), None, None)

    assert "it was executed; do not send it under another key" in text
    assert "may " not in text.partition("To do:")[0]


@pytest.mark.parametrize("kind", ["KeyMismatch", "KeyNotAccepted"])
def test_a_refusal_of_a_used_key_does_not_deny_what_was_sent_before(kind: str) -> None:
    """The report's outcome is unknown, so the message must not say "nothing"."""
    text = message(kind, report(Outcome.UNKNOWN), 400, None)

    assert "not executed now, but what was sent under this key before may have been" in text


def test_details_are_told() -> None:
    """Attempts, time, the last failure, what the server said, and which limit ended it."""
    one = message("OutcomeUnknown", report(Outcome.UNKNOWN, LOST, elapsed=0.5), None, None)
    two = message(
        "OutcomeUnknown",
        report(Outcome.UNKNOWN, LOST, BROKEN, elapsed=1.5, gave_up=GaveUp.RETRY_AFTER, retry_after=90.0),
        503,
        "{overloaded}",
    )

    assert "(1 attempt in 0.50 s, the last one: ReadTimeout)" in one
    assert (
        "(2 attempts in 1.50 s, the last one: status 503; the server said: {overloaded}; the server asked for a longer "
        "wait than allowed; the server asks to wait 90 s)"
    ) in two


def test_a_body_that_could_not_be_sent_again_is_told() -> None:
    """The limit is named, so that it can be raised."""
    text = message("OutcomeUnknown", report(Outcome.UNKNOWN, LOST), None, None, replayable=False)

    assert "longer than max_request_buffer" in text


def test_a_named_operation_is_taken_up_by_its_name() -> None:
    """Whatever signs the name has; its key is in the journal."""
    found = Report(KEY, "order-{7}:charge", Outcome.UNKNOWN)

    for kind in ("OutcomeUnknown", "StillInProgress"):
        text = message(kind, found, None, None)
        assert "inside samekey.operation('order-{7}:charge')" in text
        assert "error.key" not in text


def test_what_the_journal_knows_of_the_other_request_has_words() -> None:
    """For every outcome, the one that nobody knows included."""
    assert len({stored_outcome(outcome) for outcome in (Outcome.EXECUTED, Outcome.REJECTED, Outcome.UNKNOWN)}) == 3
    assert "nobody knows" in stored_outcome(Outcome.UNKNOWN)


def test_without_a_key_nobody_is_told_to_keep_one() -> None:
    """A POST that was sent without a key must not be repeated by hand either, at least not blindly."""
    text = message("OutcomeUnknown", Report(None, None, Outcome.UNKNOWN, attempts=(LOST,)), None, None)

    assert "error.key" not in text
    assert "it may have been executed once; a repeat could execute it again" in text


@pytest.mark.parametrize("limit", GaveUp)
def test_every_limit_has_words(limit: GaveUp) -> None:
    """A limit that is added needs its words."""
    words = re.search(r"\((.+)\):", message("OutcomeUnknown", report(gave_up=limit), None, None))

    assert words is not None
    assert len(words[1]) > 10


def test_evidence_without_an_answer_is_not_told() -> None:
    """It belongs to an earlier answer."""
    assert "server said" not in message("OutcomeUnknown", report(), None, "code")


def test_without_a_key_none_is_told() -> None:
    """An unkeyed POST has none."""
    assert "[key" not in message("OutcomeUnknown", Report(None, None, Outcome.UNKNOWN), None, None)


@pytest.mark.parametrize(
    ("parts", "values", "words"),
    [
        (LOCAL_MISMATCH, {"known": "aaaa", "found": "bbbb"}, ["aaaa", "bbbb", "nothing was sent", "operation.step("]),
        (
            KEYS_DIFFER,
            {"where": "the request and the operation"},
            ["the request and the operation", "nothing was sent"],
        ),
        (REPEATED, {"age": "4 s ago"}, ["4 s ago", "was not sent", "key=error.key", "on_unresolved='resume'"]),
        (REFUSED_HOP, {"origin": "https://{evil}"}, ["https://{evil}", "was not sent there", "origins="]),
    ],
)
def test_errors_found_on_this_side(parts: tuple[str, str, str], values: dict[str, object], words: list[str]) -> None:
    """They say what differs, that nothing was sent, and what to write instead."""
    text = compose(parts, KEY, **values)

    assert all(word in text for word in words)
    assert " To do: " in text
    assert text.endswith(f" [key {digest(KEY)}]")
    assert "alice" not in text


def test_an_earlier_success_is_named_as_such() -> None:
    """The words the documentation quotes."""
    assert _messages.EXECUTED_BEFORE in message("OutcomeUnknown", report(Outcome.EXECUTED), None, None)
