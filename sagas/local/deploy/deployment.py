"""Deploys stacks to an endpoint without the CDK CLI."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.local.deploy.assembly import Stack
from sagas.local.emulator.adapt import (
    as_deployable,
    needed_assets,
    ttl_attributes,
    with_batch_actions,
    with_gateway_responses,
    with_local_apis,
    with_local_callbacks,
    with_local_paths,
    with_named_functions,
    with_secret_arns,
    without_gradual_deployment,
    without_layers,
    without_metric_math,
    without_signatures,
    without_transport_rule,
)
from sagas.local.emulator.clients import Clients
from sagas.local.errors import LocalStackError

_DEADLINE = 120.0
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Deployed:
    """A deployed stack: its template, the physical id for each logical id, and its outputs."""

    template: dict[str, Any]
    physical_ids: dict[str, str]
    outputs: dict[str, str]


class Deployer:
    """Deploys stacks to one endpoint. ``embedded``: whether this is the embedded emulator, which needs no layers.
    ``enforce_iam``: whether it checks every call against policies, including resource policies."""

    def __init__(self, clients: Clients, *, embedded: bool, enforce_iam: bool = False) -> None:
        self._enforce_iam = enforce_iam
        self._cloudformation = clients.client("cloudformation")
        self._s3 = clients.client("s3")
        self._sts = clients.client("sts")
        self._dynamodb = clients.client("dynamodb")
        self._endpoint_url = clients.endpoint_url
        self._embedded = embedded

    def deploy(self, stack: Stack) -> Deployed:
        template = with_local_callbacks(as_deployable(stack.template), self._endpoint_url)
        template = with_local_apis(template, self._endpoint_url)
        if self._embedded:
            template = without_layers(template, stack.assets)
            template = with_secret_arns(with_local_paths(without_gradual_deployment(template)))
            template = without_metric_math(with_gateway_responses(template))
            template = with_named_functions(template, stack.name)
        if self._enforce_iam:
            template = with_batch_actions(without_transport_rule(template))
        elif self._embedded:
            template = without_signatures(template)
        try:
            for asset in needed_assets(stack, template):
                self._upload(asset.bucket, asset.key, asset.content())
            self._create_or_update(stack.name, template)
            self._wait(stack.name)
            pages = self._cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack.name)
            resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
            physical_ids = {
                resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "") for resource in resources
            }
            if self._embedded:
                for logical_id, attribute in ttl_attributes(template).items():
                    table = physical_ids[logical_id]
                    now = self._dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
                    if now["TimeToLiveStatus"] == "DISABLED":
                        specification = {"Enabled": True, "AttributeName": attribute}
                        self._dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
            described = self._cloudformation.describe_stacks(StackName=stack.name)["Stacks"][0]
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(f"stack {stack.name}: {error}") from error
        outputs = {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
        return Deployed(template, physical_ids, outputs)

    def account(self) -> str:
        try:
            return str(self._sts.get_caller_identity()["Account"])
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(f"{self._endpoint_url} does not answer as AWS would: {error}") from error

    def delete(self, name: str) -> None:
        """Start the deletion of a stack. Resources that the template retains stay."""
        self._cloudformation.delete_stack(StackName=name)

    def _upload(self, bucket: str, key: str, content: bytes) -> None:
        try:
            self._s3.head_bucket(Bucket=bucket)
        except ClientError:
            self._s3.create_bucket(Bucket=bucket)
        self._s3.put_object(Bucket=bucket, Key=key, Body=content)

    def _create_or_update(self, name: str, template: dict[str, Any]) -> None:
        # A template in a request can have 51,200 bytes. In a bucket, it can have a megabyte.
        bucket = "sagas-local-templates"
        key = f"{name}.json"
        self._upload(bucket, key, json.dumps(template).encode())
        arguments = {
            "StackName": name,
            "TemplateURL": f"{self._endpoint_url}/{bucket}/{key}",
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        }
        if self._status(name) is None:
            self._cloudformation.create_stack(**arguments)
            return
        try:
            self._cloudformation.update_stack(**arguments)
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise

    def _status(self, name: str) -> str | None:
        try:
            stacks = self._cloudformation.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return str(stacks[0]["StackStatus"]) if stacks else None

    def _wait(self, name: str) -> None:
        deadline = time.monotonic() + _DEADLINE
        while (status := self._status(name) or "GONE").endswith("_IN_PROGRESS"):
            if time.monotonic() > deadline:
                raise LocalStackError(f"stack {name} is still {status} after {_DEADLINE:g} s")
            time.sleep(_POLL)
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return
        reason = "no reason given"
        events = self._cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        # Events are newest first. The oldest failure caused the others.
        for event in reversed(events):
            if event["ResourceStatus"].endswith("_FAILED"):
                reason = f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', reason)}"
                break
        raise LocalStackError(f"stack {name} failed to deploy ({status}): {reason}")
