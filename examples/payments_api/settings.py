"""What can be set, and the environment variables that set it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

Flavour = Literal["article-1", "article-2"]

PREFIX = "PAYMENTS_API_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings.

    Attributes:
        database: ``sqlite:///path`` or a ``postgresql://`` address.
        flavour: How answers about a key are given. ``article-1``: 422 for another request under a key, 409 while the
            first one runs. ``article-2``: 409 for another request, 202 with ``Retry-After`` while the first one runs.
        mismatch_status: 422 or 409; 0 takes the flavour's.
        in_progress_status: 409 or 202; 0 takes the flavour's.
        retry_after: Seconds in the ``Retry-After`` of a 202.
        require_key: Refuse dangerous requests without a key. False executes them each time, as a server without
            idempotency does; it is here so that the storm can show what that leads to.
        lease_seconds: For how long a worker may be at a request before another one may take it over.
        key_seconds: For how long a key and its answer are kept.
        cleanup_seconds: Seconds between two rounds of cleanup.
        cleanup_batch: Rows that one statement of the cleanup deletes.
        max_body: Bytes of the longest body that is read.
        pool: Connections to PostgreSQL of one process.
        processor: Address of the card processor; "" leaves the intents in the outbox to another process.
        outbox_seconds: Pause of the outbox worker when there is nothing to do.
        outbox_lease: For how long a worker holds the intents that it has claimed.
        log_level: Of the log on standard error.
    """

    database: str = "sqlite:///payments.db"
    flavour: Flavour = "article-1"
    mismatch_status: int = 0
    in_progress_status: int = 0
    retry_after: int = 1
    require_key: bool = True
    lease_seconds: float = 30.0
    key_seconds: float = 24 * 3600.0
    cleanup_seconds: float = 60.0
    cleanup_batch: int = 1000
    max_body: int = 64 * 1024
    pool: int = 10
    processor: str = ""
    outbox_seconds: float = 0.5
    outbox_lease: float = 60.0
    log_level: str = "info"

    def __post_init__(self) -> None:
        if self.flavour not in ("article-1", "article-2"):
            raise ValueError(f"{PREFIX}FLAVOUR must be article-1 or article-2, not {self.flavour!r}")
        if self.mismatch_status not in (0, 409, 422):
            raise ValueError(f"{PREFIX}MISMATCH_STATUS must be 422 or 409, not {self.mismatch_status}")
        if self.in_progress_status not in (0, 202, 409):
            raise ValueError(f"{PREFIX}IN_PROGRESS_STATUS must be 409 or 202, not {self.in_progress_status}")

    @property
    def on_mismatch(self) -> int:
        """The status for another request under a key."""
        return self.mismatch_status or (422 if self.flavour == "article-1" else 409)

    @property
    def on_in_progress(self) -> int:
        """The status while the first request runs."""
        return self.in_progress_status or (409 if self.flavour == "article-1" else 202)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The settings as the environment has them: ``PAYMENTS_API_LEASE_SECONDS=5`` and so on."""
        found: dict[str, Any] = {
            part.name: _READ[str(part.type)](environment[name])
            for part in fields(cls)
            if (name := PREFIX + part.name.upper()) in environment
        }
        return cls(**found)

    def to_environment(self) -> dict[str, str]:
        """The environment that `from_environment` reads these settings from."""
        return {PREFIX + part.name.upper(): str(getattr(self, part.name)) for part in fields(self)}


def _flag(text: str) -> bool:
    return text.lower() in {"1", "true", "yes", "on"}


_READ: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float, "bool": _flag, "Flavour": str}
