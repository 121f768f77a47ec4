"""Sagas that events start and end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sagas import Context, Rejected, Saga, step, wait_for


@dataclass(frozen=True)
class Order:
    """What is ordered; nobody delivers an ``anvil``."""

    item: str
    count: int = 1


class Trip(Saga[Order]):
    """One step, which may say no."""

    @step(timeout=5)
    def book(self, request: Order, ctx: Context) -> str:
        """Book it."""
        if request.item == "anvil":
            raise Rejected("nobody delivers that")
        return request.item


class Loan(Saga[Order]):
    """Waits for a yes or a no."""

    approval = wait_for(bool, timeout=timedelta(days=1))

    @step(timeout=5)
    def pay(self, approval: bool, ctx: Context) -> bool:
        """Pay."""
        return approval
