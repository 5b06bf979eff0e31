"""What a request carries in its extensions, so that its redirects, auth legs and repeats belong to its operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._keys import fingerprint, is_multipart
from ._state import serial

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._operation import Operation
    from ._report import Report
    from ._wire import Origin
    from .dialects import Carrier


def _nobody() -> None:
    """No request, yet."""


class Trail:
    """One call, as its request remembers it. It knows no request, so that nothing is kept alive by it but bytes."""

    operation: Operation | None = None
    body: Any = None
    """The caller's body, a stream that can be read any number of times."""
    headers: Any = None
    """The caller's headers."""
    scope_headers: tuple[str, ...] = ()
    carrier: Carrier | None = None
    """Where the first leg carried the key; a redirect may lead to an API that wants it elsewhere."""
    replayable = True
    body_counts = True
    """Whether another body is another request; not where the journal keeps the first one and repeats that."""
    pending = 0
    """Status of the answer that was handed to httpx, which may go on with it: 401, 407, a redirect; else 0."""
    request: Callable[[], Any] = staticmethod(_nobody)
    """A weak reference to the request that was sent last."""
    told: Told | None = None
    _fingerprint: str | None = None

    def __init__(self, exchange: Exchange, method: str, origin: Origin, path: bytes, *, automatic: bool) -> None:
        self.exchange = exchange
        self.state = exchange.state
        self.keyed = exchange.keyed
        """Whether this request carries the key, whatever httpx makes of it later."""
        self.method = method
        self.origin = origin
        self.path = path
        self.automatic = automatic
        """The key was made for this very request, without an operation."""

    @property
    def content_type(self) -> str:
        """Of the body; empty without one."""
        return str(self.headers.get("content-type", ""))

    @property
    def _target(self) -> tuple[bytes, ...]:
        scheme, host, port = self.origin
        return scheme, host, b"%d" % (port or 0), self.path

    @property
    def fingerprint(self) -> str:
        """Digest of the request; made when it is first needed."""
        if self._fingerprint is None:
            if self.replayable:
                body = b"".join(self.body) if self.body_counts else b""
                scope = tuple(self.headers.get(name, "") for name in self.scope_headers)
                self._fingerprint = fingerprint(self.method, self._target, body, self.content_type, scope)
            else:
                self._fingerprint = f"streamed-{next(serial)}"  # equals no other
        return self._fingerprint

    def has_body(self, stream: Any) -> bool:
        """Whether another request's body is this one's."""
        return self.replayable and type(stream) is type(self.body) and b"".join(stream) == b"".join(self.body)

    @property
    def rebuilt_differently(self) -> bool:
        """Whether building the same request again gives other bytes."""
        return is_multipart(self.content_type)

    def report(self) -> Report | None:
        """The report of the call, for `samekey.report`."""
        return None if self.told is None else self.told.report()


class Told:
    """Makes the report of an ended call when somebody asks for it."""

    __slots__ = ("_exchange", "_report", "_until")

    def __init__(self, exchange: Exchange, until: float) -> None:
        self._exchange = exchange
        self._until = until
        self._report: Report | None = None

    def report(self) -> Report:
        """The report, the same object each time."""
        if self._report is None:
            self._report = self._exchange.report(self._until)
        return self._report
