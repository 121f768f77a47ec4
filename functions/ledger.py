"""The payment ledger: append-only entries whose amounts add up to what was earned.

Key ``payment_key``. Three kinds of entries, by ``kind``:

- ``capture``: ``amount`` (N, positive), ``order_id``; under the capturing step's idempotency key;
- ``refund``: ``amount`` (N, negative), ``refunds`` = the capture's key; under the key of the undo;
- ``void``: ``amount`` 0, under a capture's key: it was undone before it happened, and can no longer happen.

No entry is changed or removed. Each is written once, by a conditional put under a key that all attempts share. Card
tokens are not kept.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sagas import PermanentError, Rejected

DECLINED_TOKEN = "tok_declined"  # noqa: S105 - the well-known test token of a card that is always declined
_CENT = Decimal("0.01")


class Ledger:
    """Capture and refund, each once however often it is called.

    Args:
        dynamodb: a boto3 client.
        table: the table's name.
    """

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def capture(self, key: str, *, order_id: str, card: str, amount: Decimal) -> Decimal:
        """Take ``amount`` from ``card`` under ``key``; return the amount captured, by this call or by an earlier one.

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
            Whether there was anything to give back. If not, a capture under that key is barred from happening later.
        """
        if self._write(capture_key, kind="void", amount=Decimal(0)):
            return False
        entry = self._read(capture_key)
        if entry["kind"]["S"] == "void":
            return False
        return self._write(key, kind="refund", amount=-Decimal(entry["amount"]["N"]), refunds=capture_key)

    def _write(self, key: str, *, kind: str, amount: Decimal, **references: str) -> bool:
        """Append an entry; return whether it is new."""
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
