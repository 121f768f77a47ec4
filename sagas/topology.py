"""The parts of a service in a deployed stack: their tags in the template, and their physical ids.

The constructs write a tag into the metadata of each such resource. The client and the local stack use the tags to find
the parts. This module needs neither the CDK nor boto3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from sagas.errors import SagaError

_METADATA_KEY = "sagas"

WITHOUT_RECURSION_CONFIG = ("ap-southeast-6", "mx-central-1", "us-gov-")
"""Prefixes of the regions where Lambda does not detect loops, and so refuses the setting for them."""

FUNCTION_SPARE = 6
"""Seconds that a step's function has beyond the step's timeout, to record the outcome."""
AFTER_FUNCTION = 2
"""Seconds for which a message stays hidden beyond its function's timeout. Then SQS redelivers it."""

PartName = Literal[
    "sagas_table",
    "audit_table",
    "queue",
    "dead_letter_queue",
    "function",
    "supervisor",
    "work_queue",
    "work_dead_letter_queue",
    "work_function",
    "command_queue",
    "command_dead_letter_queue",
    "command_function",
    "events_function",
    "event_dead_letter_queue",
    "api",
]
ByStep = dict[str, dict[str, str]]


def tag(part: PartName, **names: str) -> tuple[str, dict[str, str]]:
    """Return the key and the value of the metadata that mark a resource as a part of a service."""
    return _METADATA_KEY, {"part": part, **names}


@dataclass(frozen=True, slots=True)
class ApiEndpoint:
    """A REST API in API Gateway.

    Args:
        id: the id of the REST API.
        stage: the name of its stage.
        path: the prefix of the service's paths, which starts with a slash; empty if there is none.
    """

    id: str
    stage: str
    path: str


@dataclass(slots=True, kw_only=True)
class Parts:
    """The physical ids of the parts of a service. The physical id of a queue is its URL.

    Args:
        tables: the tables ``sagas`` and ``audit``.
        queues: the queues, by saga type and step.
        dead_letter_queues: by saga.
        functions: the functions, by saga type and step.
        supervisor: the name of the supervisor's function; empty if there is none.
        work_queues: the service's own work queues, by name.
        work_dead_letter_queues: the dead-letter queues of the work queues, by name.
        log_groups: the names of the log groups of the service's functions, in the order of the template.
        command_queue: the command queue; empty if the service has none.
        events_function: the name of the function that publishes events; empty if there is none.
    """

    tables: dict[str, str] = field(default_factory=dict[str, str])
    queues: ByStep = field(default_factory=dict[str, dict[str, str]])
    dead_letter_queues: dict[str, str] = field(default_factory=dict[str, str])
    functions: ByStep = field(default_factory=dict[str, dict[str, str]])
    supervisor: str = ""
    work_queues: dict[str, str] = field(default_factory=dict[str, str])
    work_dead_letter_queues: dict[str, str] = field(default_factory=dict[str, str])
    log_groups: list[str] = field(default_factory=list[str])
    command_queue: str = ""
    command_dead_letter_queue: str = ""
    events_function: str = ""


@dataclass(slots=True)
class Topology(Parts):
    """The parts of a service as collected from its templates. The API is ``None`` if none was found."""

    api: ApiEndpoint | None = None

    def add_stack(self, resources: Mapping[str, Any], physical_ids: Mapping[str, str]) -> None:
        """Add the parts in one stack."""
        for logical_id, resource in resources.items():
            group = _log_group_of(resource)
            if group in physical_ids and physical_ids[group] not in self.log_groups:
                self.log_groups.append(physical_ids[group])
            names = resource.get("Metadata", {}).get(_METADATA_KEY, {})
            physical_id = physical_ids.get(logical_id)
            if physical_id is None:
                continue
            match names.get("part"):
                case "sagas_table" | "audit_table" as part:
                    self.tables[part.removesuffix("_table")] = physical_id
                case "queue" | "function" as part:
                    # Several steps can share a queue and a function.
                    by_step = self.queues if part == "queue" else self.functions
                    by_step.setdefault(names["saga"], {}).update(dict.fromkeys(names["step"].split(","), physical_id))
                case "dead_letter_queue":
                    self.dead_letter_queues[names["saga"]] = physical_id
                case "work_queue" | "work_dead_letter_queue" as part:
                    queues = self.work_queues if part == "work_queue" else self.work_dead_letter_queues
                    queues[names["name"]] = physical_id
                case "supervisor" | "command_queue" | "command_dead_letter_queue" | "events_function" as part:
                    setattr(self, part, physical_id)
                case "api":
                    self.api = ApiEndpoint(physical_id, _stage_of(resources, logical_id), names.get("path", ""))
                case _:
                    pass


def _log_group_of(resource: Mapping[str, Any]) -> str:
    """Return the logical id of a function's log group, if its handler is this library's; empty for other resources."""
    properties: Mapping[str, Any] = resource.get("Properties", {})
    ours = resource["Type"] == "AWS::Lambda::Function" and str(properties.get("Handler")).startswith("sagas.handlers.")
    group: Any = properties.get("LoggingConfig", {}).get("LogGroup") if ours else None
    return str(cast("Mapping[str, Any]", group).get("Ref")) if isinstance(group, Mapping) else ""


def _stage_of(resources: Mapping[str, Any], api: str) -> str:
    for resource in resources.values():
        if resource["Type"] == "AWS::ApiGateway::Stage" and resource["Properties"]["RestApiId"] == {"Ref": api}:
            return str(resource["Properties"]["StageName"])
    raise SagaError("the API has no stage")
