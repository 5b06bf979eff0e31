"""What a transport of one colour says in a client of the other: nothing is sent, and the mistake is named."""

from __future__ import annotations

from typing import Any, NoReturn


class SyncOnly:
    """A sync transport that an async client was given."""

    async def handle_async_request(self, request: Any) -> NoReturn:
        """Refuse.

        Raises:
            TypeError: Always.
        """
        raise TypeError("an AsyncClient needs AsyncIdempotentTransport; IdempotentTransport is for a Client")

    async def __aenter__(self) -> NoReturn:
        await self.handle_async_request(None)

    async def __aexit__(self, *details: object) -> None:
        """Nothing was opened."""

    async def aclose(self) -> None:
        """Nothing was opened."""


class AsyncOnly:
    """An async transport that a sync client was given."""

    def handle_request(self, request: Any) -> NoReturn:
        """Refuse.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a Client needs IdempotentTransport; AsyncIdempotentTransport is for an AsyncClient")

    def __enter__(self) -> NoReturn:
        self.handle_request(None)

    def __exit__(self, *details: object) -> None:
        """Nothing was opened."""

    def close(self) -> None:
        """Nothing was opened."""
