"""HTTP library objects to vocabulary and back, without I/O; the same for httpx and httpx2."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ._model import Answer, Failure

if TYPE_CHECKING:
    import httpx

CLASSIFIED_BODY = 64 * 1024
"""Bytes of an answer that is no success which are read, looked at, and drained when it is discarded."""

SHORT_BODY = 2048
"""Bytes that are searched sooner than a header is found."""

LONGEST_TOKEN_REQUEST = 64 * 1024
"""Bytes of a form in which a `grant_type` is looked for."""

SHORTEST_TIMEOUT = 0.001
"""Seconds; zero would mean "do not wait at all" to a socket."""

_QUOTED = re.compile(r"b?(['\"]).*\1", re.DOTALL)

NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
PERMANENT = ("UnsupportedProtocol", "LocalProtocolError")


class Backend:
    """The classes of one HTTP library, and what its exceptions mean."""

    def __init__(self, module: ModuleType) -> None:
        self.name = module.__name__
        self.Request: type[httpx.Request] = module.Request
        self.Response: type[httpx.Response] = module.Response
        self.Headers: type[httpx.Headers] = module.Headers
        self.URL: type[httpx.URL] = module.URL
        self.ByteStream: type[httpx.ByteStream] = module.ByteStream
        self.HTTPStatusError: type[httpx.HTTPStatusError] = module.HTTPStatusError
        self.ReadTimeout: type[httpx.ReadTimeout] = module.ReadTimeout
        self.StreamConsumed: type[httpx.StreamConsumed] = module.StreamConsumed
        self.Rest: type[Any] = type("Rest", (Rest, module.SyncByteStream, module.AsyncByteStream), {})
        self._errors: type[Exception] = module.RequestError
        self._never_sent = tuple(getattr(module, name) for name in NEVER_SENT)
        self._permanent = tuple(getattr(module, name) for name in PERMANENT)
        self._names = {
            value: name
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, module.RequestError)
        }

    def classify(self, error: BaseException, *, replayable: bool) -> tuple[Failure, str]:
        """What *error* says of the attempt, and the name of the library's own class for the situation.

        *replayable* is False for a body that was streamed past us: then a local protocol error may have come after a
        part of the request had left.
        """
        if not isinstance(error, Exception):
            return Failure.CANCELLED, type(error).__name__
        if not isinstance(error, self._errors):
            return Failure.UNFORESEEN, type(error).__name__
        name = next((self._names[base] for base in type(error).__mro__ if base in self._names), "RequestError")
        if isinstance(error, self._never_sent):
            return (Failure.PERMANENT if _untrusted(error) else Failure.NEVER_SENT), name
        if isinstance(error, self._permanent):
            maybe_sent = name == "LocalProtocolError" and (not replayable or _of_http2(error))
            return (Failure.UNKNOWN if maybe_sent else Failure.PERMANENT), name
        return (Failure.NEVER_SENT if _refused_stream(error) else Failure.UNKNOWN), name


def text_of(error: BaseException, name: str) -> str:
    """The text of *error* for reports and logs; a protocol error may quote a header, and so a credential or cookie."""
    text = str(error) or next((str(cause) for cause in _causes(error) if str(cause)), "")
    return _QUOTED.sub("(not shown)", text) if name in ("LocalProtocolError", "RemoteProtocolError") else text


def _untrusted(error: BaseException) -> bool:
    """Whether the certificate did not verify: no retry will mend that."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _of_http2(error: BaseException) -> bool:
    """Whether it comes from the HTTP/2 machinery, which names what the *server* did wrong a local error as well."""
    return any(type(cause).__module__.partition(".")[0] == "h2" for cause in _causes(error))


def _refused_stream(error: BaseException) -> bool:
    """Whether HTTP/2 proves that the request was not processed (RFC 9113, sections 6.8 and 8.7)."""
    arguments = getattr(error.__cause__, "args", None) or (None,)
    event = arguments[0]
    refused: bool = getattr(event, "error_code", None) == 7 and type(event).__name__ == "StreamReset"
    none_processed: bool = (
        getattr(event, "last_stream_id", None) == 0 and type(event).__name__ == "ConnectionTerminated"
    )
    return refused or none_processed


Origin = tuple[bytes, bytes, int | None]
DEFAULT_PORTS = {b"http": 80, b"https": 443}


def origin_of(url: httpx.URL) -> Origin:
    """Scheme, host and port; the port is None where it is the scheme's default."""
    scheme, port = url.raw_scheme, url.port
    if port is not None and port == DEFAULT_PORTS.get(scheme):
        port = None  # httpx leaves it there if the scheme was written in capitals
    return scheme, url.raw_host, port


def same_origin(first: Origin, then: Origin) -> bool:
    """Equal, or the step from http to https on one host, the default ports or one port for both."""
    if first == then:
        return True
    upgraded = first[0] == b"http" and then[0] == b"https" and first[1] == then[1]
    return upgraded and first[2] == then[2]


def clipped(timeout: dict[str, float | None], remaining: float | None) -> dict[str, float | None]:
    """Per-operation timeouts cut to what is left of the total timeout."""
    if remaining is None:
        return timeout
    most = max(remaining, SHORTEST_TIMEOUT)
    values = timeout.values()
    if len(timeout) == 4 and None not in values and max(values) <= most:  # type: ignore[type-var,operator]
        return timeout
    parts = ("connect", "read", "write", "pool")
    return {part: most if (own := timeout.get(part)) is None else min(own, most) for part in parts}


def longest_attempt(timeout: dict[str, float | None], remaining: float | None) -> float:
    """Seconds an attempt may take by its own timeouts, as far as anything bounds it."""
    own = [timeout.get(part) for part in ("pool", "connect", "write", "read")]
    bound = math.inf if None in own else sum(part for part in own if part is not None)
    bound = min(bound, math.inf if remaining is None else remaining)
    return bound if math.isfinite(bound) else 0.0


def decoded_answer(backend: Backend, response: httpx.Response, raw: bytes, *, complete: bool, encoded: bool) -> Answer:
    """The answer as the classifier sees it: lower-case headers and the decoded body, or its first part."""
    encoding = response.headers.encoding
    headers = tuple((name.decode(encoding).lower(), value.decode(encoding)) for name, value in response.headers.raw)
    body = raw[:CLASSIFIED_BODY]
    if body and encoded and "content-encoding" in response.headers:
        body = decoded(backend, response.headers, body, CLASSIFIED_BODY) or b""
    return Answer(response.status_code, headers, body[:CLASSIFIED_BODY], complete and len(raw) <= CLASSIFIED_BODY)


_PIECE = 1024
"""Bytes that are decoded at a time, so that a small body cannot become a huge one before anybody looks."""


def decoded(backend: Backend, headers: httpx.Headers, raw: bytes, most: int) -> bytes | None:
    """The first *most* bytes (and a little more) of a body without its encoding; None if it cannot be decoded.

    A body that was encoded more than once is left alone: it can grow by the square of what one encoding allows.
    """
    if "," in headers.get("content-encoding", ""):
        return None
    pieces = (raw[start : start + _PIECE] for start in range(0, len(raw), _PIECE))
    stream = backend.Rest([], pieces, None, as_it_is, backend.StreamConsumed)
    body = bytearray()
    try:
        for part in backend.Response(200, headers=headers, stream=stream).iter_bytes():
            body += part
            if len(body) >= most:
                break
    except Exception:  # noqa: BLE001 - whatever a broken encoding does, the status still stands
        return None
    return bytes(body)


def beginning(parts: list[bytes], most: int) -> bytes:
    """The first *most* bytes of what the parts make together."""
    found = bytearray()
    for part in parts:
        found += part[: most - len(found)]
        if len(found) >= most:
            break
    return bytes(found)


def as_it_is(error: Exception) -> Exception:
    """For a `Rest` whose failures need no translation."""
    return error


def is_token_request(body: bytes, headers: httpx.Headers) -> bool:
    """Whether it is an OAuth 2 token request (RFC 6749, section 4): an HTML form that has a `grant_type`."""
    # The cheaper look first: hardly any short body has the word, and hardly any long one is a form.
    if len(body) > SHORT_BODY and not _is_form(headers):
        return False
    found = body.startswith(b"grant_type=") or body.find(b"&grant_type=", 0, LONGEST_TOKEN_REQUEST) >= 0
    return found and _is_form(headers)


def _is_form(headers: httpx.Headers) -> bool:
    content_type: str = headers.get("content-type", "")
    return content_type.lower().startswith("application/x-www-form-urlencoded")


class Rest:
    """A body of which the first part was read ahead: that part, then the rest of its stream; once.

    `Backend.Rest` mixes it with the library's own stream classes.
    """

    def __init__(
        self,
        first: list[bytes],
        rest: Any,
        source: Any,
        failed: Callable[[Exception], Exception],
        spent: Callable[[], Exception],
    ) -> None:
        self._first = first
        self._rest = rest
        self._source = source
        self._failed = failed
        self._spent: Callable[[], Exception] | None = None
        self._when_spent = spent

    def _begin(self) -> list[bytes]:
        if self._spent is not None:
            raise self._spent()
        self._spent = self._when_spent
        first, self._first = self._first, []
        return first

    def __iter__(self) -> Iterator[bytes]:
        yield from self._begin()
        try:
            yield from self._rest
        except Exception as error:
            if (told := self._failed(error)) is error:
                raise
            raise told from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._begin():
            yield part
        try:
            async for part in self._rest:
                yield part
        except Exception as error:
            if (told := self._failed(error)) is error:
                raise
            raise told from error

    def close(self) -> None:
        """Close what the rest is read from."""
        if hasattr(self._source, "close"):
            self._source.close()

    async def aclose(self) -> None:
        """Close what the rest is read from."""
        if hasattr(self._source, "aclose"):
            await self._source.aclose()
