"""The saga that the code of the pages takes for granted."""

from __future__ import annotations

from dataclasses import dataclass

from sagas import Context, Saga, step


@dataclass(frozen=True)
class Order:
    """An order of seats."""

    order_id: str = "o-1"
    seats: int = 2


class Trip(Saga[Order], name="trip"):
    """Books, charges, ships."""

    @step
    def book(self, request: Order, ctx: Context) -> str:
        """Book."""
        return f"{request.seats} seats"

    @step
    def charge(self, book: str) -> str:
        """Charge."""
        return f"paid for {book}"

    @step
    def ship(self) -> None:
        """Ship."""
