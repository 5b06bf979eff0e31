"""What the assertions of a `LedgerServer` check, and how they say what was seen."""

from __future__ import annotations

from collections.abc import Sequence

from ._records import Effect, ReceivedRequest, digest


def executed(
    count: int, effects: Sequence[Effect], requests: Sequence[ReceivedRequest], key: str | None = None
) -> None:
    """Fails unless there are *count* effects (under *key*, if given)."""
    counted = [effect for effect in effects if key is None or effect.key == key]
    if len(counted) == count:
        return
    under = "" if key is None else f" under key {digest(key)}"
    raise AssertionError(
        f"expected {count} execution{'' if count == 1 else 's'}{under}, saw {len(counted)}"
        f"{_listing('executed', [effect.request for effect in effects])}{_listing('requests', requests)}"
    )


def same_key(requests: Sequence[ReceivedRequest]) -> None:
    """Fails unless all *requests* carry one key."""
    keys = {request.key for request in requests}
    if len(keys) == 1 and None not in keys:
        return
    distinct = len(keys - {None})
    keyless = sum(request.key is None for request in requests)
    raise AssertionError(
        f"expected one key on every request, saw {distinct} distinct key{'' if distinct == 1 else 's'} and {keyless} "
        f"without a key{_listing('requests', requests)}"
    )


def same_body(requests: Sequence[ReceivedRequest]) -> None:
    """Fails unless all *requests* have one body."""
    bodies = {request.body for request in requests}
    if len(bodies) != 1:
        raise AssertionError(
            f"expected one body on every request, saw {len(bodies)} distinct bodies{_listing('requests', requests)}"
        )


def _listing(title: str, requests: Sequence[ReceivedRequest]) -> str:
    shown = [f"\n    {number}. {request!r}" for number, request in enumerate(requests[:_SHOWN], 1)]
    if len(requests) > _SHOWN:
        shown.append(f"\n    … and {len(requests) - _SHOWN} more")
    return f"\n  {title}:{''.join(shown) or ' none'}"


_SHOWN = 20
