"""The CDK app of what has to run where IAM is enforced."""

from __future__ import annotations

from typing import Any, cast

from sagas.cdk import SagaService
from tests.e2e.trials.calls import Fulfil, Invoice
from tests.e2e.trials.waits import Asked

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_events_targets as targets  # isort: skip
from aws_cdk import aws_iam as iam  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip


def main() -> None:
    """Synthesize."""
    app = App()
    stack = Stack(app, "Enforced")
    key = dynamodb.Attribute(name="saga_id", type=dynamodb.AttributeType.STRING)
    table = dynamodb.Table(stack, "Urls", partition_key=key)
    service = SagaService(stack, "Sagas", sagas=[Fulfil, Invoice, Asked], environment={"URLS_TABLE": table.table_name})
    table.grant(service.function(Asked.reply), "dynamodb:PutItem")
    for calling in (Fulfil.invoice, Fulfil.invoiced):
        service.function(calling).add_environment("SHOP_API", service.api.url)
    service.grant_start(service.function(Fulfil.invoice), Invoice)
    service.grant_read(service.function(Fulfil.invoiced), Invoice)
    service.grant_start(iam.User(stack, "Starter", user_name="starter"), Invoice)
    service.grant_operate(iam.User(stack, "Operator", user_name="operator"))
    heard = sqs.Queue(stack, "Heard")
    pattern = events.EventPattern(source=events.Match.prefix("sagas."))
    rule = events.Rule(stack, "Events", event_bus=service.event_bus(), event_pattern=pattern)
    rule.add_target(cast("Any", targets.SqsQueue(heard)))
    CfnOutput(stack, "HeardUrl", value=heard.queue_url)
    app.synth()


if __name__ == "__main__":
    main()
