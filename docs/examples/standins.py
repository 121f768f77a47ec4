"""What the code of the pages takes for granted: a saga, a stack for a service, a client that calls nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aws_cdk import App, Stack

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


class Api:
    """Answers every call of a client as if a saga had been started and had completed."""

    def __getattr__(self, name: str) -> Any:
        saga = {"saga_id": "id", "name": "trip", "status": "COMPLETED", "error": None, "updated_at": "", "result": None}
        return lambda *given, **named: saga

    @classmethod
    def from_stack(cls, name: str, **where: str) -> Api:
        """A client of a stack."""
        return cls()


def stack() -> Stack:
    """An empty stack."""
    return Stack(App(), "Shop")
