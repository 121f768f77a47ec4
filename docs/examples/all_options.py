"""A service that has every part a service can have: the pages about permissions and alarms are written from it."""

from __future__ import annotations

from all_sagas import Order, Shipment

from sagas.cdk import Archive, SagaService

from aws_cdk import App, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_s3 as s3  # isort: skip


def build_app(outdir: str | None = None) -> App:
    """Make the app with its one stack, ``Everything``.

    Args:
        outdir: where the template goes; a temporary directory by default.
    """
    app = App(outdir=outdir)
    stack = Stack(app, "Everything")
    scans = s3.Bucket(stack, "Scans")
    service = SagaService(
        stack,
        "Service",
        sagas=[Order, Shipment],
        environment={"SCANS_BUCKET": scans.bucket_name},
        archive=Archive(),
        events=events.EventBus(stack, "Bus"),
    )
    service.allow_sweep(Order, scans)
    service.command_queue()
    return app
