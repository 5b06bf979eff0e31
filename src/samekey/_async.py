"""The async driver: does what `Exchange` says, over an async transport. Twin of `_sync.py`, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._admit import admit, bind
from ._call import Call
from ._decide import Again, Deliver
from ._exchange import Send, Step, Wait
from ._leave import deliver, error_for, leave
from ._pause import async_shield, async_sleep, async_time_box
from ._wire import CLASSIFIED_BODY

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

    from ._engine import Engine


class AsyncDriver:
    """A transport around another one."""

    _engine: Engine
    _inner: Any

    def around(self, inner: Any) -> Any:
        """A transport like this one around *inner*, sharing everything else."""
        twin = type(self).__new__(type(self))
        twin._engine = self._engine
        twin._inner = inner
        return twin

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send *request* as one operation: with a key, and as often as needed."""
        call = admit(self._engine, request)
        if call is None:
            response: httpx.Response = await self._inner.handle_async_request(request)
            return response
        if call.unread:
            await self._load(call)
        bind(call)
        try:
            return await self._run(call)
        finally:
            leave(call)

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
                call.too_long(b"".join(parts), source)
                return
        call.loaded(b"".join(parts))

    async def _run(self, call: Call) -> httpx.Response:
        step = call.start()
        while True:
            if isinstance(step, Send):
                step = await self._attempt(call)
            elif isinstance(step, Again):
                step = call.pace(step)
            elif isinstance(step, Wait):
                await self._discard(call)
                skipped = await async_sleep(step.seconds) if step.seconds else 0.0
                step = call.waited(step.seconds, skipped)
            elif isinstance(step, Deliver):
                return deliver(call)
            else:
                await self._discard(call)
                raise error_for(call, step)

    async def _attempt(self, call: Call) -> Step:
        request = call.outgoing()
        try:
            with async_time_box(call.time_left()) as box:
                call.response = await self._inner.handle_async_request(request)
                limit = call.buffer_limit()
                if limit is not None:
                    await self._read(call, limit)
        except BaseException as error:  # noqa: BLE001 - judged, and raised again unless it means a retry
            return call.failed(error)
        if box.cancelled_caught:
            return call.failed(call.out_of_time())
        return call.answered()

    async def _read(self, call: Call, limit: int) -> None:
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
                    call.has_read(b"".join(parts), source)
                    return
        except BaseException:
            with async_shield():
                await stream.aclose()
            raise
        await stream.aclose()
        call.has_read(b"".join(parts))

    async def _discard(self, call: Call) -> None:
        """Drain a little of an answer that nobody gets, so that its connection can be used again, and close it."""
        if call.response is None:
            return
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
