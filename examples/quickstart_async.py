"""Ten payments at once behind a faulty network. Where the outcome stays unknown, the key settles it later.

python examples/quickstart_async.py
"""

import asyncio

import httpx

import samekey
from samekey.testing import LedgerServer, faults


async def pay(client: httpx.AsyncClient, order: int, key: str | None = None) -> str | None:
    """Pay for an order; give back the key if nobody knows yet whether it was paid."""
    try:
        with samekey.operation(key=key):
            response = await client.post("/v1/charges", json={"order": order, "amount": 4900})
    except samekey.OutcomeUnknown as error:
        print(f"order {order}: unknown after {len(error.report.attempts) if error.report else 0} attempts")
        return error.key
    print(f"order {order}: {response.status_code}{', replayed' if samekey.is_replayed(response) else ''}")
    return None


async def main() -> None:
    """Pay for ten orders, then settle what is left."""
    server = LedgerServer()
    with server.listen() as url:
        client = samekey.wrap(httpx.AsyncClient(base_url=url, timeout=5, trust_env=False))
        async with client:
            # The first payment meets nothing but lost answers: charged, but nobody says so.
            server.script(then=faults.lost())
            key = await pay(client, 1)

            server.script(faults.lost(), faults.cut(), faults.status(503), faults.lost())
            await asyncio.gather(*(pay(client, order) for order in range(2, 11)))

            print("\nthe network is well again; the first payment once more, with its key:")
            await pay(client, 1, key)
    print("\norders: 10, charges made:", len(server.effects))


asyncio.run(main())
