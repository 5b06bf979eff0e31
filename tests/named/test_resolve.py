"""Design 7.7 and 7.8: decided by hand, reruns, steps; credentials and keys that must not show."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import httpx
import pytest

import samekey
from samekey import AlreadyExecuted, KeyMismatch, OutcomeUnknown
from samekey._keys import digest
from samekey.journal import RowState
from samekey.testing import Reply, faults
from tests.named.shop import NAME, ONCE, Shop, charge, in_file, on_sync
from tests.transport.harness import now, the


async def unknown(shop: Shop, **settings: Any) -> str:
    """An operation that ended unknown; gives its key."""
    shop.server.script(faults.lost())
    with pytest.raises(OutcomeUnknown) as caught:
        await shop.charge(policy=ONCE, **settings)
    assert caught.value.key is not None
    return caught.value.key


@pytest.mark.parametrize("resource", [None, "ch_1"])
async def test_resolved_as_executed(shop: Shop, resource: str | None) -> None:
    """A rerun raises AlreadyExecuted, with what was made, and sends nothing."""
    key = await unknown(shop)
    await now(shop.journal.resolve(NAME, executed=True, resource=resource))
    with pytest.raises(AlreadyExecuted) as caught:
        await shop.charge()

    assert (caught.value.resource, caught.value.key, caught.value.name) == (resource, key, NAME)
    assert caught.value.report.outcome == "executed"
    assert len(shop.server.requests) == 1
    assert isinstance(caught.value, shop.api.httpx.RequestError)
    assert pickle.loads(pickle.dumps(caught.value)).resource == resource


async def test_resolved_as_not_executed(shop: Shop) -> None:
    """A rerun starts with a new key."""
    key = await unknown(shop)
    await now(shop.journal.resolve(NAME, executed=False))
    response = await shop.charge()

    assert response.status_code == 201
    assert len(shop.server.keys) == 2
    entry = await shop.row()
    assert (entry.key != key, entry.sends) == (True, 1)


async def test_resolved_as_executed_another_request(shop: Shop) -> None:
    """Another request under the name is told what the journal knows."""
    await unknown(shop)
    await now(shop.journal.resolve(NAME, executed=True))
    with pytest.raises(KeyMismatch, match="which was executed"):
        await shop.charge(json={"n": 2})


async def test_resolve_under_a_live_lease(shop: Shop) -> None:
    """Somebody is at it: refused; once the lease is over it is allowed, and the late owner cannot record."""
    await shop.killed(faults.lost())
    shop.clock.ahead = 0
    with pytest.raises(ValueError, match="somebody is at"):
        await now(shop.journal.resolve(NAME, executed=True))
    shop.clock.ahead = 80
    await now(shop.journal.resolve(NAME, executed=True))

    assert await shop.state() == ("executed", None)


async def test_resolved_while_another_waits(shop: Shop) -> None:
    """Expired, resolved, and run again."""
    await shop.killed(faults.lost())
    shop.clock.ahead = 30 * 3600
    with pytest.raises(samekey.KeyExpired):
        await shop.charge()
    (entry,) = await now(shop.journal.unresolved())
    assert entry.name == NAME
    await now(shop.journal.resolve(NAME, executed=False))

    assert (await shop.charge()).status_code == 201


# -- steps


async def test_br_70_steps_are_named(shop: Shop) -> None:
    """BR-70: charge, then mail; the second run skips the charge: each has a key of its own, both times the same."""
    shop.server.script(then=faults.lost(), path="/mails")
    async with shop.client(policy=ONCE) as client:
        with samekey.operation("job-17") as job:
            with job.step("charge"):
                await client.post("/charges")
            with pytest.raises(OutcomeUnknown), job.step("mail"):
                await client.post("/mails", json={"to": "a"})
    shop.server.script(path="/mails")
    async with shop.client() as client:
        with samekey.operation("job-17").step("mail"):
            mail = await client.post("/mails", json={"to": "a"})
        with samekey.operation("job-17").step("charge"):
            again = await client.post("/charges")

    assert samekey.is_replayed(mail)
    assert the(samekey.report(again)).source == "journal"
    paths = [(request.path, request.key) for request in shop.server.requests]
    assert [path for path, _ in paths] == ["/charges", "/mails", "/mails"]
    assert len(set(paths)) == 2
    assert (await shop.row("job-17#mail")).key == paths[1][1]


async def test_br_70_an_unnamed_second_call(shop: Shop) -> None:
    """BR-70: another request in the same operation raises, and says `step`."""
    async with shop.client() as client:
        with samekey.operation("job-17"):
            await client.post("/charges")
            with pytest.raises(KeyMismatch, match=r"operation\.step") as caught:
                await client.post("/mails", json={"to": "a"})

    assert len(shop.server.requests) == 1
    assert "which was executed" in str(caught.value)


# -- secrets

SECRETS = {"Authorization": "Bearer s3cret-token", "Cookie": "session=s3cret-cookie", "Proxy-Authorization": "s3cret-p"}


async def test_br_66_no_credentials_in_the_journal(shop: Shop) -> None:
    """Neither the request's credentials nor the answer's cookies are in the row or the raw file."""
    answer = Reply(
        201, [("Set-Cookie", "session=s3cret-set; HttpOnly"), ("set-cookie", "s3cret=2"), ("X-Id", "1")], b"{}"
    )
    shop.server.script(then=lambda _: answer)
    response = await shop.charge(headers=SECRETS, operation={"store_request": True})
    again = await shop.charge(headers=SECRETS, operation={"store_request": True})

    assert "s3cret" in response.headers["set-cookie"]
    assert "set-cookie" not in again.headers
    assert again.headers["x-id"] == "1"
    entry = await shop.row()
    assert not [name for name, _ in entry.headers if "cookie" in name.lower()]
    assert "s3cret" not in repr(vars_of(entry))
    if shop.kind == "sqlite":
        raw = b"".join(path.read_bytes() for path in shop.path.parent.iterdir())
        assert b"order-4821" in raw
        assert b"s3cret" not in raw


async def test_br_66_no_credentials_while_unknown(shop: Shop) -> None:
    """Nor while the request is kept for the next process."""
    await unknown(shop, headers=SECRETS, operation={"store_request": True})
    assert "s3cret" not in repr(vars_of(await shop.row()))
    if shop.kind == "sqlite":
        raw = b"".join(path.read_bytes() for path in shop.path.parent.iterdir())
        assert b"4900" in raw
        assert b"s3cret" not in raw


def vars_of(entry: Any) -> dict[str, Any]:
    """Every field of a row."""
    return {name: getattr(entry, name) for name in entry.__dataclass_fields__}


async def test_br_66_keys_show_as_digests(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """Messages, reprs of rows, reports, operations and journals, and the log have a digest of the key."""
    with caplog.at_level(logging.DEBUG):
        async with shop.client(policy=ONCE, listeners=[samekey.log_events]) as client:
            shop.server.script(faults.lost())
            with samekey.operation(NAME) as op, pytest.raises(OutcomeUnknown) as caught:
                await client.post()
    key = caught.value.key
    assert key is not None
    listing = await now(shop.journal.entries())
    texts = [str(caught.value), repr(caught.value), repr(op), repr(op.report), repr(listing), repr(shop.journal)]
    texts += [record.getMessage() for record in caplog.records if record.name == "samekey"]

    assert all(key not in text for text in texts)
    assert sum(digest(key) in text for text in texts) >= 4


@on_sync
@in_file
async def test_br_66_mode_of_the_file(shop: Shop) -> None:
    """Keys are in it, so nobody else reads it."""
    await unknown(shop)

    assert {path.stat().st_mode & 0o777 for path in shop.path.parent.iterdir()} == {0o600}


async def test_cookies_do_not_come_back(shop: Shop) -> None:
    """A recalled answer sets no cookie in the client's jar."""
    shop.server.script(lambda _: Reply(201, {"Set-Cookie": "a=1"}))
    await shop.charge()
    async with shop.client() as client:
        await charge(client)
        jar: httpx.Cookies = client.raw.cookies

    assert not jar
    assert (await shop.row()).state is RowState.EXECUTED
