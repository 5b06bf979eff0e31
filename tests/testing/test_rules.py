"""The rules of the ledger: once per key, replays, refusals; and the settings that change them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import httpx
import pytest

from samekey.testing import LedgerServer, ReceivedRequest, Reply, faults


def send(server: LedgerServer, method: str = "POST", path: str = "/a", *, key: str | None = "k", **more: Any) -> Any:
    headers = {} if key is None else {"Idempotency-Key": key}
    with httpx.Client(transport=server.transport(), base_url="http://test") as client:
        return client.request(method, path, headers=headers, **more)


def test_new_key_is_executed_and_known_key_replayed(server: LedgerServer) -> None:
    """The second answer is the first one with a marker."""
    first, second = send(server, json={"a": 1}), send(server, json={"a": 1})

    assert (first.status_code, first.json()) == (201, {"id": "effect-1", "n": 1})
    assert "Idempotent-Replayed" not in first.headers
    assert (second.status_code, second.json()) == (201, {"id": "effect-1", "n": 1})
    assert second.headers["Idempotent-Replayed"] == "true"
    server.assert_executed_once("k")


@pytest.mark.parametrize(
    "other",
    [{"json": {"a": 2}}, {"path": "/b"}, {"params": {"q": "1"}}, {"method": "PATCH"}],
    ids=["body", "path", "query", "method"],
)
def test_known_key_with_another_request_is_refused(server: LedgerServer, other: dict[str, Any]) -> None:
    """Other bytes, another place or another method under one key: 422, and nothing is executed."""
    send(server, json={"a": 1})

    assert send(server, **({"json": {"a": 1}} | other)).status_code == 422
    server.assert_executed_once()


def test_without_a_key_every_request_is_executed(server: LedgerServer) -> None:
    """Duplicates of clients that send no key are visible."""
    assert [send(server, key=None).json()["n"] for _ in range(3)] == [1, 2, 3]
    server.assert_executed(3)
    assert [effect.key for effect in server.effects] == [None] * 3


@pytest.mark.parametrize(
    ("flavour", "message"),
    [("article-1", "Idempotency-Key header is required"), ("article-2", "Missing Idempotency-Key")],
)
def test_required_key(flavour: Literal["article-1", "article-2"], message: str) -> None:
    """A server that wants keys refuses a POST without one, and asks nothing of a GET."""
    server = LedgerServer(flavour=flavour, require_key=True)

    refused = send(server, key=None)

    assert (refused.status_code, refused.json()) == (400, {"error": message})
    assert send(server, "GET", key=None).status_code == 200
    server.assert_executed(0)


def test_server_that_ignores_keys(server: LedgerServer) -> None:
    """It executes every attempt, whatever key it carries."""
    server = LedgerServer(honours_keys=False)

    assert [send(server).status_code for _ in range(2)] == [201, 201]
    server.assert_executed(2)
    assert server.keys == ["k"]


def test_safe_methods_leave_no_effect(server: LedgerServer) -> None:
    """GET, HEAD and OPTIONS are answered and change nothing."""
    answers = [send(server, method, path="/a?b=1") for method in ("GET", "HEAD", "OPTIONS")]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json() == {"method": "GET", "path": "/a"}
    assert answers[1].content == b""
    assert answers[1].headers["Content-Length"] == str(len('{"method": "HEAD", "path": "/a"}'))
    server.assert_executed(0)


def test_put_is_executed_each_time_unless_named(server: LedgerServer) -> None:
    """Only the chosen methods have their keys looked up."""
    for _ in range(2):
        send(server, "PUT")
    server.assert_executed(2)

    keyed = LedgerServer(methods=["put"])
    for _ in range(2):
        send(keyed, "PUT")
    keyed.assert_executed_once()
    keyed.assert_same_key()


def test_second_article(server: LedgerServer) -> None:
    """The second article's server words its answers in its own way."""
    server = LedgerServer(flavour="article-2")
    send(server, json={"a": 1})

    assert send(server, json={"a": 1}).headers["Idempotent-Replay"] == "true"
    other = send(server, json={"a": 2})
    assert (other.status_code, other.json()) == (409, {"error": "Key reused with different payload"})
    server.script(faults.in_progress())
    running = send(server)
    assert (running.status_code, running.json()) == (202, {"error": "Request already in progress"})
    assert running.headers["Retry-After"] == "1"


def test_in_progress_can_be_set(server: LedgerServer) -> None:
    """Status and hint of "in progress" are a setting of the server, and of the step."""
    server = LedgerServer(flavour="article-2", in_progress_status=409, retry_after=0.5)
    server.script(faults.in_progress(), faults.in_progress(202, retry_after=3))

    answers = [send(server) for _ in range(2)]

    assert [(answer.status_code, answer.headers["Retry-After"]) for answer in answers] == [(409, "0.5"), (202, "3")]
    assert len(answers[0].headers.get_list("Retry-After")) == 1


def test_key_header_can_be_set() -> None:
    """The key is found under another name, in any letter case."""
    server = LedgerServer(key_header="X-Request-Id")
    with httpx.Client(transport=server.transport(), base_url="http://test", headers={"x-request-id": "r"}) as client:
        client.post("/a")
        client.post("/a")

    server.assert_executed_once("r")


def test_two_key_lines_are_one_joined_key(server: LedgerServer) -> None:
    """A doubled header is seen as HTTP reads it, and stays visible in the headers."""
    with httpx.Client(transport=server.transport(), base_url="http://test") as client:
        client.post("/a", headers=[("Idempotency-Key", "a"), ("idempotency-key", "b")])

    assert server.keys == ["a, b"]
    assert [pair for pair in server.requests[0].headers if pair[0].lower() == "idempotency-key"] == [
        ("Idempotency-Key", "a"),
        ("idempotency-key", "b"),
    ]


def test_handler_gives_the_answer() -> None:
    """A user's function answers what is executed: a mapping is JSON, a Reply is itself."""

    def handler(request: ReceivedRequest) -> Reply | Mapping[str, object]:
        if request.method == "GET":
            return {"path": request.path}
        return Reply(202, {"X-Seen": request.header("content-TYPE") or ""}, json.dumps(request.json()).encode())

    server = LedgerServer(handler)
    read, done, again = send(server, "GET"), send(server, json=[1]), send(server, json=[1])

    assert (read.status_code, read.json()) == (200, {"path": "/a"})
    assert (done.status_code, done.json(), done.headers["X-Seen"]) == (202, [1], "application/json")
    assert again.headers["Idempotent-Replayed"] == "true"
    server.assert_executed_once()
    assert send(LedgerServer(lambda _: {"id": 7})).status_code == 201


@pytest.mark.parametrize(
    ("store_errors", "status", "stored"),
    [
        (None, 402, True),
        (None, 500, False),
        (True, 500, True),
        (False, 402, False),
        ({402}, 402, True),
        ({402}, 422, False),
    ],
)
def test_refusals_of_the_handler(store_errors: Any, status: int, *, stored: bool) -> None:
    """A refusal is no effect; whether it is stored under the key is a setting, by default of 4xx only."""
    settings = {} if store_errors is None else {"store_errors": store_errors}
    server = LedgerServer(lambda _: Reply(status), **settings)

    first, second = send(server), send(server)

    assert (first.status_code, second.status_code) == (status, status)
    assert second.headers.get("Idempotent-Replayed") == ("true" if stored else None)
    server.assert_executed(0)


def test_refusal_without_a_key_is_not_stored() -> None:
    """There is nothing to store it under."""
    server = LedgerServer(lambda _: Reply(500))

    assert [send(server, key=None).status_code for _ in range(2)] == [500, 500]


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: "text"], ids=["raises", "wrong type"])
def test_handler_that_fails(broken: Any) -> None:
    """It is a server that answers 500, has done nothing and leaves the key free."""
    server = LedgerServer(broken)

    answer = send(server)

    assert answer.status_code == 500
    assert "the handler raised" in answer.json()["error"]
    server.assert_executed(0)


def test_replay_step_prefers_the_stored_answer(server: LedgerServer) -> None:
    """The given answer is for keys without one."""
    server.script(faults.ok(), faults.replay(200, body="given"), faults.replay(200, body="given"))

    assert send(server).json()["n"] == 1
    assert send(server).json()["n"] == 1
    assert send(server, key="other").text == "given"


def test_reset_forgets(server: LedgerServer) -> None:
    """After a reset the server is as new."""
    server.script(faults.drop(), faults.ok(), faults.lost())
    with pytest.raises(httpx.RemoteProtocolError):
        send(server)
    send(server)
    assert (len(server.requests), len(server.effects), server.dropped, server.steps_left) == (1, 1, 1, 1)

    server.reset()

    assert (server.requests, server.effects, server.keys, server.dropped, server.steps_left) == ([], [], [], 0, 0)
    assert "Idempotent-Replayed" not in send(server).headers


@pytest.mark.parametrize(
    "settings",
    [{"flavour": "article-3"}, {"retry_after": -1}, {"retry_after": float("nan")}, {"in_progress_status": 99}],
)
def test_wrong_settings(settings: dict[str, Any]) -> None:
    """They are refused where they are made."""
    with pytest.raises(ValueError, match="must"):
        LedgerServer(**settings)
