"""Third act: three carriers ship a basket. Then a carrier refuses a parcel of another basket."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

from demo.shop import Books, Shop
from demo.stack import Api, DemoFailed


def ship(api: Api, shop: Shop, request: dict[str, Any]) -> tuple[dict[str, Any], Books, Books]:
    """Ship a basket. Return the saga, and the books before and after.

    Raises:
        DemoFailed: the books are wrong, or a parcel was not shipped.
    """
    before = shop.books()
    saga = api.run("basket", request)
    after = shop.books()
    sold = Counter[str]()
    for item in (item for parcel in request["parcels"] for item in parcel["items"]):
        sold[item["sku"]] += item["quantity"]
    left = {sku: count - sold[sku] for sku, count in before.stock.items()}
    if saga["status"] != "COMPLETED" or after.stock != left:
        raise DemoFailed(f"the basket ended {saga['status']}: {saga['error']}, stock {after.stock}")
    if after.earned != before.earned + Decimal(request["amount"]):
        raise DemoFailed(f"the ledger says {after.earned} after {before.earned}")
    _all_are(api, saga, "COMPLETED", len(request["parcels"]))
    return saga, before, after


def fail_to_ship(api: Api, shop: Shop, request: dict[str, Any]) -> tuple[dict[str, Any], Books, Books]:
    """Try to ship a basket whose one carrier refuses. The books must stay the same.

    Raises:
        DemoFailed: the basket did not fail, the books changed, or a parcel was not undone.
    """
    before = shop.books()
    saga = api.run("basket", request)
    after = shop.books()
    if saga["status"] != "COMPENSATED" or saga["error"]["type"] != "ChildrenFailed":
        raise DemoFailed(f"the basket ended {saga['status']}: {saga['error']}")
    if (after.stock, after.earned) != (before.stock, before.earned):
        raise DemoFailed(f"after the undo, the stock is {after.stock} and {after.earned} is earned")
    _all_are(api, saga, "COMPENSATED", len(request["parcels"]))
    return saga, before, after


def _all_are(api: Api, saga: dict[str, Any], status: str, count: int) -> None:
    """Check that all parcels of a basket ended in these statuses."""
    found = [child["status"] for child in api.children(saga)]
    if found != [status] * count:
        raise DemoFailed(f"of {count} parcels of the basket {saga['saga_id']}, which is {saga['status']}: {found}")
