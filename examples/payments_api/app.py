"""The application: routes, and the work that goes on beside them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

import samekey

from . import charges
from .handlers import Handlers, Service, no_such_route
from .keyed import Point
from .outbox import Worker
from .settings import Settings


def make_app(settings: Settings, *, point: Point = lambda _name, _order: None) -> Starlette:
    """The application; *point* is for tests, see `keyed.Point`."""
    service = Service(settings, point)
    handlers = Handlers(service)

    @contextlib.asynccontextmanager
    async def beside(app: Starlette) -> AsyncIterator[None]:
        app.state.service = service
        with contextlib.ExitStack() as stack:
            _begin(service, stack)
            yield
            # In a thread: to wait for threads would stop the event loop.
            await run_in_threadpool(stack.close)

    return Starlette(
        routes=[
            handlers.dangerous("/v1/charges", charges.check_charge, charges.charge),
            handlers.dangerous("/v1/refunds", charges.check_refund, charges.refund),
            *handlers.harmless(),
        ],
        exception_handlers={HTTPException: no_such_route},
        lifespan=beside,
    )


def processor_client(address: str) -> httpx.Client:
    """A client of the card processor: samekey's half of that contract."""
    return samekey.wrap(httpx.Client(base_url=address, timeout=5.0, trust_env=False))


def _begin(service: Service, stack: contextlib.ExitStack) -> None:
    """Start what goes on beside the requests; *stack* ends it."""
    settings = service.settings
    stop = threading.Event()
    stack.callback(service.database.close)
    threads = [threading.Thread(target=service.keep_clean, args=[stop], daemon=True)]
    if settings.processor:
        client = stack.enter_context(processor_client(settings.processor))
        worker = Worker(service.database, client, service.metrics, service.log, lease_seconds=settings.outbox_lease)
        threads.append(threading.Thread(target=worker.run, args=[stop, settings.outbox_seconds], daemon=True))
    for thread in threads:
        thread.start()
        stack.callback(thread.join)
    stack.callback(stop.set)
