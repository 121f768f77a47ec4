"""Saga *basket*: captures the payment, and ships a basket in parcels, each with its own carrier.

Each parcel is a saga *parcel*. Its steps take the items out of stock and book the carrier, and each has an undo.
Parcels know nothing of each other. If one of them fails, the shipments of the others are cancelled, their items are put
back in stock, and the payment is refunded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from functions.shop import Capture, Item, Reservation, Shipment, Shop, ShopSaga, check_amount, check_items
from sagas import Context, PermanentError, children, step

CARRIERS = "post rail road"
"""The default list of carriers."""

MAX_PARCELS = 100


@dataclass(frozen=True)
class Packing:
    """A parcel: its carrier and its items."""

    carrier: str
    items: list[Item]

    def __post_init__(self) -> None:
        check_items(self.items)


@dataclass(frozen=True)
class BasketRequest:
    """A basket to pay and to ship.

    Args:
        order_id: the shop's id of the order.
        card: the payment provider's opaque token for the card, never a card number.
        amount: the amount to capture, with at most two decimals.
        country: the destination, an ISO 3166 code of two capital letters.
        parcels: the items of each parcel, and its carrier.
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
    """A parcel of a basket whose payment was captured."""

    order_id: str
    payment_key: str
    country: str
    carrier: str
    items: list[Item]


@dataclass(frozen=True)
class Delivery:
    """A shipped basket, with tracking numbers in the order of its parcels."""

    payment_key: str
    tracking: list[str]


class Parcel(ShopSaga[ParcelRequest], name="parcel"):
    """Takes items out of stock, and books their carrier."""

    def __init__(self, shop: Shop, carriers: frozenset[str]) -> None:
        self._shop = shop
        self._carriers = carriers

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        return cls(Shop.from_environment(), frozenset(os.environ.get("CARRIERS", CARRIERS).split()))

    @step(undo_when="started")
    def pack(self, request: ParcelRequest, ctx: Context) -> Reservation:
        """Take the items out of stock: all of them, or none."""
        return self._shop.reserve(ctx, request.items)

    @pack.compensate
    def unpack(self, ctx: Context) -> None:
        """Put the items back in stock."""
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
        """Cancel the shipment, if there is one."""
        self._shop.call_off(ctx)


class Basket(ShopSaga[BasketRequest], name="basket"):
    """Captures the payment, and starts a saga for each parcel."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        return cls(Shop.from_environment())

    @step(undo_when="started")
    def capture(self, request: BasketRequest, ctx: Context) -> Capture:
        """Capture the payment."""
        return self._shop.capture(ctx, order_id=request.order_id, card=request.card, amount=request.amount)

    @capture.compensate
    def refund(self, ctx: Context) -> None:
        """Refund the payment, if it was captured."""
        self._shop.refund(ctx)

    @children(Parcel, concurrency=10)
    def parcels(self, request: BasketRequest, capture: Capture, ctx: Context) -> list[ParcelRequest]:
        """Start a saga for each parcel. Either all parcels are shipped, or none."""
        return [
            ParcelRequest(request.order_id, capture.payment_key, request.country, one.carrier, one.items)
            for one in request.parcels
        ]

    @step
    def confirm(self, capture: Capture, parcels: list[Shipment], ctx: Context) -> Delivery:
        """Send the tracking numbers to the customer."""
        ctx.logger.info("shipped", extra={"parcels": len(parcels)})
        return Delivery(capture.payment_key, [parcel.tracking for parcel in parcels])
