"""Tables of a shop in process, and the sums that must be right whatever happened."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any, cast

import boto3

from functions.checkout import Address, Checkout, CheckoutRequest
from functions.shop import Item
from functions.shop import Shop as Tables
from sagas.testing import FakeContext

TABLES = Tables("stock", "ledger", "shipments")
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    **{f"{name.upper()}_TABLE": getattr(TABLES, f"{name}_table") for name in ("stock", "ledger", "shipments")},
}
_KEYS = {"stock": "sku", "ledger": "payment_key", "shipments": "shipment_key"}


class Shop:
    """The three tables, empty but for ``stock`` (available by SKU)."""

    def __init__(self, stock: dict[str, int]) -> None:
        self.client: Any = cast(Any, boto3).client("dynamodb", region_name="eu-central-1")
        for table, key in _KEYS.items():
            self.client.create_table(
                TableName=table,
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        for sku, available in stock.items():
            self.client.put_item(TableName="stock", Item={"sku": {"S": sku}, "available": {"N": str(available)}})

    def items(self, table: str) -> dict[str, dict[str, Any]]:
        """All items by key."""
        key = _KEYS[table]
        return {item[key]["S"]: item for item in self.client.scan(TableName=table, ConsistentRead=True)["Items"]}

    def stock(self) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
        """What is available by SKU, and what is held by the key it was reserved under."""
        items = self.items("stock")
        held = ((key, item) for key, item in items.items() if item.get("status") == {"S": "RESERVED"})
        return (
            {sku: int(item["available"]["N"]) for sku, item in items.items() if "available" in item},
            {key.removeprefix("reservation#"): quantities(item) for key, item in held},
        )

    def available(self) -> dict[str, int]:
        """What can be reserved, by SKU."""
        return self.stock()[0]

    def reserved(self) -> dict[str, dict[str, int]]:
        """What is held, by the key it was reserved under."""
        return self.stock()[1]

    def balances(self) -> dict[str, Decimal]:
        """What the ledger adds up to, by saga."""
        sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        for key, entry in self.items("ledger").items():
            sums[key.split(":")[0]] += Decimal(entry["amount"]["N"])
        return dict(sums)

    def booked(self) -> set[str]:
        """The shipments that will go out."""
        return {key for key, item in self.items("shipments").items() if item["status"] == {"S": "BOOKED"}}


def quantities(reservation: dict[str, Any]) -> dict[str, int]:
    """What a reservation holds, by SKU."""
    return {sku: int(quantity["N"]) for sku, quantity in reservation["items"]["M"].items()}


def context(step: str, saga_id: str = "saga-1", *, undo: bool = False, **attributes: Any) -> FakeContext:
    """The context of a step of *checkout*, or of its undo."""
    given: dict[str, Any] = {"client": cast(Any, boto3).client} | attributes
    return FakeContext(saga="checkout", step=step, saga_id=saga_id, undo=undo, **given)


def order(
    wanted: dict[str, int], *, amount: str = "49.90", card: str = "tok_visa", country: str = "CH"
) -> CheckoutRequest:
    """An order of so many of each SKU."""
    items = [Item(sku, quantity) for sku, quantity in wanted.items()]
    address = Address("Ada Example", "Hauptstrasse 1", "8001", "Zürich", country)
    return CheckoutRequest("order-1", items, card, Decimal(amount), address)


def checkout() -> Checkout:
    """The saga over those tables."""
    return Checkout(TABLES, frozenset({"CH"}))
