"""The saga that the code of the pages takes for granted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sagas import Context, Saga, step, wait_for


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


@dataclass(frozen=True)
class Upload:
    """An object of a bucket."""

    bucket: str
    key: str


class Import(Saga[Upload], name="import"):
    """Reads an upload."""

    @step
    def read(self) -> None:
        """Read."""


class Loan(Saga[str], name="loan"):
    """Waits for an approval."""

    approval = wait_for(bool, timeout=timedelta(days=3))


class Fulfilment(Saga[Order], name="fulfil"):
    """Has a saga of another service write an invoice."""

    @step
    def invoice(self) -> None:
        """Start the invoice."""

    @step
    def invoiced(self) -> None:
        """Wait for the invoice."""
