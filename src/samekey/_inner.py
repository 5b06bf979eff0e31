"""What may stand inside one of our transports: one that sends once and does not retry by itself."""

from __future__ import annotations

import inspect
from typing import Any

RETRYING = frozenset({"httpx_retries", "httpx_tenacity", "httpx_retry", "retryhttp"})
"""Packages whose transports retry by themselves."""
LIBRARIES = frozenset({"httpx", "httpx2"})


def belongs(thing: Any, library: str, what: str) -> None:
    """Refuse a *thing* that is made for the other HTTP library; one that is made for neither may be used with both.

    Raises:
        TypeError: It is; *what* names it in the message.
    """
    found = {kind.__module__.partition(".")[0] for kind in type(thing).__mro__} & LIBRARIES
    if found and library not in found:
        other = found.pop()
        raise TypeError(
            f"{what} belongs to {other}, and this is samekey for {library}: the classes of the two libraries do not "
            f"mix ({type(thing).__name__}). Use samekey for httpx, samekey.httpx2 for httpx2"
        )


def checked(inner: Any, method: str, library: str) -> Any:
    """Return *inner* if it can stand inside: it has *method*, is of *library*, is not ours, and does not retry.

    Raises:
        TypeError: It is of the other colour or library, or no transport at all.
        ValueError: It retries by itself, or is wrapped already.
    """
    colour = "an async" if "async" in method else "a sync"
    if not callable(getattr(inner, method, None)):
        other = "IdempotentTransport" if "async" in method else "AsyncIdempotentTransport"
        raise TypeError(
            f"the inner transport must be {colour} transport with {method}(); {inner!r} is not. {other} is for the "
            "other kind"
        )
    for part in _chain(inner):
        package = type(part).__module__.partition(".")[0]
        if package == "samekey" and hasattr(part, "_engine"):
            raise ValueError(
                "this transport or client is wrapped by samekey already; wrapping twice would retry twice. Use the one "
                "you have"
            )
        if package in RETRYING:
            raise ValueError(
                f"the transport retries by itself ({type(part).__name__} of {package}); two layers multiply the "
                "attempts. Take it out: samekey retries on its own"
            )
        if getattr(getattr(part, "_pool", None), "_retries", 0):
            raise ValueError(
                "the transport was made with retries=...; its connect retries know nothing of the total timeout. "
                "Leave the argument out: samekey retries failed connects on its own"
            )
    belongs(inner, library, "the inner transport")
    return inner


def matching(journal: Any, method: str) -> Any:
    """Return *journal* if it has the colour of a transport with *method*, or is no journal at all.

    Raises:
        TypeError: It is of the other colour.
    """
    claim = getattr(journal, "claim", None)
    asynchronous = inspect.iscoroutinefunction(claim) or hasattr(journal, "aclose")
    if claim is not None and asynchronous is not ("async" in method):
        needed, example, given = ("a sync", "MemoryJournal", "an async")
        if "async" in method:
            needed, example, given = ("an async", "AsyncMemoryJournal", "a sync")
        kind = type(journal).__name__
        raise TypeError(f"{needed} client needs {needed} journal such as {example}; {kind} is {given} one")
    return journal


def _chain(transport: Any) -> list[Any]:
    """The transport and whatever it wraps, as far as its attributes show."""
    found: list[Any] = []
    waiting = [transport]
    while waiting:
        part = waiting.pop()
        if any(part is known for known in found):
            continue
        found.append(part)
        waiting += [
            value
            for value in getattr(part, "__dict__", {}).values()
            if hasattr(value, "handle_request") or hasattr(value, "handle_async_request")
        ]
    return found
