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


def work(plan: Plan) -> dict[str, float]:
    """Seconds of work by order, where there is any."""
    return {payment.order: payment.work for payment in plan.payments() if payment.work}


def main() -> None:
    """Serve until killed."""
    plan, port, database = Plan.from_text(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    seconds = work(plan)

    def point(name: str, order: Order) -> None:
        if name == "claimed":
            time.sleep(seconds.get(order.content["order"], 0.0))

    app = make_app(settings_of(plan, database), point=point)
    uvicorn.run(app, port=port, log_level="critical", access_log=False, timeout_keep_alive=3600, backlog=1024)


if __name__ == "__main__":
    main()
