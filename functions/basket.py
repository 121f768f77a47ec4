"""Saga *basket*: captures the payment, and has a basket shipped in parcels, each by a carrier of its own.

Each parcel is a saga *parcel* with an undo for each of its steps: its items are taken out of stock, its carrier is
booked. The parcels know nothing of each other. Should one of them fail, those that were shipped are called off, their
items are put back in stock, and the money is given back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from functions.shop import Capture, Item, Reservation, Shipment, Shop, ShopSaga, check_amount, check_items
from sagas import Context, PermanentError, children, step

CARRIERS = "post rail road"
"""Those that take parcels, unless the environment says otherwise."""

MAX_PARCELS = 100


@dataclass(frozen=True)
class Packing:
    """Which carrier takes which items."""

    carrier: str
    items: list[Item]

    def __post_init__(self) -> None:
        check_items(self.items)


@dataclass(frozen=True)
class BasketRequest:
    """A basket to be paid and shipped.

    Args:
        order_id: the shop's own id.
        card: the payment provider's opaque token for the card, never a card number.
        amount: what to capture, in whole cents.
        country: where to ship to, an ISO 3166 code of two capital letters.
        parcels: what goes with whom.
    """

    order_id: str
    card: str
    amount: Decimal
    country: str
    parcels: list[Packing]

    def __post_init__(self) -> None:
        check_amount(self.amount)
        if not 0 < len(self.parcels) <= MAX_PARCELS:
            raise ValueError(f"a basket has 1 to {MAX_PARCELS} parcels")


@dataclass(frozen=True)
class ParcelRequest:
    """One parcel of a basket that is paid for."""

    order_id: str
    payment_key: str
    country: str
    carrier: str
    items: list[Item]


@dataclass(frozen=True)
class Delivery:
    """A basket on its way: tracking numbers in the order of its parcels."""

    payment_key: str
    tracking: list[str]


class Parcel(ShopSaga[ParcelRequest], name="parcel"):
    """Takes items out of stock and books their carrier."""

    def __init__(self, shop: Shop, carriers: frozenset[str]) -> None:
        self._shop = shop
        self._carriers = carriers

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        return cls(Shop.from_environment(), frozenset(os.environ.get("CARRIERS", CARRIERS).split()))

    @step(undo_when="started")
    def pack(self, request: ParcelRequest, ctx: Context) -> Reservation:
        """Take the items out of stock, all or none."""
        return self._shop.reserve(ctx, request.items)

    @pack.compensate
    def unpack(self, ctx: Context) -> None:
        """Put them back in stock."""
        self._shop.release(ctx)

    @step(undo_when="started")
    def book(self, request: ParcelRequest, ctx: Context) -> Shipment:
        """Book the carrier."""
        carrier = request.carrier
        if carrier not in self._carriers:
            raise PermanentError(f"{carrier!r} takes no parcels")
        order_id, payment_key = request.order_id, request.payment_key
        return self._shop.ship(
            ctx, order_id=order_id, payment_key=payment_key, country=request.country, carrier=carrier
        )

    @book.compensate
    def call_off(self, ctx: Context) -> None:
        """Call the carrier off, if it was booked."""
        self._shop.call_off(ctx)


class Basket(ShopSaga[BasketRequest], name="basket"):
    """Captures the payment and has the parcels shipped."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        return cls(Shop.from_environment())

    @step(undo_when="started")
    def capture(self, request: BasketRequest, ctx: Context) -> Capture:
        """Take the money."""
        return self._shop.capture(ctx, order_id=request.order_id, card=request.card, amount=request.amount)

    @capture.compensate
    def refund(self, ctx: Context) -> None:
        """Give it back, if it was taken."""
        self._shop.refund(ctx)

    @children(Parcel, concurrency=10)
    def parcels(self, request: BasketRequest, capture: Capture, ctx: Context) -> list[ParcelRequest]:
        """Have each parcel shipped; all of them, or none."""
        return [
            ParcelRequest(request.order_id, capture.payment_key, request.country, one.carrier, one.items)
            for one in request.parcels
        ]

    @step
    def confirm(self, capture: Capture, parcels: list[Shipment], ctx: Context) -> Delivery:
        """Send the tracking numbers to the customer."""
        ctx.logger.info("shipped", extra={"parcels": len(parcels)})
        return Delivery(capture.payment_key, [parcel.tracking for parcel in parcels])
