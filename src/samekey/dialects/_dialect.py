"""`Dialect`: everything samekey has to know about how one API speaks idempotency."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TypeVar, cast

from samekey._model import Verdict
from samekey.dialects._carriers import Carrier, Header, header_name
from samekey.dialects._keyrule import KeyRule
from samekey.dialects._rules import ReplayMarker, RetryHint, Rule, status_of_rule, verdict_of_rule

T = TypeVar("T")

REPLAY_MARKERS = (
    *(
        ReplayMarker(prefix + name)
        for name in ("Idempotent-Replayed", "Idempotency-Replayed", "Idempotency-Replay")
        for prefix in ("", "X-")
    ),
    ReplayMarker("Idempotent-Replay"),
    ReplayMarker("X-Idempotency-Cache-Hit"),
    ReplayMarker("Request-Idempotency"),
    ReplayMarker("Idempotency-Status", "status"),
    ReplayMarker("X-Idempotency-Status", "status"),
    ReplayMarker("X-Idempotency-Cache", "status"),
)
"""The replay markers seen in public APIs that carry a value; the default of `Dialect.replay`."""

RETRY_HINTS = (RetryHint("Stripe-Should-Retry"), RetryHint("X-Should-Retry"))
"""The default of `Dialect.hints`."""

ANYWHERE = frozenset({b"repeatability-result", b"x-amzn-errortype", b"x-ms-error-code"})
"""Headers that say something of any API's answer."""

_STATUS_CLASSES = frozenset({"2xx", "4xx", "5xx"})
_NEVER_KEYED = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"})
_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})
_FRONT_DOOR = frozenset({400, 401, 403, 404, 405, 407, 413, 415, 421, 422, 425, 426, 428, 429, 431, 451})
"""What gateways, limiters and parsers answer before anybody has looked at the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """
    How one API speaks idempotency: where the key goes, what its answers mean, what it keeps and for how long.

    The defaults describe an API about which nothing is known beyond the usual header. A dialect claims only what the
    API documents: where it is silent samekey reports an unknown outcome rather than a guess.

    A key that the caller wrote into the carrier is that request's key. It is sent as it is, whatever *key* says about
    making new ones; it must pass the checks of *key*.

    Args:
        name: For logs and reports.
        carrier: Where the key travels: `Header` (default ``Idempotency-Key``), `JsonField` or `RepeatabilityHeaders`.
        methods: Methods that get a key, default POST and PATCH.
        key: How keys are made and checked, default UUIDv7 of 1 to 255 bytes.
        retention: Seconds (or a `timedelta`) for which the API keeps a key after its first request; ``math.inf`` for
            ever; None (default) unknown: no age limit is applied.
        margin: Seconds before the end of *retention* at which samekey stops to send an old key, default 300.
        scope_headers: Request headers that belong to the fingerprint because they choose an account, such as
            ``Stripe-Account``. Never credentials: they are renewed between attempts.
        rules: What answers mean, in order; the first that fits wins, ahead of the general reading.
        bare_status: What a status means whose answer says nothing more: no machine code, no telling text. Entries
            that speak of earlier use of the key count only where there can have been one.
        inspect_2xx: Whether bodies of 2xx answers are read as well, for APIs that report errors with 200.
        replay: Headers that mark a stored answer, default those in general use.
        hints: Headers that say whether to try again, default ``Stripe-Should-Retry`` and ``X-Should-Retry``.
        body_delay: Path of a number of seconds to wait in the body of an error; dots lead into objects.
        min_wait: Seconds to wait at least before the same key is sent again, default 0.
        stores: Classes of answers that the API stores and replays, out of ``"2xx"``, ``"4xx"``, ``"5xx"``; None
            (default) unknown.
        never_stored: Statuses that are not stored even so, default 401 and 429.
        reexecutes_failed: Whether work that failed is done again under the same key, so that even a 5xx with a replay
            marker is worth another try. Default False.
        detects_mismatch: Whether the API notices a key that comes with another request; None (default) unknown. For
            those who read the dialect: samekey compares requests itself, whatever the API does.
        believe_done: Whether an "already done" answer may be taken as a success. Default False.
        done_resource: Paths of the resource that an "already done" answer names, the first found wins.

    Raises:
        ValueError: A value or a combination is not possible; the message says what to write instead.
        TypeError: An argument has the wrong type.
    """

    name: str = "custom"
    carrier: Carrier = field(default_factory=Header)
    methods: frozenset[str] = frozenset({"POST", "PATCH"})
    key: KeyRule = field(default_factory=KeyRule)
    retention: float | timedelta | None = None
    margin: float = 300.0
    scope_headers: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    bare_status: Mapping[int, Verdict] = field(default_factory=dict, hash=False)
    inspect_2xx: bool = False
    replay: tuple[ReplayMarker, ...] = REPLAY_MARKERS
    hints: tuple[RetryHint, ...] = RETRY_HINTS
    body_delay: str | None = None
    min_wait: float = 0.0
    stores: frozenset[str] | None = None
    never_stored: frozenset[int] = frozenset({401, 429})
    reexecutes_failed: bool = False
    detects_mismatch: bool | None = None
    believe_done: bool = False
    done_resource: tuple[str, ...] = ()
    markers: Mapping[str, ReplayMarker] = field(init=False, repr=False, compare=False)
    """*replay* by lower-case header name."""
    telling: frozenset[bytes] = field(init=False, repr=False, compare=False)
    """Names of the headers that say more of a success than its status does: those in *markers*, and its encoding."""
    telling_of_failure: frozenset[bytes] | None = field(init=False, repr=False, compare=False)
    """Names of all headers that may say more of a 5xx than its status does; None if more than headers may."""

    def __post_init__(self) -> None:
        _instance(self.name, str, "name")
        _instance(self.carrier, Carrier, "carrier")
        _instance(self.key, KeyRule, "key")
        for name in ("inspect_2xx", "reexecutes_failed", "believe_done"):
            _instance(getattr(self, name), bool, name)
        _instance(self.detects_mismatch, bool | None, "detects_mismatch")
        replace = object.__setattr__
        replace(self, "methods", frozenset(_method(name) for name in _several(self.methods, str, "methods")))
        self._check_times()
        replace(
            self, "scope_headers", tuple(_scope(name) for name in _several(self.scope_headers, str, "scope_headers"))
        )
        self._check_answers()
        self._check_storage()

    def _check_times(self) -> None:
        seconds = self.retention.total_seconds() if isinstance(self.retention, timedelta) else self.retention
        times: dict[str, object] = {"margin": self.margin, "min_wait": self.min_wait}
        if seconds is not None:
            times["retention"] = seconds
        for name, value in times.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"Dialect.{name} must be a number of seconds, not {type(value).__name__}")
            if math.isnan(value) or value < 0 or (math.isinf(value) and name != "retention"):
                raise ValueError(f"Dialect.{name} must be a finite number of seconds, 0 or more")
            object.__setattr__(self, name, float(value))
        if seconds is not None and self.margin >= seconds:
            raise ValueError(
                f"Dialect.margin ({self.margin:g} s) must be less than retention ({seconds:g} s); set a smaller margin"
            )

    def _check_answers(self) -> None:
        replace = object.__setattr__
        replace(self, "rules", _several(self.rules, Rule, "rules"))
        replace(self, "replay", _several(self.replay, ReplayMarker, "replay"))
        replace(self, "hints", _several(self.hints, RetryHint, "hints"))
        for rule in self.rules:
            if not self.inspect_2xx and any(status < 300 and status != 202 for status in rule.statuses or ()):
                raise ValueError("a Rule for a 2xx other than 202 is never asked; set inspect_2xx=True as well")
        _instance(self.bare_status, Mapping, "bare_status")
        bare = {
            status_of_rule(status, "Dialect.bare_status"): verdict_of_rule(verdict, "Dialect.bare_status")
            for status, verdict in self.bare_status.items()
        }
        if any(status < 400 for status in bare):
            raise ValueError("Dialect.bare_status is for 4xx and 5xx; write a Rule for a 2xx")
        replace(self, "bare_status", MappingProxyType(bare))
        replace(self, "markers", MappingProxyType({marker.header: marker for marker in self.replay}))
        telling = frozenset(name.encode() for name in self.markers) | {b"content-encoding"}
        hints = frozenset(hint.header.encode() for hint in self.hints)
        quiet = not self.rules and self.body_delay is None and all(hint.absent is None for hint in self.hints)
        replace(self, "telling", telling)
        replace(self, "telling_of_failure", telling | hints | ANYWHERE if quiet else None)

    def _check_storage(self) -> None:
        replace = object.__setattr__
        if self.stores is not None:
            replace(self, "stores", frozenset(_several(self.stores, str, "stores")))
            if not self.stores <= _STATUS_CLASSES:
                raise ValueError("Dialect.stores may hold '2xx', '4xx' and '5xx'; None for unknown")
        replace(self, "never_stored", frozenset(_several(self.never_stored, int, "never_stored")))
        replace(self, "done_resource", _several(self.done_resource, str, "done_resource"))
        _instance(self.body_delay, str | None, "body_delay")
        for path in (*self.done_resource, *([] if self.body_delay is None else [self.body_delay])):
            if not all(path.split(".")):
                raise ValueError(f"the path {path!r} has an empty part; write 'field' or 'parent.field'")

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only view of a mapping neither pickles nor copies.
        settings = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return _restore, (settings | {"bare_status": dict(self.bare_status)},)

    @property
    def usable_for(self) -> float | None:
        """Seconds after its first send for which a key may be sent again: *retention* less *margin*, or None."""
        if self.retention is None:
            return None
        return cast("float", self.retention) - self.margin

    def settles(self, status: int) -> bool:
        """
        Whether an ordinary 4xx answer ends the doubt about an earlier attempt with the same key.

        It does when it was made behind the lookup of the key: the API stores such answers, or *status* is not one
        that a front door (gateway, parser, limiter) gives.

        Args:
            status: The status of the answer.

        Returns:
            False for anything but 4xx.
        """
        if not 400 <= status <= 499:
            return False
        stored = self.stores is not None and "4xx" in self.stores and status not in self.never_stored
        return stored or status not in _FRONT_DOOR


def _restore(settings: dict[str, Any]) -> Dialect:
    return Dialect(**settings)


def _instance(value: object, kind: object, name: str) -> None:
    if not isinstance(value, kind):  # type: ignore[arg-type]
        wanted = getattr(kind, "__name__", str(kind))
        raise TypeError(f"Dialect.{name} must be {wanted}, not {type(value).__name__}")


def _several(values: Iterable[T], kind: type[T], name: str) -> tuple[T, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"Dialect.{name} must be a collection of {kind.__name__}, such as a tuple")
    found = tuple(values)
    if not all(isinstance(value, kind) for value in found):
        raise TypeError(f"Dialect.{name} may hold {kind.__name__} only")
    return found


def _method(name: str) -> str:
    name = header_name(name, "Dialect.methods").upper()
    if name in _NEVER_KEYED:
        raise ValueError(f"Dialect.methods: {name} never carries a key")
    return name


def _scope(name: str) -> str:
    if header_name(name, "Dialect.scope_headers").lower() in _CREDENTIALS:
        raise ValueError(f"Dialect.scope_headers: {name} is a credential and may change between two attempts")
    return name
