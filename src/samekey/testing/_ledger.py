"""The rules of an idempotent server: a request in, an answer out. No sockets, no HTTP library.

An execution is a `Ticket`. It is running from `receive` until it is settled, and settling stores the answer and records
the effect in one step under the lock. Nothing has to come back for that: a ticket whose time has come is settled by
whoever looks next, so the work of a client that has left is finished all the same, and no thread is needed for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ._faults import Answer, Pause
from ._flavours import Flavour
from ._records import Effect, ReceivedRequest, Reply

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

Handler = Callable[[ReceivedRequest], Answer]


@dataclass(frozen=True, slots=True)
class Rules:
    """What kind of server it is."""

    flavour: Flavour
    methods: frozenset[str]
    key_header: str
    require_key: bool
    honours_keys: bool
    store_errors: Collection[int]


@dataclass(slots=True, eq=False)
class Ticket:
    """One request on its way through the ledger; `answer` is set once it is settled."""

    request: ReceivedRequest
    pause: Pause | None = None
    started: float = field(default_factory=time.monotonic)
    draft: Callable[[int], Reply] | None = None
    answer: Reply | None = None
    keyed: bool = False

    def due(self) -> bool:
        """Whether work that takes its time is done by now; all other is settled by the thread that began it."""
        if self.draft is None or self.pause is None:
            return False
        if self.pause.event is not None:
            return self.pause.event.is_set()
        return time.monotonic() >= self.started + (self.pause.seconds or 0.0)


class Ledger:
    """Executes at most once per key; safe to use from any thread."""

    def __init__(self, rules: Rules, handler: Handler | None) -> None:
        self._rules = rules
        self._handler = handler
        self._lock = threading.Lock()
        self._tickets: dict[str | None, Ticket] = {}
        self._running: list[Ticket] = []
        self._effects: list[Effect] = []

    def receive(self, request: ReceivedRequest, pause: Pause | None = None) -> Ticket:
        """Takes *request*: a ticket that is settled already (refused, in progress, replayed) or one that runs."""
        with self._lock:
            self._settle_due()
            answer = self._known(request)
            if answer is not None:
                return Ticket(request, answer=answer)
            ticket = Ticket(request, pause, keyed=self._is_keyed(request))
            if ticket.keyed:
                self._tickets[request.key] = ticket
            self._running.append(ticket)
        # The user's handler runs outside the lock: it may be slow, and may call this server.
        ticket.draft = self._draft(request)
        return ticket

    def finish(self, ticket: Ticket) -> Reply:
        """The answer of *ticket*, settling it now if it still runs."""
        with self._lock:
            return self._settle(ticket)

    def stored(self, key: str | None) -> Reply | None:
        """The stored answer of *key*, if there is one."""
        with self._lock:
            self._settle_due()
            ticket = self._tickets.get(key)
            return ticket.answer if ticket else None

    @property
    def effects(self) -> list[Effect]:
        """Everything executed so far, in order."""
        with self._lock:
            self._settle_due()
            return list(self._effects)

    def clear(self) -> None:
        """Forgets keys, answers, effects and running work."""
        with self._lock:
            self._tickets.clear()
            self._running.clear()
            self._effects.clear()

    def _is_keyed(self, request: ReceivedRequest) -> bool:
        return request.key is not None and self._rules.honours_keys and request.method in self._rules.methods

    def _known(self, request: ReceivedRequest) -> Reply | None:
        rules = self._rules
        if request.key is None and rules.require_key and request.method in rules.methods:
            return rules.flavour.key_missing
        ticket = self._tickets.get(request.key) if self._is_keyed(request) else None
        if ticket is None:
            return None
        if _identity(ticket.request) != _identity(request):
            return rules.flavour.mismatch
        if ticket.answer is None:
            return rules.flavour.running()
        return rules.flavour.replayed(ticket.answer)

    def _draft(self, request: ReceivedRequest) -> Callable[[int], Reply]:
        if self._handler is None:
            return lambda number: _default_reply(request, number)
        try:
            reply = as_reply(self._handler(request), 201 if request.method in self._rules.methods else 200)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises is an answer of 500
            reply = Reply.of_json(500, {"error": f"the handler raised {error!r}"})
        return lambda _: reply

    def _settle_due(self) -> None:
        for ticket in [ticket for ticket in self._running if ticket.due()]:
            self._settle(ticket)

    def _settle(self, ticket: Ticket) -> Reply:
        if ticket.answer is not None:
            return ticket.answer
        assert ticket.draft is not None
        ticket.answer = reply = ticket.draft(len(self._effects) + 1)
        if ticket not in self._running:
            return reply  # cleared meanwhile
        self._running.remove(ticket)
        key = ticket.request.key
        if reply.status < 400:
            if ticket.request.method not in SAFE_METHODS:
                self._effects.append(Effect(key, ticket.request))
        elif ticket.keyed and reply.status not in self._rules.store_errors:
            del self._tickets[key]
        return reply


def as_reply(answer: object, status: int = 200) -> Reply:
    """What a user's function returned, as a `Reply`; a mapping becomes JSON with *status*.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, Mapping):
        return Reply.of_json(status, dict(answer))
    raise TypeError(f"expected a Reply or a mapping, got {type(answer).__name__}")


def _identity(request: ReceivedRequest) -> tuple[str, str, str, bytes]:
    return request.method, request.path, request.query, request.body


def _default_reply(request: ReceivedRequest, number: int) -> Reply:
    if request.method in SAFE_METHODS:
        return Reply.of_json(200, {"method": request.method, "path": request.path})
    return Reply.of_json(201, {"id": f"effect-{number}", "n": number})
