"""A listener that counts what an operator wants to know, and speaks up when somebody should look.

python examples/custom_listener.py
"""

from collections import Counter

import httpx

import samekey
from samekey.events import AttemptFinished, CallFinished, DuplicateSuspected, Event, WaitScheduled
from samekey.testing import LedgerServer, faults, no_waiting


class Watch:
    """Counts outcomes and attempts; keeps the keys' digests of calls that ended unknown."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.waited = 0.0
        self.unknown: list[str] = []

    def __call__(self, event: Event, /) -> None:
        """Take note; quick, since the call waits for it."""
        match event:
            case AttemptFinished():
                self.counts["attempts"] += 1
            case WaitScheduled():
                self.waited += event.seconds
            case CallFinished():
                self.counts[f"calls {event.outcome}"] += 1
                if event.outcome == "unknown" and event.key:
                    self.unknown.append(event.key)
            case DuplicateSuspected():
                print("   WAKE SOMEBODY:", event.reason)


watch = Watch()
bank = LedgerServer()
client = samekey.wrap(
    httpx.Client(transport=bank.transport(), base_url="https://api.example.com"),
    listeners=[watch],
)

bank.script(faults.lost(), faults.status(503), faults.ok(), faults.ok(), *[faults.lost()] * 5)
with no_waiting():
    for order in range(3):
        try:
            client.post("/v1/charges", json={"order": order})
        except samekey.OutcomeUnknown:
            print(f"order {order}: unknown")

print("a server that executes a second time, and says so:")
bank.script(faults.lost(), faults.status(201, headers={"Idempotent-Replayed": "false"}))
with no_waiting():
    client.post("/v1/charges", json={"order": 3})

for words, count in sorted(watch.counts.items()):
    print(f"{words:16} {count}")
print(f"waited           {watch.waited:.1f} s (left out here)")
print("to settle        keys", *watch.unknown)
