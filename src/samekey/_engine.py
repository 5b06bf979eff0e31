"""What the transports of one client share: settings, the APIs that honour keys, the memory of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from . import policy as _policy
from ._inner import belongs
from ._memory import Memory
from ._wire import Backend, Origin, origin_of, same_origin
from .budget import RetryBudget, SharedBudget
from .dialects import Dialect

if TYPE_CHECKING:
    import httpx

    from .events import Listener


class Engine:
    """Validated settings and shared state of one or several transports.

    Raises:
        ValueError: An origin is not of the form ``https://host[:port]``, or there is none.
        TypeError: A setting has the wrong type.
    """

    def __init__(
        self,
        backend: Backend,
        origins: str | Iterable[str] | Mapping[str, Dialect],
        dialect: Dialect,
        policy: _policy.RetryPolicy | None,
        journal: object,
        listeners: Iterable[Listener],
    ) -> None:
        self.backend = backend
        self.policy = _policy.DEFAULT if policy is None else policy
        if not isinstance(self.policy, _policy.RetryPolicy):
            raise TypeError(f"policy must be a samekey.RetryPolicy, not {type(policy).__name__}")
        self.unclipped: dict[str, float | None] | None = None
        """The timeouts of a request that fitted into the total timeout."""
        self.total_timeout = cast("float | None", self.policy.total_timeout)
        if not isinstance(dialect, Dialect):
            raise TypeError(f"dialect must be a samekey.Dialect such as dialects.STRIPE, not {type(dialect).__name__}")
        if journal is not None and not all(hasattr(journal, step) for step in ("claim", "renew", "record", "scope")):
            raise TypeError(
                f"journal must be a samekey journal, not {type(journal).__name__}; there are SQLiteJournal of "
                "samekey.sqlite, PostgresJournal of samekey.postgres and, for tests, MemoryJournal"
            )
        self.listeners = tuple(listeners)
        for listener in self.listeners:
            if not callable(listener):
                raise TypeError(f"a listener must be callable with one event; {listener!r} is not")
        self.journal = journal
        self.dialect = dialect
        self.anywhere = isinstance(origins, str) and origins == "*"
        self.origins: dict[Origin, Dialect] = {} if self.anywhere else self._read(origins)
        self.memory = Memory()
        budget = self.policy.budget
        self.budget = SharedBudget(budget) if isinstance(budget, RetryBudget) else budget

    def _read(self, origins: str | Iterable[str] | Mapping[str, Dialect]) -> dict[Origin, Dialect]:
        if isinstance(origins, str):
            raise ValueError(  # noqa: TRY004 - a str is an iterable of str, so it is the value that is wrong
                f'origins must be "*", a collection such as [{origins!r}], or a mapping to dialects'
            )
        named = origins.items() if isinstance(origins, Mapping) else ((origin, self.dialect) for origin in origins)
        found: dict[Origin, Dialect] = {}
        for text, dialect in named:
            if not isinstance(dialect, Dialect):
                raise TypeError(
                    f"origins maps {text!r} to a {type(dialect).__name__}; it must be a samekey.Dialect such as "
                    "dialects.STRIPE"
                )
            found[self.parse(text)] = dialect
        if not found:
            raise ValueError("origins is empty: name the APIs that honour idempotency keys")
        return found

    def parse(self, text: str) -> Origin:
        """The origin that *text* names."""
        if not isinstance(text, str):
            raise TypeError(f"an origin must be a str such as 'https://api.example.com', not {type(text).__name__}")
        try:
            url = self.backend.URL(text)
        except Exception as error:
            raise ValueError(f"{text!r} is not an origin; write it like 'https://api.example.com'") from error
        if url.scheme not in ("http", "https") or not url.host or "*" in url.host or url.path not in ("", "/"):
            raise ValueError(f"{text!r} is not an origin; write it like 'https://api.example.com', without a path")
        if url.userinfo or url.query or url.fragment:
            raise ValueError(f"{text!r} has more than scheme, host and port; write 'https://api.example.com'")
        return origin_of(url)

    def check(self, request: Any) -> None:
        """Refuse a request of the other HTTP library, before anything of it is sent.

        Raises:
            TypeError: It is one.
        """
        if not isinstance(request, self.backend.Request):
            belongs(request, self.backend.name, "the request")

    def dialect_for(self, url: httpx.URL) -> Dialect | None:
        """How the API at *url* speaks; None if it was not named, and then samekey keeps out of the way."""
        if self.anywhere:
            return self.dialect
        return self.origins.get(origin_of(url))

    def names(self, then: Origin, first: Origin) -> bool:
        """Whether a request to *first* may be repeated at *then* by a redirect."""
        return same_origin(first, then) or then in self.origins
