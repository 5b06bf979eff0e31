"""What the assertions say when they fail: enough to see what happened, and no key."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from samekey.testing import LedgerServer

SHORT = {"secret-1": "f7e7c36e", "secret-2": "f4b6bb65"}


def post(server: LedgerServer, key: str | None = None, **more: Any) -> None:
    headers = {} if key is None else {"Idempotency-Key": key}
    with httpx.Client(transport=server.transport(), base_url="http://test") as client:
        client.post("/charges", headers=headers, **more)


def test_executed_once(server: LedgerServer) -> None:
    """The failure lists effects and requests, with digests for keys."""
    post(server, "secret-1", content=b"a")
    server.assert_executed_once()
    server.assert_executed_once("secret-1")
    post(server, "secret-2", content=b"a")
    server.assert_executed(2)

    with pytest.raises(AssertionError) as failure:
        server.assert_executed_once()

    line = "<POST /charges, key {}, body 1 bytes ca978112>"
    first, second = (line.format(SHORT[key]) for key in ("secret-1", "secret-2"))
    assert str(failure.value) == (
        "expected 1 execution, saw 2\n"
        f"  executed:\n    1. {first}\n    2. {second}\n"
        f"  requests:\n    1. {first}\n    2. {second}"
    )


def test_executed_under_a_key(server: LedgerServer) -> None:
    """The key is named by its digest; nothing seen is said as such."""
    with pytest.raises(AssertionError) as failure:
        server.assert_executed_once("secret-1")

    assert str(failure.value) == (
        f"expected 1 execution under key {SHORT['secret-1']}, saw 0\n  executed: none\n  requests: none"
    )
    with pytest.raises(AssertionError, match="expected 2 executions, saw 0"):
        server.assert_executed(2)


def test_same_key(server: LedgerServer) -> None:
    """Different keys, missing keys and no request at all are failures."""
    with pytest.raises(AssertionError, match="saw 0 distinct keys and 0 without a key"):
        server.assert_same_key()
    post(server)
    with pytest.raises(AssertionError, match="saw 0 distinct keys and 1 without a key"):
        server.assert_same_key()
    post(server, "secret-1")
    with pytest.raises(AssertionError, match=f"(?s)saw 1 distinct key and 1 without.*no key.*{SHORT['secret-1']}"):
        server.assert_same_key()


def test_same_key_asks_only_methods_that_carry_one(server: LedgerServer) -> None:
    """A GET that follows a redirect has no key and is no fault."""
    post(server, "secret-1")
    with httpx.Client(transport=server.transport()) as client:
        client.get("http://test/")

    server.assert_same_key()
    server.assert_same_body()


def test_same_body(server: LedgerServer) -> None:
    """Bodies are compared as bytes."""
    with pytest.raises(AssertionError, match="saw 0 distinct bodies"):
        server.assert_same_body()
    post(server, "secret-1", json={"a": 1})
    post(server, "secret-1", json={"a": 1})
    server.assert_same_body()
    post(server, "secret-1", json={"a": 2})
    with pytest.raises(AssertionError, match="expected one body on every request, saw 2 distinct bodies"):
        server.assert_same_body()


def test_long_listings_are_cut(server: LedgerServer) -> None:
    """Thousands of requests do not fill the screen."""
    for _ in range(23):
        post(server)

    with pytest.raises(AssertionError, match=r"\n    20\. .*\n    … and 3 more"):
        server.assert_executed_once()


def test_reprs_hide_the_key(server: LedgerServer) -> None:
    """A key in a log or a traceback is a digest."""
    post(server, "secret-1")

    assert repr(server.requests[0]) == f"<POST /charges, key {SHORT['secret-1']}, body 0 bytes e3b0c442>"
    assert repr(server.effects[0]) == f"<Effect of {server.requests[0]!r}>"
