"""A payments API that executes once per idempotency key, under races, crashes and retries.

    python -m examples.payments_api              on SQLite
    python -m examples.payments_api postgres     on a PostgreSQL that it brings along

The server half of the contract whose client half is samekey. Start reading in `keyed.py`: the order of steps.
How to run it, and what it answers: docs/how-to/run-the-payments-api.md.
"""
