"""A test kit: an idempotent server with scripted faults that tells afterwards what it saw.

    from samekey.testing import LedgerServer, faults, no_waiting

    server = LedgerServer()
    server.script(faults.lost(), faults.status(503))
    with server.listen() as url, no_waiting():
        ...  # the code under test, talking to url
    server.assert_executed_once()
    server.assert_same_key()

Without a socket: ``httpx.Client(transport=server.transport())``.
"""

from . import faults
from ._faults import Fault, Step
from ._records import Effect, ReceivedRequest, Reply
from ._server import LedgerServer
from ._waiting import no_waiting

__all__ = [
    "Effect",
    "Fault",
    "LedgerServer",
    "ReceivedRequest",
    "Reply",
    "Step",
    "faults",
    "no_waiting",
]
