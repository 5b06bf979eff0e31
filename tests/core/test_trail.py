"""What a request remembers of its call, so that redirects, auth legs and repeats belong to its operation."""

from __future__ import annotations

import httpx
import pytest

from samekey._keys import fingerprint
from samekey._model import Verdict
from samekey._trail import Told, Trail
from tests.core.playing import Play

ORIGIN = (b"https", b"api.example.com", None)


def trail(body: bytes = b'{"amount": 4900}', path: bytes = b"/v1/charges", **headers: str) -> Trail:
    """That of one request."""
    made = Trail(Play().exchange, "POST", ORIGIN, path, automatic=True)
    made.body = httpx.ByteStream(body)
    made.headers = httpx.Headers({name.replace("_", "-"): value for name, value in headers.items()})
    return made


def test_the_fingerprint_is_that_of_the_caller_s_request() -> None:
    """Method, URL and body; made once, whatever happens to the request afterwards."""
    first = trail()
    url = (b"https", b"api.example.com", b"0", b"/v1/charges")

    assert first.fingerprint == fingerprint("POST", url, b'{"amount": 4900}', "")
    first.body = httpx.ByteStream(b"other")
    assert first.fingerprint == trail().fingerprint


def test_another_path_or_body_is_another_request() -> None:
    """And a header is not, unless the dialect says that it chooses an account."""
    same = trail(authorization="Bearer 1", x_account="a")
    other = trail(x_account="b")
    assert same.fingerprint == other.fingerprint == trail().fingerprint
    assert len({trail().fingerprint, trail(path=b"/v1/refunds").fingerprint, trail(b"{}").fingerprint}) == 3

    scoped = [trail(x_account="a"), trail(x_account="b"), trail()]
    for one in scoped:
        one.scope_headers = ("X-Account",)
    assert len({one.fingerprint for one in scoped}) == 3


@pytest.mark.parametrize(
    ("content_type", "expected"), [("multipart/form-data; boundary=B", True), ("application/json", False), ("", False)]
)
def test_a_form_is_rebuilt_differently(content_type: str, expected: bool) -> None:
    """Its boundary is drawn anew each time."""
    assert trail(content_type=content_type).rebuilt_differently is expected
    assert trail(content_type=content_type).content_type == content_type


def test_a_body_that_was_not_kept_equals_no_other() -> None:
    """It is longer than may be kept, so nobody can compare it; with itself it is equal."""
    first, second = trail(), trail()
    first.replayable = second.replayable = False

    assert first.fingerprint == first.fingerprint
    assert len({first.fingerprint, second.fingerprint, trail().fingerprint}) == 3


def test_it_reports_what_the_call_has_told() -> None:
    """Nothing before the call has ended."""
    made = trail()
    assert made.report() is None

    play = Play()
    play.answers(Verdict.OK)
    made.told = Told(play.exchange, play.now)
    assert made.report() is made.told.report()
    assert made.report() == play.report
