"""The application: routes, and the work that goes on beside them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import samekey

from . import charges
from .answers import Answer, Refused, problem
from .database import Database, Transaction, Unavailable, open_database
from .keyed import Effect, Keyed, Point
from .keys import Keys
from .logs import make_log
from .metrics import Metrics
from .openapi import description
from .outbox import Worker
from .reading import Fields, Order, content_of, hash_of, key_of, name_in_path, tenant_of
from .settings import Settings


class Service:
    """What the handlers of one process share."""

    def __init__(self, settings: Settings, point: Point) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.log = make_log(settings.log_level)
        self.database = open_database(settings.database, pool=settings.pool)
        self.keys = Keys(
            self.database, lease_seconds=settings.lease_seconds, key_seconds=settings.key_seconds
        )
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


def make_app(settings: Settings, *, point: Point = lambda _name, _order: None) -> Starlette:
    """The application; *point* is for tests, see `keyed.Point`."""
    service = Service(settings, point)

    def dangerous(path: str, check: Callable[[Fields], None], effect: Effect) -> Route:
        async def handle(request: Request) -> Answer:
            tenant = tenant_of(request)
            key = key_of(request, required=settings.require_key)
            content = await content_of(request, settings.max_body)
            check(Fields(content))
            order = Order(tenant, f"POST {path}", key, content, hash_of("POST", path, content))
            return await run_in_threadpool(service.keyed.handle, order, effect)

        return Route(path, _answering(handle), methods=["POST"])

    async def one_charge(request: Request) -> Answer:
        tenant, charge = tenant_of(request), name_in_path(request.path_params["charge"])
        return await run_in_threadpool(service.read, lambda work: charges.find_charge(work, tenant, charge))

    async def charges_of_order(request: Request) -> Answer:
        tenant, query = tenant_of(request), Fields(request.query_params)
        order = query.name("order")
        query.end()
        return await run_in_threadpool(service.read, lambda work: charges.find_charges(work, tenant, order))

    async def customer(request: Request) -> Answer:
        tenant, name = tenant_of(request), name_in_path(request.path_params["customer"])
        content = await content_of(request, settings.max_body)
        charges.check_customer(Fields(content))
        return await run_in_threadpool(
            service.read, lambda work: charges.put_customer(work, tenant, name, content["name"])
        )

    async def metrics(_request: Request) -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(_request: Request) -> Response:
        return JSONResponse(description(settings))

    @contextlib.asynccontextmanager
    async def beside(app: Starlette) -> AsyncIterator[None]:
        app.state.service = service
        stop = threading.Event()
        threads = [threading.Thread(target=service.keep_clean, args=[stop], daemon=True)]
        client = _processor(settings)
        if client is not None:
            lease = settings.outbox_lease
            worker = Worker(service.database, client, service.metrics, service.log, lease_seconds=lease)
            threads.append(threading.Thread(target=worker.run, args=[stop, settings.outbox_seconds], daemon=True))
        for thread in threads:
            thread.start()
        yield
        stop.set()
        for thread in threads:
            await run_in_threadpool(thread.join)
        if client is not None:
            client.close()
        service.database.close()

    return Starlette(
        routes=[
            dangerous("/v1/charges", charges.check_charge, charges.charge),
            dangerous("/v1/refunds", charges.check_refund, charges.refund),
            Route("/v1/charges", _answering(charges_of_order)),
            Route("/v1/charges/{charge}", _answering(one_charge)),
            Route("/v1/customers/{customer}", _answering(customer), methods=["PUT"]),
            Route("/metrics", metrics),
            Route("/openapi.json", openapi),
        ],
        exception_handlers={HTTPException: _no_such_route},
        lifespan=beside,
    )


def processor_client(address: str) -> httpx.Client:
    """A client of the card processor: samekey's half of that contract."""
    return samekey.wrap(httpx.Client(base_url=address, timeout=5.0, trust_env=False))


def _processor(settings: Settings) -> httpx.Client | None:
    return processor_client(settings.processor) if settings.processor else None


def _answering(handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            found = await handle(request)
        except Refused as refused:
            found = refused.answer
        return _response(found)

    return answer


def _response(answer: Answer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers))


async def _no_such_route(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    return _response(problem(error.status_code, code, error.detail, *(error.headers or {}).items()))
