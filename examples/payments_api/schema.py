"""The tables, for both databases.

A key is unique per tenant, endpoint and key. `locked_until` is the lease of the worker that is at it; `expires_at` has
an index because the cleanup asks by it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """Where the two databases differ."""

    moment: str
    identity: str
    bytes: str
    now: str
    later: str
    """A moment ``:seconds`` from now."""
    expiry: str
    """A moment ``:keep`` seconds from now."""
    skip_locked: str


POSTGRES = Words(
    moment="timestamptz",
    identity="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    bytes="bytea",
    # Not now(): that is when the transaction began, and a lease must not be judged by an old clock.
    now="clock_timestamp()",
    later="clock_timestamp() + make_interval(secs => :seconds)",
    expiry="clock_timestamp() + make_interval(secs => :keep)",
    skip_locked="FOR UPDATE SKIP LOCKED",
)
SQLITE = Words(
    moment="real",
    identity="integer PRIMARY KEY AUTOINCREMENT",
    bytes="blob",
    now="now_seconds()",
    later="now_seconds() + :seconds",
    expiry="now_seconds() + :keep",
    skip_locked="",  # one writer at a time: there is nothing locked to skip
)

TABLES = """
CREATE TABLE IF NOT EXISTS idempotency_keys (
    id {identity},
    tenant text NOT NULL,
    endpoint text NOT NULL,
    key text NOT NULL,
    request_hash text NOT NULL,
    status text NOT NULL CHECK (status IN ('in_progress', 'succeeded', 'failed')),
    owner text,
    locked_until {moment},
    response_code integer,
    response_headers text,
    response_body {bytes},
    resource_type text,
    resource_id text,
    created_at {moment} NOT NULL,
    expires_at {moment} NOT NULL,
    UNIQUE (tenant, endpoint, key)
);
CREATE INDEX IF NOT EXISTS idempotency_keys_expires_at ON idempotency_keys (expires_at);

CREATE TABLE IF NOT EXISTS charges (
    id text PRIMARY KEY,
    tenant text NOT NULL,
    order_ref text NOT NULL,
    amount integer NOT NULL,
    currency text NOT NULL,
    status text NOT NULL CHECK (status IN ('authorized', 'captured', 'refused')),
    refunded integer NOT NULL DEFAULT 0 CHECK (refunded BETWEEN 0 AND amount),
    processor_ref text,
    created_at {moment} NOT NULL
);
CREATE INDEX IF NOT EXISTS charges_order ON charges (tenant, order_ref);

CREATE TABLE IF NOT EXISTS refunds (
    id text PRIMARY KEY,
    charge_id text NOT NULL REFERENCES charges (id),
    amount integer NOT NULL,
    created_at {moment} NOT NULL
);

CREATE TABLE IF NOT EXISTS customers (
    tenant text NOT NULL,
    id text NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE IF NOT EXISTS outbox (
    id {identity},
    processor_key text NOT NULL UNIQUE,
    charge_id text NOT NULL REFERENCES charges (id),
    request text NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'refused', 'review')),
    attempts integer NOT NULL DEFAULT 0,
    owner text,
    locked_until {moment},
    due_at {moment} NOT NULL
);
CREATE INDEX IF NOT EXISTS outbox_due ON outbox (due_at) WHERE state = 'waiting';
"""
# No constraint says "one charge per order" on purpose: that nothing is charged twice must come from the keys alone,
# and the storm would not see it fail otherwise.


def tables(words: Words) -> str:
    """The statements that make what is missing."""
    return TABLES.format(identity=words.identity, moment=words.moment, bytes=words.bytes)
