"""What the transports talk to: takes the next step, records the request, asks the ledger, finds the answer."""

from __future__ import annotations

import threading
import time

from ._faults import Fault, Source, Step
from ._ledger import Handler, Ledger, Rules, Ticket, as_reply
from ._records import Headers, ReceivedRequest, Reply, find_header
from ._script import Script


class Core:
    """The server without its transports; safe to use from any thread."""

    def __init__(self, rules: Rules, handler: Handler | None) -> None:
        self.rules = rules
        self.ledger = Ledger(rules, handler)
        self.script = Script()
        self._lock = threading.Lock()
        self._requests: list[ReceivedRequest] = []
        self._dropped = 0

    @property
    def requests(self) -> list[ReceivedRequest]:
        """What was read so far."""
        with self._lock:
            return list(self._requests)

    @property
    def dropped(self) -> int:
        """How many requests were turned away unread."""
        with self._lock:
            return self._dropped

    def clear(self) -> None:
        """Forgets everything."""
        self.script.clear()
        self.ledger.clear()
        with self._lock:
            self._requests.clear()
            self._dropped = 0

    def take(self, path: str) -> Step:
        """The step that the next request to *path* meets."""
        return self.script.take(path)

    def drop(self) -> None:
        """Counts a request that is turned away unread."""
        with self._lock:
            self._dropped += 1

    def read(self, method: str, target: tuple[str, str], headers: Headers, body: bytes) -> ReceivedRequest:
        """Records a request to *target*, a path and a query."""
        key = find_header(headers, self.rules.key_header)
        request = ReceivedRequest(method, target[0], headers, body, key, time.monotonic(), target[1])
        with self._lock:
            self._requests.append(request)
        return request

    def visit(self, request: ReceivedRequest, step: Step) -> Visit:
        """Lets *request* meet *step*; what a callable step raises comes out here."""
        fault = _resolve(step, request)
        if not fault.executes:
            return Visit(self, fault, request)
        for _ in range(fault.copies - 1):
            self.ledger.finish(self.ledger.receive(request))
            with self._lock:
                self._requests.append(request)
        return Visit(self, fault, request, self.ledger.receive(request, fault.pause))


class Visit:
    """One request and its step, between arrival and answer."""

    __slots__ = ("_core", "_request", "_ticket", "fault")

    def __init__(self, core: Core, fault: Fault, request: ReceivedRequest, ticket: Ticket | None = None) -> None:
        self._core = core
        self.fault = fault
        self._request = request
        self._ticket = ticket

    def answer(self) -> Reply:
        """Finishes the work and gives its answer."""
        fault = self.fault
        flavour = self._core.rules.flavour
        executed = self._core.ledger.finish(self._ticket) if self._ticket else None
        if fault.source is Source.IN_PROGRESS:
            return flavour.running(fault.status, fault.retry_after)
        if fault.source is Source.MISMATCH:
            return flavour.mismatch
        if fault.source is Source.REPLAY:
            stored = self._core.ledger.stored(self._request.key)
            return flavour.replayed(stored or fault.reply or Reply())
        return fault.reply or executed or Reply()


def _resolve(step: Step, request: ReceivedRequest) -> Fault:
    if isinstance(step, Fault):
        return step
    answer = step(request)
    if isinstance(answer, Fault):
        return answer
    return Fault("callable", Source.CANNED, executes=False, reply=as_reply(answer))
