"""Deploying a stack to an endpoint, without the CDK CLI."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.local.adapt import (
    as_deployable,
    needed_assets,
    ttl_attributes,
    with_local_paths,
    without_layers,
    without_signatures,
)
from sagas.local.assembly import Asset, Stack
from sagas.local.clients import Clients
from sagas.local.errors import LocalStackError

_DEADLINE = 120.0
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stack as it stands: its template, the physical id of each logical one, and its outputs."""

    template: dict[str, Any]
    physical_ids: dict[str, str]
    outputs: dict[str, str]


class Deployer:
    """Deploys stacks to one endpoint.

    Args:
        clients: of the endpoint.
        embedded: the endpoint is our own emulator, which needs no layers.
    """

    def __init__(self, clients: Clients, *, embedded: bool) -> None:
        self._cloudformation = clients.client("cloudformation")
        self._s3 = clients.client("s3")
        self._sts = clients.client("sts")
        self._dynamodb = clients.client("dynamodb")
        self._endpoint_url = clients.endpoint_url
        self._embedded = embedded

    def deploy(self, stack: Stack) -> Deployed:
        """Create or update a stack and return it as it stands.

        Raises:
            LocalStackError: the endpoint refuses it, or does not finish in time.
        """
        try:
            return self._deploy(stack)
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(f"stack {stack.name}: {error}") from error

    def account(self) -> str:
        """Return the id of the account the endpoint gives us.

        Raises:
            LocalStackError: it does not answer.
        """
        try:
            return str(self._sts.get_caller_identity()["Account"])
        except (BotoCoreError, ClientError) as error:
            raise LocalStackError(f"{self._endpoint_url} does not answer as AWS would: {error}") from error

    def delete(self, name: str) -> None:
        """Ask for a stack to be deleted. What its template says to retain stays."""
        self._cloudformation.delete_stack(StackName=name)

    def _deploy(self, stack: Stack) -> Deployed:
        template = as_deployable(stack.template)
        if self._embedded:
            template = with_local_paths(without_signatures(without_layers(template)))
        for asset in needed_assets(stack, template):
            self._upload(asset)
        self._create_or_update(stack, template)
        self._wait(stack.name)
        deployed = self._describe(stack.name, template)
        if self._embedded:
            self._enable_ttl(deployed)
        return deployed

    def _upload(self, asset: Asset) -> None:
        self._ensure_bucket(asset.bucket)
        self._s3.put_object(Bucket=asset.bucket, Key=asset.key, Body=asset.content())

    def _ensure_bucket(self, bucket: str) -> None:
        try:
            self._s3.head_bucket(Bucket=bucket)
        except ClientError:
            self._s3.create_bucket(Bucket=bucket)

    def _create_or_update(self, stack: Stack, template: dict[str, Any]) -> None:
        arguments = {
            "StackName": stack.name,
            "TemplateURL": self._store_template(stack, template),
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
        }
        if self._status(stack.name) is None:
            self._cloudformation.create_stack(**arguments)
            return
        try:
            self._cloudformation.update_stack(**arguments)
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise

    def _store_template(self, stack: Stack, template: dict[str, Any]) -> str:
        """A template in a request may have 51,200 bytes; one in a bucket, a megabyte."""
        bucket, key = "sagas-local-templates", f"{stack.name}.json"
        self._ensure_bucket(bucket)
        self._s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(template).encode())
        return f"{self._endpoint_url}/{bucket}/{key}"

    def _status(self, name: str) -> str | None:
        try:
            found = self._cloudformation.describe_stacks(StackName=name)["Stacks"]
        except ClientError as error:
            if "does not exist" in str(error):
                return None
            raise
        return str(found[0]["StackStatus"]) if found else None

    def _wait(self, name: str) -> None:
        deadline = time.monotonic() + _DEADLINE
        while (status := self._status(name) or "GONE").endswith("_IN_PROGRESS"):
            if time.monotonic() > deadline:
                raise LocalStackError(f"stack {name} is still {status} after {_DEADLINE:g} s")
            time.sleep(_POLL)
        if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            raise LocalStackError(f"stack {name} was refused ({status}): {self._reason(name)}")

    def _reason(self, name: str) -> str:
        events = self._cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        failed = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
        if not failed:
            return "no reason given"
        # Newest first: the oldest failure is the cause, the others followed from it.
        first = failed[-1]
        return f"{first['LogicalResourceId']}: {first.get('ResourceStatusReason', 'no reason given')}"

    def _describe(self, name: str, template: dict[str, Any]) -> Deployed:
        pages = self._cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
        stack = self._cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        return Deployed(
            template,
            {resource["LogicalResourceId"]: resource.get("PhysicalResourceId", "") for resource in resources},
            {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])},
        )

    def _enable_ttl(self, deployed: Deployed) -> None:
        for logical_id, attribute in ttl_attributes(deployed.template).items():
            table = deployed.physical_ids[logical_id]
            now = self._dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
            if now["TimeToLiveStatus"] == "DISABLED":
                specification = {"Enabled": True, "AttributeName": attribute}
                self._dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=specification)
