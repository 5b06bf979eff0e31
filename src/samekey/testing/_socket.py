"""A `LedgerServer` on a loopback socket: a thread that accepts, and one per connection.

Closing wakes everything: a pair of sockets for the accepting thread, an event for pauses, a shutdown of the connection
for threads that read, write or stall.
"""

from __future__ import annotations

import selectors
import socket
import struct
import threading
import warnings
from contextlib import suppress

from . import faults
from ._core import Core, Visit
from ._delivery import pack, pieces
from ._faults import Contact, Delivery, End, Fault, Pause
from ._http1 import Head, Incoming, Malformed, head_bytes
from ._records import Reply, find_header

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_JOIN_SECONDS = 5.0


class Listener:
    """One listening socket and its connections."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._socket.setblocking(False)
        self._wake, self._woken = socket.socketpair()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name=f"samekey ledger {self.url}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends listening and every connection, and waits for the threads."""
        self.closing.set()
        self._wake.close()
        self._thread.join()
        with self._lock:
            threads = list(self._connections.values())
            for connection in self._connections:
                connection.interrupt()
        for thread in threads:
            thread.join(_JOIN_SECONDS)
            if thread.is_alive():
                message = "a handler or a scripted callable did not return; its thread is left behind"
                warnings.warn(message, ResourceWarning, stacklevel=4)

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector, self._socket, self._woken:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self.closing.is_set():
                selector.select()
                # A client that has already left makes accept fail.
                with suppress(OSError):
                    self._start(self._socket.accept()[0])

    def _start(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self, sock)
        thread = threading.Thread(target=connection.serve, name=f"samekey ledger connection {self.url}", daemon=True)
        with self._lock:
            self._connections[connection] = thread
        thread.start()

    def forget(self, connection: Connection) -> None:
        """Closes *connection*, which has ended; never while `close` interrupts it."""
        with self._lock:
            del self._connections[connection]
            connection.sock.close()


class Connection:
    """Serves the requests of one client connection, one after the other."""

    def __init__(self, listener: Listener, sock: socket.socket) -> None:
        self.sock = sock
        self._listener = listener
        self._core = listener.core
        self._incoming = Incoming(sock)

    def serve(self) -> None:
        """Runs until either side ends the connection."""
        try:
            # The client may leave at any moment; that is nothing to report.
            with suppress(OSError):
                while self._exchange():
                    pass
        finally:
            self._listener.forget(self)

    def interrupt(self) -> None:
        """Wakes a thread that reads or writes."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _exchange(self) -> bool:
        """One request and its answer; whether another may follow."""
        try:
            head = self._incoming.head()
            step = self._core.take(head.path)
            if isinstance(step, Fault) and step.contact is not Contact.READ:
                self._core.drop()
                if step.delivery.end is End.RESET:
                    # A reset in the middle of the client's writing would show as one of several errors, by chance.
                    self._incoming.body(head)
                return self._end(step.delivery.end)
            body = self._incoming.body(head)
        except Malformed as error:
            self._send(Reply.of_json(400, {"error": str(error)}), "GET", Delivery())
            return self._end(End.CLOSE)
        request = self._core.read(head.method, (head.path, head.query), head.headers, body)
        try:
            visit = self._core.visit(request, step)
        except Exception as error:  # noqa: BLE001 - nobody else would see what a callable raises in this thread
            broken = faults.status(500, json={"error": f"the scripted callable raised {error!r}"})
            visit = self._core.visit(request, broken)
        return self._pause(visit.fault.pause) and self._deliver(visit, head)

    def _pause(self, pause: Pause | None) -> bool:
        """Waits as *pause* says; False when the listener closes."""
        closing = self._listener.closing
        if pause is None:
            return True
        if pause.event is None:
            return not closing.wait(pause.seconds)
        while not pause.event.wait(0.02):
            if closing.is_set():
                return False
        return True

    def _deliver(self, visit: Visit, head: Head) -> bool:
        reply = visit.answer()
        delivery = visit.fault.delivery
        if delivery.answered:
            self._send(reply, head.method, delivery)
        if delivery.end is not End.KEEP:
            return self._end(delivery.end)
        if head.keep_alive and (find_header(reply.headers, "Connection") or "").lower() != "close":
            return True
        return self._end(End.CLOSE)

    def _send(self, reply: Reply, method: str, delivery: Delivery) -> None:
        parcel = pack(reply, method, delivery)
        drip = delivery.drip
        if drip is None:
            self.sock.sendall(head_bytes(parcel) + parcel.body)
            return
        for data, dripping in ((head_bytes(parcel), drip.head), (parcel.body, drip.body)):
            for piece in pieces(data, drip if dripping else None):
                if dripping and self._listener.closing.wait(drip.interval):
                    return
                self.sock.sendall(piece)

    def _end(self, end: End) -> bool:
        if end is End.RESET:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            return False
        if end is End.CLOSE:
            # Closing with unread bytes would send RST instead of an orderly end: stop sending, then read to the end.
            self.sock.shutdown(socket.SHUT_WR)
        self._incoming.drain()
        return False
