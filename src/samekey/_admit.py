"""Before the first attempt: whose request this is, whether it gets a key, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._call import Call
from ._memory import Unresolved
from ._messages import KEYS_DIFFER, LOCAL_MISMATCH, REFUSED_HOP, REPEATED, UNFIT_HOP, compose
from ._named import bind_named
from ._operation import Operation, current_operation
from ._options import DEFAULT, EXTENSION, Options
from ._outgoing import credentials, take_off
from ._raising import local_error
from ._report import CALL
from ._signing import KEYED_ON_REQUEST, SIGNED
from ._state import KeyState
from ._straight import First
from ._telling import tell_of
from ._trail import Told, Trail
from ._wire import is_form, is_token_request, origin_of
from .dialects import Dialect, JsonField
from .errors import IdempotencyError
from .events import MismatchFound, UnresolvedRepeated

if TYPE_CHECKING:
    import httpx

    from ._engine import Engine

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PUT", "DELETE"})
"""Idempotent by definition (RFC 9110, section 9.2.2; QUERY by its own draft): repeated without a key."""


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
    if trail is not None and trail.pending:
        return _follow(engine, request, options, dialect, trail)
    if dialect is None:
        if options.key or options.name is not None:
            raise ValueError(
                f"options() names a key or an operation, but {request.url.scheme}://{request.url.host} is not among "
                "the origins that honour keys; nothing was sent. Name it in origins="
            )
        return None
    call = Call(engine, request, dialect, options)
    call.signed = extensions.get(SIGNED)
    if trail is not None and trail.exchange.keyed:
        call.earlier = trail
        call.keyed = True
    else:
        _choose(call)
    return call


def _follow(
    engine: Engine, request: httpx.Request, options: Options, dialect: Dialect | None, trail: Trail
) -> Call | None:
    """The next leg of a call whose last answer httpx acted on."""
    trail.pending = False
    exchange = trail.exchange
    origin = origin_of(request.url)
    repeats = request.method == trail.method
    if exchange.keyed and repeats and not engine.names(origin, trail.origin):
        call = Call(engine, request, engine.dialect, options, trail)
        raise _refused_hop(call, REFUSED_HOP)
    if exchange.keyed and not repeats and SIGNED in request.extensions:
        take_off(trail.carrier, request.headers)
    if dialect is None:
        if not (exchange.keyed and repeats):
            return None
        dialect = engine.origins.get(trail.origin, engine.dialect)  # http became https on the same host
    if exchange.keyed and not repeats:
        exchange.without_key()
    return Call(engine, request, dialect, options, trail)


def _refused_hop(call: Call, text: tuple[str, str, str], why: object = "") -> IdempotencyError:
    url = call.request.url
    origin = f"{url.scheme}://{url.netloc.decode()}"
    refused = call.exchange.refuse_hop()
    return _local(call, refused.error, compose(text, call.exchange.state.key, origin=origin, why=why))


def _choose(call: Call) -> None:
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
    if call.keyed and "timeout" in request.extensions:
        call.operation = current_operation()


def _in_header(call: Call) -> str | None:
    header = call.header
    if header is None or header not in call.request.headers:
        return None
    values = call.request.headers.get_list(header)
    if len(values) > 1:
        raise ValueError(f"the request has {len(values)} lines of {header!r}; a request has one key")
    key = call.dialect.carrier.decode(values[0])  # type: ignore[union-attr]
    if call.request.method in call.dialect.methods or call.request.method in KEYED_ON_REQUEST:
        call.dialect.key.check(key)
    return key


def bind(call: Call) -> None:
    """Give the call its key and its state; the body has been read.

    Raises:
        KeyMismatch: The key stands for another request, or two different keys were given.
        OutcomeUnknown: An identical request is unresolved (`RetryPolicy.on_unresolved`).
        ValueError: A name without a journal, or a key the dialect does not allow.
        RuntimeError: The operation was made before a fork.
    """
    if call.trail is not None:
        _go_on(call, call.trail)
        return
    if call.keyed and call.earlier is None and _nobody_gave_a_key(call) and _is_token_request(call):
        call.keyed, call.operation = False, None
    if not call.keyed:
        call.begin(KeyState("", made_here=True), automatic=False)
        return
    if call.earlier is not None:
        _bind_again(call, call.earlier)
        return
    if isinstance(call.dialect.carrier, JsonField):
        call.given = _in_body(call)
        if call.signed is not None and call.signed.key == call.given:
            call.given = None
    name = call.options.name or (call.operation.name if call.operation else None)
    if name is not None:
        bind_named(call, name, _one_key(call, call.operation))
    elif call.operation is not None:
        _bind_to_operation(call, call.operation)
    elif call.given is None and call.options.key is None:
        _make_own(call)
    else:
        key = _one_key(call, None)
        assert key is not None
        call.dialect.key.check(key)
        with call.engine.memory.lock:
            state = call.engine.memory.state_of(KeyState(key, made_here=False, scope=call.options.scope))
        call.begin(state, automatic=False)
        _check_binding(call)


def _go_on(call: Call, trail: Trail) -> None:
    """The next leg; the API that a redirect leads to may want the key elsewhere, and in another form."""
    trail.body = trail.body if call.body is None else call.body
    if not call.exchange.keyed:
        return
    dialect, key = call.dialect, call.exchange.state.key
    try:
        dialect.key.check(key)
        if isinstance(dialect.carrier, JsonField) and dialect.carrier != trail.carrier:
            dialect.carrier.insert(_whole_body(call), key)
    except (ValueError, TypeError) as error:
        raise _refused_hop(call, UNFIT_HOP, error) from error


def _bind_again(call: Call, earlier: Trail) -> None:
    """The same request object is sent once more: a new call with the same key."""
    holding = earlier.exchange.holding
    if holding is not None:
        bind_named(call, str(earlier.exchange.state.name), holding.given)
        return
    earlier.exchange.state.bind(earlier.fingerprint)
    call.begin(earlier.exchange.state, automatic=earlier.automatic)
    _check_binding(call)


def _nobody_gave_a_key(call: Call) -> bool:
    return call.given is None and call.options.key is None and call.options.name is None


def _is_token_request(call: Call) -> bool:
    # The cheaper look first: hardly any body has the word.
    return call.replayable and is_token_request(call.content()) and is_form(call.request.headers)


def _whole_body(call: Call) -> bytes:
    if not call.replayable:
        raise ValueError("this dialect puts the key into the body, and the body is too large to be read first")
    return call.content()


def _in_body(call: Call) -> str | None:
    assert isinstance(call.dialect.carrier, JsonField)
    key = call.dialect.carrier.find(_whole_body(call))
    if key is not None:
        call.dialect.key.check(key)
    return key


def _one_key(call: Call, operation: Operation | None) -> str | None:
    """The key that the caller gave, wherever it stands."""
    signed = None if call.signed is None else call.signed.key
    given = {"the request": call.given, "KeyedAuth": signed, "options(key=...)": call.options.key or None}
    if operation is not None:
        # A named operation's key is the journal's to say.
        made = operation.state.key if operation.state is not None and operation.name is None else None
        given["the operation"] = operation.given_key or made
    keys = {key for key in given.values() if key is not None}
    if len(keys) > 1:
        where = " and ".join(place for place, key in given.items() if key is not None)
        call.begin(KeyState(next(iter(keys)), made_here=False), automatic=False)
        raise _mismatch(call, compose(KEYS_DIFFER, None, where=where))
    return next(iter(keys), None)


def _bind_to_operation(call: Call, operation: Operation) -> None:
    operation.check_process()
    with operation.lock:
        key = _one_key(call, operation)
        if key is not None:
            call.dialect.key.check(key)
            if operation.state is None:
                operation.given_key = key
        state = operation.own_state(call.dialect.key.make)
        if not state.made_here or state.reached:
            with call.engine.memory.lock:
                known = call.engine.memory.state_of(state)
            if known is not state:
                if not known.absorb(state):  # there, under another client, it stands for another request
                    call.begin(state, automatic=False)
                    raise _differs(call, str(known.fingerprint), str(state.fingerprint))
                operation.state = state = known
        call.begin(state, automatic=False)
        _check_binding(call)


def _check_binding(call: Call) -> None:
    """The first request binds the key; another one never goes out under it."""
    assert call.trail is not None
    state, found = call.exchange.state, call.trail.fingerprint
    known = state.bind(found)
    if known != found:
        raise _differs(call, known, found)
    if state.snapshot is None and call.trail.rebuilt_differently and call.replayable:
        state.snapshot = (call.trail.content_type, call.content())


def _differs(call: Call, known: str, found: str) -> IdempotencyError:
    return _mismatch(call, compose(LOCAL_MISMATCH, call.exchange.state.key, known=known[:8], found=found[:8]))


def _mismatch(call: Call, text: str) -> IdempotencyError:
    tell_of(call, MismatchFound, local=True)
    return _local(call, "KeyMismatch", text)


def _local(call: Call, kind: str, text: str) -> IdempotencyError:
    report = call.exchange.report(call.exchange.began)
    if call.operation is not None:
        call.operation.told = Told(call.exchange, call.exchange.began)
    return local_error(call, kind, report, text)


def _make_own(call: Call) -> None:
    """A key for this request alone, unless an identical one is unresolved."""
    memory = call.engine.memory
    if memory.unresolved:
        call.begin(KeyState("", made_here=True, scope=call.options.scope), automatic=True)
        assert call.trail is not None
        identity = (call.options.scope, call.trail.fingerprint)
        now = call.now()
        with memory.lock:
            entry = memory.oldest(identity, now)
            resumed = entry is not None and _may_resume(call, entry)
            if entry is not None and resumed:
                memory.take(identity, entry)
        if entry is not None:
            call.exchange.state = entry.state
            tell_of(call, UnresolvedRepeated, resumed=resumed)
            if not resumed:
                raise _local(call, "OutcomeUnknown", compose(REPEATED, entry.state.key, age=_ago(now - entry.since)))
            call.taken = entry
            return
        call.exchange.state.key = call.signed.key if call.signed else call.dialect.key.make()
        return
    key = call.signed.key if call.signed else call.dialect.key.make()
    call.begin(KeyState(key, made_here=True, scope=call.options.scope), automatic=True)


def _ago(seconds: float) -> str:
    return "just now" if seconds < 1 else f"{seconds:.0f} s ago"


def _may_resume(call: Call, entry: Unresolved) -> bool:
    resumes = call.engine.policy.on_unresolved == "resume" and call.signed is None
    return resumes and entry.credentials == credentials(call.request)
