"""The backend: a phone asks it for a payment, and it asks the payments API.

The phone sends an `Idempotency-Key` of its own with each payment, and the same one when it repeats the request. The
backend names its operation after the user and that key, so that a repeat is the *same* charge at the payments API:
after a double tap, a lost connection, and a crash of this very process.

    uvicorn --app-dir examples/mobile_backend backend:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI, Header, HTTPException, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

import samekey
from samekey.sqlite import AsyncSQLiteJournal

PAYMENTS_API = os.environ.get("PAYMENTS_API", "http://127.0.0.1:8000")
JOURNAL = os.environ.get("JOURNAL", "operations.sqlite3")
USERS = {"token-of-ada": "ada", "token-of-bob": "bob"}  # a real one asks its own accounts


class Payment(BaseModel):
    """What the phone asks for."""

    order: int
    amount: int = Field(gt=0)
    currency: str = "eur"


@asynccontextmanager
async def opened(app: FastAPI) -> AsyncIterator[None]:
    """One client, and one journal, for the life of the process."""
    async with (
        AsyncSQLiteJournal(JOURNAL) as journal,
        samekey.wrap(
            httpx.AsyncClient(base_url=PAYMENTS_API, headers={"Authorization": "Bearer of-the-backend"}),
            journal=journal,
            policy=samekey.RetryPolicy(total_timeout=10),
        ) as client,
    ):
        app.state.client = client
        yield


app = FastAPI(lifespan=opened)


def user(authorization: Annotated[str, Header()]) -> str:
    """Who asks. The name of an operation must not be open to other users' keys."""
    found = USERS.get(authorization.removeprefix("Bearer "))
    if found is None:
        raise HTTPException(401)
    return found


@app.post("/payments")
async def pay(
    payment: Payment,
    who: Annotated[str, Depends(user)],
    idempotency_key: Annotated[str, Header(min_length=16, max_length=128)],
) -> Response:
    """Charge once, however often the phone asks with this key."""
    # Only what the phone has said goes into the charge: a time stamp made here would make each repeat another request.
    charge = {"order": payment.order, "amount": payment.amount, "currency": payment.currency}
    try:
        with samekey.operation(f"phone:{idempotency_key}", scope=who):
            answer = await app.state.client.post("/v1/charges", json=charge)
    except samekey.KeyMismatch:
        return told(422, "this key was used for another payment")
    except samekey.StillInProgress:
        return told(409, "this payment is being made", retry=1)
    except samekey.OutcomeUnknown:
        return told(503, "it may have been charged: repeat with the same key", retry=2)
    except (samekey.NotSent, samekey.JournalError):
        return told(503, "nothing was charged: repeat with the same key", retry=2)
    except samekey.AlreadyExecuted as done:
        return told(200, f"it was charged: {done.resource}")
    if answer.is_success:
        return JSONResponse({"charge": answer.json()["id"]}, 201)
    return told(402 if answer.status_code == 402 else 502, "the payment was refused")


def told(status: int, detail: str, *, retry: int | None = None) -> JSONResponse:
    """An answer without a charge."""
    headers = None if retry is None else {"Retry-After": str(retry)}
    return JSONResponse({"detail": detail}, status, headers)
