"""A request object that is sent again, and the keys and operations that are in force by then."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import httpx
import pytest

import samekey
from samekey.journal import MemoryJournal
from samekey.testing import LedgerServer, faults, no_waiting


@pytest.fixture
def server() -> Iterator[LedgerServer]:
    made = LedgerServer()
    with made.listen(), no_waiting():
        yield made


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def client(server: LedgerServer, journal: MemoryJournal) -> Iterator[httpx.Client]:
    with samekey.wrap(httpx.Client(base_url=server.url, timeout=30), journal=journal) as made:
        yield made


def charge(client: httpx.Client, **settings: object) -> httpx.Request:
    return client.build_request("POST", "/charges", json={"amount": 1}, **settings)  # type: ignore[arg-type]


def test_after_a_redirect_to_a_get_the_key_stays(server: LedgerServer, client: httpx.Client) -> None:
    """The GET after a 303 carries no key; the request that led there has one all the same."""
    server.script(faults.redirect(303, "/receipt"), path="/charges")
    request = charge(client)
    client.send(request, follow_redirects=True)
    client.send(request)

    assert len(server.keys) == 1


def test_a_named_and_scoped_operation(server: LedgerServer, client: httpx.Client, journal: MemoryJournal) -> None:
    """The request of the error goes out under the name, the scope and the key it had."""
    server.script(*[faults.lost()] * 5)
    with samekey.operation("order-1", scope="tenant-1"), pytest.raises(samekey.OutcomeUnknown) as caught:
        client.send(charge(client))
    response = client.send(caught.value.request)

    assert response.status_code == 201
    server.assert_executed_once()
    assert [(entry.scope, entry.name) for entry in journal.entries()] == [("tenant-1", "order-1")]


def test_another_key_is_a_mismatch(server: LedgerServer, client: httpx.Client) -> None:
    """Whether it comes in the header, by options or with an operation: nothing is sent."""
    request = charge(client, headers={"Idempotency-Key": "a"})
    client.send(request)
    request.headers["Idempotency-Key"] = "b"
    with pytest.raises(samekey.KeyMismatch):
        client.send(request)

    request = charge(client)
    client.send(request)
    with samekey.operation(key="b"), pytest.raises(samekey.KeyMismatch):
        client.send(request)
    request.extensions.update(samekey.options(key="b"))
    with pytest.raises(samekey.KeyMismatch):
        client.send(request)

    assert len(server.requests) == 2


def test_an_operation_takes_the_key_over(server: LedgerServer, client: httpx.Client) -> None:
    """Inside an operation that has none yet, and inside another one that has this very key."""
    request = charge(client)
    client.send(request)
    with samekey.operation() as operation:
        client.send(request)
    with samekey.operation(key=operation.key) as again:
        client.send(request)

    assert server.keys == [operation.key] == [again.key]
    assert again.report is not None


def test_a_name_takes_the_key_over(server: LedgerServer, client: httpx.Client, journal: MemoryJournal) -> None:
    """Sent without a name first: the journal keeps the key that is known to the server."""
    request = charge(client)
    client.send(request)
    with samekey.operation("order-1"):
        client.send(request)

    kept = journal.get("", "order-1")
    assert kept is not None
    assert [kept.key] == server.keys


def test_a_refused_request_is_as_new(server: LedgerServer, client: httpx.Client) -> None:
    """What was refused before anything was sent leaves no trace on the request."""
    request = charge(client, headers={"Idempotency-Key": "mine"}, extensions=samekey.options(key="other"))
    with pytest.raises(samekey.KeyMismatch):
        client.send(request)
    del request.extensions["samekey"]
    client.send(request)
    with samekey.operation():
        client.post("/charges", json={"amount": 2})
        other = charge(client)
        with pytest.raises(samekey.KeyMismatch):
            client.send(other)
    with samekey.operation() as operation:
        client.send(other)

    assert server.keys[0] == "mine"
    assert server.keys[-1] == operation.key


class CopiesExtensions(httpx.Auth):
    """Refreshes its token with a request that it makes out of the caller's."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        response = yield request
        if response.status_code == 401:
            yield httpx.Request("POST", request.url.copy_with(path="/token"), json={}, extensions=request.extensions)
            yield request


class CopiesRequest(httpx.Auth):
    """Sends an equal request instead of the same one."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        response = yield request
        if response.status_code == 401:
            copied = httpx.Request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content,
                extensions=request.extensions,
            )
            yield copied


def test_a_token_request_made_out_of_ours_has_no_part_in_it(server: LedgerServer, client: httpx.Client) -> None:
    """It goes out under a key of its own, and the payment goes on under its own."""
    server.script(faults.status(401), path="/charges")
    response = client.send(charge(client), auth=CopiesExtensions())

    assert response.status_code == 201
    payments = [request.key for request in server.requests if request.path == "/charges"]
    tokens = [request.key for request in server.requests if request.path == "/token"]
    assert len(payments) == 2
    assert len(set(payments)) == 1
    assert len(tokens) == 1
    assert not set(tokens) & set(payments)


def test_an_equal_request_after_a_challenge_is_the_same_call(server: LedgerServer, client: httpx.Client) -> None:
    """An auth flow may copy the request, extensions and all."""
    server.script(faults.status(401), path="/charges")
    response = client.send(charge(client), auth=CopiesRequest())

    report = samekey.report(response)
    assert report is not None
    assert len(report.attempts) == 2
    server.assert_same_key()


def test_a_file_that_was_read_to_its_end(server: LedgerServer, client: httpx.Client, tmp_path: object) -> None:
    """Nothing is left to send, though its length was announced: better no payment than an empty one."""
    path = f"{tmp_path}/body"
    with open(path, "wb") as written:  # noqa: PTH123
        written.write(b"x" * 100)
    with open(path, "rb") as file:  # noqa: PTH123
        file.read()
        with pytest.raises(ValueError, match="read before"):
            client.post("/charges", content=file)

    assert server.requests == []


def test_the_same_name_in_another_scope(server: LedgerServer, client: httpx.Client, journal: MemoryJournal) -> None:
    """It is another name, but still this request: its key goes along."""
    request = charge(client)
    for scope in ("tenant-1", "tenant-2"):
        with samekey.operation("order-1", scope=scope):
            client.send(request)

    assert len(server.keys) == 1
    assert {entry.scope: entry.key for entry in journal.entries()} == {
        "tenant-1": server.keys[0],
        "tenant-2": server.keys[0],
    }
