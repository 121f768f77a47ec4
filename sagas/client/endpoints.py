"""Where a service is: its API, queues and supervisor, as the local stack's file or CloudFormation describe them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import boto3
from botocore import loaders

from sagas.aws import CALLER, connect, translated
from sagas.errors import SagaError
from sagas.topology import Topology

_NESTED = "AWS::CloudFormation::Stack"


@dataclass(slots=True)
class ServiceEndpoints:
    """Where the parts of a service are.

    Args:
        api_url: with the stage.
        region: of all parts.
        endpoint_url: of an emulator; ``None`` on AWS.
        queues: URLs by saga and step.
        dead_letter_queues: URLs by saga.
        supervisor: name of its function; empty if it is not known.
        log_groups: names of those that the service's functions write to.
    """

    api_url: str = ""
    region: str | None = None
    endpoint_url: str | None = None
    queues: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    dead_letter_queues: dict[str, str] = field(default_factory=dict[str, str])
    supervisor: str = ""
    log_groups: list[str] = field(default_factory=list[str])


def endpoints_from_file(directory: Path) -> ServiceEndpoints:
    """Read ``.sagas/local.json``."""
    path = directory / ".sagas" / "local.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        names = ("api_url", "region", "endpoint_url", "queues", "dead_letter_queues", "supervisor")
        known = {name: data[name] for name in names}
        return ServiceEndpoints(**known, log_groups=data.get("log_groups", []))
    except FileNotFoundError:
        raise SagaError("no local stack is running here; `sagas local up` starts one") from None
    except (ValueError, TypeError, KeyError) as error:
        raise SagaError(f"{path} cannot be read: {error!r}") from error


def endpoints_from_stack(session: boto3.Session, stack_name: str) -> ServiceEndpoints:
    """Find the parts of a service by the templates of its stack and of the stacks nested in it."""
    cloudformation = connect("cloudformation", CALLER, session=session)
    found = Topology()
    with translated("CloudFormation", quoted=True):
        for resources, physical_ids in _stacks(cloudformation, stack_name):
            found.add_stack(resources, physical_ids)
    if found.api is None:
        raise SagaError(f"the stack {stack_name} holds no saga service")
    region: str = cloudformation.meta.region_name
    endpoint_url: str = cloudformation.meta.endpoint_url
    suffixes = _suffixes(region)
    if f".{urlsplit(endpoint_url).hostname}".endswith(tuple(f".{one}" for one in suffixes)):
        base = f"https://{found.api.id}.execute-api.{region}.{suffixes[0]}"
    else:
        # AWS_ENDPOINT_URL has put an emulator in the place of AWS.
        base = f"{endpoint_url.rstrip('/')}/_aws/execute-api/{found.api.id}"
    return ServiceEndpoints(
        api_url=f"{base}/{found.api.stage}{found.api.path}",
        region=region,
        queues=found.queues,
        dead_letter_queues=found.dead_letter_queues,
        supervisor=found.supervisor,
        log_groups=found.log_groups,
    )


def _suffixes(region: str) -> list[str]:
    """What host names of AWS end with in a region's partition, as botocore knows it: of IPv4, and of both protocols."""
    partitions: list[dict[str, Any]] = cast("Any", loaders).create_loader().load_data("partitions")["partitions"]
    known = (one for one in partitions if region in one["regions"] or re.match(one["regionRegex"], region))
    outputs = next(known, partitions[0])["outputs"]
    return [outputs["dnsSuffix"], outputs["dualStackDnsSuffix"]]


def _stacks(cloudformation: Any, name: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str]]]:
    """The resources of a stack and of those nested in it as declared, and their physical ids, by logical id."""
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
    summaries = [summary for page in pages for summary in page["StackResourceSummaries"]]
    physical_ids = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in summaries if _exists(one)}
    template = cloudformation.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
    # A template that was not written as JSON comes as text; those of our constructs are JSON.
    yield {} if isinstance(template, str) else template["Resources"], physical_ids
    for summary in summaries:
        if summary["ResourceType"] == _NESTED and _exists(summary):
            yield from _stacks(cloudformation, summary["PhysicalResourceId"])


def _exists(summary: Mapping[str, Any]) -> bool:
    return bool(summary.get("PhysicalResourceId")) and summary["ResourceStatus"] != "DELETE_COMPLETE"
