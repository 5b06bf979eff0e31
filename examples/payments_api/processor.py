"""The card processor, simulated: a second service that is itself idempotent, made of the same parts."""

from __future__ import annotations

import uuid

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .answers import Answer, Refused
from .database import Database, Transaction
from .handlers import as_response
from .keyed import Keyed, Point
from .keys import Keys
from .logs import make_log
from .metrics import Metrics
from .reading import Order, content_of, hash_of, key_of
from .settings import Settings

_TABLE = "CREATE TABLE IF NOT EXISTS instructions (id text PRIMARY KEY, subject text NOT NULL, amount integer NOT NULL)"


def make_processor(database: Database, settings: Settings, *, point: Point = lambda _name, _order: None) -> Starlette:
    """The processor's application; its books are the table ``instructions``."""
    with database.transaction() as transaction:
        transaction.rows(_TABLE)
    keys = Keys(database, lease_seconds=settings.lease_seconds, key_seconds=settings.key_seconds)
    keyed = Keyed(database, keys, settings, Metrics(), make_log("error"), point)

    async def instruct(request: Request) -> Response:
        try:
            content = await content_of(request, settings.max_body)
            key = key_of(request, required=True)
        except Refused as refused:
            answer = refused.answer
        else:
            order = Order("processor", request.url.path, key, content, hash_of("POST", request.url.path, content))
            answer = await run_in_threadpool(keyed.handle, order, _instructed)
        return as_response(answer)

    return Starlette(routes=[Route("/v1/instructions", instruct, methods=["POST"])])


def _instructed(transaction: Transaction, order: Order) -> Answer:
    reference = f"pr_{uuid.uuid4().hex}"
    transaction.rows(
        "INSERT INTO instructions (id, subject, amount) VALUES (:id, :subject, :amount)",
        id=reference,
        subject=str(order.content.get("refund") or order.content["charge"]),
        amount=order.content["amount"],
    )
    return Answer.of_json(201, {"id": reference}).about("instruction", reference)
