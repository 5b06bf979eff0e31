"""The journal in SQL: table, statements and row codec, once for both databases; no driver, no I/O.

Every step takes effect in one statement. What the databases spell differently is a field of `Database`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._journal_rows import Claim, Ended, Entry, RowState
from .errors import SECRET_HEADERS

VERSION = 1
"""Of the table. A journal refuses a table of a later version."""

Values: TypeAlias = dict[str, Any]
Row: TypeAlias = Sequence[Any]

_to_text = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, kw_only=True)
class Database:
    """How one database spells what differs.

    Attributes:
        now: The moment, by the journal's clock, at which it is evaluated: behind a wait for a lock it is later.
        later: That moment plus ``:lease`` seconds.
        before: That moment minus ``:older_than`` seconds.
        left: Seconds until ``lease_until``.
        age: Seconds since ``began``.
        idle: Seconds since ``updated``.
        held: The state that a claim gives to a row; the place for what it sets before it waits for a lock.
        moment: Type of a moment.
        bytes: Type of a body.
        unlocked: Ends a query for rows that are to be updated.
        mark: Template of a parameter, for `re.sub`.
    """

    now: str
    later: str
    before: str
    left: str
    age: str
    idle: str
    held: str = "'in_flight'"
    moment: str
    bytes: str
    unlocked: str = ""
    mark: str = r":\1"


_SCHEMA = """\
CREATE TABLE IF NOT EXISTS {table} (
    scope text NOT NULL,
    name text NOT NULL,
    key text NOT NULL,
    fingerprint text,
    state text NOT NULL,
    owner text,
    lease_until {moment},
    sends integer NOT NULL,
    began {moment},
    updated {moment} NOT NULL,
    status integer,
    headers text,
    body {bytes},
    body_digest text,
    resource text,
    content_type text,
    request {bytes},
    swept boolean NOT NULL DEFAULT FALSE,
    PRIMARY KEY (scope, name)
);
CREATE INDEX IF NOT EXISTS {index}_unresolved ON {table} (updated) WHERE state IN ('in_flight', 'unknown');
CREATE INDEX IF NOT EXISTS {index}_sweep ON {table} (updated) WHERE state IN ('executed', 'rejected') AND NOT swept;
"""

# The owner stays in a row that has ended: it tells the owner's own repeated `record` from a stranger's.
_ROW = (
    "scope, name, key, fingerprint, state, CASE WHEN state = 'in_flight' THEN owner END, {left}, sends, {age}, {idle}, "
    "status, headers, body, body_digest, resource, content_type, request, swept"
)

_GRANTED = """(
    (was.state = 'in_flight' AND was.owner = :owner)
    OR (
        (was.state IN ('claimed', 'unknown') OR (was.state = 'in_flight' AND was.lease_until <= {now}))
        AND (was.fingerprint = :fingerprint OR (was.state = 'claimed' AND was.fingerprint IS NULL))
    )
    OR (
        was.state = 'rejected'
        AND (COALESCE(was.fingerprint, '') <> :fingerprint OR :retry_rejected OR was.status IS NULL)
    )
)"""

# A claim takes effect in one of two statements, whichever finds what it needs; the other changes nothing. Most names
# are new, and for them the insert alone costs least. A claim that is refused writes nothing and waits for no disk.
_INSERT = """
INSERT INTO {table}
    (scope, name, key, fingerprint, state, owner, lease_until, sends, began, updated, content_type, request)
VALUES (:scope, :name, :key, :fingerprint, {held}, :owner, {later}, 1, {now}, {now}, :content_type, :request)
ON CONFLICT (scope, name) DO NOTHING
RETURNING {left}
"""

# Whether the claim is granted is decided once, in WHERE: a clock that moves on between two columns cannot tear the row.
_TAKE = """
UPDATE {table} AS was SET
    key = CASE WHEN was.state = 'rejected' THEN :key ELSE was.key END,
    fingerprint = :fingerprint,
    state = {held},
    owner = :owner,
    lease_until = {later},
    sends = CASE
        WHEN was.state = 'rejected' THEN 1
        WHEN was.state = 'in_flight' AND was.owner = :owner THEN was.sends
        ELSE was.sends + 1
    END,
    began = CASE WHEN was.state = 'rejected' THEN {now} ELSE COALESCE(was.began, {now}) END,
    updated = {now},
    status = CASE WHEN was.state = 'rejected' THEN NULL ELSE was.status END,
    headers = CASE WHEN was.state = 'rejected' THEN NULL ELSE was.headers END,
    body = CASE WHEN was.state = 'rejected' THEN NULL ELSE was.body END,
    body_digest = CASE WHEN was.state = 'rejected' THEN NULL ELSE was.body_digest END,
    resource = CASE WHEN was.state = 'rejected' THEN NULL ELSE was.resource END,
    content_type = CASE WHEN was.request IS NULL THEN :content_type ELSE was.content_type END,
    request = COALESCE(was.request, :request),
    swept = FALSE
WHERE scope = :scope AND name = :name AND {granted}
RETURNING {row}
"""

_LOOK = "SELECT {row}, {granted} FROM {table} AS was WHERE scope = :scope AND name = :name"

_RENEW = """
UPDATE {table} SET lease_until = {later}, updated = {now}
WHERE scope = :scope AND name = :name AND owner = :owner AND state = 'in_flight'
RETURNING 1
"""

_RECORD = """
UPDATE {table} SET
    state = :state,
    lease_until = NULL,
    sends = CASE WHEN :state = 'claimed' THEN sends - 1 ELSE sends END,
    began = CASE WHEN :state <> 'claimed' OR sends > 1 THEN began END,
    updated = {now},
    status = :status,
    headers = :headers,
    body = :body,
    body_digest = :body_digest,
    resource = :resource,
    content_type = CASE WHEN :state NOT IN ('executed', 'rejected') THEN content_type END,
    request = CASE WHEN :state NOT IN ('executed', 'rejected') THEN request END
WHERE scope = :scope AND name = :name AND owner = :owner AND state = 'in_flight'
RETURNING 1
"""

_RECORDED = "SELECT 1 FROM {table} WHERE scope = :scope AND name = :name AND owner = :owner AND state = :state"

_GET = "SELECT {row} FROM {table} WHERE scope = :scope AND name = :name"

_PAGE = "SELECT {row} FROM {table} WHERE updated <= {before} AND {wanted} ORDER BY updated LIMIT :limit"

_UNRESOLVED = "state IN ('in_flight', 'unknown') AND (state = 'unknown' OR lease_until <= {now})"

_RESOLVE = """
UPDATE {table} SET
    state = :state,
    owner = NULL,
    lease_until = NULL,
    updated = {now},
    status = NULL,
    headers = NULL,
    body = NULL,
    body_digest = NULL,
    resource = CASE WHEN :executed THEN COALESCE(:resource, resource) END,
    content_type = NULL,
    request = NULL
WHERE scope = :scope AND name = :name
    AND (state IN ('claimed', 'unknown') OR (state = 'in_flight' AND lease_until <= {now}))
RETURNING {row}
"""

# The conditions stand twice: a row that was claimed anew since it was found due must not lose what it has now.
_SWEEP = """
WITH due AS MATERIALIZED (
    SELECT scope, name FROM {table}
    WHERE state IN ('executed', 'rejected') AND NOT swept AND updated <= {before}
    ORDER BY updated LIMIT :limit {unlocked}
)
UPDATE {table} SET headers = NULL, body = NULL, body_digest = NULL, swept = TRUE
WHERE state IN ('executed', 'rejected') AND NOT swept AND updated <= {before}
    AND (scope, name) IN (SELECT scope, name FROM due)
RETURNING 1
"""


class Statements:
    """The statements for one table in one database.

    Args:
        database: How the database spells what differs.
        table: Name of the table as it stands in a statement.
        index: Name from which those of the indexes are made.
    """

    def __init__(self, database: Database, *, table: str, index: str) -> None:
        self._database = database
        self._names = {name: value for name, value in vars(database).items() if name != "mark"}
        self._names |= {"table": table, "index": index}
        self._names |= {"row": self._fill(_ROW), "granted": self._fill(_GRANTED)}
        self.schema = self._fill(_SCHEMA)
        self.insert = self.statement(_INSERT)
        self.take = self.statement(_TAKE)
        self.look = self.statement(_LOOK)
        self.renew = self.statement(_RENEW)
        self.record = self.statement(_RECORD)
        self.recorded = self.statement(_RECORDED)
        self.get = self.statement(_GET)
        self.unresolved = self.statement(_PAGE, wanted=self._fill(_UNRESOLVED))
        self.resolve = self.statement(_RESOLVE)
        self.sweep = self.statement(_SWEEP)

    def entries(self, states: Sequence[RowState]) -> str:
        """List rows in any of *states*."""
        listed = ", ".join(f"'{RowState(state).value}'" for state in states or RowState)
        return self.statement(_PAGE, wanted=f"state IN ({listed})")

    def statement(self, template: str, **more: str) -> str:
        """*template* with everything filled in, and its ``:parameters`` as the driver wants them."""
        return re.sub(r"(?<!:):([a-z_]+)", self._database.mark, template.format(**self._names, **more))

    def _fill(self, template: str) -> str:
        return template.format(**self._names)


def values_of_claim(claim: Claim) -> Values:
    """The parameters of the statements of a claim."""
    return {
        "scope": claim.scope,
        "name": claim.name,
        "key": claim.key,
        "fingerprint": claim.fingerprint,
        "owner": claim.owner,
        "lease": claim.lease,
        "content_type": claim.content_type,
        "request": claim.request,
        "retry_rejected": claim.retry_rejected,
    }


def values_of_end(ended: Ended) -> Values:
    """The parameters of the statement `record`."""
    return {
        "scope": ended.scope,
        "name": ended.name,
        "owner": ended.owner,
        "state": ended.state.value,
        "status": ended.status,
        "headers": headers_to_text(ended.headers),
        "body": ended.body,
        "body_digest": ended.body_digest,
        "resource": ended.resource,
    }


def values_of_decision(name: str, scope: str, *, executed: bool, resource: str | None) -> Values:
    """The parameters of the statement `resolve`."""
    state = RowState.EXECUTED if executed else RowState.REJECTED
    return {"scope": scope, "name": name, "executed": executed, "state": state.value, "resource": resource}


def headers_to_text(headers: Sequence[tuple[str, str]]) -> str | None:
    """Headers as they are stored; a credential that got this far goes no further."""
    kept = [header for header in headers if header[0].lower().encode() not in SECRET_HEADERS]
    return _to_text(kept) if kept else None


def entry_of(row: Row) -> Entry:
    """The entry that a row of the database stands for."""
    return Entry(
        scope=row[0],
        name=row[1],
        key=row[2],
        fingerprint=row[3],
        state=RowState(row[4]),
        owner=row[5],
        lease_left=row[6] or 0.0,
        sends=row[7],
        age=max(row[8] or 0.0, 0.0),
        updated=max(row[9], 0.0),
        status=row[10],
        headers=tuple((name, value) for name, value in json.loads(row[11])) if row[11] else (),
        body=row[12],
        body_digest=row[13],
        resource=row[14],
        content_type=row[15],
        request=row[16],
        swept=bool(row[17]),
    )
