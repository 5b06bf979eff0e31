"""What a journal is asked and what it answers: the states of a row, a claim, an end. Public in `samekey.journal`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ._keys import digest
from ._settings import check_flag, check_number_of_seconds, check_size


class RowState(StrEnum):
    """Where a named operation stands."""

    CLAIMED = "claimed"
    """Its key is reserved; nothing was sent, or each attempt was turned away at the door."""
    IN_FLIGHT = "in_flight"
    """An owner may be sending, until its lease runs out."""
    UNKNOWN = "unknown"
    """It may have been executed; nobody is at it."""
    EXECUTED = "executed"
    """Done; the row has the answer, or only what it made."""
    REJECTED = "rejected"
    """Refused; the row has the answer. Without a status: resolved by hand as not executed."""


ENDED = (RowState.EXECUTED, RowState.REJECTED)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry:
    """One row of a journal, as it stands after a step.

    Attributes:
        scope: What the name is unique in; "" for none.
        name: Name of the operation.
        key: Its idempotency key.
        fingerprint: Digest of the request it stands for; None while it is only claimed.
        state: Where it stands.
        owner: Token of the call that holds it; None if nobody does.
        lease_left: Seconds until the owner's lease runs out, by the journal's clock; negative once it has.
        sends: How many calls may have sent under this key, the present owner included.
        age: Seconds since the first of them began, by the journal's clock; 0 if none did.
        updated: Seconds since the row was last written.
        status: HTTP status of the stored answer, or None.
        headers: Headers of the stored answer, without credentials and cookies.
        body: Body of the stored answer as it came over the wire; None if it was not kept.
        body_digest: SHA-256 of that body, where only the digest was kept.
        resource: What was made, where only this is known.
        content_type: Of the stored request.
        request: Body of the stored request, until the operation ends; None without `store_request`.
        swept: Whether headers and bodies were dropped because of age.
    """

    scope: str
    name: str
    key: str
    fingerprint: str | None = None
    state: RowState = RowState.CLAIMED
    owner: str | None = None
    lease_left: float = 0.0
    sends: int = 0
    age: float = 0.0
    updated: float = 0.0
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    body_digest: str | None = None
    resource: str | None = None
    content_type: str | None = None
    request: bytes | None = None
    swept: bool = False

    def __repr__(self) -> str:
        return (
            f"Entry(scope={self.scope!r}, name={self.name!r}, key=<{digest(self.key)}>, state={str(self.state)!r}, "
            f"status={self.status}, sends={self.sends}, age={self.age:.0f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Claim:
    """What a call asks for before it sends.

    Attributes:
        scope: What the name is unique in; "" for none.
        name: Name of the operation.
        key: The key to use if the name is new.
        fingerprint: Digest of the request.
        owner: A token of this call, unlike any other.
        lease: Seconds for which the call wants to hold the name.
        content_type: Of the request, to be kept with *request*.
        request: Body of the request to be kept until the operation ends; None to keep none.
        retry_rejected: Start again with *key* although this very request was refused before.
    """

    scope: str
    name: str
    key: str
    fingerprint: str
    owner: str
    lease: float
    content_type: str | None = None
    request: bytes | None = None
    retry_rejected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ended:
    """How a call leaves the name that it owns.

    Attributes:
        scope: What the name is unique in; "" for none.
        name: Name of the operation.
        owner: The token it was claimed with.
        state: Where the operation stands now; never IN_FLIGHT.
        status: HTTP status of the answer to keep, or None.
        headers: Its headers, credentials and cookies left out.
        body: Its body, or None to keep none.
        body_digest: SHA-256 of a body that is not kept.
        resource: What was made, where only this is known.
    """

    scope: str
    name: str
    owner: str
    state: RowState
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    body_digest: str | None = None
    resource: str | None = None


def first_entry(claim: Claim, lease_left: float = 0.0) -> Entry:
    """The row that *claim* makes of a new name."""
    return Entry(
        scope=claim.scope,
        name=claim.name,
        key=claim.key,
        fingerprint=claim.fingerprint,
        state=RowState.IN_FLIGHT,
        owner=claim.owner,
        lease_left=lease_left,
        sends=1,
        content_type=claim.content_type,
        request=claim.request,
    )


def check_page(older_than: object, limit: object) -> float:
    """Return *older_than* in seconds, if both can be asked of a listing or a sweep."""
    check_size("limit", limit)
    return check_number_of_seconds("older_than", older_than, zero=True)


def check_decision(*, executed: object, resource: object) -> None:
    """Refuse what nobody can mean: a resource of something that was not executed."""
    check_flag("executed", executed)
    if resource is not None and not executed:
        raise ValueError("resource names what an executed operation made; executed=False made nothing")


def describe(scope: str, name: str) -> str:
    """The operation, as errors name it."""
    return f"operation {name!r}" + (f" in scope {scope!r}" if scope else "")


def refusal(scope: str, name: str, entry: Entry | None) -> KeyError | ValueError:
    """Why an operation cannot be resolved, given its row (or None)."""
    if entry is None:
        return KeyError(f"the journal has no {describe(scope, name)}")
    if entry.state in ENDED:
        return ValueError(f"{describe(scope, name)} has ended already: {entry.state}")
    return ValueError(f"somebody is at {describe(scope, name)}: the lease runs for another {entry.lease_left:.0f} s")
