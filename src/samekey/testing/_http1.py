"""As much HTTP/1.1 as a test server needs: requests read from a socket, heads of answers written."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from ._delivery import Parcel
from ._records import Headers, find_header


class ClientLeft(ConnectionError):
    """The client closed its side."""


class Malformed(ValueError):
    """The bytes are no HTTP/1.1 request."""


@dataclass(frozen=True, slots=True)
class Head:
    """Request line and headers."""

    method: str
    path: str
    query: str
    headers: Headers
    keep_alive: bool


class Incoming:
    """Reads the requests of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()

    def head(self) -> Head:
        """The next head.

        Raises:
            ClientLeft: The connection ended.
            Malformed: It is no HTTP request.
        """
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise Malformed(f"bad request line: {lines[0]!r}")
        headers: list[tuple[str, str]] = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise Malformed(f"bad header line: {line!r}")
            headers.append((name, value.strip(" \t")))
        path, query = split_target(parts[1])
        connection = (find_header(tuple(headers), "Connection") or "").lower()
        keep_alive = connection != "close" and parts[2] == "HTTP/1.1"
        return Head(parts[0].upper(), path, query, tuple(headers), keep_alive)

    def body(self, head: Head) -> bytes:
        """The body that belongs to *head*.

        Raises:
            ClientLeft: The connection ended before the body did.
            Malformed: The length or a chunk is no number.
        """
        if "chunked" in (find_header(head.headers, "Transfer-Encoding") or "").lower():
            return self._chunks()
        return self._exactly(_number(find_header(head.headers, "Content-Length") or "0", 10))

    def drain(self) -> None:
        """Throws away what still comes, until the client closes its side."""
        while self._sock.recv(65536):
            pass

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := _number(self._until(b"\r\n").partition(b";")[0].decode("latin-1"), 16):
            body += self._exactly(size)
            self._exactly(2)
        while self._until(b"\r\n"):
            pass  # trailers
        return bytes(body)

    def _until(self, end: bytes) -> bytes:
        while (at := self._buffer.find(end)) < 0:
            self._fill()
        found = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        found = bytes(self._buffer[:size])
        del self._buffer[:size]
        return found

    def _fill(self) -> None:
        data = self._sock.recv(65536)
        if not data:
            raise ClientLeft
        self._buffer += data


def split_target(target: str) -> tuple[str, str]:
    """Path and query of a request target, also of the absolute form that proxies get."""
    if target.startswith("/"):
        path, _, query = target.partition("?")
        return path, query
    parts = urlsplit(target)
    return parts.path or "/", parts.query


def head_bytes(parcel: Parcel) -> bytes:
    """Status line and headers as they go on the wire."""
    try:
        reason = HTTPStatus(parcel.status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {parcel.status} {reason}", *(f"{name}: {value}" for name, value in parcel.headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError as error:
        raise Malformed(f"bad length: {text!r}") from error
