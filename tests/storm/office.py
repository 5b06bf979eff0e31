"""The processor and the outbox worker of a storm, in one process that may be killed.

python -m tests.storm.office PLAN DATABASE
"""

from __future__ import annotations

import sys
import threading

from examples.payments_api.app import processor_client
from examples.payments_api.database import open_database
from examples.payments_api.logs import make_log
from examples.payments_api.metrics import Metrics
from examples.payments_api.outbox import Worker
from examples.payments_api.processor import make_processor
from examples.payments_api.run import serving
from examples.payments_api.settings import Settings

from .plan import Plan

LEASE = 2.0
WORKERS = 3


def main() -> None:
    """Work until killed."""
    plan, database = Plan.from_text(sys.argv[1]), sys.argv[2]
    books = open_database(f"sqlite:///{plan.file('processor.db')}")
    processor = make_processor(books, Settings(lease_seconds=LEASE))
    with serving(processor) as address, processor_client(address) as client:
        payments = open_database(database, pool=WORKERS)
        stop, metrics, log = threading.Event(), Metrics(), make_log("critical")
        workers = [Worker(payments, client, metrics, log, lease_seconds=10 * LEASE) for _ in range(WORKERS)]
        threads = [threading.Thread(target=worker.run, args=[stop, 0.2]) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
