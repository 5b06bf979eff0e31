"""The API as a process that kills itself where it is told to: ``DIES_AT=effect python -m tests.e2e.doomed PORT``."""

from __future__ import annotations

import os
import signal
import sys

import uvicorn

from examples.payments_api.app import make_app
from examples.payments_api.reading import Order
from examples.payments_api.settings import Settings


def point(name: str, order: Order) -> None:
    """Die, if this is the place."""
    if name == os.environ["DIES_AT"]:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    uvicorn.run(make_app(Settings.from_environment(), point=point), port=int(sys.argv[1]), log_level="critical")
