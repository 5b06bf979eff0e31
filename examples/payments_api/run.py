"""One command for everything: database, card processor, API."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from .app import make_app
from .database import open_database
from .embedded import EmbeddedPostgres
from .processor import make_processor
from .settings import Settings


def main() -> None:
    """Start it, and serve until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m examples.payments_api", description=__doc__)
    parser.add_argument("store", nargs="?", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--data", type=Path, default=Path("payments-data"), help="folder for the files of the database")
    parser.add_argument("--port", type=int, default=8000)
    chosen = parser.parse_args()
    folder: Path = chosen.data.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if chosen.store == "postgres":
            server = EmbeddedPostgres(folder / "postgres")
            stack.callback(server.close)
            database = server.address
        else:
            database = f"sqlite:///{folder / 'payments.db'}"
        settings = dataclasses.replace(Settings.from_environment(), database=database)
        if not settings.processor:
            books = open_database(f"sqlite:///{folder / 'processor.db'}")
            stack.callback(books.close)
            address = stack.enter_context(serving(make_processor(books, settings)))
            settings = dataclasses.replace(settings, processor=address)
        print(f"payments on {chosen.store}: http://127.0.0.1:{chosen.port}/openapi.json")
        uvicorn.run(make_app(settings), port=chosen.port, log_level="warning")


@contextlib.contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve *app* on a free port of loopback while the block runs; gives its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, args=[[listener]], daemon=True)
        thread.start()
        # The socket listens already: whoever comes too early waits a moment.
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


if __name__ == "__main__":
    main()
