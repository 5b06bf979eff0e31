"""The async driver: does what `Exchange` says, over an async transport. Twin of `_sync.py`, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ._admit import admit
from ._bind import bind
from ._call import Call
from ._decide import Again, Deliver
from ._engine import Engine
from ._inner import checked, matching
from ._judge import pace
from ._leave import error_for
from ._named import abandoned, claim_of, claimed, ended_of, journal_failed, lease_of, recorded, renewed
from ._pause import async_finished, async_shield, async_sleep, async_strike, async_time_box
from ._steps import DURABLE, RENEW, Claim, Renew, Send, Step, Wait
from ._straight import DELIVER, First, straight
from ._wire import CLASSIFIED_BODY, Backend
from .dialects import GENERIC, Dialect

if TYPE_CHECKING:
    from types import TracebackType

    from .events import Listener
    from .policy import RetryPolicy


TransportT = TypeVar("TransportT")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class AsyncDriver(Generic[TransportT, RequestT, ResponseT]):
    """A transport for a `AsyncClient` that makes each request one operation."""

    _backend: ClassVar[Backend]
    _make_inner: ClassVar[Callable[[], Any]]

    def __init__(
        self,
        inner: TransportT | None = None,
        *,
        origins: str | Iterable[str] | Mapping[str, Dialect] = "*",
        dialect: Dialect = GENERIC,
        policy: RetryPolicy | None = None,
        journal: object = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        """Settings as in `samekey.wrap`.

        Args:
            inner: The async transport that sends. Default: a new `AsyncHTTPTransport()`.
            origins: The APIs that honour keys: ``"*"`` (default: whatever the client addresses), a collection of
                origins, or a mapping origin -> `Dialect`.
            dialect: How the APIs speak idempotency, where *origins* does not say. Default `GENERIC`.
            policy: How to retry. Default `RetryPolicy()`.
            journal: Where named operations are kept. Default: nowhere.
            listeners: Called with each event.

        Raises:
            ValueError: An origin is malformed, or *inner* retries by itself.
            TypeError: *inner* is no async transport, *journal* is of the other colour, or a setting has the
                wrong type.
        """
        self._engine = Engine(
            self._backend, origins, dialect, policy, matching(journal, "handle_async_request"), listeners
        )
        self._inner: Any = checked(
            type(self)._make_inner() if inner is None else inner, "handle_async_request", self._backend.name
        )

    @property
    def engine(self) -> Engine:
        """What the transports of one client share."""
        return self._engine

    def around(self, inner: Any) -> Any:
        """A transport like this one around *inner*, sharing everything else."""
        twin = type(self).__new__(type(self))
        twin._engine = self._engine
        twin._inner = inner
        return twin

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send *request* as one operation: with a key, and as often as needed."""
        asked: Any = request
        response: ResponseT
        first = straight(self._engine, asked)
        if first is not None:
            try:
                step = await self._attempt(first)
            except BaseException:
                first.become_call().leave()
                raise
            response = first.deliver() if step is DELIVER else await self._run(first.become_call(), step)
            return response
        call = admit(self._engine, asked)
        if call is None:
            response = await self._inner.handle_async_request(request)
            return response
        if call.unread:
            await self._load(call)
        bind(call)
        response = await self._run(call)
        return response

    async def _load(self, call: Call) -> None:
        """Read the request's body, so that every attempt sends the same bytes."""
        parts: list[bytes] = []
        size = 0
        stream: Any = call.request.stream
        source = aiter(stream)
        async for part in source:
            parts.append(part)
            size += len(part)
            if size > call.engine.policy.max_request_buffer:
                call.too_long(parts, source)
                return
        call.loaded(b"".join(parts))

    async def _run(self, call: Call, step: Step | None = None) -> Any:
        try:
            step = step or call.start()
            while True:
                if isinstance(step, Send):
                    step = await self._attempt(call)
                elif isinstance(step, Deliver):
                    return call.deliver()
                elif isinstance(step, Again):
                    step = pace(call, step)
                else:
                    step = await self._go_on(call, step)
        except BaseException:
            if call.holds_name:
                await self._journal(call, abandoned(call))
            raise
        finally:
            call.leave()

    async def _go_on(self, call: Call, step: Any) -> Step:
        """Do what a step other than sending and delivering says."""
        if isinstance(step, DURABLE):
            return await self._journal(call, step)
        if not call.nothing_left:
            await self._discard(call)
        if isinstance(step, Wait):
            skipped = await async_sleep(step.seconds) if step.seconds else 0.0
            return call.waited(step.seconds, skipped)
        raise error_for(call, step)

    async def _journal(self, call: Call, step: Any) -> Step:
        """Take one durable step; once begun it is finished, even if the task is cancelled."""
        journal: Any = self._engine.journal
        try:
            with async_shield():
                if isinstance(step, Claim):
                    entry = await async_finished(journal.claim(claim_of(call)))
                elif isinstance(step, Renew):
                    held = await async_finished(journal.renew(*lease_of(call)))
                else:
                    held = await async_finished(journal.record(ended_of(call, step)))
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises
            then = journal_failed(call, step, error)
        else:
            if isinstance(step, Claim):
                then = claimed(call, entry)
            else:
                then = renewed(call, held=held) if isinstance(step, Renew) else recorded(call, step, done=held)
        await async_strike()
        return then

    async def _attempt(self, call: Call | First) -> Step:
        if call.stale:
            return RENEW
        request = call.outgoing()
        try:
            with async_time_box(call.left) as box:
                call = call.heard(await self._inner.handle_async_request(request))
                if call.limit is not None:
                    await self._read(call, call.limit)
        except BaseException as error:  # noqa: BLE001 - judged, and raised again unless it means a retry
            return call.failed(error)
        if box.cancelled_caught:
            return call.failed(call.out_of_time())
        return call.answered()

    async def _read(self, call: Call | First, limit: int) -> None:
        """Read the answer's body up to *limit*, and leave a stream in its place that can be read as if untouched."""
        response = call.response
        if call.read_before():
            return
        parts: list[bytes] = []
        size = 0
        stream = response.stream
        source = aiter(stream)
        try:
            async for part in source:
                parts.append(part)
                size += len(part)
                call.check_time()
                if size > limit:
                    call.has_read(parts, source)
                    return
        except BaseException:
            with async_shield():
                await stream.aclose()
            raise
        await stream.aclose()
        call.has_read(parts)

    async def _discard(self, call: Call) -> None:
        """Drain a little of an answer that nobody gets, so that its connection can be used again, and close it."""
        try:
            with async_time_box(call.time_left()):
                if call.raw is None:
                    await self._read(call, CLASSIFIED_BODY)
                await call.response.aclose()
        except Exception:  # noqa: BLE001, S110 - what goes wrong with an answer that nobody gets does no harm
            pass

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(kind, error, traceback)
