"""The storm: ``make storm``, or ``python -m tests.storm --operations 2000 --only samekey``."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from examples.payments_api.embedded import temporary_postgres

from .conduct import conduct, folder, scaled
from .contenders import CONTENDERS
from .picture import picture
from .plan import Plan
from .report import table
from .result import Result

STORM = Plan(
    contender="samekey",
    operations=100_000,
    seed=2026,
    folder="",
    client_kills=60,
    server_kills=40,
    office_kills=10,
    database_restarts=1,
)
FEWEST_FOR_RIVALS = 500


def main() -> int:
    """Run it; 0 if samekey kept its promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--operations", type=int, default=2000, help="payments of samekey (default 2000)")
    parser.add_argument("--rivals", type=int, help="payments of each rival (default: a twentieth, 500 at least)")
    parser.add_argument("--seed", type=int, default=STORM.seed)
    parser.add_argument("--flavour", choices=["article-1", "article-2"], default=STORM.flavour)
    parser.add_argument("--only", choices=list(CONTENDERS), nargs="+", default=list(CONTENDERS))
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--svg", type=Path, help="draw the picture here")
    chosen = parser.parse_args()
    fewer = chosen.rivals or min(chosen.operations, max(FEWEST_FOR_RIVALS, chosen.operations // 20))
    results: list[Result] = []
    with temporary_postgres() as server:
        for name in chosen.only:
            plan = scaled(STORM, chosen.operations if name == "samekey" else fewer)
            with folder() as files:
                plan = replace(plan, contender=name, seed=chosen.seed, flavour=chosen.flavour, folder=str(files))
                results.append(conduct(plan, server, lambda text: print(text, file=sys.stderr, flush=True)))
            if chosen.json:
                chosen.json.write_text(json.dumps([result.to_json() for result in results], indent=2) + "\n")
    print(table(results))
    if chosen.svg:
        chosen.svg.write_text(picture(results))
    broken = [result for result in results if result.contender == "samekey" and not result.clean]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
