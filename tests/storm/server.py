"""A server process of the API, some of whose payments take their time.

python -m tests.storm.server PLAN PORT DATABASE
"""

from __future__ import annotations

import sys
import time

import uvicorn

from examples.payments_api.app import make_app
from examples.payments_api.reading import Order
from examples.payments_api.settings import Settings

from .contenders import CONTENDERS
from .plan import Plan


def settings_of(plan: Plan, database: str) -> Settings:
    """The API as a storm needs it: short leases; without keys only for those who send none."""
    return Settings(
        database=database,
        flavour="article-2" if plan.flavour == "article-2" else "article-1",
        require_key=CONTENDERS[plan.contender].keyed,
        lease_seconds=plan.lease,
        pool=12,
        log_level="critical",
    )


class Work:
    """Makes some payments take their time, each the first time that this process is at it.

    Work that always outlasts the lease would be taken over for ever, which is what leases are like.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._seen: set[str] = set()

    def __call__(self, name: str, order: Order) -> None:
        """See `keyed.Point`."""
        reference = order.content["order"]
        if name == "claimed" and reference not in self._seen:
            seconds = self._plan.payment(int(reference.partition("-")[2])).work
            if seconds:
                self._seen.add(reference)
                time.sleep(seconds)


def main() -> None:
    """Serve until killed."""
    plan, port, database = Plan.from_text(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    app = make_app(settings_of(plan, database), point=Work(plan))
    uvicorn.run(app, port=port, log_level="critical", access_log=False, timeout_keep_alive=3600, backlog=1024)


if __name__ == "__main__":
    main()
