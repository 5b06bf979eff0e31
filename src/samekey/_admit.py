"""Before the first attempt: whose request this is, and whether it gets a key. `_bind` says which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._bind import refused_hop
from ._call import Call
from ._messages import REFUSED_HOP
from ._operation import current_operation
from ._options import DEFAULT, EXTENSION, Options
from ._outgoing import take_off
from ._report import CALL
from ._signing import KEYED_ON_REQUEST, SIGNED
from ._straight import First
from ._wire import origin_of
from .dialects import Dialect

if TYPE_CHECKING:
    import httpx

    from ._engine import Engine
    from ._trail import Trail

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PUT", "DELETE"})
"""Idempotent by definition (RFC 9110, section 9.2.2; QUERY by its own draft): repeated without a key."""

CHALLENGES = frozenset({401, 407})
"""Statuses after which an auth flow may go on."""


def admit(engine: Engine, request: httpx.Request) -> Call | None:
    """The call of this request; None if samekey has no business with it. Its body has not been looked at yet.

    Raises:
        ValueError: Settings of the request cannot be met.
        TypeError: The request belongs to the other HTTP library.
        NotSent: A redirect would repeat the request at an origin that was not named.
    """
    engine.check(request)
    extensions = request.extensions
    options = extensions.get(EXTENSION, DEFAULT)
    if not isinstance(options, Options):
        raise TypeError(f'extensions["{EXTENSION}"] must come from samekey.options(...), not {type(options).__name__}')
    dialect = engine.dialect_for(request.url)
    trail = extensions.get(CALL)
    if isinstance(trail, First):
        trail = extensions[CALL] = trail.shared()
    own = False
    if trail is not None and trail.pending:
        if _is_next_leg(request, trail):
            return _follow(engine, request, options, dialect, trail)
        # An auth flow has made it out of ours, extensions and all; it is a request of its own.
        trail, options, own = None, DEFAULT, True
    if dialect is None:
        if options.key or options.name is not None:
            raise ValueError(
                f"options() names a key or an operation, but {request.url.scheme}://{request.url.host} is not among "
                "the origins that honour keys; nothing was sent. Name it in origins="
            )
        return None
    call = Call(engine, request, dialect, options)
    call.signed = None if own else extensions.get(SIGNED)
    _choose(call, own=own)
    if trail is not None and trail.keyed:
        call.earlier = trail
        call.keyed = True
    return call


def _is_next_leg(request: httpx.Request, trail: Trail) -> bool:
    """Whether httpx goes on with the call: after a challenge with the same request, or one that equals it."""
    if trail.pending not in CHALLENGES or trail.request() is request:
        return True
    place = (request.method, origin_of(request.url), request.url.raw_path)
    return place == (trail.method, trail.origin, trail.path) and trail.has_body(request.stream)


def _follow(
    engine: Engine, request: httpx.Request, options: Options, dialect: Dialect | None, trail: Trail
) -> Call | None:
    """The next leg of a call whose last answer httpx acted on."""
    trail.pending = 0
    exchange = trail.exchange
    origin = origin_of(request.url)
    repeats = request.method == trail.method
    if exchange.keyed and repeats and not engine.names(origin, trail.origin):
        raise refused_hop(Call(engine, request, engine.dialect, options, trail), REFUSED_HOP)
    if exchange.keyed and not repeats and SIGNED in request.extensions:
        take_off(trail.carrier, request.headers)
    if dialect is None:
        if not (exchange.keyed and repeats):
            return None
        dialect = engine.origins.get(trail.origin, engine.dialect)  # http became https on the same host
    if exchange.keyed and not repeats:
        exchange.without_key()
    return Call(engine, request, dialect, options, trail)


def _choose(call: Call, *, own: bool) -> None:
    """Whether the request is keyed, and the key its caller gave."""
    options, request = call.options, call.request
    method = request.method
    call.given = _in_header(call)
    if call.signed is not None and call.signed.key == call.given:
        call.given = None
    call.repeatable = method in IDEMPOTENT or options.idempotent
    if options.key is False:
        if call.given is not None:
            raise ValueError(f"key=False, but the request has the header {call.header!r}; leave one of them out")
    elif not options.idempotent:
        asked = call.given is not None or options.key is not None
        call.keyed = method in call.dialect.methods or (asked and method in KEYED_ON_REQUEST)
    # httpx's client sets a timeout on everything it sends; what has none was made by an auth flow.
    if call.keyed and "timeout" in request.extensions and not own:
        call.operation = current_operation()


def _in_header(call: Call) -> str | None:
    header = call.header
    if header is None or header not in call.request.headers:
        return None
    values = call.request.headers.get_list(header)
    if len(values) > 1:
        raise ValueError(f"the request has {len(values)} lines of {header!r}; leave one, since a request has one key")
    key = call.dialect.carrier.decode(values[0])  # type: ignore[union-attr]
    if call.request.method in call.dialect.methods or call.request.method in KEYED_ON_REQUEST:
        call.dialect.key.check(key)
    return key
