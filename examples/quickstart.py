"""An answer is lost on the way. The retry carries the same key, and brings the same charge.

python examples/quickstart.py
"""

import httpx

import samekey
from samekey.testing import LedgerServer, faults

server = LedgerServer()
server.script(faults.lost(), faults.status(503))  # charged, answer lost; then a 503; then all is well

with server.listen() as url, samekey.wrap(httpx.Client(base_url=url, timeout=5, trust_env=False)) as client:
    response = client.post("/v1/charges", json={"order": 4821, "amount": 4900, "currency": "eur"})

print("the answer:", response.status_code, response.json())
print("it had been done by an earlier attempt:", samekey.is_replayed(response))
print()

report = samekey.report(response)
assert report is not None
for attempt in report.attempts:
    seen = attempt.error or attempt.status
    print(f"attempt {attempt.number} ({attempt.kind}) at {attempt.started:.2f} s: {seen}")
print()

print("requests that reached the server:", len(server.requests))
print("different keys among them:", len(server.keys))
print("charges made:", len(server.effects))
