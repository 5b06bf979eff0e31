"""An API with ways of its own: another header, short keys, 423 for "in progress", "exists" for "done before".

python examples/custom_dialect.py
"""

import httpx

import samekey
from samekey import Dialect, Verdict
from samekey.dialects import Header, KeyRule, Rule
from samekey.testing import LedgerServer, faults, no_waiting

DEPOT = Dialect(
    name="depot",
    carrier=Header(name="X-Request-Token"),
    key=KeyRule(form="hex", max_length=32),
    retention=6 * 3600,
    rules=(
        Rule(Verdict.IN_PROGRESS, status=423),
        Rule(Verdict.ALREADY_DONE, status=409, code="order_exists"),
        Rule(Verdict.MISMATCH, status=409, code="token_reused"),
    ),
    believe_done=True,
    done_resource=("order.id",),
)

depot = LedgerServer(key_header="X-Request-Token")
client = samekey.wrap(httpx.Client(transport=depot.transport(), base_url="https://depot.example"), dialect=DEPOT)
exists = faults.status(409, json={"code": "order_exists", "order": {"id": "o-77"}})

print("an answer is lost, the depot is still at it, then it answers:")
depot.script(faults.lost(), faults.status(423))
with no_waiting():
    response = client.post("/orders", json={"sku": "A-1", "count": 2})
report = samekey.report(response)
assert report is not None
print("  ", response.status_code, "after", *(attempt.kind for attempt in report.attempts))
print("   orders:", len(depot.effects), "key of", len(depot.keys[0]), "characters")

print("an answer is lost, and the depot does not repeat it:")
depot.reset()
depot.script(faults.lost(), exists)
with no_waiting():
    try:
        client.post("/orders", json={"sku": "B-2", "count": 1})
    except samekey.AlreadyExecuted as done:
        print("   ordered before:", done.resource)
print("   orders:", len(depot.effects))
