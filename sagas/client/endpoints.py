"""Finds the endpoints of a service (API, queues and supervisor) in the local stack's file or in CloudFormation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from sagas.errors import SagaError
from sagas.topology import Topology

if TYPE_CHECKING:
    import boto3

COMMANDS = "commands"
"""The name of the command queue's dead letters, next to those of saga types: commands and events that were rejected."""
_NESTED = "AWS::CloudFormation::Stack"


@dataclass(slots=True)
class ServiceEndpoints:
    """The endpoints of a service. ``endpoint_url`` is the URL of an emulator; ``None`` on AWS.
    ``dead_letter_queues`` has the URLs of dead-letter queues by saga type, and that of the command queue as
    ``COMMANDS``. ``command_queue`` is the URL of the command queue. ``supervisor`` is the name of a
    function. Each is empty if unknown."""

    api_url: str = ""
    region: str | None = None
    endpoint_url: str | None = None
    dead_letter_queues: dict[str, str] = field(default_factory=dict[str, str])
    supervisor: str = ""
    command_queue: str = ""
    log_groups: list[str] = field(default_factory=list[str])


class _Root(NamedTuple):
    """The credentials that an emulator takes for its account's root user."""

    access_key: str = "test"
    secret_key: str = "test"  # noqa: S105 - the emulator accepts any
    token: str | None = None

    def get_frozen_credentials(self) -> _Root:
        """Return the credentials. They never change."""
        return self


@dataclass
class LocalSession:
    """What the client needs of a session on a local stack. It loads boto3 for its first boto3 client, not before."""

    region_name: str | None

    def get_credentials(self) -> _Root:
        return _Root()

    def client(self, service: str, **options: Any) -> Any:
        return self._session.client(service, **options)

    @cached_property
    def _session(self) -> Any:
        import boto3

        root = _Root()
        return boto3.Session(root.access_key, root.secret_key, region_name=self.region_name)


def endpoints_from_file(directory: Path) -> ServiceEndpoints:
    path = directory / ".sagas" / "local.json"
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        names = ("api_url", "region", "endpoint_url", "dead_letter_queues", "supervisor")
        values = {name: data[name] for name in names}
        values["dead_letter_queues"] = _with_rejected(data["dead_letter_queues"], data.get("command_dead_letter_queue"))
        values["command_queue"] = data.get("command_queue") or ""
        return ServiceEndpoints(**values, log_groups=data.get("log_groups", []))
    except FileNotFoundError:
        raise SagaError("no local stack is running for this project; `sagas local up` starts one") from None
    except (ValueError, TypeError, KeyError) as error:
        raise SagaError(f"{path} cannot be read: {error!r}") from error


def _with_rejected(queues: dict[str, str], rejected: str | None) -> dict[str, str]:
    return {COMMANDS: rejected, **queues} if rejected else queues


def endpoints_from_stack(session: boto3.Session, stack_name: str) -> ServiceEndpoints:
    """Find the parts of a service in the templates of its stack and of the nested stacks."""
    from sagas.aws import CALLER, connect, translated

    cloudformation = connect("cloudformation", CALLER, session=session)
    topology = Topology()
    with translated("CloudFormation", quoted=True):
        for _, resources, physical_ids in deployed_stacks(cloudformation, stack_name):
            topology.add_stack(resources, physical_ids)
    api = topology.api
    if api is None:
        raise SagaError(f"the stack {stack_name} has no saga service")
    region: str = cloudformation.meta.region_name
    endpoint_url: str = cloudformation.meta.endpoint_url
    if of_aws(endpoint_url, region):
        base = f"https://{api.id}.execute-api.{region}.{_suffixes(region)[0]}"
    else:
        # AWS_ENDPOINT_URL names an emulator.
        base = f"{endpoint_url.rstrip('/')}/_aws/execute-api/{api.id}"
    return ServiceEndpoints(
        api_url=f"{base}/{api.stage}{api.path}",
        region=region,
        dead_letter_queues=_with_rejected(topology.dead_letter_queues, topology.command_dead_letter_queue),
        supervisor=topology.supervisor,
        command_queue=topology.command_queue,
        log_groups=topology.log_groups,
    )


def of_aws(endpoint_url: str, region: str) -> bool:
    """Whether an endpoint belongs to AWS, and not to an emulator."""
    return f".{urlsplit(endpoint_url).hostname}".endswith(tuple(f".{suffix}" for suffix in _suffixes(region)))


def _suffixes(region: str) -> list[str]:
    """The DNS suffixes of AWS in a region's partition, from botocore: the IPv4 one, then the dual-stack one."""
    from botocore import loaders

    partitions: list[dict[str, Any]] = cast("Any", loaders).create_loader().load_data("partitions")["partitions"]
    matches = (each for each in partitions if region in each["regions"] or re.match(each["regionRegex"], region))
    outputs = next(matches, partitions[0])["outputs"]
    return [outputs["dnsSuffix"], outputs["dualStackDnsSuffix"]]


def deployed_stacks(
    cloudformation: Any, name: str, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any], Mapping[str, str]]]:
    """Yield a stack's declared resources and their physical ids, by logical id. Then yield those of nested stacks. Each
    comes with its path: the logical ids of the nested stacks that lead to it."""
    pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
    summaries = [summary for page in pages for summary in page["StackResourceSummaries"]]
    physical_ids = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in summaries if _exists(each)}
    template = cloudformation.get_template(StackName=name, TemplateStage="Processed")["TemplateBody"]
    # A template that is not JSON comes as text. Templates of the constructs are JSON.
    yield path, {} if isinstance(template, str) else template["Resources"], physical_ids
    for summary in summaries:
        if summary["ResourceType"] == _NESTED and _exists(summary):
            inner = (*path, summary["LogicalResourceId"])
            yield from deployed_stacks(cloudformation, summary["PhysicalResourceId"], inner)


def _exists(summary: Mapping[str, Any]) -> bool:
    return bool(summary.get("PhysicalResourceId")) and summary["ResourceStatus"] != "DELETE_COMPLETE"
