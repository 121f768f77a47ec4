"""Where the suite runs: on the embedded emulator, at an endpoint that one brings, or in an account.

``SAGAS_E2E_ENDPOINT`` or ``SAGAS_E2E_PROFILE`` choose. ``docs/contributing/testing.md``
describes the other variables.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import boto3
from localstack_client.config import get_service_endpoint
from localstack_client.session import Session as LocalStackSession

from sagas import SagaClient
from sagas.client.endpoints import deployed_stacks, endpoints_from_stack
from sagas.topology import Topology
from tests.e2e.cdk_cli import install, make
from tests.e2e.stack import Stack, run_sagas, start

_APP = "python -m tests.e2e.account.app"


@dataclass(frozen=True)
class Place:
    """A stack of the suite: how it is called, and which app makes it on an emulator.

    Args:
        stack: its name; in an account, with a suffix that keeps it apart from the user's own.
        app: the command that synthesizes it.
    """

    stack: str
    app: str


@dataclass(frozen=True)
class Elsewhere:
    """An endpoint that is running already.

    Args:
        endpoint: its URL.
    """

    endpoint: str

    @contextmanager
    def deployed(self, place: Place, project: Path) -> Generator[Stack]:
        """Deploy a stack to it, and delete it in the end."""
        running = start(project, place.app, "--endpoint", self.endpoint)
        assert running.process.wait(timeout=180) == 0, (project / "err.txt").read_text()
        try:
            yield AtEndpoint(project)
        finally:
            run_sagas(project, "local", "down")


class AtEndpoint(Stack):
    """A stack at an endpoint that one brings, reached through localstack-client."""

    @property
    def session(self) -> Any:
        """localstack-client's session of the endpoint."""
        description = self.description
        host = urlsplit(str(description["endpoint_url"])).netloc
        return LocalStackSession("test", "test", region_name=description["region"], localstack_host=host)


@dataclass(frozen=True)
class Account:
    """An account of AWS.

    Args:
        profile: of the AWS configuration; ``default`` takes the environment's credentials too.
        region: ``None`` takes the profile's.
        given: stacks that are there already, by the name they have on an emulator. They are neither changed by a
            deployment nor deleted.
        app: the command that synthesizes the others.
    """

    profile: str
    region: str | None
    given: Mapping[str, str]
    app: str = _APP

    @property
    def session(self) -> Any:
        """A boto3 session of the profile."""
        return boto3.Session(profile_name=self.profile, region_name=self.region)

    @contextmanager
    def deployed(self, place: Place, project: Path) -> Generator[Stack]:
        """Deploy a stack by the CDK CLI, and destroy it in the end, its tables and buckets too; or take a given one."""
        name = self.given.get(place.stack)
        if name is not None:
            yield InAccount(project, self, name)
            return
        name = f"{place.stack}E2E"
        install()
        self._make(project, "deploy", f"{name} --require-approval never")
        stack = InAccount(project, self, name)
        try:
            yield stack
        finally:
            stack.empty_buckets()
            self._make(project, "destroy", f"{name} --force")

    def _make(self, project: Path, target: str, arguments: str) -> None:
        # An emulated account has its own endpoint, which the CLI takes from the environment as boto3 does.
        region = str(self.session.region_name or "")
        environment = {**os.environ, "AWS_REGION": region, "CI": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
        options = f'--no-notices --app "{self.app}" --output {project}/cdk.out --profile {self.profile}'
        make(target, f"{options} {arguments}", environment, deadline=1800)


class InAccount(Stack):
    """A stack in an account.

    Args:
        project: a directory for what tests write.
        account: the account.
        name: of the CloudFormation stack.
    """

    def __init__(self, project: Path, account: Account, name: str) -> None:
        super().__init__(project)
        self._account = account
        self._name = name
        region: str | None = account.session.region_name
        self.options = ("--stack", name, "--profile", account.profile, *(("--region", region) if region else ()))
        self._described = self._describe()

    @property
    def description(self) -> dict[str, Any]:
        """What ``.sagas/local.json`` would say, as far as tests elsewhere ask for it."""
        return self._described

    @property
    def session(self) -> Any:
        """A session of the account."""
        return self._account.session

    def client(self, service: str) -> Any:
        """Return a boto3 client of the account."""
        return self.session.client(service)

    def saga_client(self) -> SagaClient:
        """Return a client of the stack."""
        return SagaClient.from_stack(self._name, self._account.region, self._account.profile)

    def empty_buckets(self) -> None:
        """Delete everything in the stack's buckets: CloudFormation deletes none that holds something."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self._name)
        for resource in (one for page in pages for one in page["StackResourceSummaries"]):
            if resource["ResourceType"] == "AWS::S3::Bucket":
                self._empty(resource["PhysicalResourceId"])

    def _empty(self, bucket: str) -> None:
        s3 = self.client("s3")
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            if found:
                keys = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
                s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})

    def _describe(self) -> dict[str, Any]:
        endpoints = endpoints_from_stack(self.session, self._name)
        topology = Topology()
        cloudformation = self.client("cloudformation")
        for _, resources, physical_ids in deployed_stacks(cloudformation, self._name):
            topology.add_stack(resources, physical_ids)
        (found,) = cloudformation.describe_stacks(StackName=self._name)["Stacks"]
        return {
            "endpoint_url": None,
            "region": endpoints.region,
            "api_url": endpoints.api_url,
            "queues": topology.queues,
            "dead_letter_queues": endpoints.dead_letter_queues,
            "supervisor": endpoints.supervisor,
            "outputs": {one["OutputKey"]: one["OutputValue"] for one in found["Outputs"]},
        }


def chosen(environment: Mapping[str, str]) -> Elsewhere | Account | None:
    """Return where to run; ``None`` is the embedded emulator.

    Args:
        environment: ``SAGAS_E2E_ENDPOINT`` is a URL, or ``localstack`` for where LocalStack is by default or
            ``LOCALSTACK_HOST`` says; ``SAGAS_E2E_PROFILE`` a profile, with ``SAGAS_E2E_REGION``, ``SAGAS_E2E_STACK``,
            ``SAGAS_E2E_TRIALS_STACK`` and ``SAGAS_E2E_APP``.

    Raises:
        ValueError: both an endpoint and an account are named.
    """
    given = {name: environment.get(f"SAGAS_E2E_{name}") or None for name in ("ENDPOINT", "PROFILE", "REGION", "APP")}
    endpoint, profile = given["ENDPOINT"], given["PROFILE"]
    if endpoint and profile:
        raise ValueError("SAGAS_E2E_ENDPOINT and SAGAS_E2E_PROFILE exclude each other")
    if endpoint:
        return Elsewhere(cast("str", get_service_endpoint("cloudformation")) if endpoint == "localstack" else endpoint)
    if profile:
        names = {"Sagas": environment.get("SAGAS_E2E_STACK"), "Trials": environment.get("SAGAS_E2E_TRIALS_STACK")}
        there = {stack: name for stack, name in names.items() if name}
        return Account(profile, given["REGION"], there, given["APP"] or _APP)
    return None
