"""The order of steps of one call, and what several calls of one operation know of each other."""

from __future__ import annotations

from typing import Any

import pytest

from samekey._decide import MAX_CONFLICT_POLLS, Again, Facts
from samekey._model import Failure, GaveUp, Kind, Outcome, Reading, Verdict
from samekey._steps import Wait
from tests.core.playing import Play, given, made, told

V = Verdict
F = Failure
AT_THE_DOOR = Facts(settles=False)


class TestOrder:
    """One step after the other."""

    def test_an_attempt_is_open_from_before_it_is_sent_until_it_is_answered(self) -> None:
        """Whatever breaks off in between leaves it open."""
        play = Play()
        assert not play.state.open

        play.send()
        assert list(play.state.open.values()) == [""]

        play.answer(V.OK)
        assert not play.state.open

    def test_a_lost_answer_waits_sends_again_and_returns_the_replay(self) -> None:
        """The main job: one lost attempt, one wait, one replay."""
        play = Play()

        again = play.fails()
        assert isinstance(again, Again)
        assert play.pace(again, 2.5) == Wait(2.5)
        assert told(play.answers(V.OK, replayed=True)) == "return executed"
        assert not play.state.open
        assert play.report.replayed is True

    def test_the_short_way_through_a_success_ends_like_the_long_one(self) -> None:
        """`succeeded` knows everything that `answered` knows."""
        reading = Reading(V.OK, replayed=True, supported=False)
        long, short = Play(), Play()
        for play in (long, short):
            play.pace(play.answers(V.RATE_LIMITED, retry_after=3.0))
            play.send()

        ended = long.exchange.answered(201, reading, long.now, Facts(), None)

        assert short.exchange.succeeded(201, short.now, reading) == ended
        assert short.report == long.report
        assert short.report.retry_after is None
        assert short.report.supported is False
        assert short.state.open == long.state.open == {}
        assert short.state.executed

    def test_a_retry_after_is_a_floor_of_the_wait(self) -> None:
        """What the server asks for, or the dialect's shortest wait, or the backoff: the longest."""
        for asked, least, backoff, waited in ((4.0, 0.0, 1.0, 4.0), (4.0, 0.0, 6.0, 6.0), (None, 7.0, 1.0, 7.0)):
            play = Play()

            step = play.pace(play.answers(V.TRANSIENT, retry_after=asked), backoff, least=least)

            assert step == Wait(waited)

    def test_a_failure_forgets_the_retry_after_of_the_answer_before(self) -> None:
        """The floor belongs to the last answer; that of a cut one counts."""
        play = Play()
        play.pace(play.answers(V.TRANSIENT, retry_after=4.0))

        assert play.pace(play.fails()) == Wait(1.0)
        assert play.pace(play.fails(status=201, retry_after=3.0)) == Wait(3.0)
        assert play.report.attempts[-1].status == 201


class TestLimits:
    """Where a call ends that would have gone on."""

    @pytest.mark.parametrize(
        ("step", "gave_up", "asked"),
        [
            ({"tries": 1}, GaveUp.ATTEMPTS, None),
            ({"total": 1.0}, GaveUp.DEADLINE, None),
            ({}, GaveUp.RETRY_AFTER, 61.0),
            ({"total": 5.0}, GaveUp.RETRY_AFTER, 10.0),
            ({"retry": False}, GaveUp.RETRY_OFF, None),
        ],
    )
    def test_the_report_says_which_limit_it_was(
        self, step: dict[str, Any], gave_up: GaveUp, asked: float | None
    ) -> None:
        """One of attempts, deadline, retry_after and retry_off, with what the server asked for."""
        play = Play(**step)

        ending = play.answers(V.TRANSIENT, retry_after=asked)
        if isinstance(ending, Again):
            ending = play.pace(ending)

        assert told(ending) == "OutcomeUnknown unknown"
        assert play.report.gave_up is gave_up
        assert play.report.retry_after == asked

    def test_without_a_total_timeout_nothing_is_left_to_run_out(self) -> None:
        """`None` is no limit."""
        play = Play(total=None)

        assert play.exchange.remaining(1e6) is None
        assert play.pace(play.fails(), 1e6) == Wait(1e6)

    def test_polls_are_no_network_attempts(self) -> None:
        """A server slower than the attempts last (BR-39): polls have a count of their own, the deadline bounds both."""
        play = Play(tries=2)
        play.loses()
        for _ in range(20):
            assert isinstance(play.pace(play.answers(V.IN_PROGRESS)), Wait)

        assert (play.exchange.tries, play.exchange.polls) == (2, 19)
        assert told(play.answers(V.OK, replayed=True)) == "return executed"
        assert [attempt.kind for attempt in play.report.attempts] == [Kind.FIRST, Kind.RETRY, *[Kind.POLL] * 20]

    def test_a_poll_that_fails_goes_on_as_a_network_attempt(self) -> None:
        """After polls, a lost answer is counted by `stop` again."""
        play = Play(tries=2)
        play.pace(play.answers(V.IN_PROGRESS))
        play.pace(play.fails())

        assert (play.exchange.tries, play.exchange.polls) == (1, 1)
        play.pace(play.fails())
        assert play.exchange.tries == 2
        assert play.report.gave_up is GaveUp.ATTEMPTS

    def test_polls_end_at_the_deadline(self) -> None:
        """Then the server was still at it."""
        play = Play(total=3.0)
        step = play.pace(play.answers(V.IN_PROGRESS))
        while isinstance(step, Wait):
            step = play.pace(play.answers(V.IN_PROGRESS))

        assert told(step) == "StillInProgress unknown"
        assert play.report.gave_up is GaveUp.DEADLINE

    @pytest.mark.parametrize(
        ("lost", "ending"), [(0, "return rejected"), (1, "OutcomeUnknown unknown")], ids=["empty", "something open"]
    )
    def test_a_bare_conflict_is_asked_about_at_most_five_times(self, lost: int, ending: str) -> None:
        """It may be a copy of our own request that is still running (BR-25, decided by the design)."""
        play = Play()
        for _ in range(lost):
            play.loses()
        step = play.pace(play.answers(V.CONFLICT, empty=True))
        while isinstance(step, Wait):
            step = play.pace(play.answers(V.CONFLICT, empty=True))

        assert told(step) == ending
        assert play.exchange.polls == MAX_CONFLICT_POLLS == 5
        assert play.report.gave_up is GaveUp.ATTEMPTS

    def test_with_retries_off_one_attempt_is_made_and_judged(self) -> None:
        """The key is sent all the same, and the outcome is what one attempt tells."""
        for failure, ending in ((F.NEVER_SENT, "NotSent not_sent"), (F.UNKNOWN, "OutcomeUnknown unknown")):
            play = Play(retry=False)

            assert told(play.fails(failure)) == ending
            assert play.report.gave_up is GaveUp.RETRY_OFF

        play = Play(retry=False)
        assert told(play.answers(V.OK)) == "return executed"
        assert play.report.gave_up is None

    def test_a_body_that_cannot_be_sent_again_is_sent_once(self) -> None:
        """No limit was reached: there was nothing left to send."""
        play = Play(replayable=False)

        assert told(play.fails()) == "OutcomeUnknown unknown"
        assert play.report.gave_up is None


class TestOutcome:
    """Folded over all attempts, those of earlier calls included."""

    def test_not_sent_only_if_every_attempt_ended_at_the_door(self) -> None:
        """Failed before sending, or turned away by 401, 407, 429, 307 or 308."""
        play = Play(tries=2)
        play.pace(play.answers(V.RATE_LIMITED, 429))

        assert told(play.pace(play.fails(F.NEVER_SENT))) == "NotSent not_sent"

    @pytest.mark.parametrize(("verdict", "status"), [(V.CONFLICT, 409), (V.RATE_LIMITED, 425), (V.TRANSIENT, 503)])
    def test_an_answer_from_behind_the_door_spoils_not_sent(self, verdict: Verdict, status: int) -> None:
        """A connect error after it proves nothing any longer."""
        play = Play(tries=2)
        play.pace(play.answers(verdict, status, empty=True))
        play.pace(play.fails(F.NEVER_SENT))

        assert told(play.pace(play.fails(F.NEVER_SENT))) == "OutcomeUnknown unknown"
        assert play.report.outcome is Outcome.UNKNOWN

    def test_a_key_the_caller_gave_is_never_reported_as_not_sent(self) -> None:
        """Another process may have sent it."""
        assert told(Play(given(), retry=False).fails(F.NEVER_SENT)) == "OutcomeUnknown unknown"

    def test_freshness_is_judged_at_the_end(self) -> None:
        """Another call of the operation that reached the server meanwhile makes the key used."""
        state = made()
        first, second = Play(state, tries=1), Play(state)
        first.send()
        assert state.fresh(first.exchange.number)
        second.send()
        second.answer(V.REFUSED)

        assert not state.fresh(first.exchange.number)
        assert told(first.pace(first.fail(F.NEVER_SENT))) == "OutcomeUnknown unknown"

    def test_a_call_that_never_left_leaves_the_key_fresh(self) -> None:
        """Nothing of it reached the server, so the next call may say "not sent" again, and the age starts with it."""
        state = made()
        first = Play(state, retry=False)
        assert told(first.fails(F.NEVER_SENT)) == "NotSent not_sent"
        assert state.age(1e9, 1e12) == 0.0
        assert state.outcome() is Outcome.NOT_SENT

        second = Play(state, retry=False)
        assert told(second.fails(F.PERMANENT)) == "NotSent not_sent"

        third = Play(state)
        third.answers(V.REFUSED, 404, facts=AT_THE_DOOR)
        assert state.first_sent == (100.0, 1e9 + 100.0)
        assert third.report.outcome is Outcome.REJECTED

    def test_a_call_that_never_left_takes_no_other_call_with_it(self) -> None:
        """While another one is on its way, the key stays used and as old as it is."""
        state = made()
        first, second = Play(state), Play(state, retry=False)
        first.send()
        second.now += 5.0
        second.fails(F.NEVER_SENT)

        assert state.reached == {first.exchange.number}
        assert state.first_sent == (100.0, 1e9 + 100.0)

    def test_executed_sticks(self) -> None:
        """A repeat that gets no answer raises, and its report says what is known."""
        state = made()
        Play(state).answers(V.OK)
        repeat = Play(state, retry=False)

        assert told(repeat.fails()) == "OutcomeUnknown unknown"
        assert repeat.report.outcome is Outcome.EXECUTED
        assert state.outcome() is Outcome.EXECUTED

        refused = Play(state)
        refused.answers(V.REFUSED, 404, facts=AT_THE_DOOR)
        assert refused.report.outcome is Outcome.EXECUTED

    def test_a_lost_answer_and_a_refusal_at_the_door_are_no_refusal(self) -> None:
        """401, 403, 404, 422, 429 and 503 on the retry say nothing of the lost attempt."""
        for verdict, status in (
            (V.CHALLENGE, 401),
            (V.REFUSED, 403),
            (V.REFUSED, 404),
            (V.REFUSED, 422),
            (V.RATE_LIMITED, 429),
            (V.TRANSIENT, 503),
        ):
            play = Play(tries=2)
            play.loses()
            step = play.answers(verdict, status, facts=AT_THE_DOOR)
            step = play.pace(step) if isinstance(step, Again) else step

            assert told(step) in ("OutcomeUnknown unknown", "return unknown"), status
            assert play.report.outcome is Outcome.UNKNOWN
            assert play.state.open

    def test_a_refusal_behind_the_lookup_settles_what_is_open(self) -> None:
        """Nothing is left to doubt afterwards."""
        play = Play()
        play.loses()

        assert told(play.answers(V.REFUSED, 402)) == "return rejected"
        assert not play.state.open

    def test_a_definitive_answer_settles_what_has_ended_and_leaves_what_runs(self) -> None:
        """An attempt in flight will end by itself."""
        state = made()
        lost, runs, answered = Play(state, retry=False), Play(state), Play(state)
        lost.fails()
        runs.send()
        answered.answers(V.OK)

        assert list(state.open.values()) == [""]
        runs.answer(V.OK, replayed=True)
        assert not state.open

    def test_a_bare_conflict_beside_an_attempt_in_flight_is_polled(self) -> None:
        """The other attempt may be what it collides with."""
        state = made()
        first, second = Play(state), Play(state)
        first.send()

        step = second.answers(V.CONFLICT)

        assert isinstance(step, Again)
        assert step.poll
        assert second.report.attempts[-1].open

    def test_a_mismatch_beside_an_own_open_attempt_is_no_mismatch(self) -> None:
        """The key was claimed by these very bytes."""
        play = Play()
        play.loses()
        step = play.answers(V.MISMATCH)

        assert told(step) == "OutcomeUnknown unknown"
        assert play.state.open

    def test_the_newest_open_attempt_that_ended_names_the_situation(self) -> None:
        """A status answer is an HTTPStatusError, a cancellation a TransportError; what still runs has no name."""
        play = Play()
        assert play.state.last_open() == ""
        play.pace(play.fails(F.UNKNOWN, "ReadTimeout"))
        play.pace(play.fails(F.UNKNOWN, "WriteError"))
        assert play.state.last_open() == "WriteError"
        play.pace(play.answers(V.TRANSIENT))
        assert play.state.last_open() == "HTTPStatusError"
        play.send()
        assert play.state.last_open() == "HTTPStatusError"
        assert told(play.fail(F.CANCELLED)) == "as it is unknown"
        assert play.state.last_open() == "TransportError"

    def test_an_exception_nobody_foresaw_is_raised_as_it_is_and_leaves_the_attempt_open(self) -> None:
        """It may have come after the request had left."""
        play = Play()

        assert told(play.fails(F.UNFORESEEN)) == "as it is unknown"
        assert play.state.last_open() == "TransportError"
        assert play.report.outcome is Outcome.UNKNOWN

    def test_an_answer_that_breaks_off_in_the_caller_s_hands_is_open_again(self) -> None:
        """That it was executed stays known."""
        play = Play()
        play.answers(V.OK)
        play.exchange.reopen("ReadError")

        assert play.state.last_open() == "ReadError"
        assert play.report.outcome is Outcome.EXECUTED

    def test_a_call_broken_off_between_two_attempts_reports_what_the_key_knows(self) -> None:
        """Cancelled while waiting: there is no ending, but there is an outcome."""
        lost = Play()
        lost.loses()
        assert lost.report.outcome is Outcome.UNKNOWN

        unsent = Play()
        unsent.pace(unsent.fails(F.NEVER_SENT))
        assert unsent.report.outcome is Outcome.NOT_SENT

        assert Play(given()).report.outcome is Outcome.UNKNOWN

    def test_a_server_that_ignores_keys_gets_no_repeat_of_a_lost_attempt(self) -> None:
        """It said so with the 401; the leg that follows is not repeated once it may have been executed."""
        play = Play()
        play.answers(V.CHALLENGE, supported=False)
        play.follows()

        assert told(play.fails()) == "OutcomeUnknown unknown"
        assert play.report.supported is False


class TestUnkeyed:
    """Requests that carry no key."""

    @pytest.mark.parametrize("status", [404, 412])
    @pytest.mark.parametrize("first", ["lost", "broken"])
    def test_a_delete_that_finds_nothing_after_an_open_attempt_is_unknown(self, status: int, first: str) -> None:
        """The first attempt may be why there is nothing left, whether its answer was lost or a 503."""
        play = Play(made(""), keyed=False, repeatable=True)
        play.pace(play.fails() if first == "lost" else play.answers(V.TRANSIENT))

        assert told(play.answers(V.REFUSED, status)) == "return unknown"
        assert play.report.attempts[0].open
        assert play.report.key is None

    def test_a_delete_that_finds_nothing_at_first_is_refused(self) -> None:
        """Nothing happened before."""
        assert told(Play(made(""), keyed=False, repeatable=True).answers(V.REFUSED, 404)) == "return rejected"

    def test_a_success_settles_it(self) -> None:
        """A PUT that broke and then succeeded is executed."""
        play = Play(made(""), keyed=False, repeatable=True)
        play.pace(play.answers(V.TRANSIENT))

        assert told(play.answers(V.OK, 204)) == "return executed"
        assert not play.state.open

    def test_a_post_is_repeated_only_if_it_was_never_sent(self) -> None:
        """The same POST without a key must not arrive twice."""
        play = Play(made(""), keyed=False)
        assert isinstance(play.pace(play.fails(F.NEVER_SENT)), Wait)

        assert told(play.fails()) == "OutcomeUnknown unknown"
        assert told(Play(made(""), keyed=False).answers(V.TRANSIENT)) == "return unknown"


class TestNextLeg:
    """What httpx sends by itself after a returned 401, 407 or redirect."""

    @pytest.mark.parametrize(("verdict", "status"), [(V.CHALLENGE, 401), (V.CHALLENGE, 407), (V.REDIRECT, 307)])
    def test_it_is_the_same_call(self, verdict: Verdict, status: int) -> None:
        """Attempts and freshness go on, the total time starts again."""
        play = Play(total=10.0)
        play.send(takes=8.0)
        assert told(play.answer(verdict, status)) == "return rejected"
        play.follows()

        assert play.exchange.remaining(play.now) == 10.0
        assert play.report.outcome is Outcome.UNKNOWN
        assert play.state.fresh(play.exchange.number)
        assert told(play.answers(V.OK)) == "return executed"
        attempts = play.report.attempts
        assert [(attempt.number, attempt.kind) for attempt in attempts] == [(1, Kind.FIRST), (2, Kind.FOLLOW_UP)]
        assert play.report.elapsed == 8.5

    def test_its_connect_failure_is_still_not_sent(self) -> None:
        """Turned away, then not reached: nothing can have been executed."""
        play = Play(tries=2)
        play.answers(V.CHALLENGE)
        play.follows()

        assert told(play.pace(play.fails(F.NEVER_SENT))) == "NotSent not_sent"

    def test_its_lost_answer_is_unknown(self) -> None:
        """The second leg may have been executed."""
        play = Play(tries=2)
        play.answers(V.REDIRECT)
        play.follows()

        assert told(play.pace(play.fails())) == "OutcomeUnknown unknown"

    def test_a_challenge_after_a_lost_attempt_is_unknown_until_the_next_leg_is_answered(self) -> None:
        """A token that expired between two attempts (BR-48)."""
        play = Play()
        play.loses()
        assert told(play.answers(V.CHALLENGE)) == "return unknown"
        play.follows()

        assert told(play.answers(V.OK, replayed=True)) == "return executed"

    def test_the_limit_of_the_leg_before_is_forgotten(self) -> None:
        """A new leg has not given up, and nobody has asked it to wait."""
        play = Play(retry=False)
        play.answers(V.RATE_LIMITED, retry_after=2.0)
        assert play.report.gave_up is GaveUp.RETRY_OFF
        play.follows()

        report = play.report
        assert (report.gave_up, report.retry_after) == (None, None)

    @pytest.mark.parametrize(
        ("verdict", "status", "outcome"), [(V.OK, 303, Outcome.EXECUTED), (V.MOVED, 302, Outcome.UNKNOWN)]
    )
    def test_the_get_after_a_redirect_goes_without_a_key(self, verdict: Verdict, status: int, outcome: Outcome) -> None:
        """The outcome of the operation stands, whatever becomes of the GET."""
        play = Play()
        operation = play.state
        play.answers(verdict, status, replayed=True)
        play.exchange.without_key()
        play.follows()

        assert play.report.outcome is outcome
        assert isinstance(play.pace(play.answers(V.TRANSIENT)), Wait)
        assert told(play.answers(V.REFUSED, 404)) == "return unknown"
        report = play.report
        assert (report.key, report.outcome, report.replayed) == (operation.key, outcome, True)
        assert len(report.attempts) == 3
        assert not operation.open

    def test_a_hop_that_is_refused_was_not_sent(self) -> None:
        """Unless something is open, or the key may have been used before."""
        turned_away = Play()
        turned_away.answers(V.REDIRECT)
        assert told(turned_away.exchange.refuse_hop()) == "NotSent not_sent"

        lost = Play()
        lost.loses()
        lost.answers(V.REDIRECT)
        assert told(lost.exchange.refuse_hop()) == "OutcomeUnknown unknown"

        used = Play(given())
        used.answers(V.REDIRECT)
        assert told(used.exchange.refuse_hop()) == "OutcomeUnknown unknown"
        assert used.report.outcome is Outcome.UNKNOWN


HOUR = 3600.0
DAY = 24 * HOUR


class TestAge:
    """A key that the server may have forgotten is never sent again (BR-72)."""

    def age(self, play: Play, monotonic: float, wall: float) -> float:
        """The age by clocks that stand so many seconds after the first send."""
        assert play.state.first_sent is not None
        return play.state.age(play.state.first_sent[0] + monotonic, play.state.first_sent[1] + wall)

    @pytest.mark.parametrize(
        ("monotonic", "wall", "expired"),
        [
            (23 * HOUR, 23 * HOUR, False),
            (25 * HOUR, 25 * HOUR, True),
            (DAY, DAY, False),
            # The wall clock was set back, or the monotonic one stood still while the machine slept.
            (25 * HOUR, -HOUR, True),
            (0.0, 25 * HOUR, True),
            (HOUR, -HOUR, False),
        ],
    )
    def test_it_expires_by_the_clock_that_says_more(self, monotonic: float, wall: float, expired: bool) -> None:
        """23 hours are sent, 25 are refused, whichever clock has failed."""
        play = Play()
        play.loses()

        step = play.exchange.check_age(DAY, self.age(play, monotonic, wall))

        assert (step is not None) is expired
        if step is not None:
            assert told(step) == "KeyExpired unknown"
            assert play.report.outcome is Outcome.UNKNOWN
            assert play.state.open

    def test_a_key_that_was_never_sent_has_no_age(self) -> None:
        """Both clocks may have moved while it was waiting."""
        play = Play()
        play.pace(play.fails(F.NEVER_SENT))

        assert play.state.age(1e9, 1e12) == 0.0

    def test_clocks_that_went_back_make_no_negative_age(self) -> None:
        """An age is zero or more."""
        play = Play()
        play.send()

        assert self.age(play, -5.0, -5.0) == 0.0

    def test_without_a_limit_or_a_key_nothing_expires(self) -> None:
        """The retention is unknown, or there is no key to forget."""
        assert Play().exchange.check_age(None, 1e9) is None
        assert Play(made(""), keyed=False, repeatable=True).exchange.check_age(1.0, 1e9) is None

    def test_what_was_executed_stays_executed(self) -> None:
        """The repeat is refused all the same: the server would do it again."""
        state = made()
        Play(state).answers(V.OK)
        repeat = Play(state)

        step = repeat.exchange.check_age(DAY, 2 * DAY)

        assert step is not None
        assert told(step) == "KeyExpired unknown"
        assert repeat.report.outcome is Outcome.EXECUTED


class TestReport:
    """What the report of a call holds."""

    def test_everything_is_told(self) -> None:
        """Key, attempts with their times, limit, outcome."""
        play = Play(tries=2)
        play.send(takes=0.25)
        play.pace(play.fail(F.UNKNOWN, "ReadTimeout"), 2.0)
        play.send(takes=0.75)
        play.pace(play.answer(V.TRANSIENT, 502, retry_after=1.5))

        report = play.report
        assert (report.key, report.name, report.outcome) == ("key-1", None, Outcome.UNKNOWN)
        assert (report.replayed, report.supported, report.source, report.recorded) == (None, None, "network", None)
        assert (report.gave_up, report.retry_after, report.elapsed) == (GaveUp.ATTEMPTS, 1.5, 3.0)
        first, second = report.attempts
        assert (first.number, first.kind, first.started, first.elapsed, first.open) == (1, Kind.FIRST, 0.0, 0.25, True)
        assert (first.status, first.verdict, first.failure) == (None, None, F.UNKNOWN)
        assert (first.error, first.message) == ("ReadTimeout", "it broke")
        assert (second.number, second.kind, second.started, second.elapsed) == (2, Kind.RETRY, 2.25, 0.75)
        assert (second.status, second.verdict, second.failure, second.error) == (502, V.TRANSIENT, None, None)
        assert second.open

    def test_an_earlier_call_of_the_operation_is_known_to_the_attempt(self) -> None:
        """`repeat` tells the classifier that the server may know the key."""
        state = made()
        first, second = Play(state), Play(state)
        first.send()
        assert not first.exchange.repeat
        second.send()
        assert second.exchange.repeat
        assert second.exchange.running in state.open

    def test_a_clock_that_went_back_makes_no_negative_time(self) -> None:
        """`elapsed` is zero or more."""
        assert Play().exchange.report(0.0).elapsed == 0.0
