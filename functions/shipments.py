"""The shipments table: shipments that were booked or cancelled.

Key ``shipment_key``; ``status`` is ``BOOKED`` or ``CANCELLED``. If a booking arrives after its cancellation, it is
refused.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sagas import PermanentError


class Shipments:
    """Books and cancels shipments. Repeated calls change nothing.

    Args:
        dynamodb: a boto3 client.
        table: the table's name.
    """

    def __init__(self, dynamodb: Any, table: str) -> None:
        self._dynamodb = dynamodb
        self._table = table

    def book(self, key: str, *, order_id: str, payment_key: str, country: str, carrier: str = "") -> str:
        """Book a shipment under ``key``. Return its tracking number, which is the same in every call with this key.

        Raises:
            PermanentError: ``key`` was cancelled.
        """
        tracking = _tracking_number(key)
        values = {"order_id": order_id, "payment_key": payment_key, "country": country, "tracking": tracking}
        values |= {"shipment_key": key, "status": "BOOKED", "carrier": carrier}
        item = {name: {"S": value} for name, value in values.items() if value}
        try:
            self._dynamodb.put_item(
                TableName=self._table,
                Item=item,
                ConditionExpression="attribute_not_exists(shipment_key) OR #status = :booked",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={":booked": {"S": "BOOKED"}},
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException as error:
            raise PermanentError("the shipment was cancelled before it was booked") from error
        return tracking

    def cancel(self, key: str) -> None:
        """Cancel the shipment. If there is none, this prevents a later booking."""
        self._dynamodb.update_item(
            TableName=self._table,
            Key={"shipment_key": {"S": key}},
            UpdateExpression="SET #status = :cancelled",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":cancelled": {"S": "CANCELLED"}},
        )


def _tracking_number(key: str) -> str:
    return "S" + hashlib.sha256(key.encode()).hexdigest()[:12].upper()
