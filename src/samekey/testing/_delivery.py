"""What of an answer goes on the wire; the same for sockets and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ._faults import Delivery, Drip
from ._records import Headers, Reply, find_header


@dataclass(frozen=True, slots=True)
class Parcel:
    """Status, the headers with their length, and the bytes of the body that are really sent."""

    status: int
    headers: Headers
    body: bytes


def pack(reply: Reply, method: str, delivery: Delivery) -> Parcel:
    """*reply* as it is sent to a request with *method*."""
    headers = reply.headers
    announced = len(reply.body)
    body = b"" if method == "HEAD" or reply.status in (204, 304) else reply.body
    if delivery.partial:
        # The announced length exceeds what is sent, or nobody could tell that the answer was cut.
        wanted = announced // 2 if delivery.cut_after is None else delivery.cut_after
        body = body[: min(wanted, max(announced - 1, 0))]
        announced = max(announced, 1)
    if reply.status != 204 and find_header(headers, "Content-Length") is None:
        headers = (*headers, ("Content-Length", str(announced)))
    return Parcel(reply.status, headers, body)


def pieces(data: bytes, drip: Drip | None) -> Iterator[bytes]:
    """*data* in the pieces of *drip*, or whole."""
    if drip is None:
        if data:
            yield data
        return
    for start in range(0, len(data), drip.size):
        yield data[start : start + drip.size]
