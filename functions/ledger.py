"""The payment ledger: append-only entries. The sum of their amounts is the money earned.

Key ``payment_key``. There are three kinds of entries, by ``kind``:

- ``capture``: ``amount`` (N, positive), ``order_id``; under the idempotency key of the step that captures;
- ``refund``: ``amount`` (N, negative), ``refunds`` = the capture's key; under the key of the undo;
- ``void``: ``amount`` 0; under the capture's key: the undo came first, so the capture can no longer happen.

No entry is changed or removed. A conditional put writes each entry once, under a key that all attempts share. Card
tokens are not stored.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sagas import PermanentError, Rejected

DECLINED_TOKEN = "tok_declined"  # noqa: S105 - the well-known test token of a card that is always declined
_CENT = Decimal("0.01")


class Ledger:
    """Captures and refunds payments. Repeated calls change nothing.

    Args:
        dynamodb: a boto3 client.
        table: the table's name.
    """

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def capture(self, key: str, *, order_id: str, card: str, amount: Decimal) -> Decimal:
        """Take ``amount`` from ``card`` under ``key``. Return the amount that this or an earlier call captured.

        Raises:
            Rejected: the card was declined.
            PermanentError: ``key`` was voided.
        """
        if card == DECLINED_TOKEN:
            raise Rejected("the card was declined")
        if self._write(key, kind="capture", amount=amount, order_id=order_id):
            return amount
        entry = self._read(key)
        if entry["kind"]["S"] == "void":
            raise PermanentError("the payment was undone before it was captured")
        return Decimal(entry["amount"]["N"]).quantize(_CENT)

    def refund(self, key: str, *, capture_key: str) -> bool:
        """Refund the amount captured under ``capture_key``. The refund has its own entry, under ``key``.

        Returns:
            Whether a payment had been captured. If not, this call prevents a later capture under that key.
        """
        if self._write(capture_key, kind="void", amount=Decimal(0)):
            return False
        entry = self._read(capture_key)
        if entry["kind"]["S"] == "void":
            return False
        return self._write(key, kind="refund", amount=-Decimal(entry["amount"]["N"]), refunds=capture_key)

    def _write(self, key: str, *, kind: str, amount: Decimal, **references: str) -> bool:
        """Append an entry. Return whether it is new."""
        item = {"payment_key": {"S": key}, "kind": {"S": kind}, "amount": {"N": str(amount)}}
        item |= {name: {"S": value} for name, value in references.items()}
        try:
            self._dynamodb.put_item(
                TableName=self._table, Item=item, ConditionExpression="attribute_not_exists(payment_key)"
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def _read(self, key: str) -> dict[str, Any]:
        found = self._dynamodb.get_item(TableName=self._table, Key={"payment_key": {"S": key}}, ConsistentRead=True)
        item: dict[str, Any] = found["Item"]
        return item
