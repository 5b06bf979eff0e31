"""The rules of the API, without samekey: what a key does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.api import CHARGES, Api, First, Gate, Once, body, key

AT_ONCE = 50
IN_THE_PAST = "expires_at = (SELECT created_at FROM idempotency_keys LIMIT 1)"

Start = Callable[..., Api]


def code(response: httpx.Response) -> str:
    """What the problem is called."""
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["code"])


def test_executed_once(api: Api) -> None:
    """A repeat gets the first answer verbatim, marked as a replay; the money moves once."""
    first, again = api.charge("k"), api.charge("k")

    assert (first.status_code, again.status_code) == (201, 201)
    assert "Idempotent-Replay" not in first.headers
    assert again.headers["Idempotent-Replay"] == "true"
    assert (again.content, again.headers["Location"]) == (first.content, first.headers["Location"])
    assert api.count() == 1


def test_refusal_is_stored(api: Api) -> None:
    """A declined card stays declined under its key, verbatim, and nothing is charged."""
    first, again = api.charge("k", card="tok_declined"), api.charge("k", card="tok_declined")

    assert (first.status_code, code(first)) == (402, "card_declined")
    assert (again.status_code, again.content) == (402, first.content)
    assert again.headers["Idempotent-Replay"] == "true"
    assert (api.count(), api.rows("SELECT status FROM idempotency_keys")[0]["status"]) == (0, "failed")


def test_canonical_body(api: Api) -> None:
    """The order of fields and blanks do not make another request."""
    api.charge("k")
    turned = json.dumps(dict(reversed(body().items())), indent=3)

    again = api.client.post(CHARGES, content=turned, headers={**key("k"), "Content-Type": "application/json"})

    assert again.headers["Idempotent-Replay"] == "true"


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"flavour": "article-1"}, 422),
        ({"flavour": "article-2"}, 409),
        ({"flavour": "article-2", "mismatch_status": 422}, 422),
    ],
)
def test_mismatch(start: Start, settings: dict[str, object], status: int) -> None:
    """Another request under a key is refused, as the setting says, and not executed."""
    api = start(**settings)
    api.charge("k")

    other = api.charge("k", amount=1)

    assert (other.status_code, code(other)) == (status, "idempotency_key_mismatch")
    assert api.count() == 1


@pytest.mark.parametrize(
    ("settings", "status", "hint"),
    [
        ({"flavour": "article-1"}, 409, None),
        ({"flavour": "article-2"}, 202, "1"),
        ({"flavour": "article-1", "in_progress_status": 202, "retry_after": 3}, 202, "3"),
    ],
)
def test_in_progress(start: Start, settings: dict[str, object], status: int, hint: str | None) -> None:
    """While the first request runs, a second one is told so, as the setting says."""
    api = start(**settings)
    gate = api.hooks["claimed"] = Gate()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(api.charge, "k")
        gate.wait()

        second = api.charge("k")
        gate.open()

        assert first.result().status_code == 201
    assert (second.status_code, code(second), second.headers.get("Retry-After")) == (
        status,
        "request_in_progress",
        hint,
    )
    assert api.count() == 1


def test_key_is_unique_per_tenant_and_endpoint(api: Api) -> None:
    """The same key of another tenant, or at another endpoint, is another key."""
    charged = api.charge("k").json()["id"]
    other = api.client.post(CHARGES, json=body(), headers={**key("k"), "X-Tenant": "acme"})
    refund = api.client.post("/v1/refunds", json={"charge": charged, "amount": 100}, headers=key("k"))

    assert (other.status_code, refund.status_code) == (201, 201)
    assert "Idempotent-Replay" not in other.headers
    assert (api.count(), api.count("refunds"), api.count("idempotency_keys")) == (2, 1, 3)
    assert api.client.get(f"{CHARGES}/{charged}", headers={"X-Tenant": "acme"}).status_code == 404


def test_fifty_at_once(api: Api) -> None:
    """Of fifty identical requests at once one is executed; the others wait or get its answer; nothing breaks."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda _: api.charge("k"), range(AT_ONCE)))

    kinds = Counter((answer.status_code, answer.headers.get("Idempotent-Replay")) for answer in answers)
    assert kinds[201, None] == 1
    assert set(kinds) <= {(201, None), (201, "true"), (409, None)}
    assert {answer.json()["id"] for answer in answers if answer.status_code == 201} == {
        row["id"] for row in api.rows("SELECT id FROM charges")
    }
    assert (api.count(), api.count("outbox")) == (1, 1)


def test_fifty_different_at_once(api: Api) -> None:
    """Fifty bodies under one key: one is executed, and nobody gets another's answer."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda amount: api.charge("k", amount=amount), range(1, AT_ONCE + 1)))

    assert Counter(answer.status_code for answer in answers) == {201: 1, 422: AT_ONCE - 1}
    assert api.count() == 1


def test_failure_leaves_nothing(api: Api) -> None:
    """An effect that breaks is rolled back with its claim: 500, and a retry with the key completes it."""

    def break_down() -> None:
        raise RuntimeError("planted")

    api.hooks["recorded"] = Once(break_down)

    broken = api.charge("k")

    assert (broken.status_code, code(broken)) == (500, "internal_error")
    assert [api.count(table) for table in ("charges", "outbox", "idempotency_keys")] == [0, 0, 0]
    assert api.charge("k").status_code == 201
    assert api.count() == 1


def test_takeover_and_fence(start: Start) -> None:
    """A worker that outstays its lease is taken over; when it wakes, its effect is undone and it says "in progress"."""
    api = start(lease_seconds=0.2)
    gate = Gate()
    api.hooks["claimed"] = First(gate)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(api.charge, "k")
        gate.wait()
        while (second := api.charge("k")).status_code == 409:
            pass
        gate.open()

        assert (second.status_code, first.result().status_code) == (201, 409)
    assert (api.count(), api.count("outbox")) == (1, 1)
    assert api.metric("idempotency_in_progress_timeouts_total", endpoint="POST /v1/charges") == 1
    assert api.charge("k").json()["id"] == second.json()["id"]


def test_one_takes_over(api: Api) -> None:
    """Of many that find a dead worker's lease run out, one takes over."""
    api.charge("k")
    with api.service.database.transaction() as transaction:
        transaction.rows("DELETE FROM outbox")
        transaction.rows("DELETE FROM charges")
        transaction.rows(
            "UPDATE idempotency_keys SET status = 'in_progress', owner = 'dead', locked_until = created_at"
        )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda _: api.charge("k"), range(AT_ONCE)))

    assert sum(answer.status_code == 201 and "Idempotent-Replay" not in answer.headers for answer in answers) == 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert api.count() == 1


def test_expired_key(api: Api) -> None:
    """A key that has expired is as if it had never been: its next request is executed."""
    first = api.charge("k")
    api.rows(f"UPDATE idempotency_keys SET {IN_THE_PAST} RETURNING id")

    again = api.charge("k")

    assert (again.status_code, again.headers.get("Idempotent-Replay")) == (201, None)
    assert again.json()["id"] != first.json()["id"]
    assert api.charge("k").json()["id"] == again.json()["id"]


def test_cleanup(start: Start) -> None:
    """Expired rows go in batches and are counted; live ones, and those that somebody is at, stay."""
    api = start(cleanup_batch=2)
    for number in range(6):
        api.charge(f"k-{number}")
    api.rows(f"UPDATE idempotency_keys SET {IN_THE_PAST} WHERE key <> 'k-0' RETURNING id")
    with api.service.database.transaction() as transaction:
        transaction.rows(
            "UPDATE idempotency_keys SET status = 'in_progress', locked_until = {later} WHERE key = 'k-1'", seconds=60.0
        )

    assert api.service.clean_up() == 4

    assert {row["key"] for row in api.rows("SELECT key FROM idempotency_keys")} == {"k-0", "k-1"}
    assert api.metric("idempotency_expired_rows_total") == 4
    assert api.count() == 6


def test_reads_and_puts_need_no_key(api: Api) -> None:
    """Reading and a natural PUT are not keyed, and a key on them changes nothing."""
    charged = api.charge().json()

    for headers in ({}, key("k"), key("k")):
        assert api.client.put("/v1/customers/c-1", json={"name": "Ada"}, headers=headers).json()["name"] == "Ada"
        assert api.client.get(f"{CHARGES}/{charged['id']}", headers=headers).json() == charged
        assert api.client.get(CHARGES, params={"order": "order-1"}, headers=headers).json() == {"charges": [charged]}
    assert (api.count("customers"), api.count("idempotency_keys")) == (1, 1)


def test_refunds_at_once(api: Api) -> None:
    """Refunds at once give back no more than was charged; the refusal is an answer under its key too."""
    charged = api.charge(amount=100).json()["id"]

    def refund(number: int) -> httpx.Response:
        return api.client.post("/v1/refunds", json={"charge": charged, "amount": 40}, headers=key(f"r-{number}"))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(refund, range(8)))

    assert Counter(answer.status_code for answer in answers) == {201: 2, 409: 6}
    assert {code(answer) for answer in answers if answer.status_code == 409} == {"not_refundable"}
    assert [refund(number).status_code for number in range(8)] == [answer.status_code for answer in answers]
    assert api.client.get(f"{CHARGES}/{charged}").json()["refunded"] == 80
