"""What samekey makes of each shape of answer that Stripe gives.

The server here is scripted: no network, no account.

python examples/stripe_shapes.py
"""

import httpx

import samekey
from samekey.dialects import STRIPE
from samekey.testing import Fault, LedgerServer, faults, no_waiting


def error(status: int, kind: str, code: str | None = None, **headers: str) -> Fault:
    """An error in Stripe's shape; nothing is executed."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return faults.status(status, json={"error": {"type": kind, "code": code}}, headers=named)


IN_USE = error(409, "invalid_request_error", "idempotency_key_in_use")
SHAPES: dict[str, list[Fault]] = {
    "all is well": [faults.ok()],
    "the answer is lost, then replayed": [faults.lost()],
    "the answer is cut, then replayed": [faults.cut()],
    "lost, in use, in use, replayed": [faults.lost(), IN_USE, IN_USE],
    "rate limited, then well": [error(429, "invalid_request_error", "lock_timeout")],
    "declined": [error(402, "card_error", "card_declined")],
    "declined, after a lost answer": [faults.lost(executes=False), error(402, "card_error", "card_declined")],
    "a 500, then replayed": [faults.status(500, executes=True)],
    "a 500 that is stored": [error(500, "api_error", Idempotent_Replayed="true")],
    "503 and 'do not retry'": [error(503, "api_error", Stripe_Should_Retry="false")],
    "the key stands for another request": [error(400, "idempotency_error")],
    "the key is revoked, after a lost answer": [faults.lost(), error(401, "invalid_request_error")],
}

server = LedgerServer(lambda _: {"id": "pi_1", "object": "payment_intent"})
client = samekey.wrap(
    httpx.Client(transport=server.transport(), base_url="https://api.stripe.com", auth=("sk_test_...", "")),
    dialect=STRIPE,
)

print(f"{'what Stripe does':40} {'what you get':16} {'outcome':10} attempts  charges")
for order, (words, steps) in enumerate(SHAPES.items()):
    server.reset()
    server.script(*steps)
    form = {"amount": 4900, "currency": "eur", "metadata[order]": order}
    with no_waiting():
        try:
            answer = client.post("/v1/payment_intents", data=form)
            got = f"{answer.status_code}{', replayed' if samekey.is_replayed(answer) else ''}"
            report = samekey.report(answer)
        except samekey.IdempotencyError as unhappy:
            got, report = type(unhappy).__name__, unhappy.report
    assert report is not None
    print(f"{words:40} {got:16} {report.outcome:10} {len(report.attempts):8} {len(server.effects):8}")
    assert len(server.keys) == 1
