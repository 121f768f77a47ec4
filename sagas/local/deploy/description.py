"""``.sagas/local.json``: where everything of a local stack is, for its clients."""

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
    """The local stack. Field names are those of the file; ``pid`` is None at an endpoint that is not ours."""

    endpoint_url: str
    region: str
    api_url: str = ""
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    pid: int | None = None

    def write(self, path: Path) -> None:
        """Write the file in one piece: a reader that waits for it never finds half of it."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=2) + "\n")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Description:
        """Read the file."""
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise LocalStackError("no local stack is running here; `sagas local up` starts one") from error
        except (ValueError, TypeError) as error:
            raise LocalStackError(f"{path} cannot be read: {error}") from error


def describe(clients: Clients, stacks: Iterable[Deployed], pid: int | None) -> Description:
    """Collect what the deployed stacks hold."""
    found = Topology()
    root, path, outputs = "", "", dict[str, str]()
    for deployed in stacks:
        found.add_stack(deployed.template["Resources"], deployed.physical_ids)
        if found.api is not None:
            root, path = f"{clients.endpoint_url}/_aws/execute-api/{found.api.id}/{found.api.stage}", found.api.path
        # An output that names the API by its host on AWS names the local one.
        outputs |= {name: root if ".execute-api." in value else value for name, value in deployed.outputs.items()}
    return Description(
        clients.endpoint_url,
        clients.region,
        api_url=root + path,
        outputs=outputs,
        pid=pid,
        **{part.name: getattr(found, part.name) for part in fields(Parts)},
    )
