"""``.sagas/local.json`` has the addresses of a local stack's parts, for its clients."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from sagas.local.deploy.deployment import Deployed
from sagas.local.emulator.clients import Clients
from sagas.local.errors import LocalStackError
from sagas.topology import Parts, Topology


@dataclass(slots=True)
class Description(Parts):
    """The local stack. Fields are named as in the file. ``pid`` is None if the emulator is not embedded, ``detached``
    says that the emulator outlives its command, and ``enforce_iam`` that it checks every call."""

    endpoint_url: str
    region: str
    api_url: str = ""
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    pid: int | None = None
    detached: bool = False
    enforce_iam: bool = False

    def write(self, path: Path) -> None:
        """Write the file in one piece, so a waiting reader never sees only part of it."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=2) + "\n")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Description:
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise LocalStackError("no local stack is running for this project; `sagas local up` starts one") from error
        except (ValueError, TypeError) as error:
            raise LocalStackError(f"{path} cannot be read: {error}") from error


def describe(clients: Clients, stacks: Iterable[Deployed], pid: int | None) -> Description:
    """Collect the parts of the deployed stacks."""
    topology = Topology()
    root = ""
    path = ""
    outputs = dict[str, str]()
    for deployed in stacks:
        topology.add_stack(deployed.template["Resources"], deployed.physical_ids)
        if topology.api is not None:
            root = f"{clients.endpoint_url}/_aws/execute-api/{topology.api.id}/{topology.api.stage}"
            path = topology.api.path
        # In outputs, replace the API's host on AWS with the local host.
        outputs |= {name: root if ".execute-api." in value else value for name, value in deployed.outputs.items()}
    return Description(
        clients.endpoint_url,
        clients.region,
        api_url=root + path,
        outputs=outputs,
        pid=pid,
        **{part.name: getattr(topology, part.name) for part in fields(Parts)},
    )
