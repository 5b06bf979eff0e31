"""`report()` and `is_replayed()`: what a call tells afterwards, and of what."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import httpx
import httpx2
import pytest

import samekey
from samekey._model import Answer, GaveUp, Kind, Outcome, Verdict
from samekey._report import CALL, Attempt, Report
from samekey._trail import Told
from tests.core.playing import Play

KEY = "alice@example.test-1"
KNOWN = Report(KEY, None, Outcome.EXECUTED, replayed=True)


class Teller:
    """Makes the report when asked, and counts."""

    def __init__(self, found: Report | None = KNOWN) -> None:
        self.found = found

    def report(self) -> Report | None:
        return self.found


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
class TestWhereItIsFound:
    """On anything a samekey request ended in."""

    def test_on_a_response(self, library: Any) -> None:
        """In its extensions."""
        assert samekey.report(library.Response(200, extensions={"samekey": Teller()})) is KNOWN

    def test_on_a_status_error(self, library: Any) -> None:
        """`raise_for_status` of an ordinary refusal."""
        request = library.Request("POST", "https://h/")
        response = library.Response(402, request=request, extensions={"samekey": Teller()})
        with pytest.raises(library.HTTPStatusError) as error:
            response.raise_for_status()
        assert samekey.report(error.value) is KNOWN

    def test_on_samekey_s_errors(self, library: Any) -> None:
        """As their attribute, in another process too."""
        error = samekey.errors.paired("OutcomeUnknown", library.__name__, "ReadTimeout")("it broke", report=KNOWN)

        assert samekey.report(error) is KNOWN
        assert samekey.report(pickle.loads(pickle.dumps(error))) == KNOWN

    def test_on_an_exception_raised_as_it_is(self, library: Any) -> None:
        """Noted on it, whatever it is."""
        error: Any = ZeroDivisionError()
        error.samekey_report = KNOWN

        assert samekey.report(error) is KNOWN

    def test_on_an_error_that_httpx_itself_raised(self, library: Any) -> None:
        """Such as TooManyRedirects or a broken encoding: its request knows the call."""
        request = library.Request("POST", "https://h/", extensions={CALL: Teller()})

        assert samekey.report(library.TooManyRedirects("too many", request=request)) is KNOWN
        assert samekey.report(library.Response(200, request=request)) is KNOWN
        assert samekey.report(library.DecodingError("broken", request=request)) is KNOWN

    def test_nowhere_else(self, library: Any) -> None:
        """A response or error that is none of samekey's has no report."""
        request = library.Request("POST", "https://h/", extensions=samekey.options(key="k"))
        for thing in (
            library.Response(200),
            library.Response(200, request=request),
            library.ReadTimeout("slow"),
            library.ReadTimeout("slow", request=request),
            samekey.NotSent("it broke"),
            request,
            ValueError(),
            None,
            "text",
        ):
            assert samekey.report(thing) is None
            assert not samekey.is_replayed(thing)


@pytest.mark.parametrize(("replayed", "expected"), [(True, True), (False, False), (None, False)])
def test_replayed_only_if_the_server_marked_it(replayed: bool | None, expected: bool) -> None:
    """Silence is no mark."""
    found = Report(KEY, None, Outcome.EXECUTED, replayed=replayed)

    assert samekey.is_replayed(httpx.Response(200, extensions={"samekey": Teller(found)})) is expected


def test_a_call_that_has_not_ended_has_no_report() -> None:
    """The extensions know of it, but there is nothing to tell."""
    assert samekey.report(SimpleNamespace(extensions={"samekey": Teller(None)})) is None


def test_the_repr_shows_no_key() -> None:
    """BR-66: a digest, and what people look for first."""
    found = Report(
        KEY, "order-7", Outcome.UNKNOWN, attempts=(Attempt(1, Kind.FIRST, 0.0, 0.1),), gave_up=GaveUp.DEADLINE
    )

    assert KEY not in repr(found)
    assert repr(found).startswith("Report(key=<")
    assert repr(found).endswith("outcome='unknown', replayed=None, attempts=1, gave_up='deadline')")
    assert repr(Report(None, None, Outcome.REJECTED)) == (
        "Report(key=None, name=None, outcome='rejected', replayed=None, attempts=0)"
    )


def test_reports_compare_with_plain_words() -> None:
    """The enumerations are strings, so nobody has to import them."""
    assert KNOWN.outcome == "executed"
    assert str(GaveUp.RETRY_AFTER) == "retry_after"
    assert pickle.loads(pickle.dumps(KNOWN)) == KNOWN


def test_a_report_is_made_when_it_is_asked_for_and_once() -> None:
    """Its elapsed time is that of the end of the call."""
    play = Play()
    play.answers(Verdict.OK)
    told = Told(play.exchange, play.now)
    play.now += 100.0

    assert told.report().elapsed == 0.5
    assert told.report() is told.report()


def test_the_first_line_of_a_header_counts() -> None:
    """An answer's headers are looked up by lower-case name."""
    answer = Answer(200, (("x-name", "a"), ("x-name", "b")))

    assert (answer.header("x-name"), answer.header("x-other")) == ("a", None)
