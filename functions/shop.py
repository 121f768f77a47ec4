"""The actions of the shop's sagas. All attempts of a step share a key.

Every step and every undo may run more than once, and an undo may run when the outcome of its step is unknown. So each
action writes under the key of its step, and a condition lets only the first write through. An undo that finds nothing
leaves a mark, so the step cannot happen later. Whatever is repeated, stock and ledger balance.
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
    """A base class with the retry policies of the shop's sagas."""


@dataclass(frozen=True)
class Item:
    """A quantity of one SKU."""

    sku: str
    quantity: int

    def __post_init__(self) -> None:
        if not self.sku or "#" in self.sku:
            raise ValueError("a SKU must not be empty or contain '#'")
        if self.quantity < 1:
            raise ValueError("a quantity must be at least 1")


@dataclass(frozen=True)
class Reservation:
    """Stock reserved for an order: quantities by SKU."""

    reservation_key: str
    quantities: dict[str, int]


@dataclass(frozen=True)
class Capture:
    """A captured payment: the key of its ledger entry, and the amount."""

    payment_key: str
    amount: Decimal


@dataclass(frozen=True)
class Shipment:
    """A booked shipment and its tracking number."""

    shipment_key: str
    tracking: str


def check_items(items: Iterable[Item]) -> None:
    """Raise ``ValueError`` if there are no items, or too many SKUs for one reservation."""
    if not 0 < len({item.sku for item in items}) <= MAX_SKUS:
        raise ValueError(f"an order has 1 to {MAX_SKUS} different SKUs")


def check_amount(amount: Decimal) -> None:
    """Raise ``ValueError`` if the amount is not a price."""
    if not (amount.is_finite() and 0 < amount < MAX_AMOUNT and amount == round(amount, 2)):
        raise ValueError("the amount must be positive and in whole cents")


@dataclass(frozen=True)
class Shop:
    """The shop, with the names of its three tables."""

    stock_table: str
    ledger_table: str
    shipments_table: str

    @classmethod
    def from_environment(cls) -> Self:
        """Return the shop whose tables are named in the environment."""
        return cls(os.environ["STOCK_TABLE"], os.environ["LEDGER_TABLE"], os.environ["SHIPMENTS_TABLE"])

    def reserve(self, ctx: Context, items: Iterable[Item]) -> Reservation:
        """Take items out of stock: all of them, or none.

        Raises:
            Rejected: there is not enough of an item.
            PermanentError: the reservation was released before.
        """
        quantities: Counter[str] = Counter()
        for item in items:
            quantities[item.sku] += item.quantity
        self._stock(ctx).reserve(ctx.idempotency_key, quantities)
        ctx.logger.info("stock reserved", extra={"skus": len(quantities)})
        return Reservation(ctx.idempotency_key, dict(quantities))

    def release(self, ctx: Context) -> None:
        """Put the reserved items back in stock. The table says which items these are."""
        released = self._stock(ctx).release(ctx.forward_key)
        ctx.logger.info("stock released", extra={"anything": released})

    def capture(self, ctx: Context, *, order_id: str, card: str, amount: Decimal) -> Capture:
        """Capture the payment.

        Raises:
            Rejected: the card was declined.
            PermanentError: the payment was refunded before.
        """
        key = ctx.idempotency_key
        captured = self._ledger(ctx).capture(key, order_id=order_id, card=card, amount=amount)
        ctx.logger.info("payment captured")
        return Capture(key, captured)

    def refund(self, ctx: Context) -> None:
        """Refund the payment, if it was captured."""
        refunded = self._ledger(ctx).refund(ctx.idempotency_key, capture_key=ctx.forward_key)
        ctx.logger.info("payment refunded", extra={"anything": refunded})

    def ship(self, ctx: Context, *, order_id: str, payment_key: str, country: str, carrier: str = "") -> Shipment:
        """Book a shipment, with a certain carrier if ``carrier`` is not empty.

        Raises:
            PermanentError: the shipment was cancelled before.
        """
        key = ctx.idempotency_key
        tracking = self._shipments(ctx).book(
            key, order_id=order_id, payment_key=payment_key, country=country, carrier=carrier
        )
        ctx.logger.info("shipment booked")
        return Shipment(key, tracking)

    def call_off(self, ctx: Context) -> None:
        """Cancel the shipment, if there is one."""
        self._shipments(ctx).cancel(ctx.forward_key)
        ctx.logger.info("shipment cancelled")

    def _stock(self, ctx: Context) -> Stock:
        return Stock(ctx.client("dynamodb"), self.stock_table)

    def _ledger(self, ctx: Context) -> Ledger:
        return Ledger(ctx.client("dynamodb"), self.ledger_table)

    def _shipments(self, ctx: Context) -> Shipments:
        return Shipments(ctx.client("dynamodb"), self.shipments_table)
