"""The straight path: an ordinary request whose first attempt succeeds at once.

`First` stands in for a `Call` in the driver. It makes a key, sends, and delivers, with none of the bookkeeping that
only matters once something else happens. The moment something does (an error, any answer but a plain success, a
repeat of the request), it becomes the `Call` that it would have been from the start, and is heard of no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _pause
from ._call import Call
from ._decide import Deliver
from ._exchange import Exchange
from ._model import Outcome
from ._operation import in_force
from ._options import DEFAULT, EXTENSION
from ._report import CALL, Report
from ._state import KeyState
from ._steps import SEND, Step
from ._trail import Told, Trail
from ._wire import STREAMING_TYPES, media_type, origin_of
from .dialects import Dialect, Header
from .dialects._plain import PLAIN_SUCCESS, plain_success

if TYPE_CHECKING:
    import httpx

    from ._engine import Engine

FORM = b":application/x-www-form-urlencoded"
DELIVER = Deliver(Outcome.EXECUTED)


def straight(engine: Engine, request: httpx.Request) -> First | None:
    """The short way for *request*, or None if anything about it is out of the ordinary."""
    extensions = request.extensions
    if EXTENSION in extensions or CALL in extensions or in_force.get() or engine.listeners:
        return None
    if engine.memory.unresolved and engine.memory.pending(_pause.monotonic()):
        return None
    dialect = engine.dialect_for(request.url)
    if dialect is None or request.method not in dialect.methods:
        return None
    carrier = dialect.carrier
    if type(carrier) is not Header or type(request.stream) is not engine.backend.ByteStream:
        return None
    timeout = extensions.get("timeout")
    if timeout is None or not _fits(timeout, engine.policy.total_timeout):
        return None
    # One look at all headers: where it sees more than there is, the long way sees better.
    text = b"\n".join(map(b":".join, request.headers.raw)).lower()
    if carrier.name.lower().encode() in text or FORM in text:
        return None
    first = First(engine, request, dialect)
    # Two senders of one request object share one key: the second one goes the long way.
    return first if extensions.setdefault(CALL, first) is first else None


def _fits(timeout: dict[str, float | None], total: Any) -> bool:
    """Whether no part of *timeout* has to be clipped."""
    try:
        return total is None or (len(timeout) == 4 and max(timeout.values()) <= total)  # type: ignore[type-var]
    except TypeError:  # a part without a limit
        return False


class First:
    """A `Call` in the driver's eyes, as long as all goes well."""

    __slots__ = (
        "_parts",
        "_trail",
        "began",
        "call",
        "dialect",
        "done",
        "ended",
        "engine",
        "key",
        "left",
        "raw",
        "request",
        "response",
        "status",
        "wall",
    )

    stale = holds_name = False
    """No name in the journal is involved."""
    pending = 0
    """As a `Trail`: httpx does not go on with a plain success."""

    def __init__(self, engine: Engine, request: httpx.Request, dialect: Dialect) -> None:
        self.engine = engine
        self.request: Any = request
        self.dialect = dialect
        self.key = dialect.key.make()
        self.left: Any = engine.policy.total_timeout
        self.response: Any = None
        self.raw: bytes | None = None
        self.call: Call | None = None
        self.done = False
        """The answer was a plain success."""
        self.began, self.wall = _pause.monotonic(), _pause.wall()
        self._parts: Any = None
        self._trail: Trail | None = None

    # -- what the driver asks of a call

    @property
    def current(self) -> Call | First:
        """What the driver goes on with."""
        return self.call or self

    def start(self) -> Step:
        """The first step; the key is new, so there is no age to check."""
        return SEND

    def outgoing(self) -> httpx.Request:
        """The request for the wire."""
        request, carrier = self.request, self.dialect.carrier
        headers = request.headers.copy()
        headers[carrier.name] = carrier.encode(self.key)  # type: ignore[union-attr]
        wire: httpx.Request = object.__new__(type(request))
        wire.__dict__ = {**vars(request), "headers": headers, "extensions": request.extensions.copy()}
        return wire

    def buffer_limit(self) -> int | None:
        """How many bytes of the answer's body to read."""
        if 200 <= self.response.status_code < 300 and self._ordinary(self.response.headers.raw):
            return self.engine.policy.max_response_buffer
        return self.become_call().buffer_limit()

    def _ordinary(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether the answer ends, and no header of it speaks of the key."""
        markers = self.dialect.markers
        for name, value in headers:
            lower = name.lower()
            if lower == b"content-type":
                if media_type(value.decode("latin-1")) in STREAMING_TYPES:
                    return False
            elif lower.decode("latin-1") in markers:
                return False
        return True

    def read_before(self) -> bool:
        """Whether the inner transport has read the body itself; then it is passed on as it is."""
        response = self.response
        if self.call is None and type(response.stream) is self.engine.backend.ByteStream:
            self.raw = b"".join(response.stream)
            return True
        return self.become_call().read_before() if self.call or response.is_closed else False

    def has_read(self, body: bytes, rest: Any = None) -> None:
        """The answer's body was read, to its end or (with *rest*) to the limit."""
        if self.call or rest is not None:
            self.become_call().has_read(body, rest)
            return
        self.raw = body
        self.response.stream = self.engine.backend.ByteStream(body)

    def check_time(self) -> None:
        """Stop reading when the total timeout has run out."""
        if self.call or (self.left is not None and _pause.monotonic() > self.began + self.left):
            self.become_call().check_time()

    def answered(self) -> Step:
        """Judge the answer."""
        if self.call or self.raw is None or not plain_success(self.response.status_code, self.raw, self.dialect):
            return self.become_call().answered()
        self.ended, self.status = _pause.monotonic(), self.response.status_code
        self.done = True
        # Asked after `done` is set, as `shared` sets `call` before it asks for `done`: one of the two sees the other.
        return DELIVER if self.call is None else self.become_call().answered()

    def failed(self, error: BaseException) -> Step:
        """Judge an attempt that brought no complete answer."""
        return self.become_call().failed(error)

    def out_of_time(self) -> Exception:
        """The error of an attempt that the total timeout cut off."""
        return self.become_call().out_of_time()

    def deliver(self) -> httpx.Response:
        """The answer, with its report."""
        request, response = self.request, self.response
        response.extensions[EXTENSION] = self
        # The request is let go, or the two would keep each other alive until the collector comes.
        self._parts = (request.method, request.url, request.headers, request.stream)
        budget = self.engine.budget
        if budget is not None and budget.in_use:
            budget.deposit(origin_of(request.url), _pause.common())
        self.request = self.response = self.raw = None
        return response  # type: ignore[no-any-return]

    def leave(self) -> None:
        """The call is over; nothing is open."""

    # -- what it becomes

    def become_call(self) -> Call:
        """The call that this attempt is the first of; made once."""
        with self.engine.memory.lock:
            if self.call is None:
                call = Call(self.engine, self.request, self.dialect, DEFAULT)
                call.keyed = True
                call.begin(KeyState(self.key, made_here=True), automatic=True)
                call.exchange.start(self.began, self.left)
                call.exchange.sending(self.began, self.wall)
                call.left = self.left
                self.request.extensions[CALL] = call.trail
                self.call = call
        if self.call.response is None:  # `shared` may have made it before the answer was there
            self.call.response, self.call.raw = self.response, self.raw
        return self.call

    def shared(self) -> Trail:
        """The trail for another sender of the same request object, be this call over or not."""
        return self.trail() if self.done else self.become_call().the_trail

    def trail(self) -> Trail:
        """The trail of the delivered call, for a repeat of its request and for its report; made once."""
        if self._trail is None:
            request = self.request
            method, url, headers, body = self._parts or (request.method, request.url, request.headers, request.stream)
            exchange = Exchange(KeyState(self.key, made_here=True), keyed=True, repeatable=False, retry=True)
            exchange.start(self.began, self.left)
            exchange.sending(self.began, self.wall)
            exchange.succeeded(self.status, self.ended, PLAIN_SUCCESS)
            self._trail = Trail(exchange, method, origin_of(url), url.raw_path, automatic=True)
            self._trail.body, self._trail.headers, self._trail.scope_headers = body, headers, self.dialect.scope_headers
            self._trail.told = Told(exchange, self.ended)
        return self._trail

    def report(self) -> Report | None:
        """The report of the delivered call."""
        return self.trail().report()
