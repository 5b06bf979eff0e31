"""The server that users script and question; the transports below it only carry requests and answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from . import _asserts, faults
from ._core import Core
from ._faults import Step
from ._flavours import FLAVOURS
from ._ledger import Handler, Rules
from ._records import Effect, ReceivedRequest
from ._socket import Listener

if TYPE_CHECKING:
    import httpx


class LedgerServer:
    """An idempotent server for tests: executes at most once per key, with scripted faults and a memory of what it saw.

    Safe to use from any thread. Requests without a key are executed every time, which makes duplicates visible.

    Args:
        handler: Called with each `ReceivedRequest` to be executed; returns a `Reply`, or a mapping for 201 (200 for
            other methods) and JSON. It runs when the request arrives, in the thread that serves it; the effect counts
            when the answer is ready. An answer of 400 or more is a refusal and no effect; an exception answers 500.
            Default: 201 and ``{"id": "effect-<n>", "n": <n>}`` with the number of the effect.
        flavour: Whose wording is used. ``"article-1"`` (default): 422 for other bytes under a key, 409 while it runs,
            ``Idempotent-Replayed: true``. ``"article-2"``: 409 for other bytes, 202 and ``Retry-After: 1`` while it
            runs, ``Idempotent-Replay: true``.
        in_progress_status: 409 or 202 instead of the flavour's status. Default None.
        retry_after: Seconds in ``Retry-After`` of an "in progress" answer. Default None: the flavour's.
        require_key: Refuse a request that should carry a key and does not, with 400. Default False.
        honours_keys: False is a server that ignores keys and executes every request. Default True.
        store_errors: Statuses of the handler's refusals that are stored under the key and replayed; other refusals
            leave the key free. True means all, False none. Default 400 to 499.
        key_header: The header that carries the key, in any letter case. Default ``"Idempotency-Key"``.
        methods: The methods whose keys are looked up; others are executed each time, and GET, HEAD, OPTIONS and TRACE
            leave no effect. Default POST and PATCH.

    Raises:
        ValueError: Unknown *flavour*, or a status or number out of range.
    """

    def __init__(
        self,
        handler: Handler | None = None,
        *,
        flavour: Literal["article-1", "article-2"] = "article-1",
        in_progress_status: int | None = None,
        retry_after: float | None = None,
        require_key: bool = False,
        honours_keys: bool = True,
        store_errors: bool | Collection[int] = range(400, 500),
        key_header: str = "Idempotency-Key",
        methods: Iterable[str] = ("POST", "PATCH"),
    ) -> None:
        if flavour not in FLAVOURS:
            raise ValueError(f"flavour must be one of {', '.join(FLAVOURS)}, not {flavour!r}")
        if retry_after is not None and not retry_after >= 0:
            raise ValueError(f"retry_after must not be negative, got {retry_after}")
        if isinstance(store_errors, bool):
            store_errors = range(400, 600) if store_errors else ()
        rules = Rules(
            flavour=FLAVOURS[flavour].adjusted(in_progress_status, retry_after),
            methods=frozenset(method.upper() for method in methods),
            key_header=key_header,
            require_key=require_key,
            honours_keys=honours_keys,
            store_errors=store_errors,
        )
        self._methods = rules.methods
        self._core = Core(rules, handler)
        self._listeners: list[Listener] = []

    # -- scripting

    def script(self, *steps: Step, path: str | None = None, then: Step | None = None) -> None:
        """Sets what the next requests meet: one step each, in the order in which they reach the server.

        A step is made by a function of `samekey.testing.faults`, or is a callable that gets the `ReceivedRequest` and
        returns a `Reply` (or a mapping for 200 and JSON) without executing, or another step. A callable that raises
        answers 500 on a socket; in memory its exception is what the client sees.

        Calling it again replaces what is left.

        Args:
            *steps: The steps.
            path: Only requests to this path use them, and such requests use no others. Default None: every path
                that has no script of its own.
            then: What every request after the last step meets. Default ``faults.ok()``.

        Raises:
            TypeError: Something is no step.
            ValueError: ``faults.refuse()`` while the server listens on a socket.
        """
        script = self._core.script
        script.set(path, steps, faults.ok() if then is None else then)
        if self._listeners and script.refuses():
            script.clear()
            raise ValueError(_CANNOT_REFUSE)

    def reset(self) -> None:
        """Forgets everything: script, keys, effects and requests. Listening goes on."""
        self._core.clear()

    # -- reaching it

    @contextmanager
    def listen(self) -> Iterator[str]:
        """Serves HTTP/1.1 on a loopback socket while the block runs; gives the URL, without a trailing slash.

        Leaving the block ends all connections at once, stalled ones too. Several blocks may be open at once: several
        origins of one server.

        Raises:
            ValueError: The script refuses connections, which a listening socket cannot.
        """
        if self._core.script.refuses():
            raise ValueError(_CANNOT_REFUSE)
        listener = Listener(self._core)
        self._listeners.append(listener)
        try:
            yield listener.url
        finally:
            self._listeners.remove(listener)
            listener.close()

    @property
    def url(self) -> str:
        """The URL of the innermost `listen` block.

        Raises:
            RuntimeError: The server does not listen.
        """
        if not self._listeners:
            raise RuntimeError("the server does not listen: use `with server.listen() as url:`")
        return self._listeners[-1].url

    def transport(self) -> httpx.BaseTransport:
        """A transport for ``httpx.Client(transport=...)`` that reaches this server without a socket."""
        from ._memory import MemoryTransport

        return MemoryTransport(self._core)

    def async_transport(self) -> httpx.AsyncBaseTransport:
        """A transport for ``httpx.AsyncClient(transport=...)``; works under asyncio and trio."""
        from ._memory import AsyncMemoryTransport

        return AsyncMemoryTransport(self._core)

    # -- what it saw

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request that was read, in order of arrival."""
        return self._core.requests

    @property
    def dropped(self) -> int:
        """How many requests met ``faults.drop()`` or ``faults.refuse()``, and so are not among `requests`."""
        return self._core.dropped

    @property
    def effects(self) -> list[Effect]:
        """Every execution, in order."""
        return self._core.ledger.effects

    @property
    def keys(self) -> list[str]:
        """The distinct keys that arrived, in order of first arrival."""
        return list(dict.fromkeys(request.key for request in self.requests if request.key is not None))

    @property
    def steps_left(self) -> int:
        """How many scripted steps no request has used yet."""
        return self._core.script.left()

    def assert_executed_once(self, key: str | None = None) -> None:
        """Asserts that exactly one effect happened.

        Args:
            key: Count only effects under this key. Default None: all.

        Raises:
            AssertionError: It was none or more; the text lists effects and requests, keys as short digests.
        """
        _asserts.executed(1, self.effects, self.requests, key)

    def assert_executed(self, count: int) -> None:
        """Asserts that exactly *count* effects happened.

        Raises:
            AssertionError: It was another number; the text lists effects and requests.
        """
        _asserts.executed(count, self.effects, self.requests)

    def assert_same_key(self) -> None:
        """Asserts that all requests of the methods that carry keys carried one and the same.

        Raises:
            AssertionError: Keys differ or lack, or there was no such request; the text lists them.
        """
        _asserts.same_key([request for request in self.requests if request.method in self._methods])

    def assert_same_body(self) -> None:
        """Asserts that all requests of the methods that carry keys had byte-identical bodies.

        Raises:
            AssertionError: Bodies differ, or there was no such request; the text lists them.
        """
        _asserts.same_body([request for request in self.requests if request.method in self._methods])


_CANNOT_REFUSE = "faults.refuse() works in memory only: a listening socket cannot refuse one connection"
