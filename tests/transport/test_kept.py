"""What is kept of earlier answers and forms, and what is not."""

from __future__ import annotations

import gzip

import httpx
import pytest

import samekey
from samekey import _memory
from samekey._memory import Memory
from samekey._state import KeyState
from samekey.testing import LedgerServer, faults, no_waiting


def test_the_answer_of_the_open_attempt_is_shown() -> None:
    """A 503, then no connection any more: the error is the status error of the 503, and has it."""
    server = LedgerServer()
    server.script(faults.status(503, json={"why": "down"}), *[faults.refuse()] * 4)
    with no_waiting(), samekey.wrap(httpx.Client(transport=server.transport(), base_url="http://test")) as client:
        with pytest.raises(samekey.OutcomeUnknown) as caught:
            client.post("/", json={})

        assert isinstance(caught.value, httpx.HTTPStatusError)
        assert caught.value.response.json() == {"why": "down"}
        server.script(*[faults.refuse()] * 5)
        with samekey.operation(key=caught.value.key), pytest.raises(samekey.OutcomeUnknown) as again:
            client.post("/", json={})

    assert not isinstance(again.value, httpx.HTTPStatusError)  # of this call there is no answer to show
    assert isinstance(again.value, httpx.TransportError)


def test_forms_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest give way; their bytes are built anew then, and may differ."""
    monkeypatch.setattr(_memory, "MAX_SNAPSHOT_BYTES", 10)
    memory = Memory()
    states = [KeyState(key, made_here=True) for key in "abc"]
    for state in states:
        state.snapshot = ("multipart/form-data", b"123456")
        memory.keep_snapshot(state)

    assert [(state.snapshot is None, state.same_bytes) for state in states] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("encoding", "body", "kept"),
    [
        ("gzip", gzip.compress(b'{"why": "down"}'), '{"why": "down"}'),
        ("gzip, gzip", gzip.compress(gzip.compress(b"down")), None),
        ("gzip", b"no gzip at all", "no gzip at all"),
        ("gzip", gzip.compress(b"x" * 5_000_000), "x" * 1024 * 1024),
    ],
    ids=["decoded", "encoded twice", "broken", "long"],
)
def test_the_body_of_an_error(encoding: str, body: bytes, kept: str | None) -> None:
    """It is decoded as far as that is safe; a small body never becomes a huge one."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(503, headers={"Content-Encoding": encoding}, stream=httpx.ByteStream(body))

    class Network(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return answer(request)

    with (
        no_waiting(),
        samekey.wrap(httpx.Client(transport=Network(), base_url="http://test")) as client,
        pytest.raises(samekey.OutcomeUnknown) as caught,
    ):
        client.post("/", json={})

    text = caught.value.response.text
    assert len(text) < 2 * 1024 * 1024
    assert kept is None or text.startswith(kept)
    assert "content-encoding" not in caught.value.response.headers


def test_a_request_of_one_client_in_an_operation_of_another() -> None:
    """The key stands for other bytes there: this request does not go out inside that operation."""
    here, there = LedgerServer(), LedgerServer()
    with (
        samekey.wrap(httpx.Client(transport=here.transport(), base_url="http://here")) as one,
        samekey.wrap(httpx.Client(transport=there.transport(), base_url="http://there")) as other,
    ):
        request = one.build_request("POST", "/", json={"amount": 1}, extensions=samekey.options(key="k-1"))
        one.send(request)
        with samekey.operation(key="k-1"):
            other.post("/", json={"amount": 2})
            with pytest.raises(samekey.KeyMismatch):
                one.send(request)

    assert (len(here.requests), len(there.requests)) == (1, 1)
