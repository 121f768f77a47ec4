"""Policy checks on what options make of the template: cdk-nag and cfn-lint find nothing there either."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from functions.checkout import Checkout
from sagas.cdk import Archive, Deployment, FunctionOptions, Network, PrivateEndpoint, SagaService
from sagas.cdk.acknowledge import acknowledge
from tests.cdk.rendered import REGIONS, lint


def with_key(stack: Stack) -> dict[str, Any]:
    return {"encryption_key": kms.Key(stack, "Key", enable_key_rotation=True), "retention": timedelta(days=30)}


def with_network(stack: Stack) -> dict[str, Any]:
    vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1, max_azs=2, flow_logs={"All": ec2.FlowLogOptions()})
    return {"network": Network(vpc)}


def with_shared_functions(stack: Stack) -> dict[str, Any]:
    options = FunctionOptions(batch_size=10, timeout=900, maximum_concurrency=20, reserved_concurrency=20)
    return {"isolation": "saga", "functions": {Checkout: options}}


def with_less(stack: Stack) -> dict[str, Any]:
    return {"tracing": False, "endpoint": "edge", "access_log": "role", "payload_versions": timedelta(days=7)}


def within_a_network(stack: Stack) -> dict[str, Any]:
    vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1, max_azs=2, flow_logs={"All": ec2.FlowLogOptions()})
    entrance = vpc.add_interface_endpoint("Api", service=ec2.InterfaceVpcEndpointAwsService.APIGATEWAY)
    acknowledge(Validations.of(entrance), {"AwsSolutions-EC23": "Made by this test."})
    return {"endpoint": PrivateEndpoint([entrance]), "access_log": "account"}


def with_more_parts(stack: Stack) -> dict[str, Any]:
    return {
        "deployment": Deployment.linear(percent=20, minutes=5),
        "archive": Archive(lock=timedelta(days=30)),
        "events": events.EventBus(stack, "Bus"),
        "payload_key": kms.Key(stack, "PayloadKey", enable_key_rotation=True),
        "functions": {Checkout.reserve: FunctionOptions(provisioned_concurrency=2)},
    }


VARIANTS = [with_key, with_network, with_shared_functions, with_less, within_a_network, with_more_parts]


@pytest.mark.parametrize("options", VARIANTS)
def test_finds_nothing(options: Any, tmp_path: Path) -> None:
    """With one short saga: the reference stack, which is looked at too, has more, and each step is as the other."""
    app = App(outdir=str(tmp_path))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    stack = Stack(app, "Variant")
    service = SagaService(stack, "Shop", sagas=[Checkout], **options(stack))
    _ = service.command_queue  # it is made when it is asked for
    app.synth()
    assert lint(tmp_path / "Variant.template.json", regions=REGIONS) == []
