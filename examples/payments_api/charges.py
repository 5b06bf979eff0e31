"""What the service is for: charges and refunds, each with its intent for the card processor in the same transaction."""

from __future__ import annotations

import uuid

from .answers import Answer, Refused, problem
from .database import Row, Transaction, one
from .outbox import intend
from .reading import Fields, Order

DECLINED_CARD = "tok_declined"


def check_charge(fields: Fields) -> None:
    """Refuse a body that asks for no charge, before its key is looked at."""
    for field in ("order", "card"):
        fields.name(field)
    fields.amount("amount")
    fields.currency("currency")
    fields.end()


def charge(transaction: Transaction, order: Order) -> Answer:
    """Charge a card."""
    asked = order.content
    if asked["card"] == DECLINED_CARD:
        raise Refused(problem(402, "card_declined", "The bank declined the card"))
    made = one(
        transaction,
        """
        INSERT INTO charges (id, tenant, order_ref, amount, currency, status, created_at)
        VALUES (:id, :tenant, :order_ref, :amount, :currency, 'authorized', {now}) RETURNING *
        """,
        id=f"ch_{uuid.uuid4().hex}",
        tenant=order.tenant,
        order_ref=asked["order"],
        amount=asked["amount"],
        currency=asked["currency"],
    )
    assert made is not None
    intend(transaction, order, made["id"], {"action": "capture", "charge": made["id"], "amount": made["amount"]})
    return Answer.of_json(201, shown(made), ("Location", f"/v1/charges/{made['id']}")).about("charge", made["id"])


def check_refund(fields: Fields) -> None:
    """Refuse a body that asks for no refund."""
    fields.name("charge")
    fields.amount("amount")
    fields.end()


def refund(transaction: Transaction, order: Order) -> Answer:
    """Give money back."""
    asked = order.content
    # One statement that reads and writes: two refunds at once cannot both find enough money left.
    left = one(
        transaction,
        """
        UPDATE charges SET refunded = refunded + :amount
        WHERE id = :charge AND tenant = :tenant AND refunded + :amount <= amount RETURNING id
        """,
        amount=asked["amount"],
        charge=asked["charge"],
        tenant=order.tenant,
    )
    if left is None:
        raise Refused(problem(409, "not_refundable", "There is no such charge with so much money left"))
    refund_id = f"re_{uuid.uuid4().hex}"
    transaction.rows(
        "INSERT INTO refunds (id, charge_id, amount, created_at) VALUES (:id, :charge, :amount, {now})",
        id=refund_id,
        charge=asked["charge"],
        amount=asked["amount"],
    )
    intend(transaction, order, asked["charge"], {"action": "refund", "refund": refund_id, "amount": asked["amount"]})
    content = {"id": refund_id, "charge": asked["charge"], "amount": asked["amount"]}
    return Answer.of_json(201, content).about("refund", refund_id)


def find_charge(transaction: Transaction, tenant: str, charge_id: str) -> Answer:
    """One charge."""
    found = one(transaction, "SELECT * FROM charges WHERE id = :id AND tenant = :tenant", id=charge_id, tenant=tenant)
    return problem(404, "not_found", "There is no such charge") if found is None else Answer.of_json(200, shown(found))


def find_charges(transaction: Transaction, tenant: str, order_ref: str) -> Answer:
    """The charges of an order."""
    found = transaction.rows(
        "SELECT * FROM charges WHERE tenant = :tenant AND order_ref = :order_ref ORDER BY created_at, id",
        tenant=tenant,
        order_ref=order_ref,
    )
    return Answer.of_json(200, {"charges": [shown(row) for row in found]})


def check_customer(fields: Fields) -> None:
    """Refuse a body that is no customer."""
    fields.name("name")
    fields.end()


def put_customer(transaction: Transaction, tenant: str, customer: str, name: str) -> Answer:
    """Set a customer's name: the same however often it is done, so it needs no key."""
    transaction.rows(
        """
        INSERT INTO customers (tenant, id, name) VALUES (:tenant, :id, :name)
        ON CONFLICT (tenant, id) DO UPDATE SET name = excluded.name
        """,
        tenant=tenant,
        id=customer,
        name=name,
    )
    return Answer.of_json(200, {"id": customer, "name": name})


def shown(row: Row) -> dict[str, object]:
    """A charge as callers see it."""
    return {
        "id": row["id"],
        "order": row["order_ref"],
        "amount": row["amount"],
        "currency": row["currency"],
        "status": row["status"],
        "refunded": row["refunded"],
    }
