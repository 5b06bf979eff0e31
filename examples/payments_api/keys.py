# ruff: noqa: S608 - statements are put together from our own words; values travel apart
"""The table of keys: claim, takeover, complete, release, cleanup. Each is one atomic statement; there are no locks."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from .answers import Answer
from .database import Database, Row, Transaction, one


@dataclass(frozen=True, slots=True)
class Identity:
    """What a key is unique in, and the key."""

    tenant: str
    endpoint: str
    key: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """The request is ours to execute, as *owner*; *takeover* if a worker died at it before."""

    owner: str
    takeover: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """Somebody is at it."""


@dataclass(frozen=True, slots=True)
class Mismatched:
    """The key stands for another request."""

    stored_hash: str


@dataclass(frozen=True, slots=True)
class Stored:
    """It was done earlier; this is the answer."""

    answer: Answer


Found: TypeAlias = Claimed | Running | Mismatched | Stored

_MINE = "tenant = :tenant AND endpoint = :endpoint AND key = :key"

_CLAIM = """
INSERT INTO idempotency_keys
    (tenant, endpoint, key, request_hash, status, owner, locked_until, created_at, expires_at)
VALUES (:tenant, :endpoint, :key, :request_hash, 'in_progress', :owner, {later}, {now}, {expiry})
ON CONFLICT (tenant, endpoint, key) DO NOTHING
RETURNING owner
"""
_LOOK = f"""
SELECT id, request_hash, status, owner, response_code, response_headers, response_body,
    expires_at <= {{now}} AS expired, locked_until <= {{now}} AS lapsed
FROM idempotency_keys WHERE {_MINE}
"""
# Compare-and-swap: of two that saw the same dead owner, one finds it still there.
_TAKE_OVER = f"""
UPDATE idempotency_keys SET owner = :owner, locked_until = {{later}}
WHERE {_MINE} AND status = 'in_progress' AND owner = :dead AND locked_until <= {{now}}
RETURNING owner
"""
_FORGET = """
DELETE FROM idempotency_keys
WHERE id = :id AND expires_at <= {now} AND (status <> 'in_progress' OR locked_until <= {now})
"""
# Fenced: a worker that was taken over finds its name gone, and rolls its effect back.
_COMPLETE = f"""
UPDATE idempotency_keys SET status = :status, owner = NULL, locked_until = NULL, response_code = :code,
    response_headers = :headers, response_body = :body, resource_type = :resource_type, resource_id = :resource_id
WHERE {_MINE} AND status = 'in_progress' AND owner = :owner
RETURNING id
"""
_RELEASE = f"DELETE FROM idempotency_keys WHERE {_MINE} AND status = 'in_progress' AND owner = :owner RETURNING id"
_CLEAN_UP = """
DELETE FROM idempotency_keys WHERE id IN (
    SELECT id FROM idempotency_keys
    WHERE expires_at <= {now} AND (status <> 'in_progress' OR locked_until <= {now})
    ORDER BY expires_at LIMIT :batch {skip_locked}
) RETURNING id
"""

_TURNS = 5
"""How often a row that vanishes between two looks is looked for again."""


class Keys:
    """The table of keys in *database*."""

    def __init__(self, database: Database, *, lease_seconds: float, key_seconds: float) -> None:
        self._database = database
        self._lease = lease_seconds
        self._keep = key_seconds

    def claim(self, identity: Identity, request_hash: str) -> Found:
        """Make the key ours, or learn what is known about it."""
        owner = uuid.uuid4().hex
        where = {"tenant": identity.tenant, "endpoint": identity.endpoint, "key": identity.key}
        with self._database.transaction() as transaction:
            for _ in range(_TURNS):
                if self._insert(transaction, where, request_hash, owner):
                    return Claimed(owner)
                row = one(transaction, _LOOK, **where)
                if row is None:
                    continue  # released, or cleaned up, a moment ago
                if row["expired"] and (row["status"] != "in_progress" or row["lapsed"]):
                    transaction.rows(_FORGET, id=row["id"])
                    continue
                if row["request_hash"] != request_hash:
                    return Mismatched(row["request_hash"])
                if row["status"] != "in_progress":
                    return Stored(_answer(row))
                if row["lapsed"] and one(
                    transaction, _TAKE_OVER, **where, owner=owner, dead=row["owner"], seconds=self._lease
                ):
                    return Claimed(owner, takeover=True)
                return Running()
        return Running()

    def _insert(self, transaction: Transaction, where: dict[str, str], request_hash: str, owner: str) -> bool:
        return bool(
            transaction.rows(
                _CLAIM, **where, request_hash=request_hash, owner=owner, seconds=self._lease, keep=self._keep
            )
        )

    def complete(self, transaction: Transaction, identity: Identity, owner: str, answer: Answer) -> bool:
        """Record *answer*, inside the transaction of its effect; False if *owner* has been taken over."""
        found = transaction.rows(
            _COMPLETE,
            tenant=identity.tenant,
            endpoint=identity.endpoint,
            key=identity.key,
            owner=owner,
            status="succeeded" if answer.status < 400 else "failed",
            code=answer.status,
            headers=json.dumps(answer.headers),
            body=answer.body,
            resource_type=answer.resource_type,
            resource_id=answer.resource_id,
        )
        return bool(found)

    def release(self, identity: Identity, owner: str) -> None:
        """Give the key back, as if the request had never come: its effect was rolled back."""
        with self._database.transaction() as transaction:
            transaction.rows(
                _RELEASE, tenant=identity.tenant, endpoint=identity.endpoint, key=identity.key, owner=owner
            )

    def clean_up(self, batch: int) -> int:
        """Delete up to *batch* expired rows, in a transaction of its own; how many there were."""
        with self._database.transaction() as transaction:
            return len(transaction.rows(_CLEAN_UP, batch=batch))


def _answer(row: Row) -> Answer:
    headers = tuple((name, value) for name, value in json.loads(row["response_headers"]))
    return Answer(row["response_code"], headers, bytes(row["response_body"]))
