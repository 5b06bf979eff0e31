"""The steps of a `LedgerServer` script: what the server does with one request.

"Executes" always means: as an idempotent server does. A key that is new is executed, a known one is replayed, refused
or told to wait, whatever then happens to the answer.
"""

from __future__ import annotations

import json as json_module
import threading
from dataclasses import replace
from typing import Literal

from ._faults import Contact, Delivery, Drip, End, Fault, Pause, Source
from ._records import HeadersLike, Reply, header_pairs

__all__ = [
    "cut",
    "drip",
    "drop",
    "duplicated",
    "hold",
    "in_progress",
    "lost",
    "mismatch",
    "never",
    "ok",
    "redirect",
    "refuse",
    "replay",
    "reset",
    "slow",
    "status",
]


def ok() -> Fault:
    """Behaves: executes a new key, replays a known one, refuses other bytes, says "in progress" while it runs."""
    return Fault("ok")


def lost(*, executes: bool = True) -> Fault:
    """Reads the whole request, executes it, then closes the connection without an answer.

    Args:
        executes: False reads and closes without executing. Default True.
    """
    return Fault("lost", executes=executes, delivery=Delivery(answered=False, end=End.CLOSE))


def reset(*, executes: bool = True) -> Fault:
    """Reads the whole request, executes it, then resets the connection (RST) without an answer.

    Args:
        executes: False reads and resets without executing. Default True.
    """
    return Fault("reset", executes=executes, delivery=Delivery(answered=False, end=End.RESET))


def never(*, executes: bool = True) -> Fault:
    """Reads the whole request, executes it and never answers, until the client leaves or the server shuts down.

    Args:
        executes: False only reads. Default True.
    """
    return Fault("never", executes=executes, delivery=Delivery(answered=False, end=End.STALL))


def drop(*, reset: bool = False) -> Fault:
    """Closes the connection unread: nothing is executed, and the request is counted in ``server.dropped`` only.

    Of the request only the head is looked at, for the path of the script.

    Args:
        reset: True closes with RST. Default False, the client sees an orderly close.
    """
    end = End.RESET if reset else End.CLOSE
    return Fault("drop", executes=False, contact=Contact.UNREAD, delivery=Delivery(answered=False, end=end))


def refuse() -> Fault:
    """Refuses the connection: the client sees a connect error. In memory only.

    A listening socket cannot refuse one connection and take the next, so a server that listens rejects this step with
    a ValueError; over sockets, use the URL of a server that has stopped listening.
    """
    delivery = Delivery(answered=False, end=End.RESET)
    return Fault("refuse", executes=False, contact=Contact.REFUSED, delivery=delivery)


def cut(after: int | None = None, *, end: Literal["close", "reset", "stall"] = "close") -> Fault:
    """Executes, sends status, headers and a part of the body, then breaks off.

    Args:
        after: Bytes of the body to send; the announced length is always larger. Default half of the body.
        end: ``"close"`` (default), ``"reset"`` (RST), or ``"stall"``: sends nothing more, so that the client's read
            timeout strikes.

    Raises:
        ValueError: *after* is negative.
    """
    if after is not None and after < 0:
        raise ValueError(f"after must not be negative, got {after}")
    return Fault("cut", delivery=Delivery(partial=True, cut_after=after, end=End[end.upper()]))


def slow(seconds: float, then: Fault | None = None) -> Fault:
    """Executes and answers after *seconds*; meanwhile other requests with the key are told "in progress".

    The work goes on when the client has left: the effect is there after *seconds*.

    Args:
        seconds: Seconds until the effect and the answer.
        then: The step whose beginning is delayed. Default `ok`.

    Raises:
        ValueError: *seconds* is negative.
    """
    return replace(then or ok(), name="slow", pause=Pause(seconds=_not_negative("seconds", seconds)))


def hold(event: threading.Event, then: Fault | None = None) -> Fault:
    """Executes and answers when *event* is set; meanwhile other requests with the key are told "in progress".

    Like `slow`, without a clock: the test says when the work is done.

    Args:
        event: Set by the test.
        then: The step whose beginning is delayed. Default `ok`.
    """
    return replace(then or ok(), name="hold", pause=Pause(event=event))


def drip(
    interval: float = 0.01,
    *,
    size: int = 1,
    part: Literal["both", "headers", "body"] = "both",
    then: Fault | None = None,
) -> Fault:
    """Executes and sends the answer in small pieces.

    Args:
        interval: Seconds before each piece. Default 0.01.
        size: Bytes per piece. Default 1.
        part: What drips; the rest is sent at once. Default ``"both"``.
        then: The step whose answer drips. Default `ok`.

    Raises:
        ValueError: *interval* is negative or *size* is below 1.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    pieces = Drip(_not_negative("interval", interval), size, head=part != "body", body=part != "headers")
    step = then or ok()
    return replace(step, name="drip", delivery=replace(step.delivery, drip=pieces))


def status(
    status: int,
    *,
    headers: HeadersLike = None,
    body: bytes | str | None = None,
    json: object = None,
    executes: bool = False,
) -> Fault:
    """Answers *status*, by default without executing.

    Args:
        status: HTTP status, 200 to 599.
        headers: Mapping or (name, value) pairs. Default none.
        body: Bytes or text. Default empty.
        json: Sent as JSON instead of *body*. Default none.
        executes: True executes behind the answer, as when a gateway says 504 of work that was done. Default False.

    Raises:
        ValueError: *status* is no final HTTP status, or both *body* and *json* are given.
    """
    return Fault("status", Source.CANNED, executes=executes, reply=_reply(status, headers, body, json))


def redirect(status: int, location: str, *, headers: HeadersLike = None) -> Fault:
    """Answers a redirect without executing.

    Args:
        status: 301, 302, 303, 307 or 308.
        location: Path or URL.
        headers: Further headers. Default none.

    Raises:
        ValueError: *status* is no redirect.
    """
    if status not in (301, 302, 303, 307, 308):
        raise ValueError(f"status must be 301, 302, 303, 307 or 308, not {status}")
    reply = Reply(status, (("Location", location), *header_pairs(headers)))
    return Fault("redirect", Source.CANNED, executes=False, reply=reply)


def in_progress(status: int | None = None, *, retry_after: float | None = None) -> Fault:
    """Says that the key is still being processed, without executing anything.

    Args:
        status: 409 or 202. Default that of the server's flavour.
        retry_after: Seconds for a ``Retry-After`` header. Default that of the server's flavour.

    Raises:
        ValueError: *retry_after* is negative.
    """
    seconds = None if retry_after is None else _not_negative("retry_after", retry_after)
    return Fault("in_progress", Source.IN_PROGRESS, executes=False, status=status, retry_after=seconds)


def mismatch() -> Fault:
    """Says that the key was used with another request, without executing anything."""
    return Fault("mismatch", Source.MISMATCH, executes=False)


def replay(
    status: int = 201, *, headers: HeadersLike = None, body: bytes | str | None = None, json: object = None
) -> Fault:
    """Answers with the replay marker, without executing: the stored answer of the key, else the given one.

    Args:
        status: Status if the key has no stored answer. Default 201.
        headers: Headers of that answer. Default none.
        body: Bytes or text of that answer. Default empty.
        json: Sent as JSON instead of *body*. Default none.

    Raises:
        ValueError: *status* is no final HTTP status, or both *body* and *json* are given.
    """
    return Fault("replay", Source.REPLAY, executes=False, reply=_reply(status, headers, body, json))


def duplicated(copies: int = 2) -> Fault:
    """The network copies the request: the server gets it several times in a row and the client the last answer.

    Args:
        copies: How often it arrives. Default 2.

    Raises:
        ValueError: *copies* is below 2.
    """
    if copies < 2:
        raise ValueError(f"copies must be at least 2, got {copies}")
    return Fault("duplicated", copies=copies)


def _not_negative(name: str, seconds: float) -> float:
    if not seconds >= 0:
        raise ValueError(f"{name} must not be negative, got {seconds}")
    return seconds


def _reply(status: int, headers: HeadersLike, body: bytes | str | None, json: object) -> Reply:
    if json is None:
        return Reply(status, header_pairs(headers), body.encode() if isinstance(body, str) else body or b"")
    if body is not None:
        raise ValueError("give body or json, not both")
    pairs = header_pairs(headers)
    if not any(name.lower() == "content-type" for name, _ in pairs):
        pairs = (("Content-Type", "application/json"), *pairs)
    return Reply(status, pairs, json_module.dumps(json).encode())
