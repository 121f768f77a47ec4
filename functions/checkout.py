"""Saga *checkout*: reserves stock, captures the payment, books the shipment; undoes the three in reverse.

Every step and every undo may run more than once, and an undo may come when its step's outcome is unknown. So each
writes under a key that all its attempts share, by a condition that lets only the first one through, and an undo that
finds nothing leaves a mark which bars its step from happening later. Whatever is repeated, stock and ledger balance.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from functions.ledger import Ledger
from functions.shipments import Shipments
from functions.stock import MAX_SKUS, Stock
from sagas import Context, PermanentError, Retry, Saga, step

SERVED_COUNTRIES = "AT BE CH DE DK ES FR IT LU NL PL SE"
"""Served unless the environment says otherwise."""

MAX_AMOUNT = 10**12


@dataclass(frozen=True)
class Item:
    """So many of one SKU."""

    sku: str
    quantity: int

    def __post_init__(self) -> None:
        if not self.sku or "#" in self.sku:
            raise ValueError("a SKU is not empty and has no '#'")
        if self.quantity < 1:
            raise ValueError("a quantity is at least 1")


@dataclass(frozen=True)
class Address:
    """Where to ship to. ``country`` is an ISO 3166 code of two capital letters."""

    name: str
    street: str
    postal_code: str
    city: str
    country: str


@dataclass(frozen=True)
class CheckoutRequest:
    """An order to be paid and shipped.

    Args:
        order_id: the shop's own id.
        items: what was ordered.
        card: the payment provider's opaque token for the card, never a card number.
        amount: what to capture, in whole cents.
        address: where to ship to.
    """

    order_id: str
    items: list[Item]
    card: str
    amount: Decimal
    address: Address

    def __post_init__(self) -> None:
        if not 0 < len({item.sku for item in self.items}) <= MAX_SKUS:
            raise ValueError(f"an order has 1 to {MAX_SKUS} different SKUs")
        if not _is_price(self.amount):
            raise ValueError("an amount is positive and in whole cents")


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


@dataclass(frozen=True)
class CheckoutConfig:
    """The tables' names and the countries that are served."""

    stock_table: str
    ledger_table: str
    shipments_table: str
    served: frozenset[str]


def _is_price(amount: Decimal) -> bool:
    return amount.is_finite() and 0 < amount < MAX_AMOUNT and amount == round(amount, 2)


class Checkout(Saga[CheckoutRequest], name="checkout"):
    """Reserves stock, captures the payment and books the shipment."""

    def __init__(self, config: CheckoutConfig) -> None:
        self._config = config

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        return cls(
            CheckoutConfig(
                stock_table=os.environ["STOCK_TABLE"],
                ledger_table=os.environ["LEDGER_TABLE"],
                shipments_table=os.environ["SHIPMENTS_TABLE"],
                served=frozenset(os.environ.get("SERVED_COUNTRIES", SERVED_COUNTRIES).split()),
            )
        )

    @step(result="reservation", retry=Retry.exponential(max_retries=5, base_delay=0.2), undo_when="started")
    def reserve(self, request: CheckoutRequest, ctx: Context) -> Reservation:
        """Take the ordered items out of stock, all or none."""
        quantities: Counter[str] = Counter()
        for item in request.items:
            quantities[item.sku] += item.quantity
        self._stock(ctx).reserve(ctx.idempotency_key, quantities)
        ctx.logger.info("stock reserved", extra={"skus": len(quantities)})
        return Reservation(ctx.idempotency_key, dict(quantities))

    @reserve.compensate(retry=Retry.exponential(max_retries=8, base_delay=0.5))
    def release(self, ctx: Context) -> None:
        """Put the items back in stock. What to put back is what the table says, not what this attempt believes."""
        released = self._stock(ctx).release(ctx.forward_key)
        ctx.logger.info("stock released", extra={"anything": released})

    @step(result="payment", retry=Retry.exponential(max_retries=4, base_delay=0.5), undo_when="started")
    def capture(self, request: CheckoutRequest, ctx: Context) -> Capture:
        """Take the money."""
        key = ctx.idempotency_key
        captured = self._ledger(ctx).capture(key, order_id=request.order_id, card=request.card, amount=request.amount)
        ctx.logger.info("payment captured")
        return Capture(key, captured)

    @capture.compensate(retry=Retry.exponential(max_retries=8, base_delay=0.5))
    def refund(self, ctx: Context) -> None:
        """Give the money back, if it was taken."""
        refunded = self._ledger(ctx).refund(ctx.idempotency_key, capture_key=ctx.forward_key)
        ctx.logger.info("payment refunded", extra={"anything": refunded})

    @step(result="shipment", retry=Retry.exponential(max_retries=3, base_delay=0.5), undo_when="started")
    def ship(self, request: CheckoutRequest, payment: Capture, ctx: Context) -> Shipment:
        """Book the shipment, if the address can be served."""
        country = request.address.country
        if country not in self._config.served:
            raise PermanentError(f"no carrier serves {country!r}")
        key = ctx.idempotency_key
        tracking = self._shipments(ctx).book(
            key, order_id=request.order_id, payment_key=payment.payment_key, country=country
        )
        ctx.logger.info("shipment booked")
        return Shipment(key, tracking)

    @ship.compensate(retry=Retry.exponential(max_retries=8, base_delay=0.5))
    def cancel_shipment(self, ctx: Context) -> None:
        """Call the shipment off, if there is one."""
        self._shipments(ctx).cancel(ctx.forward_key)
        ctx.logger.info("shipment cancelled")

    def _stock(self, ctx: Context) -> Stock:
        return Stock(ctx.client("dynamodb"), self._config.stock_table)

    def _ledger(self, ctx: Context) -> Ledger:
        return Ledger(ctx.client("dynamodb"), self._config.ledger_table)

    def _shipments(self, ctx: Context) -> Shipments:
        return Shipments(ctx.client("dynamodb"), self._config.shipments_table)
