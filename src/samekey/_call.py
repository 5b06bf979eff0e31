"""One transport call, without I/O: what goes on the wire, what came back, what the caller gets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from . import _pause
from ._exchange import Exchange
from ._headers import may_never_end
from ._holding import Holding
from ._judge import judge_answer, judge_failure
from ._leave import deliver, ended_late, leave, rest_failed
from ._memory import Unresolved
from ._named_exchange import NamedExchange
from ._options import Options
from ._outgoing import outgoing
from ._report import CALL
from ._settings import UNSET
from ._steps import Step
from ._telling import tell_of, tell_sending
from ._trail import Trail
from ._wire import CLASSIFIED_BODY, as_it_is, beginning, longest_attempt, origin_of
from .dialects import Dialect, JsonField

if TYPE_CHECKING:
    import httpx

    from ._engine import Engine
    from ._operation import Operation
    from ._signing import Signed
    from ._state import KeyState


MANY_PARTS = 1024
"""Parts of a body that are kept as they are; more are joined, since each has a size of its own beside its bytes."""


class Call:
    """A request on its way through one transport."""

    exchange: Exchange
    earlier: Trail | None = None
    """The trail of an earlier call of this very request object."""
    operation: Operation | None = None
    taken: Unresolved | None = None
    """The unresolved call that this one goes on with."""
    given: str | None = None
    signed: Signed | None = None
    """The key that `KeyedAuth` has put on already."""
    keyed = False
    repeatable = False
    replayable = True
    response: Any = None
    raw: bytes | None = None
    """What was read of the answer's body; None while it is untouched."""
    limit: int | None = None
    """How many bytes of the answer's body to read before it is judged; None: leave it alone."""
    previous: tuple[Any, bytes | None, bool] | None = None
    """The last answer before this attempt's, with what was read of it."""
    decoded = False
    """`raw` is the decoded body already."""
    reading: Any = None
    error: BaseException | None = None
    text: str | None = None
    """What the error says, where the usual message would not fit."""
    resource: str | None = None
    raised: str | None = None
    skipped = 0.0
    left: float | None = None
    """Seconds left of the total timeout when the running attempt was sent."""

    def __init__(
        self, engine: Engine, request: httpx.Request, dialect: Dialect, options: Options, trail: Trail | None = None
    ) -> None:
        self.engine = engine
        self.request = request
        self.dialect = dialect
        self.options = options
        self.trail = trail
        self.seen = request.extensions.get(CALL)
        """What the request remembered when it was admitted."""
        self.first_leg = trail is None
        self.unread = not isinstance(request.stream, engine.backend.ByteStream)
        """The request's body has to be read before the first attempt."""
        self.body: Any = None if self.unread else request.stream
        if trail is not None:
            self.exchange = trail.exchange
            self.replayable = trail.replayable

    @property
    def the_trail(self) -> Trail:
        """The trail of a call that has begun."""
        assert self.trail is not None
        return self.trail

    # -- the request

    @property
    def header(self) -> str | None:
        """The header that carries the key, if one does."""
        carrier = self.dialect.carrier
        return None if isinstance(carrier, JsonField) else carrier.name

    def content(self) -> bytes:
        """The body as the caller wrote it."""
        return b"".join(self.body)

    def loaded(self, body: bytes) -> None:
        """The whole body was read.

        Raises:
            ValueError: Nothing was left of a body whose length was announced: it has been read before.
        """
        announced = self.request.headers.get("content-length", "0")
        if not body and announced != "0":
            raise ValueError(
                f"the body is empty although {announced} bytes were announced: it has been read before, as a file that "
                "an earlier try has read to its end; nothing was sent. Open or rewind it for every try"
            )
        self.body = self.request.stream = self.engine.backend.ByteStream(body)

    def too_long(self, first: list[bytes], rest: Any) -> None:
        """The body is longer than may be kept: it goes out once, and is never repeated."""
        backend = self.engine.backend
        self.replayable = False
        self.body = self.request.stream = backend.Rest(
            first, rest, self.request.stream, as_it_is, backend.StreamConsumed
        )

    def begin(self, state: KeyState, *, automatic: bool, holding: Holding | None = None) -> None:
        """Start a new call with this key."""
        request, options = self.request, self.options
        if holding is not None:
            self.exchange = NamedExchange(state, holding, retry=options.retry)
        else:
            self.exchange = Exchange(
                state, keyed=self.keyed, repeatable=self.repeatable, retry=options.retry, replayable=self.replayable
            )
        origin, path = origin_of(request.url), request.url.raw_path
        self.trail = trail = Trail(self.exchange, request.method, origin, path, automatic=automatic)
        trail.body = self.signed.body if self.signed and self.signed.body else self.body
        trail.replayable = self.replayable
        trail.headers = request.headers
        trail.scope_headers = self.dialect.scope_headers
        trail.carrier = self.dialect.carrier
        trail.operation = self.operation

    def outgoing(self) -> httpx.Request:
        """The request for the wire; its attempt is open from now on."""
        now = self.now()
        wall = _pause.wall()
        self.left = self.exchange.remaining(now)
        if self.response is not None:
            self.previous = self.response, self.raw, self.decoded
        self.response = self.raw = self.error = None
        self.decoded = False
        wire = outgoing(self, wall)
        self.exchange.sending(now, wall)
        tell_sending(self)
        return wire

    # -- time

    def now(self) -> float:
        """Monotonic seconds; waits that a test has skipped count as waited."""
        return _pause.monotonic() + self.skipped

    @property
    def total_timeout(self) -> float | None:
        """Seconds for the whole call."""
        own = self.options.total_timeout
        return self.engine.total_timeout if own is UNSET else own

    def time_left(self) -> float | None:
        """Seconds left of the total timeout."""
        return self.exchange.remaining(self.now())

    def check_time(self) -> None:
        """Stop reading when the total timeout has run out.

        Raises:
            ReadTimeout: It has; the HTTP library's own class.
        """
        left = self.time_left()
        if left is not None and left < 0:
            raise self.out_of_time()

    def out_of_time(self) -> Exception:
        """The error of an attempt that the total timeout cut off."""
        text = f"the total timeout of {self.total_timeout:g} s ran out"
        return self.engine.backend.ReadTimeout(text, request=self.request)

    # -- steps

    def start(self) -> Step:
        """The first step."""
        exchange = self.exchange
        exchange.start(self.now(), self.total_timeout)
        if self.engine.listeners:
            tell_of(self, "CallStarted")
        return self.check_age(self.now()) or exchange.first_step()

    def check_age(self, now: float) -> Step | None:
        """Refuse to send a key that the server may have forgotten."""
        exchange = self.exchange
        if exchange.state.first_sent is None or (usable := self.dialect.usable_for) is None:
            return None
        age, left = exchange.state.age(now, _pause.wall()), exchange.remaining(now)
        if left is not None and 0 < left <= usable - age:
            return None  # no attempt is longer
        timeout = self.request.extensions.get("timeout", {})
        return exchange.check_age(usable - longest_attempt(timeout, left), age)

    def heard(self, response: Any) -> Call:
        """An answer has begun; who goes on with it."""
        self.response = response
        self.limit = self._limit()
        return self

    def _limit(self) -> int | None:
        response, exchange = self.response, self.exchange
        if not exchange.keyed:
            return None
        if not 200 <= response.status_code < 300:
            return None if response.status_code == 101 else CLASSIFIED_BODY
        if not self.options.buffer_response or may_never_end(response.headers.raw):
            return None
        return self.engine.policy.max_response_buffer

    def read_before(self) -> bool:
        """Whether the inner transport has read the body itself; then it is passed on as it is."""
        response = self.response
        if isinstance(response.stream, self.engine.backend.ByteStream):
            self.raw = b"".join(response.stream)
        elif response.is_closed:
            self.raw, self.decoded = response.content, True
        return self.raw is not None

    def has_read(self, parts: list[bytes], rest: Any = None) -> None:
        """The answer's body was read, to its end or (with *rest*) to the limit; then its beginning is looked at."""
        backend, response = self.engine.backend, self.response
        if rest is None:
            self.raw = b"".join(parts)
            response.stream = backend.ByteStream(self.raw)
        else:
            self.raw = beginning(parts, CLASSIFIED_BODY)
            if len(parts) > MANY_PARTS:
                parts = [b"".join(parts)]
            response.stream = backend.Rest(
                parts, rest, response.stream, partial(rest_failed, self), backend.StreamConsumed
            )

    @property
    def nothing_left(self) -> bool:
        """Whether nothing of the last answer has to be drained or closed: there is none, or it was read to its end."""
        response = self.response
        return response is None or (self.raw is not None and type(response.stream) is self.engine.backend.ByteStream)

    def answered(self) -> Step:
        """Judge the answer."""
        return judge_answer(self)

    def failed(self, error: BaseException) -> Step:
        """Judge an attempt that brought no complete answer."""
        return judge_failure(self, error)

    def waited(self, seconds: float, skipped: float) -> Step:
        """The wait is over, or was skipped by a test."""
        self.skipped += skipped
        self.exchange.waited_for += seconds
        exchange = self.exchange
        now = self.now()
        late = exchange.too_late(now)
        if late is not None:
            return ended_late(self, late)
        return self.check_age(now) or exchange.next_step()

    # -- a name in the journal

    @property
    def stores_request(self) -> bool:
        """Whether the journal keeps the request's bytes and repeats those."""
        return self.operation is not None and self.operation.store_request

    @property
    def stale(self) -> bool:
        """Whether the lease has run out unnoticed."""
        holding = self.exchange.holding
        return holding is not None and holding.stale(self.now(), _pause.wall())

    @property
    def holds_name(self) -> bool:
        """Whether a row of the journal waits to be written."""
        holding = self.exchange.holding
        return holding is not None and holding.owned

    @property
    def partly_read(self) -> bool:
        """Whether more of the answer's body was sent than was read."""
        return isinstance(self.response.stream, self.engine.backend.Rest)

    # -- endings

    def deliver(self) -> httpx.Response:
        """The answer, with its report."""
        return deliver(self)

    def leave(self) -> None:
        """The call is over, whichever way."""
        leave(self)
