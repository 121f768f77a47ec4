"""The stock table: the available quantity of each SKU, and the reservations.

Key ``sku``. There are two kinds of items:

- a stock item: ``sku``, ``available`` (N);
- a reservation: ``sku`` = ``reservation#`` + the reserving step's idempotency key, ``status`` (``RESERVED`` or
  ``RELEASED``), ``items`` (M: SKU to quantity).

For every SKU, ``available`` plus the quantities in ``RESERVED`` reservations is always the quantity put in stock,
because both change in one transaction. A reservation is a separate item, so the item of a popular SKU does not grow
with its orders. A released reservation is kept, so a reservation that arrives after its own release is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagas import PermanentError, Rejected

MAX_SKUS = 99
"""A DynamoDB transaction takes 100 items, and the reservation is one of them."""

_RESERVATION = "reservation#"
_FAILED = "ConditionalCheckFailed"


class Stock:
    """Reserves and releases stock. Repeated calls change nothing.

    Args:
        dynamodb: a boto3 client.
        table: the table's name.
    """

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def reserve(self, key: str, quantities: Mapping[str, int]) -> None:
        """Reserve ``quantities`` (by SKU) under ``key``: all of them, or none.

        Raises:
            Rejected: there is not enough of a SKU.
            PermanentError: ``key`` was released before.
        """
        writes = [self._put_reservation(key, "RESERVED", quantities)]
        writes += [self._take(sku, quantity) for sku, quantity in quantities.items()]
        try:
            self._dynamodb.transact_write_items(TransactItems=writes)
        except self._dynamodb.exceptions.TransactionCanceledException as error:
            reservation = self._reservation(key)
            if reservation is None:
                _refuse_if_short(list(quantities), _reasons(error))
                raise  # another transaction was in the way, so a retry makes sense
            if reservation["status"]["S"] == "RELEASED":
                raise PermanentError("the stock was released before it was reserved") from error
            # Otherwise an earlier attempt has made this reservation.

    def release(self, key: str) -> bool:
        """Put the stock reserved under ``key`` back, and prevent a later reservation. Return whether there was one."""
        try:
            self._dynamodb.put_item(**self._put_reservation(key, "RELEASED", {})["Put"])
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return self._give_back(key)
        return False

    def _give_back(self, key: str) -> bool:
        reservation = self._reservation(key)
        held: dict[str, Any] = reservation["items"]["M"] if reservation else {}
        writes = [self._mark_released(key), *(self._put_back(sku, quantity["N"]) for sku, quantity in held.items())]
        try:
            self._dynamodb.transact_write_items(TransactItems=writes)
        except self._dynamodb.exceptions.TransactionCanceledException as error:
            if _reasons(error)[0] != _FAILED:
                raise
            return False  # released already
        return True

    def _reservation(self, key: str) -> dict[str, Any] | None:
        found = self._dynamodb.get_item(
            TableName=self._table, Key={"sku": {"S": _RESERVATION + key}}, ConsistentRead=True
        )
        item: dict[str, Any] | None = found.get("Item")
        return item

    def _put_reservation(self, key: str, status: str, quantities: Mapping[str, int]) -> dict[str, Any]:
        item = {
            "sku": {"S": _RESERVATION + key},
            "status": {"S": status},
            "items": {"M": {sku: {"N": str(quantity)} for sku, quantity in quantities.items()}},
        }
        return {"Put": {"TableName": self._table, "Item": item, "ConditionExpression": "attribute_not_exists(sku)"}}

    def _mark_released(self, key: str) -> dict[str, Any]:
        return self._update(
            _RESERVATION + key,
            UpdateExpression="SET #status = :released",
            ConditionExpression="#status = :reserved",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":released": {"S": "RELEASED"}, ":reserved": {"S": "RESERVED"}},
        )

    def _take(self, sku: str, quantity: int) -> dict[str, Any]:
        return self._update(
            sku,
            UpdateExpression="SET available = available - :n",
            ConditionExpression="available >= :n",
            ExpressionAttributeValues={":n": {"N": str(quantity)}},
        )

    def _put_back(self, sku: str, quantity: str) -> dict[str, Any]:
        return self._update(sku, UpdateExpression="ADD available :n", ExpressionAttributeValues={":n": {"N": quantity}})

    def _update(self, sku: str, **update: Any) -> dict[str, Any]:
        return {"Update": {"TableName": self._table, "Key": {"sku": {"S": sku}}, **update}}


def _refuse_if_short(skus: list[str], reasons: list[str]) -> None:
    short = [sku for sku, reason in zip(skus, reasons[1:], strict=True) if reason == _FAILED]
    if short:
        raise Rejected(f"not enough in stock: {', '.join(short)}")


def _reasons(error: Any) -> list[str]:
    """Return why a transaction was cancelled: one code per write, in their order."""
    return [reason.get("Code", "None") for reason in error.response["CancellationReasons"]]
