"""Auth that signs: the key goes on before the signature is made, since the transport comes after auth."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from . import _pause
from ._engine import Engine
from ._operation import current_operation
from ._options import DEFAULT, EXTENSION
from .dialects import GENERIC, Dialect, JsonField, RepeatabilityHeaders

if TYPE_CHECKING:
    from ._wire import Backend

SIGNED = "samekey.signed"
"""Where a request's extensions say which key `KeyedAuth` has put on it."""


@dataclass(frozen=True, slots=True, repr=False)
class Signed:
    """A key that is on the request already, though its caller did not write it there."""

    key: str
    body: Any
    """The stream of the body before the key went in; None if it does not go into the body."""


class SigningAuth:
    """What the auth classes of both libraries share; see `samekey.KeyedAuth`."""

    _backend: ClassVar[Backend]

    def __init__(
        self,
        auth: Any,
        *,
        origins: str | Iterable[str] | Mapping[str, Dialect] | None = None,
        dialect: Dialect = GENERIC,
    ) -> None:
        """Settings as in `samekey.wrap`.

        Args:
            auth: The auth of the HTTP library that signs requests.
            origins: As given to `samekey.wrap`. Default: those of the client whose ``auth`` this is when it is
                wrapped; an auth that is given per request, or to a transport made by hand, has to be told.
            dialect: As given to `samekey.wrap`, where *origins* is given. Default `GENERIC`.

        Raises:
            TypeError: *auth* is no auth object.
            ValueError: An origin is malformed.
        """
        if not hasattr(auth, "sync_auth_flow") or not hasattr(auth, "async_auth_flow"):
            raise TypeError(f"auth must be an {self._backend.name}.Auth that signs, not {type(auth).__name__}")
        self._auth = auth
        self._engine: Engine | None = None
        if origins is not None:
            self._engine = Engine(self._backend, origins, dialect, None, None, ())

    def adopt(self, engine: Engine) -> None:
        """Take the origins of the client that is being wrapped, unless they were given."""
        if self._engine is None:
            self._engine = engine

    def _dialect_for(self, request: Any) -> Dialect | None:
        if self._engine is None:
            raise ValueError(
                "KeyedAuth does not know which APIs honour keys; nothing was sent. Make it the auth of the client "
                "before samekey.wrap(client), or name them: KeyedAuth(auth, origins=[...])"
            )
        return self._engine.dialect_for(request.url)

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Put the key on, then run the user's auth."""
        if self._in_body(request) is not None:
            request.read()
        self._put(request)
        yield from self._auth.sync_auth_flow(request)

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Put the key on, then run the user's auth."""
        if self._in_body(request) is not None:
            await request.aread()
        self._put(request)
        flow = self._auth.async_auth_flow(request)
        try:
            leg = await flow.__anext__()
            while True:
                response = yield leg
                leg = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _in_body(self, request: Any) -> JsonField | None:
        dialect = self._dialect_for(request)
        return dialect.carrier if dialect is not None and isinstance(dialect.carrier, JsonField) else None

    def _put(self, request: Any) -> None:
        options = request.extensions.get(EXTENSION, DEFAULT)
        dialect = self._dialect_for(request)
        keyed = dialect is not None and request.method in dialect.methods
        if not keyed or options.key is False or options.idempotent or SIGNED in request.extensions:
            return
        assert dialect is not None
        if options.name is not None or ((operation := current_operation()) is not None and operation.name is not None):
            raise ValueError(
                "KeyedAuth cannot sign a named operation: its key is known only when the journal has been asked, which "
                "is after auth; nothing was sent. Use operation() without a name, or operation(key=...)"
            )
        if options.key is not None:
            key = options.key
        elif operation is not None:
            key = operation.key_by(dialect.key.make)
        else:
            key = dialect.key.make()
        carrier = dialect.carrier
        if isinstance(carrier, JsonField):
            if carrier.find(request.content) is None:
                self._put_into_body(request, carrier, key)
        elif carrier.name not in request.headers:
            request.headers[carrier.name] = carrier.encode(key)
            request.extensions[SIGNED] = Signed(key, None)
        if isinstance(carrier, RepeatabilityHeaders) and carrier.date_name not in request.headers:
            request.headers[carrier.date_name] = carrier.date(_pause.wall())

    def _put_into_body(self, request: Any, carrier: JsonField, key: str) -> None:
        body = carrier.insert(request.content, key)
        request.extensions[SIGNED] = Signed(key, request.stream)
        keyed = self._backend.Request(request.method, request.url, content=body)
        request.stream, request.headers["content-length"] = keyed.stream, str(len(body))
        vars(request)["_content"] = body
