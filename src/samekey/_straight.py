"""The straight path: an ordinary request whose first attempt succeeds at once.

`First` stands in for a `Call` in the driver. It makes a key, sends, and delivers, with none of the bookkeeping that
only matters once something else happens. The moment something does (an error, any answer but a plain success, a
repeat of the request), it becomes the `Call` that it would have been from the start, and is heard of no more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import _pause
from ._call import Call
from ._decide import Deliver
from ._exchange import Exchange
from ._headers import streams
from ._keys import new_key
from ._model import Outcome
from ._operation import in_force
from ._options import DEFAULT, EXTENSION
from ._report import CALL, Report
from ._state import KeyState
from ._steps import Step
from ._trail import Told, Trail
from ._wire import is_token_request, origin_of
from .dialects import Dialect, Header
from .dialects._classify import names_key
from .dialects._plain import PLAIN_SUCCESS

if TYPE_CHECKING:
    import httpx

    from ._engine import Engine

DELIVER = Deliver(Outcome.EXECUTED)


def straight(engine: Engine, request: httpx.Request) -> First | None:
    """The short way for *request*, or None if anything about it is out of the ordinary."""
    extensions = request.extensions
    if EXTENSION in extensions or CALL in extensions or in_force.get() or engine.listeners:
        return None
    if engine.memory.unresolved and engine.memory.pending(_pause.monotonic()):
        return None
    # Here and below, what a method would only hand through is written out: a call costs more than the rest of its line.
    dialect = engine.dialect if engine.anywhere else engine.dialect_for(request.url)
    if dialect is None or request.method not in dialect.methods:
        return None
    carrier, form, stream = dialect.carrier, dialect.key.form, request.stream
    if type(carrier) is not Header or type(stream) is not engine.backend.ByteStream or callable(form):
        return None
    timeout = extensions.get("timeout")
    if timeout is None or (timeout != engine.unclipped and not _fits(timeout, engine)):
        return None
    if is_token_request(b"".join(stream), request.headers):
        return None
    key = new_key() if form == "uuid7" else dialect.key.make()
    headers = engine.backend.Headers(request.headers)
    longer = len(headers) + 1
    headers[carrier.name] = carrier.encode(key) if carrier.quoted else key
    if len(headers) != longer:  # the caller has given a key
        return None
    first = First(engine, request, dialect, key, headers)
    # Two senders of one request object share one key: the second one goes the long way.
    return first if extensions.setdefault(CALL, first) is first else None


def _fits(timeout: dict[str, float | None], engine: Engine) -> bool:
    """Whether no part of *timeout* has to be clipped; remembered, since most requests of a client have the same."""
    if len(timeout) != 4:
        return False
    total = engine.total_timeout
    fits = total is None or all(part is not None and part <= total for part in timeout.values())
    if fits:
        engine.unclipped = timeout.copy()
    return fits


class First:
    """A `Call` in the driver's eyes, as long as all goes well."""

    stale = False
    """No name in the journal is involved."""
    pending = 0
    """As a `Trail`: httpx does not go on with a plain success."""
    response: Any = None
    raw: bytes | None = None
    call: Call | None = None
    """What it has become."""
    done = False
    """The answer was a plain success."""
    _trail: Trail | None = None

    def __init__(
        self, engine: Engine, request: httpx.Request, dialect: Dialect, key: str, headers: httpx.Headers
    ) -> None:
        self.engine = engine
        self.request: Any = request
        self._sent = (request.method, request.url, request.headers, request.stream)
        """What goes out, whatever becomes of the request meanwhile; it does not keep the request alive."""
        self.dialect = dialect
        self.key = key
        self.headers: Any = headers
        """Those for the wire."""
        self.limit = engine.policy.max_response_buffer
        self.left = left = engine.total_timeout
        self.began = began = _pause.monotonic()
        self.until = math.inf if left is None else began + left
        self.wall = _pause.wall()

    # -- what the driver asks of a call

    def outgoing(self) -> httpx.Request:
        """The request for the wire."""
        request = self.request
        wire: httpx.Request = object.__new__(type(request))
        extensions = request.extensions.copy()
        wire.__dict__ = {**request.__dict__, "headers": self.headers, "stream": self._sent[3], "extensions": extensions}
        return wire

    def heard(self, response: Any) -> Call | First:
        """An answer has begun; who goes on with it."""
        self.response = response
        status, dialect = response.status_code, self.dialect
        if not 200 <= status < 300 or status == 202 or (dialect.inspect_2xx and dialect.rules):
            return self.become_call().heard(response)
        for name, value in response.headers.raw:
            lower = name.lower()
            if lower == b"content-type":
                if value != b"application/json" and streams(value):
                    return self.become_call().heard(response)
            elif lower in dialect.telling:
                return self.become_call().heard(response)
        return self

    def read_before(self) -> bool:
        """Whether the inner transport has read the body itself; then it is passed on as it is."""
        response = self.response
        if type(response.stream) is self.engine.backend.ByteStream:
            self.raw = b"".join(response.stream)
            return True
        return self.become_call().read_before() if response.is_closed else False

    def has_read(self, parts: list[bytes], rest: Any = None) -> None:
        """The answer's body was read, to its end or (with *rest*) to the limit."""
        if rest is not None:
            self.become_call().has_read(parts, rest)
            return
        self.raw = b"".join(parts)
        self.response.stream = self.engine.backend.ByteStream(self.raw)

    def check_time(self) -> None:
        """Stop reading when the total timeout has run out."""
        if _pause.monotonic() > self.until:
            self.become_call().check_time()

    def answered(self) -> Step:
        """Judge the answer."""
        if self.call or self.raw is None or (self.dialect.inspect_2xx and names_key(self.raw)):
            return self.become_call().answered()
        self.ended, self.status = _pause.monotonic(), self.response.status_code
        with self.engine.memory.lock:
            self.done = self.call is None
        return DELIVER if self.done else self.become_call().answered()

    def failed(self, error: BaseException) -> Step:
        """Judge an attempt that brought no complete answer."""
        return self.become_call().failed(error)

    def out_of_time(self) -> Exception:
        """The error of an attempt that the total timeout cut off."""
        return self.become_call().out_of_time()

    def deliver(self) -> Any:
        """The answer, with its report."""
        request, response = self.request, self.response
        response.extensions[EXTENSION] = self
        budget = self.engine.budget
        if budget is not None and budget.in_use:
            budget.deposit(origin_of(request.url), _pause.common())
        # Let go, or the request and this would keep each other alive until the collector comes.
        self.request = self.response = self.raw = self.headers = None
        return response

    # -- what it becomes

    def become_call(self) -> Call:
        """The call that this attempt is the first of, for the driver of the attempt."""
        if self.call is None:
            with self.engine.memory.lock:
                self._make_call()
        call = self.call
        assert call is not None
        if self.response is not None:  # handed over once: the call may have judged it, and dropped it
            call.response, call.raw, self.response = self.response, self.raw, None
        return call

    def shared(self) -> Trail:
        """The trail for another sender of the same request object, be this call over or not."""
        with self.engine.memory.lock:
            if not self.done:
                self._make_call()
        return self.trail() if self.call is None else self.call.the_trail

    def _make_call(self) -> None:
        """Made once, by whoever is the first to need it. The caller holds the lock."""
        if self.call is None:
            call = Call(self.engine, self.request, self.dialect, DEFAULT)
            call.keyed = True
            call.body = self._sent[3]
            call.begin(KeyState(self.key, made_here=True), automatic=True)
            call.exchange.start(self.began, self.left)
            call.exchange.sending(self.began, self.wall)
            call.left = self.left
            self.request.extensions[CALL] = call.trail
            self.call = call

    def trail(self) -> Trail:
        """The trail of the delivered call, for a repeat of its request and for its report; made once."""
        with self.engine.memory.lock:
            if self._trail is None:
                self._trail = self._make_trail()
        return self._trail

    def _make_trail(self) -> Trail:
        method, url, headers, body = self._sent
        exchange = Exchange(KeyState(self.key, made_here=True), keyed=True, repeatable=False, retry=True)
        exchange.start(self.began, self.left)
        exchange.sending(self.began, self.wall)
        exchange.succeeded(self.status, self.ended, PLAIN_SUCCESS)
        trail = Trail(exchange, method, origin_of(url), url.raw_path, automatic=True)
        trail.body, trail.headers, trail.scope_headers = body, headers, self.dialect.scope_headers
        trail.told = Told(exchange, self.ended)
        return trail

    def report(self) -> Report | None:
        """The report of the delivered call."""
        return self.trail().report()
