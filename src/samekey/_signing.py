"""Auth that signs: the key goes on before the signature is made, since the transport comes after auth."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from . import _pause
from ._engine import Engine
from ._inner import belongs
from ._operation import Operation, current_operation
from ._options import DEFAULT, EXTENSION
from ._wire import is_token_request
from .dialects import GENERIC, Dialect, JsonField, RepeatabilityHeaders

if TYPE_CHECKING:
    from ._wire import Backend

SIGNED = "samekey.signed"
"""Where a request's extensions say which key `KeyedAuth` has put on it."""
KEYED_ON_REQUEST = frozenset({"PUT", "DELETE"})
"""Idempotent methods that carry a key if the caller gives one."""


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
            TypeError: *auth* is no auth object, or one of the other HTTP library.
            ValueError: An origin is malformed.
        """
        if not hasattr(auth, "sync_auth_flow") or not hasattr(auth, "async_auth_flow"):
            raise TypeError(f"auth must be an {self._backend.name}.Auth that signs, not {type(auth).__name__}")
        belongs(auth, self._backend.name, "the auth")
        self._auth = auth
        self._engine: Engine | None = None
        self._adopted = False
        if origins is not None:
            self._engine = Engine(self._backend, origins, dialect, None, None, ())

    def adopt(self, engine: Engine) -> None:
        """Take the origins of the client that is being wrapped, unless they were given.

        Raises:
            ValueError: Another client was wrapped with this auth, and its origins are not those of this one.
        """
        if self._adopted:
            raise ValueError("this KeyedAuth is the auth of another wrapped client; make one for each client")
        if self._engine is None:
            self._engine, self._adopted = engine, True

    def _dialect_for(self, request: Any) -> Dialect | None:
        if self._engine is None:
            raise ValueError(
                "KeyedAuth does not know which APIs honour keys; nothing was sent. Make it the auth of the client "
                "before samekey.wrap(client), or name them: KeyedAuth(auth, origins=[...])"
            )
        return self._engine.dialect_for(request.url)

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Put the key on, then run the user's auth."""
        dialect = self._to_key(request)
        if dialect is not None:
            if isinstance(dialect.carrier, JsonField):
                request.read()
            self._put(request, dialect)
        yield from self._auth.sync_auth_flow(request)

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Put the key on, then run the user's auth."""
        dialect = self._to_key(request)
        if dialect is not None:
            if isinstance(dialect.carrier, JsonField):
                await request.aread()
            self._put(request, dialect)
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

    def _to_key(self, request: Any) -> Dialect | None:
        """The dialect of a request that gets a key here; None for any other."""
        dialect = self._dialect_for(request)
        options = request.extensions.get(EXTENSION, DEFAULT)
        if dialect is None or options.key is False or options.idempotent or SIGNED in request.extensions:
            return None
        asked = options.key is not None and request.method in KEYED_ON_REQUEST
        if not asked and request.method not in dialect.methods:
            return None
        return None if options.key is None and self._is_token_request(request) else dialect

    def _is_token_request(self, request: Any) -> bool:
        whole = isinstance(request.stream, self._backend.ByteStream)
        return whole and is_token_request(b"".join(request.stream), request.headers)

    def _put(self, request: Any, dialect: Dialect) -> None:
        options = request.extensions.get(EXTENSION, DEFAULT)
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
            scope = options.scope or (operation.scope if operation else None)
            request.headers[carrier.date_name] = carrier.date(self._first_sent(key, scope, operation))

    def _first_sent(self, key: str, scope: str | None, operation: Operation | None) -> float:
        """When *key* was first sent: now, unless somebody knows better."""
        assert self._engine is not None
        state = operation.state if operation is not None and operation.state is not None else None
        state = self._engine.memory.keys.get((scope, key), state)
        return state.first_sent[1] if state is not None and state.first_sent is not None else _pause.wall()

    def _put_into_body(self, request: Any, carrier: JsonField, key: str) -> None:
        body = carrier.insert(request.content, key)
        request.extensions[SIGNED] = Signed(key, request.stream)
        keyed = self._backend.Request(request.method, request.url, content=body)
        request.stream = keyed.stream
        if "transfer-encoding" not in request.headers:
            request.headers["content-length"] = str(len(body))
        vars(request)["_content"] = body
