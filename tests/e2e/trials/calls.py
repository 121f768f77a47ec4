"""A saga that starts another one, as ``docs/build/children.md`` says, and the other one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

from sagas import Context, NotYet, Rejected, Saga, SagaClient, step


@dataclass(frozen=True)
class Order:
    order_id: str


class Fulfil(Saga[Order], name="fulfil"):
    def __init__(self, sagas: SagaClient | None = None) -> None:
        self.sagas = sagas or SagaClient(os.environ["SHOP_API"])

    @step
    def invoice(self, request: Order, ctx: Context) -> str:
        started = self.sagas.start("invoice", {"order_id": request.order_id}, key=ctx.idempotency_key)
        return started["saga_id"]

    @step(within=timedelta(hours=2))
    def invoiced(self, invoice: str) -> None:
        status = self.sagas.show("invoice", invoice)["status"]
        if status in ("COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"):
            raise Rejected(f"the invoice ended {status}")
        if status != "COMPLETED":
            raise NotYet(after=30, message="the invoice")


class Invoice(Saga[Order], name="invoice"):
    """Is started by the other one."""

    @step
    def write(self, request: Order) -> str:
        """Write it."""
        return f"invoice of {request.order_id}"
