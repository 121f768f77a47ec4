"""Saga *checkout*: reserves stock, captures the payment, books the shipment; undoes the three in reverse.

What a step does once however often it runs, and what its undo leaves, is the shop's: :mod:`functions.shop`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from functions.shop import Capture, Item, Reservation, Shipment, Shop, ShopSaga, check_amount, check_items
from sagas import Context, PermanentError, step

SERVED_COUNTRIES = "AT BE CH DE DK ES FR IT LU NL PL SE"
"""Served unless the environment says otherwise."""


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
        check_items(self.items)
        check_amount(self.amount)


class Checkout(ShopSaga[CheckoutRequest], name="checkout"):
    """Reserves stock, captures the payment and books the shipment."""

    def __init__(self, shop: Shop, served: frozenset[str]) -> None:
        self._shop = shop
        self._served = served

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        return cls(Shop.from_environment(), frozenset(os.environ.get("SERVED_COUNTRIES", SERVED_COUNTRIES).split()))

    @step(result="reservation", undo_when="started")
    def reserve(self, request: CheckoutRequest, ctx: Context) -> Reservation:
        """Take the ordered items out of stock, all or none."""
        return self._shop.reserve(ctx, request.items)

    @reserve.compensate
    def release(self, ctx: Context) -> None:
        """Put the items back in stock."""
        self._shop.release(ctx)

    @step(result="payment", undo_when="started")
    def capture(self, request: CheckoutRequest, ctx: Context) -> Capture:
        """Take the money."""
        return self._shop.capture(ctx, order_id=request.order_id, card=request.card, amount=request.amount)

    @capture.compensate
    def refund(self, ctx: Context) -> None:
        """Give the money back, if it was taken."""
        self._shop.refund(ctx)

    @step(result="shipment", undo_when="started")
    def ship(self, request: CheckoutRequest, payment: Capture, ctx: Context) -> Shipment:
        """Book the shipment, if the address can be served."""
        country = request.address.country
        if country not in self._served:
            raise PermanentError(f"no carrier serves {country!r}")
        return self._shop.ship(ctx, order_id=request.order_id, payment_key=payment.payment_key, country=country)

    @ship.compensate
    def cancel_shipment(self, ctx: Context) -> None:
        """Call the shipment off, if there is one."""
        self._shop.call_off(ctx)
