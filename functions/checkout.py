"""Saga *checkout*: reserves stock, captures the payment and books the shipment. Undos do the opposite, in reverse.

:mod:`functions.shop` has the actions of steps and undos, which have the same effect however often they run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from functions.shop import Capture, Item, Reservation, Shipment, Shop, ShopSaga, check_amount, check_items
from sagas import Context, PermanentError, step

SERVED_COUNTRIES = "AT BE CH DE DK ES FR IT LU NL PL SE"
"""The default list of countries."""


@dataclass(frozen=True)
class Address:
    """The address of the customer. ``country`` is an ISO 3166 code of two capital letters."""

    name: str
    street: str
    postal_code: str
    city: str
    country: str


@dataclass(frozen=True)
class CheckoutRequest:
    """An order to pay and to ship.

    Args:
        order_id: the shop's id of the order.
        items: the ordered items.
        card: the payment provider's opaque token for the card, never a card number.
        amount: the amount to capture, with at most two decimals.
        address: the destination.
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
        """Take the ordered items out of stock: all of them, or none."""
        return self._shop.reserve(ctx, request.items)

    @reserve.compensate
    def release(self, ctx: Context) -> None:
        """Put the items back in stock."""
        self._shop.release(ctx)

    @step(result="payment", undo_when="started")
    def capture(self, request: CheckoutRequest, ctx: Context) -> Capture:
        """Capture the payment."""
        return self._shop.capture(ctx, order_id=request.order_id, card=request.card, amount=request.amount)

    @capture.compensate
    def refund(self, ctx: Context) -> None:
        """Refund the payment, if it was captured."""
        self._shop.refund(ctx)

    @step(result="shipment", undo_when="started")
    def ship(self, request: CheckoutRequest, payment: Capture, ctx: Context) -> Shipment:
        """Book the shipment, if a carrier serves the country."""
        country = request.address.country
        if country not in self._served:
            raise PermanentError(f"no carrier serves {country!r}")
        return self._shop.ship(ctx, order_id=request.order_id, payment_key=payment.payment_key, country=country)

    @ship.compensate
    def cancel_shipment(self, ctx: Context) -> None:
        """Cancel the shipment, if there is one."""
        self._shop.call_off(ctx)
