"""The CDK app of a service that events start, signal and leave."""

from __future__ import annotations

from sagas.cdk import SagaService
from tests.e2e.events.sagas import Loan, Trip

from aws_cdk import App, CfnOutput, RemovalPolicy, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_s3 as s3  # isort: skip
from aws_cdk import aws_scheduler as scheduler  # isort: skip
from aws_cdk import aws_sns as sns  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Events")
    service = SagaService(stack, "Sagas", sagas=[Trip, Loan], isolation="saga", removal_policy=RemovalPolicy.DESTROY)
    ordered = events.Rule(stack, "Ordered", event_pattern=events.EventPattern(source=["shop"], detail_type=["Ordered"]))
    service.start_on(ordered, Trip, request={"item": "$.detail.item"}, key="$.detail.id")
    asked = events.Rule(stack, "Asked", event_pattern=events.EventPattern(source=["shop"], detail_type=["Asked"]))
    service.start_on(asked, Loan, request={"item": "$.detail.item"})
    agreed = events.Rule(stack, "Agreed", event_pattern=events.EventPattern(source=["shop"], detail_type=["Agreed"]))
    service.signal_on(agreed, Loan.approval, saga_id="$.detail.loan", value="$.detail.granted")
    topic, queue, bucket = sns.Topic(stack, "Orders"), sqs.Queue(stack, "Parcels"), s3.Bucket(stack, "Uploads")
    service.start_on(topic, Trip)
    service.start_on(queue, Trip)
    service.start_on(bucket, Trip, request={"item": "$.detail.object.key"})
    at = scheduler.ScheduleExpression.expression("at(2026-01-01T00:00:00)")
    service.start_on(at, Trip, request={"item": "$.id"}, key=["once", "$.id"])
    outputs = {"Topic": topic.topic_arn, "Queue": queue.queue_url, "Bucket": bucket.bucket_name}
    for name, value in outputs.items():
        CfnOutput(stack, name, value=value)
    app.synth()


if __name__ == "__main__":
    main()
