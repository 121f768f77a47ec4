"""A service that has every part a service can have: the pages about permissions and alarms are written from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from sagas import AutoDisable, CircuitBreaker, OrphanSweep, Saga, children, step, wait_for
from sagas.cdk import Archive, SagaService

from aws_cdk import App, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_s3 as s3  # isort: skip


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


def build_app(outdir: str | None = None) -> App:
    """Make the app with its stack, ``Everything``, and the same with alarms by step, ``ByStep``.

    Args:
        outdir: where the templates go; a temporary directory by default.
    """
    app = App(outdir=outdir)
    add_service(Stack(app, "Everything"), "type")
    add_service(Stack(app, "ByStep"), "step")
    return app


def add_service(stack: Stack, alarms: Literal["type", "step"]) -> None:
    """Add the service.

    Args:
        stack: where it goes.
        alarms: the alarms that it has.
    """
    scans = s3.Bucket(stack, "Scans")
    service = SagaService(
        stack,
        "Service",
        sagas=[Order, Shipment],
        environment={"SCANS_BUCKET": scans.bucket_name},
        archive=Archive(),
        events=events.EventBus(stack, "Bus"),
        alarms=alarms,
    )
    service.allow_sweep(Order, scans)
    service.command_queue()
