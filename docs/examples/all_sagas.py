"""The sagas of the service in ``all_options.py``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sagas import AutoDisable, CircuitBreaker, OrphanSweep, Saga, children, step, wait_for


@dataclass(frozen=True)
class Parcel:
    """What is sent."""

    address: str


class Shipment(Saga[Parcel], name="shipment"):
    """A child of *order*."""

    @step(circuit_breaker=CircuitBreaker())
    def book(self, request: Parcel) -> str:
        """Book the carrier."""
        return f"label for {request.address}"


class Order(
    Saga[Parcel],
    name="order",
    auto_disable=AutoDisable(),
    orphans=OrphanSweep("SCANS_BUCKET", "scans/", action="delete"),
):
    """It writes objects, asks a person by a link, and has children."""

    @step
    def scan(self, request: Parcel) -> str:
        """Write an object."""
        return request.address

    @wait_for(str, timeout=timedelta(days=3), public=True)
    def approval(self, scan: str) -> None:
        """Ask."""

    @children(Shipment)
    def ship(self, request: Parcel, approval: str) -> list[Parcel]:
        """Have it sent."""
        return [request]
