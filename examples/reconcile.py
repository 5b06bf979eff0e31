"""Settle what is unknown: first by asking again, then by looking it up, last by hand.

python examples/reconcile.py
"""

import tempfile
from pathlib import Path

import httpx

import samekey
from samekey.sqlite import SQLiteJournal
from samekey.testing import LedgerServer, Reply, faults, no_waiting


def pay(client: httpx.Client, order: int) -> None:
    """Pay for an order; whoever runs it again gets the same payment."""
    name = f"order-{order}:charge"
    try:
        with samekey.operation(name):
            response = client.post("/v1/charges", json={"order": order, "amount": 4900})
    except samekey.AlreadyExecuted as done:
        print(f"  {name}: paid, settled by hand: {done.resource}")
    except samekey.OutcomeUnknown as unknown:
        print(f"  {name}: {type(unknown).__name__}")
    else:
        print(f"  {name}: {response.status_code}, from the {samekey.report(response).source}")  # type: ignore[union-attr]


def look_up(client: httpx.Client, name: str) -> str | None:
    """Ask the API itself: the id of the charge that belongs to this name, if there is one."""
    order = name.removeprefix("order-").removesuffix(":charge")
    found = client.get("/v1/charges", params={"order": order}).json()["charges"]
    return found[0]["id"] if found else None


def unresolved(journal: SQLiteJournal) -> list[str]:
    """Names of which nobody knows the end, and nobody is at."""
    return [entry.name for entry in journal.unresolved()]


def listing(request: object) -> Reply:
    """The API's list of charges, for `look_up`."""
    order = str(getattr(request, "query", "")).removeprefix("order=")
    made = [effect for effect in bank.effects if effect.request.json()["order"] == int(order)]
    return Reply.of_json(200, {"charges": [{"id": f"ch_{effect.request.json()['order']}"} for effect in made]})


bank = LedgerServer(lambda request: {"id": f"ch_{request.json()['order']}"})
folder = tempfile.TemporaryDirectory()
journal = SQLiteJournal(Path(folder.name) / "payments.sqlite3")
client = samekey.wrap(
    httpx.Client(transport=bank.transport(), base_url="https://api.example.com"),
    journal=journal,
    policy=samekey.RetryPolicy(total_timeout=5),
)

print("a bad night: every answer is lost")
bank.script(then=faults.lost(), path="/v1/charges")
with no_waiting():
    for order in (1, 2):
        pay(client, order)
bank.script(then=faults.lost(executes=False), path="/v1/charges")
with no_waiting():
    pay(client, 3)
print("  unresolved:", *unresolved(journal))

print("\nthe next morning: run them again, with the same names")
bank.script(path="/v1/charges")
pay(client, 1)

print("\ntwo that nobody will run again (say, the key is too old by now): look them up, and decide")
bank.script(then=listing, path="/v1/charges")
for name in unresolved(journal):
    charge = look_up(client, name)
    journal.resolve(name, executed=charge is not None, resource=charge)
    print(f"  {name}: {'made' if charge else 'never made'}")
bank.script(path="/v1/charges")

print("\nif they are run again after all")
for order in (1, 2, 3):
    pay(client, order)

print("\ncharges made:", len(bank.effects), "for 3 orders")
assert len(bank.effects) == 3
assert not unresolved(journal)
client.close()
journal.close()
folder.cleanup()
