"""The apps whose templates the tests read. One run synthesizes each once, and cdk-nag checks it.

A test of one option reads a template of these. A test makes a service of its own only if a refusal or the difference
between two templates is its subject.
"""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

from aws_cdk import App, Duration, RemovalPolicy, Size, Stack, Validations
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from functions.checkout import Checkout
from functions.create_zip import CreateZip
from infra.stack import ReferenceStack
from sagas import AutoDisable
from sagas.cdk import (
    AccessLogs,
    Archive,
    Deployment,
    FunctionOptions,
    Network,
    PrivateEndpoint,
    SagaEvents,
    SagaService,
    TableOptions,
    Throttling,
)
from sagas.cdk.access.grants import RIGHTS
from sagas.cdk.layout.acknowledge import acknowledge
from tests.cdk.saga_classes import SWEEPING, Counted, Delivery, Loan, Shipment, Trip, saga_of
from tests.support.shared import shared

Template = dict[str, Any]
BUCKETS = {"ZIPS_BUCKET": "zips-of-mine", "ATTIC_BUCKET": "attic-of-zips-of-mine"}
RUNBOOK = "https://docs.example.com/sagas/operations/runbook.html"
WEB_ACL = "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/mine/1"
ACCESS = "access-logs-of-mine"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:orders-of-mine"
KEY_OF_QUEUE = "arn:aws:kms:eu-central-1:123456789012:key/of-orders"
MONTH = timedelta(days=30)


def reference(app: App) -> None:
    """The reference stack."""
    ReferenceStack(app, "Sagas")


def plain(app: App) -> None:
    """No options at all."""
    SagaService(Stack(app, "Test"), "Shop", sagas=[Checkout, CreateZip])


def everything(app: App) -> None:
    """Every option that goes with the others, and every part; ``Checkout`` has the options of functions."""
    stack = Stack(app, "Test")
    capture = FunctionOptions(
        memory_size=2048,
        ephemeral_storage=Size.gibibytes(2),
        maximum_concurrency=5,
        reserved_concurrency=7,
        provisioned_concurrency=3,
        environment={"COLOUR": "blue"},
        log_level="DEBUG",
        architecture=lambda_.Architecture.X86_64,
        runtime=lambda_.Runtime.PYTHON_3_12,
        timeout=300,
    )
    topic = sns.Topic(stack, "Alarms", enforce_ssl=True)
    service = SagaService(
        stack,
        "Shop",
        sagas=[Checkout, Trip, Loan, Delivery, Shipment, Counted],
        functions={
            Checkout: FunctionOptions(memory_size=512),
            Checkout.capture: capture,
            Checkout.ship: FunctionOptions(memory_size=1024, snap_start=True),
            Counted: FunctionOptions(architecture=lambda_.Architecture.X86_64, runtime=lambda_.Runtime.PYTHON_3_12),
            Loan.score: FunctionOptions(timeout=60, batch_size=10),
            "api": FunctionOptions(reserved_concurrency=5),
            "supervisor": FunctionOptions(memory_size=1024, timeout=600),
            "bulk": FunctionOptions(memory_size=512, timeout=600, maximum_concurrency=40),
            "now": FunctionOptions(memory_size=1024, maximum_concurrency=50),
            "commands": FunctionOptions(memory_size=1024, maximum_concurrency=40),
        },
        function_options=FunctionOptions(memory_size=320),
        nested_stacks=False,
        service_name="orders",
        service_id="the-restored",
        environment={"STAGE": "test", **BUCKETS},
        removal_policy=RemovalPolicy.DESTROY,
        deletion_protection=True,
        log_level="WARNING",
        log_retention=logs.RetentionDays.ONE_WEEK,
        retention=MONTH,
        key_retention=timedelta(days=7),
        payload_limit=100_000,
        payload_versions=timedelta(days=7),
        shards=32,
        recover_every=timedelta(minutes=3),
        verify_sample=5,
        auto_disable=AutoDisable(threshold=7, cooldown=None),
        tracing=False,
        endpoint="edge",
        access_log=AccessLogs("role", execution=True, bucket=s3.Bucket.from_bucket_name(stack, "Access", ACCESS)),
        throttling=Throttling(rate=50, burst=80),
        callback_throttling=Throttling(rate=5, burst=7),
        callback_base_url="https://hooks.example.com/bank",
        web_acl_arn=WEB_ACL,
        alias="in-use",
        keep_versions=True,
        tables={
            "sagas": TableOptions(warm_reads=20_000, warm_writes=16_000, max_writes=30_000),
            "audit": TableOptions(infrequent_access=True),
        },
        deployment=Deployment.canary(percent=10, minutes=5),
        archive=Archive(lock=MONTH, compliance=True),
        events=SagaEvents(bus=events.EventBus(stack, "Mine"), steps=True, payloads=True),
        alarm_topic=topic,
        runbook_url=RUNBOOK,
        dashboard=True,
    )
    service.start_on(events.Rule(stack, "Ordered", event_pattern=events.EventPattern(source=["shop"])), Trip)
    service.start_on(scheduler.ScheduleExpression.rate(Duration.hours(1)), Trip, request={"item": "hourly"})
    service.start_on(sns.Topic(stack, "Orders", enforce_ssl=True), Trip)
    roles = [iam.Role(stack, name, assumed_by=iam.AccountRootPrincipal()) for name in ("All", "Some")]  # type: ignore[arg-type]
    for right in RIGHTS:
        getattr(service, f"grant_{right}")(roles[0])
        getattr(service, f"grant_{right}")(roles[1], Checkout)


def network_and_key(app: App) -> None:
    """A network, a private API and keys. Each saga has one function, and the supervisor sweeps for some of them."""
    stack = Stack(app, "Test")
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1, max_azs=2, flow_logs={"All": ec2.FlowLogOptions()})
    entrance = vpc.add_interface_endpoint("Entrance", service=ec2.InterfaceVpcEndpointAwsService.APIGATEWAY)
    acknowledge(Validations.of(entrance), {"AwsSolutions-EC23": "Made by this test."})
    service = SagaService(
        stack,
        "Shop",
        sagas=[Checkout, Loan, Trip, *SWEEPING],
        isolation="saga",
        functions={
            Checkout: FunctionOptions(batch_size=10, timeout=900, maximum_concurrency=20, reserved_concurrency=20)
        },
        environment=BUCKETS,
        architecture=lambda_.Architecture.X86_64,
        runtime=lambda_.Runtime.PYTHON_3_12,
        encryption_key=key,
        payload_key=kms.Key(stack, "Payloads", enable_key_rotation=True),
        network=Network(vpc),
        endpoint=PrivateEndpoint([entrance]),
        access_log="account",
        retention=MONTH,
        archive=Archive(),
        alarm_topic="ops@example.com",
    )
    zips, attic = (s3.Bucket.from_bucket_name(stack, variable, name) for variable, name in BUCKETS.items())
    for saga, elsewhere in SWEEPING.items():
        service.allow_sweep(saga, zips, archive_to=attic if elsewhere else None)
    service.start_on(events.Rule(stack, "Ordered", event_pattern=events.EventPattern(source=["shop"])), Trip)
    service.start_on(scheduler.ScheduleExpression.rate(Duration.hours(1)), Trip, request={"item": "hourly"})
    orders_key: Any = key
    service.start_on(sns.Topic(stack, "Orders", enforce_ssl=True, master_key=orders_key), Trip)
    service.start_on(sqs.Queue.from_queue_attributes(stack, "Theirs", queue_arn=QUEUE, key_arn=KEY_OF_QUEUE), Trip)
    service.event_bus()
    anybody = cast("iam.IPrincipal", iam.AccountRootPrincipal())
    clerk: Any = iam.Role(stack, "Clerk", assumed_by=anybody)
    for right in RIGHTS:
        getattr(service, f"grant_{right}")(clerk)


def nested(app: App, steps: int = 2, nested_stacks: bool | None = True) -> None:
    """Nested stacks, with all that their resources can refer to outside of them.

    Args:
        app: where the stacks are made.
        steps: of the longest saga.
        nested_stacks: whether the service asks for them.
    """
    stack = Stack(app, "Large")
    topic: Any = sns.Topic(stack, "Topic", enforce_ssl=True)
    access: Any = s3.Bucket(stack, "Access", enforce_ssl=True, block_public_access=s3.BlockPublicAccess.BLOCK_ALL)
    zips = s3.Bucket(
        stack,
        "Zips",
        enforce_ssl=True,
        server_access_logs_bucket=access,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
    )
    service = SagaService(
        stack,
        "Shop",
        sagas=[saga_of(0, steps), Checkout, CreateZip],
        alarm_topic=topic,
        environment={"ZIPS_BUCKET": zips.bucket_name},
        functions={CreateZip.upload: FunctionOptions(memory_size=1024), Checkout: FunctionOptions(batch_size=2)},
        nested_stacks=nested_stacks,
    )
    service.allow_sweep(CreateZip, zips)
    service.function(Checkout.ship).add_environment("COLOUR", "blue")


def nested_within_a_network(app: App) -> None:
    """Nested stacks with a key and a network of the outer one, and a gradual deployment."""
    stack = Stack(app, "Guarded")
    vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1, max_azs=2, flow_logs={"All": ec2.FlowLogOptions()})
    SagaService(
        stack,
        "Shop",
        sagas=[Checkout],
        functions={
            Checkout: FunctionOptions(snap_start=True),
            Checkout.reserve: FunctionOptions(provisioned_concurrency=2),
        },
        nested_stacks=True,
        encryption_key=kms.Key(stack, "Key", enable_key_rotation=True),
        network=Network(vpc),
        retention=MONTH,
        deployment=Deployment.linear(percent=20, minutes=5),
    )


def mounted(app: App) -> None:
    """Tables and an API that exist already. cdk-nag objects to the API, which is not ours."""
    stack = Stack(app, "Existing")
    SagaService(
        stack,
        "Shop",
        sagas=[Checkout],
        tables={
            "sagas": dynamodb.Table.from_table_name(stack, "Table", "my-sagas"),
            "audit": dynamodb.Table.from_table_name(stack, "Entries", "my-audit"),
        },
        mount=apigateway.RestApi(stack, "Mine").root.add_resource("orders"),
    )


APPS: dict[str, Callable[[App], None]] = {
    "reference": reference,
    "plain": plain,
    "everything": everything,
    "network_and_key": network_and_key,
    "nested": nested,
    "nested_within_a_network": nested_within_a_network,
    "mounted": mounted,
}


def synthesized(name: str) -> Path:
    """Return the output of an app; the first process of the run that asks for it synthesizes it."""
    made = shared("templates") / name
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            scratch = made.with_suffix(".part")
            shutil.rmtree(scratch, ignore_errors=True)
            synthesize(APPS[name], scratch)
            scratch.rename(made)
    return made


def synthesize(build: Callable[[App], None], directory: Path) -> Path:
    """Write the output of an app. A finding of cdk-nag fails the synthesis, unless the app is ``mounted``."""
    app = App(outdir=str(directory))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    build(app)
    try:
        app.synth()
    except RuntimeError:
        if build is not mounted:
            raise
    return directory


@cache
def _text(name: str, stack: str) -> str:
    return (synthesized(name) / f"{stack}.template.json").read_text()


def template(name: str, stack: str = "Test") -> Template:
    """Return a template of an app, as an object of the caller's own."""
    return json.loads(_text(name, stack))
