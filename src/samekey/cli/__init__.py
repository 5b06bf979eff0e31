"""The command `samekey`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import samekey

from ._bank import Settings
from ._demo import demo
from ._journal import Refused, add_journal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        arguments: What follows the command's name. Default: that of the process.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help()
        return 2
    try:
        code: int = given.run(given)
        sys.stdout.flush()
    except Refused as error:
        sys.stderr.write(f"samekey: {error}\n")
        return 1
    except BrokenPipeError:
        # The reader has left (`samekey demo | head`); what Python still holds goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _run_demo(given: argparse.Namespace) -> int:
    settings = Settings(given.payments, given.seed, given.faults)
    return demo(settings, plain=given.plain, as_json=given.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="samekey", description="Retries that cannot charge twice.")
    parser.add_argument("--version", action="version", version=f"samekey {samekey.__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="command")
    demo_parser = commands.add_parser(
        "demo",
        help="the same payments through a common retry layer and through samekey, side by side",
        description=(
            "Starts an idempotent server on loopback whose answers get lost, cut and delayed, and sends it payments: "
            "first through httpx with tenacity around it and no key, then through samekey. Prints what was charged. "
            "Exit code 0 only if samekey doubled nothing, lost nothing, and each of its reports was true."
        ),
    )
    demo_parser.set_defaults(run=_run_demo)
    option = demo_parser.add_argument
    option("--payments", type=_payments, default=300, metavar="N", help="payments to send (default 300)")
    option("--seed", type=int, default=7, metavar="N", help="which faults are drawn (default 7)")
    option("--faults", type=_share, default=0.3, metavar="P", help="share of faulty requests, 0 to 0.8 (default 0.3)")
    option("--plain", action="store_true", help="no live display and no colours")
    option("--json", action="store_true", help="print the numbers as JSON")
    add_journal(commands)
    return parser


def _payments(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 9999:
        raise argparse.ArgumentTypeError(f"a whole number from 1 to 9999, not {text!r}")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.8:
        raise argparse.ArgumentTypeError(f"a number from 0 to 0.8, not {text!r}")
    return share
