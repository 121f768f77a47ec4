"""A service that has every part a service can have: the pages about permissions and alarms are written from it."""

from __future__ import annotations

from typing import Literal

from all_sagas import Order, Shipment

from sagas.cdk import Archive, SagaService

from aws_cdk import App, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_s3 as s3  # isort: skip


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
    scans = s3.Bucket(stack, "Scans", block_public_access=s3.BlockPublicAccess.BLOCK_ALL)
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
