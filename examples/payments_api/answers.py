"""Answers as data, and the problem details (RFC 9457) of every refusal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Self

Headers = tuple[tuple[str, str], ...]

PROBLEM = "application/problem+json"
REPLAY_HEADER = "Idempotent-Replay"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body, and what was made."""

    status: int
    headers: Headers
    body: bytes
    resource_type: str | None = None
    resource_id: str | None = None

    @classmethod
    def of_json(cls, status: int, content: object, *headers: tuple[str, str]) -> Self:
        """An answer with a JSON body."""
        return cls(status, (("Content-Type", "application/json"), *headers), json.dumps(content).encode())

    def about(self, resource_type: str, resource_id: str) -> Answer:
        """The same answer, with what it made."""
        return replace(self, resource_type=resource_type, resource_id=resource_id)

    def replayed(self) -> Answer:
        """The same answer, marked as a stored one; all else is verbatim."""
        return replace(self, headers=(*self.headers, (REPLAY_HEADER, "true")))


class Refused(Exception):
    """Ends the reading or the execution of a request with an answer of 4xx or 5xx."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status, answer.body)
        self.answer = answer


def problem(status: int, code: str, detail: str, *headers: tuple[str, str]) -> Answer:
    """An answer that says what is wrong: in *code* for programs, in *detail* for people."""
    content = {
        "type": f"https://payments.example/problems/{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }
    return Answer(status, (("Content-Type", PROBLEM), *headers), json.dumps(content).encode())
