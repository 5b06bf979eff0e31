"""The errors of samekey.

IdempotencyError             .key .name .report .request .response
├── KeyMismatch              the key stands for another request
├── OutcomeUnknown           may have been executed; keep the key
│   ├── StillInProgress      the server was still at it when time was up
│   └── KeyExpired           unresolved, and older than the server keeps keys
├── NotSent                  nothing can have been executed
├── AlreadyExecuted          done earlier, and this API does not replay the answer
├── KeySpent                 the server burnt this key on a failed try
├── KeyNotAccepted           the server wants a key and got none, or refuses its form
└── JournalError             the journal could not be used before the first send

Each error that is raised is also an instance of the HTTP library's class of the same situation, so that
``except httpx.ReadTimeout`` and ``except httpx.HTTPStatusError`` go on working. `paired` builds the pair of
classes once; `__reduce__` finds it again, so that errors travel through job queues.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from ._options import EXTENSION, Options

if TYPE_CHECKING:
    from ._report import Report

SECRET_HEADERS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"set-cookie"})
"""Headers that never leave the process inside a pickled error."""


class IdempotencyError(Exception):
    """Root of samekey's errors.

    Attributes:
        key: The key that was (or would have been) sent. Keep it: only with it can the operation be taken up again.
        name: Name of the operation, or None.
        report: What was tried and what is known; see `samekey.Report`.
        request: The caller's request.
        response: The answer that decided, body read; None if there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        name: str | None = None,
        report: Report | None = None,
        request: Any = None,
        response: Any = None,
    ) -> None:
        Exception.__init__(self, message)
        self.key = key
        self.name = name
        self.report: Report = report  # type: ignore[assignment] # None only on an error that was made by hand
        self.request = request
        self.response = response

    # Class attributes too, because httpx's own `request` is a property that raises while it is unset.
    request: Any = None
    response: Any = None
    backend: str = ""
    situation: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        about = (type(self).__qualname__, self.backend, self.situation)
        facts = {"key": self.key, "name": self.name, "report": self.report}
        return _rebuild, (about, str(self), facts, self._extra(), _pack_request(self), _pack_response(self))

    def _extra(self) -> dict[str, Any]:
        return {}


class KeyMismatch(IdempotencyError):
    """The key stands for another request; found before sending, or told by the server.

    Nothing of *this* request was executed. Send it under a key (an operation) of its own.
    """


class OutcomeUnknown(IdempotencyError):
    """The operation may have been executed, and nobody on this side can tell.

    Never treat it as failed. Keep ``error.key`` and go on with it: ``with samekey.operation(key=error.key)`` repeats
    the same request safely as long as the server keeps the key; or look the operation up at the provider.
    """


class StillInProgress(OutcomeUnknown):
    """The server was still working on the first request when the time was up. Ask again later, with the same key."""


class KeyExpired(OutcomeUnknown):
    """Unresolved, and the key is older than the server keeps keys: sending it again would execute again."""


class NotSent(IdempotencyError):
    """Nothing of this operation can have been executed: no attempt left, or each was turned away at the door.

    Starting over, with this key or another, is safe.
    """


class AlreadyExecuted(IdempotencyError):
    """It was done earlier, and this API says so instead of replaying its answer.

    Attributes:
        resource: Identifier or URL of what was made, where the answer names it; else None.
    """

    resource: str | None = None

    def _extra(self) -> dict[str, Any]:
        return {"resource": self.resource}


class KeySpent(IdempotencyError):
    """The server burnt this key on a failed try. Nothing was done; a new operation (a new key) is needed."""


class KeyNotAccepted(IdempotencyError):
    """The server wants a key and saw none, or refuses its form. Nothing was done."""


class JournalError(IdempotencyError):
    """The journal could not be read or written before the first send; nothing was sent."""


KINDS: dict[str, type[IdempotencyError]] = {
    kind.__name__: kind
    for kind in (
        IdempotencyError,
        KeyMismatch,
        OutcomeUnknown,
        StillInProgress,
        KeyExpired,
        NotSent,
        AlreadyExecuted,
        KeySpent,
        KeyNotAccepted,
        JournalError,
    )
}


@cache
def paired(kind: str, backend: str, situation: str) -> type[IdempotencyError]:
    """The class that is both samekey's *kind* and the *situation* of *backend* ("httpx" or "httpx2")."""
    own = KINDS[kind]
    if not backend:
        return own
    theirs = getattr(importlib.import_module(backend), situation)
    body = {"__module__": own.__module__, "__doc__": own.__doc__, "backend": backend, "situation": situation}
    return type(kind, (own, theirs), body)


def _pack_request(error: IdempotencyError) -> tuple[Any, ...] | None:
    """Method, URL, headers without credentials, body: enough to send the request again."""
    request = error.request
    if request is None or not error.backend:
        return None
    stream = request.stream
    body = b"".join(stream) if type(stream).__name__ == "ByteStream" else None
    url = request.url.copy_with(userinfo=b"")  # a password may stand in the URL too
    return request.method, str(url), _plain(request.headers, drop={b"transfer-encoding"}), body


def _pack_response(error: IdempotencyError) -> tuple[Any, ...] | None:
    response = error.response
    if response is None or not error.backend:
        return None
    # The body is kept decoded, so the headers that told how it was encoded and framed must go.
    framing = {b"content-encoding", b"content-length", b"transfer-encoding"}
    return response.status_code, _plain(response.headers, drop=framing), response.content


def _plain(headers: Any, drop: set[bytes]) -> list[tuple[bytes, bytes]]:
    # As bytes: a value that is no ASCII could not be made into a header again from its text.
    return [(name, value) for name, value in headers.raw if name.lower() not in SECRET_HEADERS | drop]


class _NotKept:
    """In the place of a body that was too long to travel: sending it fails before a byte of the request leaves."""

    def __iter__(self) -> Iterator[bytes]:
        raise ValueError("the body of this request was too long to be kept with the error; build the request again")


def _rebuild(
    about: tuple[str, str, str],
    message: str,
    facts: dict[str, Any],
    extra: dict[str, Any],
    packed_request: tuple[Any, ...] | None,
    packed_response: tuple[Any, ...] | None,
) -> IdempotencyError:
    request = response = None
    if packed_request is not None:
        method, url, headers, body = packed_request
        content = _NotKept() if body is None else body
        request = importlib.import_module(about[1]).Request(method, url, headers=headers, content=content)
        if facts["key"] is not None:
            request.extensions[EXTENSION] = Options(key=facts["key"])
    if packed_response is not None:
        status, headers, body = packed_response
        response = importlib.import_module(about[1]).Response(status, headers=headers, content=body, request=request)
    error = paired(*about)(message, **facts, request=request, response=response)
    vars(error).update(extra)
    return error
