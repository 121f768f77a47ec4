"""What the shop's sagas do, each under the key that all attempts of its step share.

Every step and every undo may run more than once, and an undo may come when its step's outcome is unknown. So each
writes under that key, by a condition that lets only the first one through, and an undo that finds nothing leaves a mark
which bars its step from happening later. Whatever is repeated, stock and ledger balance.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Self, TypeVar

from functions.ledger import Ledger
from functions.shipments import Shipments
from functions.stock import MAX_SKUS, Stock
from sagas import Context, Retry, Saga

MAX_AMOUNT = 10**12
RequestT = TypeVar("RequestT")


class ShopSaga(
    Saga[RequestT],
    retry=Retry.exponential(max_retries=5, base_delay=0.2),
    undo_retry=Retry.exponential(max_retries=8, base_delay=0.5),
):
    """The policies of the shop's sagas."""


@dataclass(frozen=True)
class Item:
    """A quantity of one SKU."""

    sku: str
    quantity: int

    def __post_init__(self) -> None:
        if not self.sku or "#" in self.sku:
            raise ValueError("a SKU is not empty and has no '#'")
        if self.quantity < 1:
            raise ValueError("a quantity is at least 1")


@dataclass(frozen=True)
class Reservation:
    """Stock held for the order: quantities by SKU."""

    reservation_key: str
    quantities: dict[str, int]


@dataclass(frozen=True)
class Capture:
    """Money taken: the ledger entry's key and its amount."""

    payment_key: str
    amount: Decimal


@dataclass(frozen=True)
class Shipment:
    """A booked shipment and its tracking number."""

    shipment_key: str
    tracking: str


def check_items(items: Iterable[Item]) -> None:
    """Raise ``ValueError`` unless one request can reserve this many different SKUs."""
    if not 0 < len({item.sku for item in items}) <= MAX_SKUS:
        raise ValueError(f"an order has 1 to {MAX_SKUS} different SKUs")


def check_amount(amount: Decimal) -> None:
    """Raise ``ValueError`` unless it is a price."""
    if not (amount.is_finite() and 0 < amount < MAX_AMOUNT and amount == round(amount, 2)):
        raise ValueError("the amount must be positive and in whole cents")


@dataclass(frozen=True)
class Shop:
    """The names of its three tables."""

    stock_table: str
    ledger_table: str
    shipments_table: str

    @classmethod
    def from_environment(cls) -> Self:
        """Take the names from the environment."""
        return cls(os.environ["STOCK_TABLE"], os.environ["LEDGER_TABLE"], os.environ["SHIPMENTS_TABLE"])

    def reserve(self, ctx: Context, items: Iterable[Item]) -> Reservation:
        """Take items out of stock, all or none.

        Raises:
            Rejected: not enough of one is available.
            PermanentError: they were released before.
        """
        quantities: Counter[str] = Counter()
        for item in items:
            quantities[item.sku] += item.quantity
        self._stock(ctx).reserve(ctx.idempotency_key, quantities)
        ctx.logger.info("stock reserved", extra={"skus": len(quantities)})
        return Reservation(ctx.idempotency_key, dict(quantities))

    def release(self, ctx: Context) -> None:
        """Put them back in stock. What to put back is what the table says, not what this attempt believes."""
        released = self._stock(ctx).release(ctx.forward_key)
        ctx.logger.info("stock released", extra={"anything": released})

    def capture(self, ctx: Context, *, order_id: str, card: str, amount: Decimal) -> Capture:
        """Take the money.

        Raises:
            Rejected: the card was declined.
            PermanentError: it was given back before.
        """
        key = ctx.idempotency_key
        captured = self._ledger(ctx).capture(key, order_id=order_id, card=card, amount=amount)
        ctx.logger.info("payment captured")
        return Capture(key, captured)

    def refund(self, ctx: Context) -> None:
        """Give the money back, if it was taken."""
        refunded = self._ledger(ctx).refund(ctx.idempotency_key, capture_key=ctx.forward_key)
        ctx.logger.info("payment refunded", extra={"anything": refunded})

    def ship(self, ctx: Context, *, order_id: str, payment_key: str, country: str, carrier: str = "") -> Shipment:
        """Book a shipment, by the one who ships there or by a carrier.

        Raises:
            PermanentError: it was called off before.
        """
        key = ctx.idempotency_key
        tracking = self._shipments(ctx).book(
            key, order_id=order_id, payment_key=payment_key, country=country, carrier=carrier
        )
        ctx.logger.info("shipment booked")
        return Shipment(key, tracking)

    def call_off(self, ctx: Context) -> None:
        """Call the shipment off, if there is one."""
        self._shipments(ctx).cancel(ctx.forward_key)
        ctx.logger.info("shipment cancelled")

    def _stock(self, ctx: Context) -> Stock:
        return Stock(ctx.client("dynamodb"), self.stock_table)

    def _ledger(self, ctx: Context) -> Ledger:
        return Ledger(ctx.client("dynamodb"), self.ledger_table)

    def _shipments(self, ctx: Context) -> Shipments:
        return Shipments(ctx.client("dynamodb"), self.shipments_table)
