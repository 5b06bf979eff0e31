"""Before the first attempt: the key of the call, and what is known of it."""

from __future__ import annotations

from ._call import Call
from ._memory import Unresolved
from ._messages import KEYS_DIFFER, LOCAL_MISMATCH, REPEATED, UNFIT_HOP, compose
from ._named import bind_named, scope_of
from ._operation import Operation
from ._outgoing import credentials
from ._raising import local_error
from ._report import CALL
from ._state import KeyState
from ._straight import First
from ._telling import tell_of
from ._trail import Told, Trail
from ._wire import is_token_request
from .dialects import JsonField
from .errors import IdempotencyError


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
    extensions = call.request.extensions
    _bind(call)
    # Only now: a request that was refused is as if it had never been here.
    if call.seen is not None or not call.keyed:
        extensions[CALL] = call.trail
        return
    other = extensions.setdefault(CALL, call.trail)
    if other is not call.trail:  # somebody else has sent this very request meanwhile: its key is the one
        call.earlier = other.shared() if isinstance(other, First) else other
        _bind_again(call, call.earlier)


def _bind(call: Call) -> None:
    if call.keyed and call.earlier is None and _nobody_gave_a_key(call) and _is_token_request(call):
        call.keyed, call.operation = False, None
    if not call.keyed:
        call.begin(KeyState("", made_here=True), automatic=False)
        return
    if isinstance(call.dialect.carrier, JsonField):
        call.given = _in_body(call)
        if call.signed is not None and call.signed.key == call.given:
            call.given = None
    if call.earlier is not None:
        _bind_again(call, call.earlier)
    elif (name := _name(call)) is not None:
        bind_named(call, name, _one_key(call))
    elif call.operation is not None:
        _bind_to_operation(call, call.operation)
    elif call.given is None and call.options.key is None:
        _make_own(call)
    else:
        key = _one_key(call)
        assert key is not None
        call.dialect.key.check(key)
        with call.engine.memory.lock:
            state = call.engine.memory.state_of(KeyState(key, made_here=False, scope=call.options.scope))
        call.begin(state, automatic=False)
        _check_binding(call)


def _go_on(call: Call, trail: Trail) -> None:
    """The next leg; the API that a redirect leads to may want the key elsewhere, and in another form."""
    if not call.exchange.keyed:
        return
    dialect, key = call.dialect, call.exchange.state.key
    try:
        dialect.key.check(key)
        if isinstance(dialect.carrier, JsonField) and dialect.carrier != trail.carrier:
            dialect.carrier.insert(_whole_body(call), key)
    except (ValueError, TypeError) as error:
        raise refused_hop(call, UNFIT_HOP, error) from error


def refused_hop(call: Call, text: tuple[str, str, str], why: object = "") -> IdempotencyError:
    """The error of a redirect that is not followed."""
    url = call.request.url
    origin = f"{url.scheme}://{url.netloc.decode()}"
    refused = call.exchange.refuse_hop()
    return _local(call, refused.error, compose(text, call.exchange.state.key, origin=origin, why=why))


def _bind_again(call: Call, earlier: Trail) -> None:
    """The same request object is sent once more: a new call with the same key, whatever is in force now."""
    state = earlier.state
    operation = call.operation = call.operation or earlier.operation
    given = _one_key(call)
    if given not in (None, state.key):
        call.begin(state, automatic=False)
        raise _mismatch(call, compose(KEYS_DIFFER, None, where="an earlier send of this request and now"))
    name = _name(call)
    if name is not None:
        holding = earlier.exchange.holding
        same = holding is not None and (state.name, state.scope) == (name, scope_of(call))
        bind_named(call, name, holding.given if same and holding is not None else state.key)
        return
    state.bind(earlier.fingerprint)
    if operation is not None:
        with operation.lock:
            if operation.state is None:
                operation.state = state
            agrees = operation.state is state or operation.state.absorb(state)
            state = operation.state
        if not agrees:
            call.begin(state, automatic=False)
            raise _differs(call, str(state.fingerprint), earlier.fingerprint)
    call.begin(state, automatic=earlier.automatic and operation is None)
    _check_binding(call)


def _name(call: Call) -> str | None:
    return call.options.name or (call.operation.name if call.operation else None)


def _nobody_gave_a_key(call: Call) -> bool:
    return call.given is None and call.options.key is None and call.options.name is None


def _is_token_request(call: Call) -> bool:
    return call.replayable and is_token_request(call.content(), call.request.headers)


def _whole_body(call: Call) -> bytes:
    if not call.replayable:
        raise ValueError("the key goes into the body, which is too large to be read first; raise max_request_buffer")
    return call.content()


def _in_body(call: Call) -> str | None:
    assert isinstance(call.dialect.carrier, JsonField)
    key = call.dialect.carrier.find(_whole_body(call))
    if key is not None:
        call.dialect.key.check(key)
    return key


def _keys(call: Call) -> dict[str, str]:
    """The keys that the caller gave, by where they stand."""
    signed = None if call.signed is None else call.signed.key
    given = {"the request": call.given, "KeyedAuth": signed, "options(key=...)": call.options.key or None}
    operation = call.operation
    if operation is not None:
        # A named operation's key is the journal's to say.
        made = operation.state.key if operation.state is not None and operation.name is None else None
        given["the operation"] = operation.given_key or made
    return {place: key for place, key in given.items() if key is not None}


def _one_key(call: Call) -> str | None:
    """The key that the caller gave, wherever it stands."""
    keys = _keys(call)
    if len(set(keys.values())) > 1:
        call.begin(KeyState(next(iter(keys.values())), made_here=False), automatic=False)
        raise _mismatch(call, compose(KEYS_DIFFER, None, where=" and ".join(keys)))
    return next(iter(keys.values()), None)


def _bind_to_operation(call: Call, operation: Operation) -> None:
    operation.check_process()
    state, known = None, None
    with operation.lock:  # nothing is told or raised in here: a listener may want the operation too
        keys = set(_keys(call).values())
        if len(keys) <= 1:
            for key in keys:
                call.dialect.key.check(key)
                if operation.state is None:
                    operation.given_key = key
            state = operation.own_state(call.dialect.key.make)
            if not state.made_here or state.reached:
                with call.engine.memory.lock:
                    known = call.engine.memory.state_of(state)
                if known is not state and known.absorb(state):
                    operation.state = state = known
    if state is None:
        _one_key(call)  # raises
    assert state is not None
    call.begin(state, automatic=False)
    if known is not None and known is not state:  # there, under another client, it stands for another request
        raise _differs(call, str(known.fingerprint), str(state.fingerprint))
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
        call.engine.memory.keep_snapshot(state)


def _differs(call: Call, known: str, found: str) -> IdempotencyError:
    return _mismatch(call, compose(LOCAL_MISMATCH, call.exchange.state.key, known=known[:8], found=found[:8]))


def _mismatch(call: Call, text: str) -> IdempotencyError:
    tell_of(call, "MismatchFound", local=True)
    return _local(call, "KeyMismatch", text)


def _local(call: Call, kind: str, text: str) -> IdempotencyError:
    report = call.exchange.report(call.exchange.began)
    if call.operation is not None:
        call.operation.told = Told(call.exchange, call.exchange.began)
    return local_error(call, kind, report, text)


def _make_own(call: Call) -> None:
    """A key for this request alone, unless an identical one is unresolved."""
    memory = call.engine.memory
    if memory.pending(call.now()):
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
            call.exchange.state = call.the_trail.state = entry.state
            tell_of(call, "UnresolvedRepeated", resumed=resumed)
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
