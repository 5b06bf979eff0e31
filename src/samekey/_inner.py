"""What may stand inside one of our transports: one that sends once and does not retry by itself."""

from __future__ import annotations

from typing import Any

RETRYING = frozenset({"httpx_retries", "httpx_tenacity", "httpx_retry", "retryhttp"})
"""Packages whose transports retry by themselves."""


def checked(inner: Any, method: str) -> Any:
    """Return *inner* if it can stand inside: it has *method*, is not ours, and does not retry.

    Raises:
        TypeError: It is of the other colour, or no transport at all.
        ValueError: It retries by itself, or is wrapped already.
    """
    colour = "an async" if "async" in method else "a sync"
    if not callable(getattr(inner, method, None)):
        raise TypeError(f"the inner transport must be {colour} transport with {method}(); {inner!r} is not")
    for part in _chain(inner):
        package = type(part).__module__.partition(".")[0]
        if package == "samekey" and hasattr(part, "_engine"):
            raise ValueError("this transport or client is wrapped by samekey already; wrapping twice would retry twice")
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
    return inner


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
