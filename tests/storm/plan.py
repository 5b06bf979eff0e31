"""The settings of one storm, as all of its processes read them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from .weather import Payment, payment


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One storm for one contender.

    Attributes:
        contender: Who pays; a name of `contenders.CONTENDERS`.
        operations: How many payments there are.
        seed: What all chance is drawn from.
        folder: Where statements, journals and logs go.
        clients: Processes that pay.
        concurrency: Payments that one of them has under way at once.
        servers: Processes of the API.
        flavour: Whose wording the API uses.
        client_kills: How many client processes are killed.
        server_kills: How many server processes are killed.
        office_kills: How often the processor and the outbox worker are killed.
        database_restarts: How often the database is crashed and started again.
        read_timeout: Seconds a client waits for an answer.
        total_timeout: Seconds one call of samekey may take.
        lease: Seconds after which the API takes a request over from a dead worker.
    """

    contender: str
    operations: int
    seed: int
    folder: str
    clients: int = 3
    concurrency: int = 24
    servers: int = 2
    flavour: str = "article-1"
    client_kills: int = 0
    server_kills: int = 0
    office_kills: int = 0
    database_restarts: int = 0
    read_timeout: float = 1.0
    total_timeout: float = 4.0
    lease: float = 2.0

    def payment(self, number: int) -> Payment:
        """Payment *number*."""
        return payment(self.seed, number, slow=self.read_timeout * 1.3, very_slow=self.lease * 1.3)

    def payments(self) -> list[Payment]:
        """All of them."""
        return [self.payment(number) for number in range(self.operations)]

    def shard(self, client: int) -> list[Payment]:
        """Those of one client."""
        return [self.payment(number) for number in range(client, self.operations, self.clients)]

    def file(self, name: str) -> Path:
        """A file of this storm."""
        return Path(self.folder) / name

    def to_text(self) -> str:
        """The plan as an argument of a process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The plan that a process was given."""
        return cls(**json.loads(text))
