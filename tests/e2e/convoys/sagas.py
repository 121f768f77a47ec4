"""A saga of very many children, each of which books stock and money as the reference sagas do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Self

from functions.shop import Capture, Item, Reservation, Shop
from sagas import Context, Retry, Saga, children, step

SKUS = 16
PRICE = Decimal("2.50")
AT_ONCE = 1_000
_STUBBORN = Retry.constant(max_retries=30, delay=0.2)
"""A killed worker costs an attempt, and who is killed is left to chance."""
_STALE = timedelta(seconds=20)


@dataclass(frozen=True)
class Crate:
    """One of very many."""

    number: int


@dataclass(frozen=True)
class Load:
    """So many of them."""

    crates: int


class Carried(Saga[Crate], name="carried", stale_after=_STALE):
    """Three steps, of which two book and the last tells that they did."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    @classmethod
    def create(cls) -> Self:
        """Take the tables from the environment."""
        return cls(Shop.from_environment())

    @step(retry=_STUBBORN, timeout=3, undo_when="started")
    def take(self, request: Crate, ctx: Context) -> Reservation:
        """Take one out of stock."""
        return self._shop.reserve(ctx, [Item(f"sku-{request.number % SKUS}", 1)])

    @take.compensate(retry=_STUBBORN)
    def put_back(self, ctx: Context) -> None:
        """Put it back."""
        self._shop.release(ctx)

    @step(retry=_STUBBORN, timeout=3, undo_when="started")
    def charge(self, request: Crate, ctx: Context) -> Capture:
        """Take the money."""
        return self._shop.capture(ctx, order_id=str(request.number), card="tok_visa", amount=PRICE)

    @charge.compensate(retry=_STUBBORN)
    def refund(self, ctx: Context) -> None:
        """Give it back."""
        self._shop.refund(ctx)

    @step(retry=_STUBBORN, timeout=3)
    def close(self, charge: Capture) -> str:
        """Say what was paid for. Takes its time, so that many are under way when something happens."""
        time.sleep(0.3)
        return charge.payment_key


class Convoy(Saga[Load], name="convoy", stale_after=_STALE):
    """Takes the money for the way, and has all crates carried at the same time."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop

    @classmethod
    def create(cls) -> Self:
        """Take the tables from the environment."""
        return cls(Shop.from_environment())

    @step(retry=_STUBBORN, timeout=3, undo_when="started")
    def toll(self, request: Load, ctx: Context) -> Capture:
        """Take the money."""
        return self._shop.capture(ctx, order_id="toll", card="tok_visa", amount=request.crates * PRICE)

    @toll.compensate(retry=_STUBBORN)
    def refund_toll(self, ctx: Context) -> None:
        """Give it back."""
        self._shop.refund(ctx)

    @children(Carried, concurrency=AT_ONCE, retry=_STUBBORN, step_timeout=3)
    def crates(self, request: Load, ctx: Context) -> list[Crate]:
        """All of them."""
        return [Crate(number) for number in range(request.crates)]

    @step(retry=_STUBBORN, timeout=3)
    def arrive(self, crates: list[str]) -> int:
        """Count what arrived."""
        return len(set(crates))
