"""Scripts: the order of steps, paths, what follows the end, and steps that are refused."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from samekey.testing import LedgerServer, Reply, faults
from tests.testing.scenarios import KEY


def statuses(server: LedgerServer, *paths: str) -> list[int]:
    with httpx.Client(transport=server.transport(), base_url="http://test") as client:
        return [client.post(path).status_code for path in paths]


def test_steps_are_used_in_order_and_then_the_server_behaves(server: LedgerServer) -> None:
    """One step per request; after the last one every request is executed."""
    server.script(faults.status(503), faults.status(500))
    assert server.steps_left == 2

    assert statuses(server, "/a", "/b", "/c", "/d") == [503, 500, 201, 201]
    assert server.steps_left == 0


def test_then_follows_the_end(server: LedgerServer) -> None:
    """A server may stay broken; a new script replaces what was left."""
    server.script(faults.ok(), then=faults.status(503))
    assert statuses(server, *"////") == [201, 503, 503, 503]

    server.script(faults.status(500))
    assert statuses(server, *"//") == [500, 201]


def test_paths_have_their_own_scripts(server: LedgerServer) -> None:
    """A path with a script uses no other; the query does not count."""
    server.script(faults.status(500), faults.status(501))
    server.script(faults.redirect(307, "/b"), path="/a", then=faults.status(404))

    assert statuses(server, "/x", "/a?q=1", "/a", "/x", "/x") == [500, 307, 404, 501, 201]
    assert server.requests[1].path == "/a"
    assert server.requests[1].query == "q=1"


def test_redirect_between_two_origins(server: LedgerServer) -> None:
    """One server may listen twice: two origins, one ledger."""
    with server.listen() as first, server.listen() as second, httpx.Client(verify=False) as client:
        assert first != second
        assert server.url == second
        server.script(faults.redirect(308, f"{second}/b", headers={"X-Hop": "1"}), path="/a")
        answer = client.post(f"{first}/a", headers=KEY, follow_redirects=True)

        assert answer.status_code == 201
        assert answer.history[0].headers["X-Hop"] == "1"
        assert [request.header("Host") for request in server.requests] == [
            url.removeprefix("http://") for url in (first, second)
        ]
    server.assert_executed_once()
    server.assert_same_key()


def test_url_needs_a_listener(server: LedgerServer) -> None:
    """Outside of a `listen` block there is no URL."""
    with pytest.raises(RuntimeError, match="does not listen"):
        _ = server.url


def test_refuse_in_memory(server: LedgerServer) -> None:
    """The client cannot connect; nothing was read, and the body was not touched."""
    server.script(faults.refuse(), lambda _: faults.refuse())
    body = iter([b"x"])
    with httpx.Client(transport=server.transport(), base_url="http://test") as client:
        for _ in range(2):
            with pytest.raises(httpx.ConnectError, match="refused"):
                client.post("/a", content=body)
    assert server.dropped == 1
    assert [request.body for request in server.requests] == [b"x"]
    server.assert_executed(0)


@pytest.mark.anyio
async def test_refuse_in_memory_async(server: LedgerServer) -> None:
    """The same for an async client."""
    server.script(faults.refuse())
    async with httpx.AsyncClient(transport=server.async_transport(), base_url="http://test") as client:
        with pytest.raises(httpx.ConnectError, match="refused"):
            await client.post("/a")


def test_refuse_is_rejected_by_a_listening_server(server: LedgerServer) -> None:
    """A socket that listens cannot refuse, so the script is an error rather than something else."""
    server.script(then=faults.refuse())
    with pytest.raises(ValueError, match="in memory only"), server.listen():
        pass
    server.reset()
    with server.listen() as url, httpx.Client(verify=False) as client:
        with pytest.raises(ValueError, match="in memory only"):
            server.script(faults.ok(), faults.refuse())
        # From a callable it is a reset, the nearest thing.
        server.script(lambda _: faults.refuse())
        with pytest.raises(httpx.ReadError):
            client.post(url)


def test_callable_that_raises(server: LedgerServer, url: str) -> None:
    """In memory the client sees the exception, over a socket a 500 that tells it."""

    def step(_: object) -> Reply:
        raise httpx.PoolTimeout("as scripted")

    server.script(then=step)
    with httpx.Client(transport=server.transport()) as client, pytest.raises(httpx.PoolTimeout):
        client.post("http://test/")
    with httpx.Client(verify=False) as client:
        answer = client.post(url)
    assert answer.status_code == 500
    assert "PoolTimeout('as scripted')" in answer.json()["error"]


def test_callable_with_a_wrong_result(server: LedgerServer) -> None:
    """It is a TypeError that names what came."""
    server.script(lambda _: "text")  # type: ignore[arg-type,return-value]
    with (
        httpx.Client(transport=server.transport()) as client,
        pytest.raises(TypeError, match="Reply or a mapping, got str"),
    ):
        client.post("http://test/")


@pytest.mark.parametrize("step", [503, faults.lost, None], ids=["number", "uncalled", "none"])
def test_wrong_steps(server: LedgerServer, step: Any) -> None:
    """A step that is none is refused at once, a forgotten call too."""
    with pytest.raises(TypeError, match="step"):
        server.script(step)


@pytest.mark.parametrize(
    "make",
    [
        lambda: faults.slow(-1),
        lambda: faults.slow(float("nan")),
        lambda: faults.drip(-1),
        lambda: faults.drip(size=0),
        lambda: faults.cut(-1),
        lambda: faults.status(100),
        lambda: faults.status(200, body="a", json={}),
        lambda: faults.redirect(200, "/"),
        lambda: faults.in_progress(retry_after=-1),
        lambda: faults.duplicated(1),
        lambda: Reply(600),
    ],
)
def test_wrong_values(make: Any) -> None:
    """They are refused where the step is made."""
    with pytest.raises(ValueError, match=r"must|not both"):
        make()


def test_steps_keep_what_they_delay() -> None:
    """`slow`, `hold` and `drip` take the step that they change."""
    inner = faults.status(503, json={"a": 1}, headers={"Content-Type": "application/problem+json"})
    for step in (faults.slow(1, inner), faults.hold(threading.Event(), inner), faults.drip(then=inner)):
        assert step.reply == Reply(503, {"Content-Type": "application/problem+json"}, b'{"a": 1}')
        assert not step.executes
    assert faults.status(200, body=b"raw").reply == Reply(200, body=b"raw")
