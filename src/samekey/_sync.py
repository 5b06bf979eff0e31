"""The sync driver: does what `Exchange` says, over a blocking transport. Twin of `_async.py`, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._admit import admit, bind
from ._call import Call
from ._decide import Again, Deliver
from ._exchange import Send, Step, Wait
from ._leave import deliver, error_for, leave
from ._pause import shield, sleep, time_box
from ._wire import CLASSIFIED_BODY

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

    from ._engine import Engine


class Driver:
    """A transport around another one."""

    _engine: Engine
    _inner: Any

    def around(self, inner: Any) -> Any:
        """A transport like this one around *inner*, sharing everything else."""
        twin = type(self).__new__(type(self))
        twin._engine = self._engine
        twin._inner = inner
        return twin

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send *request* as one operation: with a key, and as often as needed."""
        call = admit(self._engine, request)
        if call is None:
            response: httpx.Response = self._inner.handle_request(request)
            return response
        if call.unread:
            self._load(call)
        bind(call)
        try:
            return self._run(call)
        finally:
            leave(call)

    def _load(self, call: Call) -> None:
        """Read the request's body, so that every attempt sends the same bytes."""
        parts: list[bytes] = []
        size = 0
        stream: Any = call.request.stream
        source = iter(stream)
        for part in source:
            parts.append(part)
            size += len(part)
            if size > call.engine.policy.max_request_buffer:
                call.too_long(b"".join(parts), source)
                return
        call.loaded(b"".join(parts))

    def _run(self, call: Call) -> httpx.Response:
        step = call.start()
        while True:
            if isinstance(step, Send):
                step = self._attempt(call)
            elif isinstance(step, Again):
                step = call.pace(step)
            elif isinstance(step, Wait):
                self._discard(call)
                skipped = sleep(step.seconds) if step.seconds else 0.0
                step = call.waited(step.seconds, skipped)
            elif isinstance(step, Deliver):
                return deliver(call)
            else:
                self._discard(call)
                raise error_for(call, step)

    def _attempt(self, call: Call) -> Step:
        request = call.outgoing()
        try:
            with time_box(call.time_left()) as box:
                call.response = self._inner.handle_request(request)
                limit = call.buffer_limit()
                if limit is not None:
                    self._read(call, limit)
        except BaseException as error:  # noqa: BLE001 - judged, and raised again unless it means a retry
            return call.failed(error)
        if box.cancelled_caught:
            return call.failed(call.out_of_time())
        return call.answered()

    def _read(self, call: Call, limit: int) -> None:
        """Read the answer's body up to *limit*, and leave a stream in its place that can be read as if untouched."""
        response = call.response
        if call.read_before():
            return
        parts: list[bytes] = []
        size = 0
        stream = response.stream
        source = iter(stream)
        try:
            for part in source:
                parts.append(part)
                size += len(part)
                call.check_time()
                if size > limit:
                    call.has_read(b"".join(parts), source)
                    return
        except BaseException:
            with shield():
                stream.close()
            raise
        stream.close()
        call.has_read(b"".join(parts))

    def _discard(self, call: Call) -> None:
        """Drain a little of an answer that nobody gets, so that its connection can be used again, and close it."""
        if call.response is None:
            return
        try:
            with time_box(call.time_left()):
                if call.raw is None:
                    self._read(call, CLASSIFIED_BODY)
                call.response.close()
        except Exception:  # noqa: BLE001, S110 - what goes wrong with an answer that nobody gets does no harm
            pass

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._inner.__exit__(kind, error, traceback)
