"""Design 7.6 and 7.9: `store_request`, `store_body`, multipart, unread answers; what a name needs to be allowed."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import httpx
import pytest
from tenacity import wait_none

import samekey
import samekey.httpx2
from samekey import KeyMismatch, OutcomeUnknown, RetryPolicy
from samekey._signing import SIGNED
from samekey.dialects import JsonField
from samekey.journal import AsyncMemoryJournal, MemoryJournal, RowState
from samekey.sqlite import AsyncSQLiteJournal, SQLiteJournal
from samekey.testing import Reply, faults
from tests.named.shop import NAME, ONCE, QUICK, Shop, charge, in_memory, on_sync
from tests.transport.harness import key_lines, leaves_streams, now, statuses, the

STORED = {"store_request": True}


def stamped() -> dict[str, Any]:
    """A body that differs each time it is built."""
    return {"amount": 4900, "at": time.time_ns()}


async def test_store_request_resends_the_first_bytes(shop: Shop) -> None:
    """A body with a time stamp: the next process sends what the first one had built."""
    key = await shop.killed(faults.lost(), json=stamped(), operation=STORED)
    entry = await shop.row()
    assert entry.request == shop.server.requests[0].body
    assert entry.content_type == "application/json"
    response = await shop.charge(json=stamped(), operation=STORED)

    assert samekey.is_replayed(response)
    assert shop.server.keys == [key]
    shop.api.seen(wire=2, effects=1)
    entry = await shop.row()
    assert (entry.request, entry.content_type) == (None, None)


async def test_without_store_request_a_time_stamp_is_another_request(shop: Shop) -> None:
    """Nothing is sent: the two bodies are told apart."""
    await shop.killed(faults.lost(), json=stamped())
    with pytest.raises(KeyMismatch):
        await shop.charge(json=stamped())

    assert len(shop.server.requests) == 1


async def test_store_request_still_tells_urls_apart(shop: Shop) -> None:
    """Only the body may differ; another path is another request."""
    await shop.killed(faults.lost(), json=stamped(), operation=STORED)
    async with shop.client() as client:
        with pytest.raises(KeyMismatch), samekey.operation(NAME, **STORED):  # type: ignore[arg-type]
            await client.post("/refunds", json=stamped())


async def test_store_request_after_the_end(shop: Shop) -> None:
    """The recorded answer is for whatever body the next run builds."""
    first = await shop.charge(json=stamped(), operation=STORED)
    again = await shop.charge(json=stamped(), operation=STORED)

    assert again.content == first.content
    assert len(shop.server.requests) == 1


async def test_store_request_of_a_generator(shop: Shop) -> None:
    """A streamed body is read once and kept."""
    await shop.killed(faults.lost(), content=shop.api.body_of(b"a", b"b"), operation=STORED)
    await shop.charge(content=shop.api.body_of(b"c"), operation=STORED)

    assert [request.body for request in shop.server.requests] == [b"ab", b"ab"]
    assert [request.header("content-type") for request in shop.server.requests] == [None, None]


async def test_multipart_rebuilt(shop: Shop) -> None:
    """A multipart form has another boundary each time; it is the same request, with other bytes."""
    files = {"file": ("a.txt", b"hello")}
    await shop.killed(faults.lost(), files=files)
    shop.server.script(faults.mismatch())
    with pytest.raises(KeyMismatch):
        await shop.charge(files=files)

    bodies = {request.body for request in shop.server.requests}
    assert len(bodies) == 2
    assert len(shop.server.keys) == 1


async def test_multipart_stored(shop: Shop) -> None:
    """With `store_request` the boundary is the first one too, in the header as well."""
    files = {"file": ("a.txt", b"hello")}
    await shop.killed(faults.lost(), files=files, operation=STORED)
    response = await shop.charge(files=files, operation=STORED)

    assert samekey.is_replayed(response)
    shop.api.seen(wire=2, effects=1)
    assert len({request.header("content-type") for request in shop.server.requests}) == 1


async def test_key_in_the_body(shop: Shop) -> None:
    """A dialect whose key is a member of the body; what is stored has none."""
    dialect = samekey.Dialect(carrier=JsonField("key"))
    shop.server.script(faults.lost(), faults.ok())
    for policy in (ONCE, QUICK):
        async with shop.client(dialect=dialect, policy=policy) as client:
            try:
                await charge(client, json={"n": 1}, operation=STORED)
            except OutcomeUnknown:
                assert (await shop.row()).request == b'{"n":1}'

    keys = [json.loads(request.body)["key"] for request in shop.server.requests]
    assert keys == [(await shop.row()).key] * 2


async def test_store_body_false(shop: Shop) -> None:
    """Only the digest is kept; a rerun gets status and headers, and an empty body."""
    journal = shop.new_journal(store_body=False)
    shop.made.append(journal)
    shop.server.script(lambda _: Reply.of_json(201, {"id": "ch_1"}, {"Location": "/charges/1"}))
    first = await shop.charge()
    again = await shop.charge()

    entry = await shop.row()
    assert (entry.body, entry.body_digest) == (None, hashlib.sha256(first.content).hexdigest())
    assert (again.status_code, again.content, again.headers["location"]) == (201, b"", "/charges/1")
    assert "content-length" not in again.headers


async def test_store_body_false_of_a_refusal(shop: Shop) -> None:
    """A refusal likewise."""
    shop.made.append(shop.new_journal(store_body=False))
    shop.server.script(faults.status(402, json={"error": "declined"}))
    await shop.charge()
    again = await shop.charge()

    assert (again.status_code, again.content) == (402, b"")


async def test_swept_row(shop: Shop) -> None:
    """The tombstone: name, key, outcome, status; the rerun sends nothing."""
    await shop.charge()
    shop.clock.ahead = 3600
    assert await now(shop.journal.sweep(older_than=60)) == 1
    again = await shop.charge()

    assert (again.status_code, again.content) == (201, b"")
    assert len(shop.server.requests) == 1
    assert (await shop.row()).swept


async def test_unread_answer(shop: Shop) -> None:
    """Design 7.9: `buffer_response=False`: status and headers are recorded, before the body is read."""
    async with shop.client() as client:
        with samekey.operation(NAME):
            async with client.stream(json={"n": 1}, extensions=samekey.options(buffer_response=False)) as response:
                entry = await shop.row()
                body = await shop.api.read(response)
        again = await charge(client, json={"n": 1})

    assert body
    assert (entry.state, entry.status, entry.body, entry.body_digest) == (RowState.EXECUTED, 201, None, None)
    assert (again.status_code, again.content) == (201, b"")
    assert len(shop.server.requests) == 1


async def test_answer_beyond_the_buffer(shop: Shop) -> None:
    """More than is read ahead is not kept: half a body would be a lie."""
    shop.server.script(lambda _: Reply(200, {}, b"x" * 5000))
    response = await shop.charge(policy=RetryPolicy(max_response_buffer=1000))
    again = await shop.charge()

    assert len(response.content) == 5000
    assert (await shop.row()).body is None
    assert again.content == b""


# -- what a name needs


async def test_no_journal(shop: Shop) -> None:
    """A name without a journal is refused before anything is sent."""
    async with shop.api.client() as client:
        with pytest.raises(ValueError, match=r"has no journal.*nothing was sent"):
            await charge(client)

    assert shop.server.requests == []


@pytest.mark.parametrize("how", ["policy", "options"])
async def test_no_total_timeout(shop: Shop, how: str) -> None:
    """A lease needs an end."""
    policy = RetryPolicy(total_timeout=None) if how == "policy" else QUICK
    options: dict[str, Any] = {} if how == "policy" else {"extensions": samekey.options(total_timeout=None)}
    async with shop.client(policy=policy) as client:
        with pytest.raises(ValueError, match="finite total_timeout"):
            await charge(client, **options)

    assert shop.server.requests == []
    assert await now(shop.journal.get("", NAME)) is None


async def test_lease_is_the_total_timeout_and_a_margin(shop: Shop) -> None:
    """The one of the call."""
    found = []

    async def look(request: Any) -> Any:
        found.append(await shop.row())
        return shop.api.httpx.Response(200)

    def send(request: Any) -> Any:
        found.append(shop.journal.get("", NAME))
        return shop.api.httpx.Response(200)

    async with shop.client(transport=shop.api.inner(send if shop.api.sync else look)) as client:
        await charge(client, extensions=samekey.options(total_timeout=700))

    assert 710 < found[0].lease_left <= 715


@leaves_streams
async def test_too_long_a_body(shop: Shop) -> None:
    """A body that cannot be kept cannot be repeated after a crash."""
    async with shop.client(policy=RetryPolicy(max_request_buffer=3)) as client:
        with pytest.raises(ValueError, match="max_request_buffer"):
            await charge(client, content=shop.api.body_of(b"abcd"))

    assert shop.server.requests == []


async def test_key_of_the_caller(shop: Shop) -> None:
    """A caller's key is the name's key, if the name is new; another one than the row's is a mismatch."""
    mine: dict[str, Any] = {"headers": {"Idempotency-Key": "my-key"}}
    shop.server.script(faults.lost())
    with pytest.raises(OutcomeUnknown):
        await shop.charge(policy=ONCE, **mine)
    assert (await shop.row()).key == "my-key"
    with pytest.raises(KeyMismatch, match="kept with the name"):
        await shop.charge(headers={"Idempotency-Key": "another"})
    assert await shop.state() == ("unknown", None)
    assert samekey.is_replayed(await shop.charge(**mine))
    assert [key_lines(request) for request in shop.server.requests] == [["my-key"]] * 2


async def test_two_keys_of_the_caller(shop: Shop) -> None:
    """Two that differ: nothing is claimed."""
    async with shop.client() as client:
        with pytest.raises(KeyMismatch):
            await charge(client, operation={"key": "a"}, headers={"Idempotency-Key": "b"})

    assert await now(shop.journal.get("", NAME)) is None


async def test_key_that_the_dialect_refuses(shop: Shop) -> None:
    """A key's form is checked before the claim."""
    async with shop.client(dialect=samekey.dialects.STRIPE) as client:
        with pytest.raises(ValueError, match=r"255|long"):
            await charge(client, headers={"Idempotency-Key": "x" * 300})

    assert await now(shop.journal.get("", NAME)) is None


async def test_key_read_before_the_call(shop: Shop) -> None:
    """Who reads `op.key` first gets the key that is sent."""
    async with shop.client() as client:
        with samekey.operation(NAME) as op:
            key = op.key
            await client.post()

    assert shop.server.keys == [key]


@in_memory
async def test_signed_key(shop: Shop) -> None:
    """`KeyedAuth` signs a key before the journal is asked: refused."""

    class Sign(httpx.Auth):
        def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def] # noqa: ANN202
            request.headers["Signature"] = "x"
            yield request

    async with shop.client(auth=samekey.KeyedAuth(Sign())) as client:
        with pytest.raises(ValueError, match="KeyedAuth"):
            await charge(client)

    assert shop.server.requests == []


@in_memory
async def test_key_signed_elsewhere(shop: Shop) -> None:
    """A request that was signed outside of the operation, and is sent inside it without its auth."""

    class Sign(httpx.Auth):
        def auth_flow(self, request: httpx.Request):  # type: ignore[no-untyped-def] # noqa: ANN202
            yield request

    async with shop.client(auth=samekey.KeyedAuth(Sign())) as client:
        signed = (await client.post()).request
        copied = client.build(json={"n": 2}, extensions={SIGNED: signed.extensions[SIGNED]})
        with samekey.operation(NAME), pytest.raises(ValueError, match="nothing was sent"):
            await client.send(copied, auth=None)

    assert len(shop.server.requests) == 1


@on_sync
@in_memory
def test_colours(shop: Shop, tmp_path: Any) -> None:
    """A journal of the other colour is refused where the client is made."""
    for journal in (AsyncMemoryJournal(), AsyncSQLiteJournal(tmp_path / "a.db")):
        with pytest.raises(
            TypeError, match=r"a sync client needs a sync journal such as MemoryJournal; Async\w+ is an a"
        ):
            samekey.wrap(httpx.Client(base_url="http://a"), journal=journal)
        with pytest.raises(TypeError, match="a sync client"):
            samekey.httpx2.IdempotentTransport(journal=journal)
    for other in (MemoryJournal(), SQLiteJournal(tmp_path / "b.db")):
        with pytest.raises(
            TypeError, match=r"an async client needs an async journal such as AsyncM\w+; \w+ is a sync one"
        ):
            samekey.wrap(httpx.AsyncClient(base_url="http://a"), journal=other)
        with pytest.raises(TypeError, match="an async client"):
            samekey.AsyncIdempotentTransport(journal=other)
    with pytest.raises(TypeError, match="journal must be a samekey journal, not dict"):
        samekey.wrap(httpx.Client(base_url="http://a"), journal={})


async def test_wait_strategy_of_polls(shop: Shop) -> None:
    """A strategy sees that another process is at it, and counts its own asking."""
    await shop.killed(faults.lost())
    shop.clock.ahead = 0
    seen = []

    def poll(state: Any) -> float:
        seen.append(state.outcome.exception())
        return 7.0

    with pytest.raises(samekey.StillInProgress) as caught:
        await shop.charge(policy=RetryPolicy(poll_wait=poll, wait=wait_none(), unresolved_ttl=0))

    assert len(seen) == 9
    assert "another process" in str(seen[0])
    assert statuses(caught.value.report) == []
    assert the(samekey.report(caught.value)).gave_up == "deadline"
