"""The errors: their tree, their pairing with the HTTP libraries, and their travels."""

from __future__ import annotations

import copy
import gzip
import json
import pickle
import subprocess
import sys
import textwrap
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

import samekey
from samekey import errors
from samekey._model import Failure, Kind, Outcome, Verdict
from samekey._report import Attempt, Report
from samekey.errors import KINDS, IdempotencyError, paired

PARENTS = {
    "IdempotencyError": "Exception",
    "KeyMismatch": "IdempotencyError",
    "OutcomeUnknown": "IdempotencyError",
    "StillInProgress": "OutcomeUnknown",
    "KeyExpired": "OutcomeUnknown",
    "NotSent": "IdempotencyError",
    "AlreadyExecuted": "IdempotencyError",
    "KeySpent": "IdempotencyError",
    "KeyNotAccepted": "IdempotencyError",
    "JournalError": "IdempotencyError",
}
LIBRARIES = [httpx, httpx2]
SITUATIONS = [
    "RequestError", "TransportError", "ReadTimeout", "WriteError", "RemoteProtocolError", "ConnectError", "PoolTimeout",
    "HTTPStatusError",
]  # fmt: skip
KEY = "alice@example.test-1"
REPORT = Report(
    KEY,
    "order-7",
    Outcome.UNKNOWN,
    attempts=(
        Attempt(1, Kind.FIRST, 0.0, 0.5, failure=Failure.UNKNOWN, error="ReadTimeout", message="", open=True),
        Attempt(2, Kind.RETRY, 1.0, 0.5, status=503, verdict=Verdict.TRANSIENT, open=True),
    ),
)


def test_the_tree() -> None:
    """That of the documentation, all of it public."""
    assert {name: kind.__mro__[1].__name__ for name, kind in KINDS.items()} == PARENTS
    assert all(getattr(samekey, name) is kind for name, kind in KINDS.items())


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", PARENTS)
def test_each_pair_is_both(kind: str, situation: str, library: ModuleType) -> None:
    """An `except` clause of either library's class and one of samekey's both catch it; the class is made once."""
    made = paired(kind, library.__name__, situation)
    error = made("it broke", key=KEY)

    assert isinstance(error, getattr(samekey, kind))
    assert isinstance(error, getattr(library, situation))
    assert made is paired(kind, library.__name__, situation)
    assert (made.__name__, made.__qualname__, made.__module__) == (kind, kind, "samekey.errors")
    assert made.__doc__ == KINDS[kind].__doc__
    assert (error.key, error.name, error.report, error.request, error.response) == (KEY, None, None, None, None)
    assert str(error) == "it broke"


def test_without_a_library_it_is_samekey_s_own() -> None:
    """Nothing to pair it with."""
    assert paired("NotSent", "", "") is samekey.NotSent


def test_the_two_libraries_do_not_mix() -> None:
    """Each has its own pairs."""
    error: object = paired("OutcomeUnknown", "httpx2", "ReadTimeout")("it broke")

    assert issubclass(type(error), httpx2.ReadTimeout)
    assert not isinstance(error, httpx.ReadTimeout)


def made(library: Any, kind: str = "OutcomeUnknown", situation: str = "HTTPStatusError") -> IdempotencyError:
    """An error with everything on it."""
    request = library.Request(
        "POST",
        "https://alice:open-sesame@api.example.com/v1/charges?a=%20b",
        headers={
            "Authorization": "Bearer open-sesame",
            "Cookie": "session=open-sesame",
            "Proxy-Authorization": "open-sesame",
            "X-Name": "plain",
            "Content-Type": "application/json",
        },
        content=b'{"amount": 4900}',
        extensions={"trace": lambda *_: None},
    )
    response = library.Response(
        503,
        headers=[
            (b"Content-Encoding", b"gzip"),
            (b"Set-Cookie", b"session=open-sesame"),
            (b"X-Name", "café".encode("latin-1")),
            (b"X-Twice", b"1"),
            (b"X-Twice", b"2"),
        ],
        content=gzip.compress(b"out of order"),
        request=request,
    )
    error = paired(kind, library.__name__, situation)(
        "it broke", key=KEY, name="order-7", report=REPORT, request=request, response=response
    )
    error.__cause__ = library.ReadTimeout("slow", request=request)
    return error


def looked_at(error: Any) -> dict[str, Any]:
    """Everything about an error that should survive."""
    request, response = error.request, error.response
    options = request.extensions["samekey"]
    return {
        "classes": sorted(f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(error).__mro__),
        "text": str(error),
        "key": error.key,
        "name": error.name,
        "outcome": str(error.report.outcome),
        "attempts": [[attempt.number, attempt.error, attempt.status] for attempt in error.report.attempts],
        "request": [request.method, str(request.url), request.content.decode(), dict(request.headers)],
        "resent with": [options.key, sorted(request.extensions)],
        "response": [response.status_code, response.text, response.headers["x-name"]],
        "twice": response.headers.get_list("x-twice"),
        "request of the response": response.request is request,
        "resource": getattr(error, "resource", None),
    }


CHILD = """
import json, pickle, sys
from tests.core.test_errors import looked_at
errors = pickle.load(sys.stdin.buffer)
json.dump([[looked_at(error), looked_at(pickle.loads(pickle.dumps(error)))] for error in errors], sys.stdout)
"""


def test_errors_travel_to_another_process() -> None:
    """BR-64: a job queue takes them, twice; no credential goes with them, and the request can be sent again."""
    sent = [made(library, kind) for library in LIBRARIES for kind in PARENTS]
    for error in sent:
        if isinstance(error, samekey.AlreadyExecuted):
            error.resource = "ch_1"
    packed = pickle.dumps(sent)
    for secret in (b"sesame", b"authorization", b"cookie"):
        assert secret not in packed.lower()

    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD)], input=packed, stdout=subprocess.PIPE, check=True
    )

    for error, (once, twice) in zip(sent, json.loads(child.stdout), strict=True):
        assert once == twice
        assert once["classes"] == sorted(
            f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(error).__mro__
        )
        assert (once["text"], once["key"], once["name"], once["outcome"]) == ("it broke", KEY, "order-7", "unknown")
        assert once["attempts"] == [[1, "ReadTimeout", None], [2, None, 503]]
        method, url, body, headers = once["request"]
        assert (method, url, body) == ("POST", "https://api.example.com/v1/charges?a=%20b", '{"amount": 4900}')
        assert headers == {
            "host": "api.example.com", "x-name": "plain", "content-type": "application/json", "content-length": "16",
        }  # fmt: skip
        assert once["resent with"] == [KEY, ["samekey"]]
        assert once["response"] == [503, "out of order", "café"]
        assert once["twice"] == ["1", "2"]
        assert once["request of the response"]
        assert once["resource"] == ("ch_1" if isinstance(error, samekey.AlreadyExecuted) else None)


def test_the_key_is_what_the_unpickled_request_is_sent_with() -> None:
    """Sent again through a wrapped client, it goes on with the operation."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(201)

    back = pickle.loads(pickle.dumps(made(httpx)))
    with samekey.wrap(httpx.Client(transport=httpx.MockTransport(answer)), origins="*") as client:
        client.send(back.request)

    assert [request.headers["idempotency-key"] for request in seen] == [KEY]
    assert seen[0].content == b'{"amount": 4900}'


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
def test_copies_are_equal(library: ModuleType) -> None:
    """`copy.copy` goes the same way as pickle."""
    error = made(library, "AlreadyExecuted")
    error.resource = "ch_1"  # type: ignore[attr-defined]
    other = copy.copy(error)

    assert type(other) is type(error)
    assert (str(other), other.key, other.report) == ("it broke", KEY, REPORT)
    assert other.resource == "ch_1"  # type: ignore[attr-defined]
    assert other.response.text == "out of order"


def test_bare_errors_travel_too() -> None:
    """Without a key, a request or a response; and those of no library."""
    local = paired("KeyMismatch", "httpx", "RequestError")("it broke")
    unkeyed = paired("OutcomeUnknown", "httpx", "ReadTimeout")("it broke", request=httpx.Request("POST", "https://h/"))
    own = samekey.NotSent("it broke", key=KEY, request=object(), response=object())
    for error in (local, unkeyed, own):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error)
        assert (back.key, back.response) == (error.key, None)

    back = pickle.loads(pickle.dumps(unkeyed))
    assert "samekey" not in back.request.extensions
    assert pickle.loads(pickle.dumps(own)).request is None


def test_a_body_that_was_streamed_is_not_taken_along() -> None:
    """It is gone: sending what is left of the request would send another body, so it fails before a byte leaves."""
    request = httpx.Request("POST", "https://h/", content=iter([b"a", b"b"]))
    back = pickle.loads(pickle.dumps(paired("OutcomeUnknown", "httpx", "ReadError")("it broke", request=request)))

    assert (back.request.method, str(back.request.url)) == ("POST", "https://h/")
    with pytest.raises(ValueError, match="too long to be kept"):
        back.request.read()


def test_what_a_caller_catches_keeps_its_class_attributes() -> None:
    """The class says which library and situation it stands for; an error of no library says neither."""
    assert (IdempotencyError.backend, IdempotencyError.situation) == ("", "")
    pair = paired("OutcomeUnknown", "httpx", "ReadTimeout")
    assert (pair.backend, pair.situation) == ("httpx", "ReadTimeout")
    assert errors.AlreadyExecuted.resource is None


SAFE_TO_REPEAT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Inner(httpx.BaseTransport):
    """Raises or answers one thing after the other."""

    def __init__(self, *steps: Exception | httpx.Response) -> None:
        self.steps = list(steps)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        step = self.steps.pop(0)
        if isinstance(step, httpx.Response):
            return step
        raise step


def caught(*steps: Exception | httpx.Response, **settings: Any) -> IdempotencyError:
    """The error that a keyed call ends in, without waiting."""
    policy = samekey.RetryPolicy(stop=lambda state: state.attempt_number >= len(steps), wait=lambda _: 0.0)
    inner = Inner(*steps)
    with (
        httpx.Client(transport=samekey.IdempotentTransport(inner, policy=policy)) as client,
        pytest.raises(IdempotencyError) as error,
    ):
        client.post("https://api.example.com/v1/charges", json={}, extensions=samekey.options(**settings))
    assert not inner.steps
    return error.value


class TestSituation:
    """Which class of httpx an error also is."""

    @pytest.mark.parametrize("never_sent", SAFE_TO_REPEAT)
    def test_an_unknown_outcome_is_never_a_connect_error(self, never_sent: type[httpx.RequestError]) -> None:
        """Callers treat those as safe to repeat."""
        error = caught(never_sent("no way"), key="used-before")

        assert isinstance(error, samekey.OutcomeUnknown)
        assert issubclass(type(error), httpx.TransportError)
        assert not issubclass(type(error), SAFE_TO_REPEAT)
        assert isinstance(error.__cause__, never_sent)

    @pytest.mark.parametrize("never_sent", SAFE_TO_REPEAT)
    def test_not_sent_is_the_class_of_its_failure(self, never_sent: type[httpx.RequestError]) -> None:
        """Here it is safe to repeat."""
        error = caught(never_sent("no way"), never_sent("no way"))

        assert isinstance(error, samekey.NotSent)
        assert isinstance(error, never_sent)

    def test_the_last_open_attempt_decides(self) -> None:
        """Not the last attempt: a connect error after a timeout says nothing of it."""
        error = caught(httpx.ReadTimeout("slow"), httpx.ConnectError("down"))

        assert isinstance(error, samekey.OutcomeUnknown)
        assert isinstance(error, httpx.ReadTimeout)
        assert not isinstance(error, SAFE_TO_REPEAT)

    def test_a_last_503_is_a_status_error_with_its_response(self) -> None:
        """Old `except httpx.HTTPStatusError` clauses go on working."""
        error = caught(httpx.ReadError("cut"), httpx.Response(503, text="down"))

        assert isinstance(error, samekey.OutcomeUnknown)
        assert isinstance(error, httpx.HTTPStatusError)
        assert (error.response.status_code, error.response.text) == (503, "down")

    def test_no_text_shows_the_key(self) -> None:
        """BR-66: `str` and `repr` of errors, of their causes and of their reports show a digest."""
        for steps in ([httpx.ReadTimeout("slow")], [httpx.Response(503)], [httpx.ConnectError("down")]):
            error = caught(*steps, key=KEY)
            shown = f"{error} {error!r} {error.__cause__!r} {error.report!r}"
            assert KEY not in shown
            assert "alice" not in shown
            assert error.key == KEY
