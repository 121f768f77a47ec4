"""Second act: one checkout succeeds, and another fails at its last step and is undone."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from demo.stack import Api, DemoFailed, LocalStack


@dataclass(frozen=True)
class Books:
    """The stock by SKU, and the sum of the ledger."""

    stock: dict[str, int]
    earned: Decimal
    entries: int


class Shop:
    """The tables that the checkout saga uses."""

    def __init__(self, stack: LocalStack) -> None:
        self._dynamodb = stack.client("dynamodb")
        self._stock, self._ledger = stack.outputs["StockTable"], stack.outputs["LedgerTable"]

    def put(self, sku: str, available: int) -> None:
        """Put a SKU in stock."""
        self._dynamodb.put_item(TableName=self._stock, Item={"sku": {"S": sku}, "available": {"N": str(available)}})

    def books(self) -> Books:
        """Read the stock and the ledger."""
        items = self._dynamodb.scan(TableName=self._stock, ConsistentRead=True)["Items"]
        stock = {item["sku"]["S"]: int(item["available"]["N"]) for item in items if "available" in item}
        amounts = [
            Decimal(item["amount"]["N"])
            for item in self._dynamodb.scan(TableName=self._ledger, ConsistentRead=True)["Items"]
        ]
        return Books(stock, sum(amounts, Decimal(0)), len(amounts))


def open_shop(stack: LocalStack, items: list[dict[str, Any]]) -> Shop:
    """Put ten of each item in stock."""
    shop = Shop(stack)
    for item in items:
        shop.put(item["sku"], 10)
    return shop


def buy(api: Api, shop: Shop, request: dict[str, Any]) -> tuple[dict[str, Any], Books, Books]:
    """Run a checkout that succeeds. Return the saga, and the books before and after.

    Raises:
        DemoFailed: the books are wrong.
    """
    before = shop.books()
    saga = api.run("checkout", request)
    after = shop.books()
    sold = {item["sku"]: item["quantity"] for item in request["items"]}
    left = {sku: count - sold.get(sku, 0) for sku, count in before.stock.items()}
    if saga["status"] != "COMPLETED" or after.stock != left:
        raise DemoFailed(f"the checkout ended {saga['status']}: {saga['error']}, stock {after.stock}")
    if after.earned != before.earned + Decimal(request["amount"]):
        raise DemoFailed(f"the ledger says {after.earned} after {before.earned}")
    return saga, before, after


def fail_to_buy(api: Api, shop: Shop, request: dict[str, Any]) -> tuple[dict[str, Any], Books, Books]:
    """Run a checkout to an address that no carrier serves. It must leave the books as they were.

    Raises:
        DemoFailed: the checkout did not fail, or the books changed.
    """
    before = shop.books()
    saga = api.run("checkout", request)
    after = shop.books()
    if saga["status"] != "COMPENSATED" or saga["error"]["step"] != "ship":
        raise DemoFailed(f"the checkout ended {saga['status']}: {saga['error']}")
    if (after.stock, after.earned) != (before.stock, before.earned):
        raise DemoFailed(f"after the undo, the stock is {after.stock} and {after.earned} is earned")
    if after.entries != before.entries + 2:
        raise DemoFailed("the ledger lacks the capture or its refund")
    return saga, before, after
