"""The CDK app of a service in an API, on tables and between queues, topics and buses of its app's own.

Events start and signal its sagas, and it publishes events. Each saga has one function for all its steps.
"""

from __future__ import annotations

from typing import Any, cast

from sagas.cdk import SagaService
from tests.e2e.shop.relay import Mortal, Relay
from tests.e2e.shop.trips import Loan, Trip

from aws_cdk import App, CfnOutput, RemovalPolicy, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_apigateway as apigateway  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_events_targets as targets  # isort: skip
from aws_cdk import aws_s3 as s3  # isort: skip
from aws_cdk import aws_scheduler as scheduler  # isort: skip
from aws_cdk import aws_sns as sns  # isort: skip
from aws_cdk import aws_sns_subscriptions as subscriptions  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip

_INDEXES = {
    "open": ("open_shard", "due"),
    "by_name": ("name_shard", "created_at"),
    "ended": ("ended", "ended_at"),
    "incidents": ("incident_shard", "incident"),
}
_KEYS_ONLY: dict[str, Any] = {"projection_type": dynamodb.ProjectionType.KEYS_ONLY}
_PROJECTED: dict[str, dict[str, Any]] = {
    "incidents": {"projection_type": dynamodb.ProjectionType.INCLUDE, "non_key_attributes": ["seq"]}
}


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Shop")
    service = _service(stack)
    ordered = events.Rule(stack, "Ordered", event_pattern=events.EventPattern(source=["shop"], detail_type=["Ordered"]))
    service.start_on(ordered, Trip, request={"item": "$.detail.item"}, key="$.detail.id")
    asked = events.Rule(stack, "Asked", event_pattern=events.EventPattern(source=["shop"], detail_type=["Asked"]))
    service.start_on(asked, Loan, request={"item": "$.detail.item"})
    agreed = events.Rule(stack, "Agreed", event_pattern=events.EventPattern(source=["shop"], detail_type=["Agreed"]))
    service.signal_on(agreed, Loan.approval, saga_id="$.detail.loan", value="$.detail.granted")
    told = sqs.Queue(stack, "Heard")
    everything = events.Rule(
        stack,
        "Everything",
        event_bus=service.event_bus(),
        event_pattern=events.EventPattern(source=["sagas.Shop-Sagas"]),
    )
    everything.add_target(cast("events.IRuleTarget", targets.SqsQueue(cast("sqs.IQueue", told))))
    topic, queue, bucket = sns.Topic(stack, "Orders"), sqs.Queue(stack, "Parcels"), s3.Bucket(stack, "Uploads")
    service.start_on(topic, Trip)
    service.start_on(queue, Trip)
    service.start_on(bucket, Trip, request={"item": "$.detail.object.key"})
    outputs = {"Topic": topic.topic_arn, "Queue": queue.queue_url, "Bucket": bucket.bucket_name, "Told": told.queue_url}
    record = "$.detail.Records[0].s3.object"
    envelopes: dict[str, tuple[str, str | list[str]]] = {  # as docs/build/events.md has them
        "S3": (f"{record}.key", [f"{record}.key", f"{record}.sequencer"]),
        "Sns": ("$.detail.Message.order_id", "$.detail.MessageId"),
        "RawSns": ("$.detail.order_id", "$.detail.order_id"),
        "EventBridge": ("$.detail.detail.order_id", "$.detail.id"),
        "CloudEvents": ("$.detail.data.order_id", ["$.detail.source", "$.detail.id"]),
    }
    for name, (item, key) in envelopes.items():
        inbox = sqs.Queue(stack, f"Inbox{name}")
        service.start_on(inbox, Trip, request={"item": item}, key=key)
        outputs[f"From{name}"] = inbox.queue_url
    answers, news = sqs.Queue(stack, "Answers"), sns.Topic(stack, "Announcements")
    news.add_subscription(cast("sns.ITopicSubscription", subscriptions.SqsSubscription(cast("sqs.IQueue", answers))))
    service.signal_on(answers, Loan.approval, saga_id="$.detail.Message.loan", value="$.detail.Message.granted")
    outputs["News"] = news.topic_arn
    at = scheduler.ScheduleExpression.expression("at(2026-01-01T00:00:00)")
    service.start_on(at, Trip, request={"item": "$.id"}, key=["once", "$.id"])
    for name, value in outputs.items():
        CfnOutput(stack, name, value=value)
    app.synth()


def _service(stack: Stack) -> SagaService:
    sagas, audit = _table(stack, "Mine"), _table(stack, "History", sort="seq")
    for name, (partition, sort) in _INDEXES.items():
        keys: dict[str, Any] = {"partition_key": _attribute(partition), "sort_key": _attribute(sort)}
        sagas.add_global_secondary_index(index_name=name, **keys, **_PROJECTED.get(name, _KEYS_ONLY))
    mount = apigateway.RestApi(stack, "Api").root.add_resource("shop").add_resource("orders")
    return SagaService(
        stack,
        "Sagas",
        sagas=[Trip, Loan, Relay, Mortal],
        tables={"sagas": sagas, "audit": audit},
        mount=mount,
        isolation="saga",
        removal_policy=RemovalPolicy.DESTROY,
    )


def _attribute(name: str, kind: dynamodb.AttributeType = dynamodb.AttributeType.STRING) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)


def _table(stack: Stack, id: str, sort: str | None = None) -> dynamodb.Table:
    return dynamodb.Table(
        stack,
        id,
        partition_key=_attribute("saga_id"),
        sort_key=_attribute(sort, dynamodb.AttributeType.NUMBER) if sort else None,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        time_to_live_attribute="expires_at",
    )


if __name__ == "__main__":
    main()
