"""The CDK app: all variants in one stack. ``python -m benchmarks.app`` synthesizes it to ``CDK_OUTDIR``."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from typing import Any, cast

from benchmarks.durable import INSTALLED
from benchmarks.ours.saga import Purchase
from benchmarks.variables import DURABLE_FUNCTION, HANDLER, ISOLATION, RECORD, ROLE, STEP, VARIANT
from benchmarks.variants import AT_A_TIME, STEPS, UNDONE
from sagas.cdk import FunctionOptions, SagaService
from sagas.cdk.compute.code import CodeAssets

from aws_cdk import App, CfnOutput, Duration, RemovalPolicy, Stack  # isort: skip - sagas.cdk names jsii's Node
from aws_cdk import aws_apigateway as apigateway  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_events as events  # isort: skip
from aws_cdk import aws_lambda as lambda_  # isort: skip
from aws_cdk import aws_lambda_event_sources as event_sources  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip
from constructs import Construct  # isort: skip

_ROLES = {
    "sagas.handlers.step.handler": "step",
    "sagas.handlers.api.handler": "start",
    "sagas.handlers.supervisor.handler": "supervisor",
    "sagas.handlers.bulk.handler": "supervisor",
    "benchmarks.hops.step.handler": "step",
    "benchmarks.hops.start.handler": "start",
    "benchmarks.naive.step.handler": "step",
    "benchmarks.durable.start.handler": "start",
    "benchmarks.bare.handler": "bare",
}
_RUNTIME: lambda_.Runtime = getattr(lambda_.Runtime, f"PYTHON_3_{sys.version_info.minor}")
_ARM = platform.machine() in ("aarch64", "arm64")
_ARCHITECTURE = lambda_.Architecture.ARM_64 if _ARM else lambda_.Architecture.X86_64
"""Those of this machine, so that layer and bytecode can be used here."""


class Queued(Construct):
    """A function and a queue per step, and an API whose POST sends the first message: hops and naive.

    Args:
        scope: parent construct.
        id: the variant.
        handler: of the steps' functions.
        environment: of these.
    """

    def __init__(self, scope: Construct, id: str, handler: str, environment: Mapping[str, str]) -> None:
        super().__init__(scope, id)
        queues = [sqs.Queue(self, f"{name}-queue", visibility_timeout=Duration.seconds(60)) for name in STEPS]
        urls = [queue.queue_url for queue in queues]
        for number, (name, queue) in enumerate(zip(STEPS, queues, strict=True)):
            function = _function(self, name, handler, {**environment, STEP: name, **_ways(urls, number)})
            source = event_sources.SqsEventSource(queue, batch_size=1, max_concurrency=AT_A_TIME)
            function.add_event_source(source)
        _post(self, "benchmarks.hops.start.handler", {"FIRST_QUEUE_URL": urls[0]})


def _ways(urls: list[str], number: int) -> dict[str, str]:
    """Where a step's message goes next, as hops and naive are told it."""
    ways: dict[str, str] = {}
    if number + 1 < len(urls):
        ways["forward"] = urls[number + 1]
    else:
        ways["refused"] = urls[len(UNDONE) - 1]
    if 0 < number < len(UNDONE):
        ways["undo"] = urls[number - 1]
    return {"NEXT_QUEUE_URLS": json.dumps(ways)}


def _naive_tables(scope: Construct) -> dict[str, str]:
    def table(name: str, key: str, sort: str | None = None) -> str:
        text = dynamodb.AttributeType.STRING
        made = dynamodb.Table(
            scope,
            name,
            partition_key=dynamodb.Attribute(name=key, type=text),
            sort_key=dynamodb.Attribute(name=sort, type=text) if sort else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        )
        CfnOutput(Stack.of(scope), f"Naive{name}Table", value=made.table_name)
        return made.table_name

    return {
        "IDEMPOTENCY_TABLE": table("Idempotency", "id"),
        "LOCK_TABLE": table("Lock", "saga_id"),
        "STATE_TABLE": table("State", "saga_id"),
        "AUDIT_TABLE": table("Audit", "saga_id", "at"),
    }


def _post(variant: Construct, handler: str, environment: Mapping[str, str]) -> None:
    """An API with a function behind it."""
    function = _function(variant, "start", handler, environment)
    api = apigateway.LambdaRestApi(variant, "api", handler=cast("lambda_.IFunction", function), cloud_watch_role=False)
    CfnOutput(Stack.of(variant), f"{variant.node.id}Api", value=api.rest_api_id)


def _function(scope: Construct, id: str, handler: str, environment: Mapping[str, str]) -> lambda_.Function:
    return lambda_.Function(
        scope,
        id,
        code=CodeAssets([Purchase], runtime=_RUNTIME.name).of(scope),
        handler=handler,
        runtime=_RUNTIME,
        timeout=Duration.seconds(30),
        environment=dict(environment),
    )


def _enter(variant: Construct) -> None:
    """Have every function begin at the entry that measures, and at first note its requests."""
    for node in variant.node.find_all():
        if isinstance(node, lambda_.CfnFunction):
            handler = cast("Any", node).handler
            told = {HANDLER: handler, ROLE: _ROLES[handler], VARIANT: variant.node.id.lower(), RECORD: "yes"}
            for name, value in told.items():
                node.add_property_override(f"Environment.Variables.{name}", value)
            node.handler = "benchmarks.entry.handler"
        if isinstance(node, events.CfnRule):
            node.state = "DISABLED"  # a tick would fall into the round of one variant


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Benchmark")
    ours = SagaService(
        stack,
        "Ours",
        sagas=[Purchase],
        function_options=FunctionOptions(maximum_concurrency=AT_A_TIME),
        isolation=cast("Any", os.environ.get(ISOLATION, "step")),
        architecture=_ARCHITECTURE,
        runtime=_RUNTIME,
        removal_policy=RemovalPolicy.DESTROY,
    )
    naive = Queued(stack, "Naive", "benchmarks.naive.step.handler", _naive_tables(stack))
    hops = Queued(stack, "Hops", "benchmarks.hops.step.handler", {})
    bare = Construct(stack, "Bare")
    for name in STEPS:
        _function(bare, name, "benchmarks.bare.handler", {STEP: name})
    durable = Construct(stack, "Durable")
    if INSTALLED:
        _post(durable, "benchmarks.durable.start.handler", {"DURABLE_FUNCTION": DURABLE_FUNCTION})
    for variant in (ours, naive, hops, durable, bare):
        _enter(variant)
    app.synth()


if __name__ == "__main__":
    main()
