"""From requests to answers: the routes, and what their handlers share."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from . import charges
from .answers import Answer, Refused, problem
from .database import Transaction, Unavailable, open_database
from .keyed import Effect, Keyed, Point
from .keys import Keys
from .logs import make_log
from .metrics import Metrics
from .openapi import description
from .reading import Fields, Order, content_of, hash_of, key_of, name_in_path, tenant_of
from .settings import Settings


class Service:
    """What the handlers of one process share."""

    def __init__(self, settings: Settings, point: Point) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.log = make_log(settings.log_level)
        self.database = open_database(settings.database, pool=settings.pool)
        self.keys = Keys(self.database, lease_seconds=settings.lease_seconds, key_seconds=settings.key_seconds)
        self.keyed = Keyed(self.database, self.keys, settings, self.metrics, self.log, point)

    def clean_up(self) -> int:
        """Delete all expired keys, a batch at a time; how many there were."""
        total = 0
        while count := self.keys.clean_up(self.settings.cleanup_batch):
            self.metrics.expired.inc(count)
            total += count
        return total

    def keep_clean(self, stop: threading.Event) -> None:
        """Clean up now and then until *stop* is set."""
        while not stop.wait(self.settings.cleanup_seconds):
            try:
                self.clean_up()
            except Unavailable:
                self.log.warning("no cleanup: the database is away")

    def read(self, work: Callable[[Transaction], Answer]) -> Answer:
        """The answer of *work*, which needs no key."""
        try:
            with self.database.transaction() as transaction:
                return work(transaction)
        except Unavailable:
            return problem(503, "unavailable", "The database does not answer; try again", ("Retry-After", "1"))


class Handlers:
    """From a request to an answer."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._longest = service.settings.max_body

    def dangerous(self, path: str, check: Callable[[Fields], None], effect: Effect) -> Route:
        """A route whose requests need a key, and are executed once per key."""
        keyed, settings = self._service.keyed, self._service.settings

        async def handle(request: Request) -> Answer:
            tenant = tenant_of(request)
            key = key_of(request, required=settings.require_key)
            content = await content_of(request, self._longest)
            check(Fields(content))
            order = Order(tenant, f"POST {path}", key, content, hash_of("POST", path, content))
            return await run_in_threadpool(keyed.handle, order, effect)

        return Route(path, _answering(handle), methods=["POST"])

    def harmless(self) -> list[Route]:
        """Routes whose requests may be repeated at will: reads, and a natural PUT."""
        return [
            Route("/v1/charges", _answering(self._charges_of_order)),
            Route("/v1/charges/{charge}", _answering(self._one_charge)),
            Route("/v1/customers/{customer}", _answering(self._customer), methods=["PUT"]),
            Route("/metrics", self._metrics),
            Route("/openapi.json", self._openapi),
        ]

    async def _one_charge(self, request: Request) -> Answer:
        tenant, charge = tenant_of(request), name_in_path(request.path_params["charge"])
        return await self._read(lambda work: charges.find_charge(work, tenant, charge))

    async def _charges_of_order(self, request: Request) -> Answer:
        tenant, query = tenant_of(request), Fields(request.query_params)
        order = query.name("order")
        query.end()
        return await self._read(lambda work: charges.find_charges(work, tenant, order))

    async def _customer(self, request: Request) -> Answer:
        tenant, customer = tenant_of(request), name_in_path(request.path_params["customer"])
        content = await content_of(request, self._longest)
        charges.check_customer(Fields(content))
        return await self._read(lambda work: charges.put_customer(work, tenant, customer, content["name"]))

    async def _read(self, work: Callable[[Transaction], Answer]) -> Answer:
        return await run_in_threadpool(self._service.read, work)

    async def _metrics(self, _request: Request) -> Response:
        return Response(self._service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def _openapi(self, _request: Request) -> Response:
        return JSONResponse(description(self._service.settings))


def _answering(handle: Callable[[Request], Awaitable[Answer]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            found = await handle(request)
        except Refused as refused:
            found = refused.answer
        return as_response(found)

    return answer


def as_response(answer: Answer) -> Response:
    """An answer as Starlette sends it."""
    return Response(answer.body, answer.status, dict(answer.headers))


async def no_such_route(_request: Request, error: Exception) -> Response:
    """The answer where there is no route, in the form of all others."""
    assert isinstance(error, HTTPException)
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    return as_response(problem(error.status_code, code, error.detail, *(error.headers or {}).items()))
