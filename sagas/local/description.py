"""``.sagas/local.json``: where everything of a local stack is, for whoever wants to talk to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sagas.local.clients import Clients
from sagas.local.deployment import Deployed
from sagas.local.errors import LocalStackError

_METADATA_KEY = "sagas"
"""Under which the constructs mark, in the template, which resource is which part."""

_ByStep = dict[str, dict[str, str]]


@dataclass(slots=True)
class Description:
    """The local stack. Field names are those of the file; ``pid`` is None at an endpoint that is not ours."""

    endpoint_url: str
    region: str
    api_url: str = ""
    tables: dict[str, str] = field(default_factory=dict[str, str])
    queues: _ByStep = field(default_factory=dict[str, dict[str, str]])
    dead_letter_queues: dict[str, str] = field(default_factory=dict[str, str])
    functions: _ByStep = field(default_factory=dict[str, dict[str, str]])
    supervisor: str = ""
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    pid: int | None = None

    def write(self, path: Path) -> None:
        """Write the file in one piece: whoever waits for it never reads half of it."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=2) + "\n")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Description:
        """Read the file.

        Raises:
            LocalStackError: it is not there, or not one of ours.
        """
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise LocalStackError("no local stack is running here; `sagas local up` starts one") from error
        except (ValueError, TypeError) as error:
            raise LocalStackError(f"{path} cannot be read: {error}") from error


def describe(clients: Clients, stacks: Iterable[Deployed], pid: int | None) -> Description:
    """Collect what the deployed stacks hold.

    Args:
        clients: of the endpoint.
        stacks: all that were deployed.
        pid: of our emulator, if it is ours.
    """
    description = Description(clients.endpoint_url, clients.region, pid=pid)
    root = ""
    for deployed in stacks:
        for part, logical_id, names in _marked(deployed.template):
            _enter(description, part, names, deployed.physical_ids[logical_id])
            if part == "api":
                root = _api_url(clients.endpoint_url, deployed, logical_id)
                description.api_url = root + names.get("path", "")
        description.outputs |= _local_outputs(deployed.outputs, root)
    return description


def _marked(template: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    for logical_id, resource in template["Resources"].items():
        names = dict(resource.get("Metadata", {}).get(_METADATA_KEY, {}))
        part = names.pop("part", None)
        if part is not None:
            yield part, logical_id, names


def _enter(description: Description, part: str, names: dict[str, str], physical_id: str) -> None:
    match part:
        case "sagas_table" | "audit_table":
            description.tables[part.removesuffix("_table")] = physical_id
        case "queue":
            description.queues.setdefault(names["saga"], {}).update(_of_each(names["step"], physical_id))
        case "dead_letter_queue":
            description.dead_letter_queues[names["saga"]] = physical_id
        case "function":
            description.functions.setdefault(names["saga"], {}).update(_of_each(names["step"], physical_id))
        case "supervisor":
            description.supervisor = physical_id
        case _:
            pass


def _of_each(steps: str, physical_id: str) -> dict[str, str]:
    """Several steps may share a queue and a function."""
    return dict.fromkeys(steps.split(","), physical_id)


def _api_url(endpoint_url: str, deployed: Deployed, api: str) -> str:
    stage = next(_stages(deployed.template["Resources"].values(), api))
    return f"{endpoint_url}/_aws/execute-api/{deployed.physical_ids[api]}/{stage}"


def _stages(resources: Iterable[Any], api: str) -> Iterator[str]:
    for resource in resources:
        if resource["Type"] == "AWS::ApiGateway::Stage" and resource["Properties"]["RestApiId"] == {"Ref": api}:
            yield resource["Properties"]["StageName"]


def _local_outputs(outputs: dict[str, str], api_url: str) -> dict[str, str]:
    """An output that names the API by its host on AWS names the local one."""
    return {name: api_url if ".execute-api." in value else value for name, value in outputs.items()}
