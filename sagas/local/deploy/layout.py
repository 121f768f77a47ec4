"""``sagas layout``: compares the places of queues, tables and buckets in the templates with the recorded places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sagas.local.errors import LocalStackError
from sagas.topology import LAYOUT, moved

_FILE = "cdk.context.json"


def layouts_in(assembly: Path) -> dict[str, dict[str, str]]:
    """Return the places that each service wrote into an app's output. The key is that of the service's record."""
    artifacts: dict[str, Any] = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    layouts: dict[str, dict[str, str]] = {}
    for artifact in artifacts.values():
        metadata: dict[str, Any] = dict(artifact.get("metadata", {}))
        if "additionalMetadataFile" in artifact:
            metadata |= json.loads((assembly / artifact["additionalMetadataFile"]).read_text())
        for path, entries in metadata.items():
            layouts |= {f"{LAYOUT}:{path.strip('/')}": entry["data"] for entry in entries if entry["type"] == LAYOUT}
    if not layouts:
        raise LocalStackError("the app has no SagaService")
    return layouts


def compare(assembly: Path, project: Path) -> list[str]:
    """Return the recorded places that a deployment would replace or remove."""
    context, now = _context(project), layouts_in(assembly)
    recorded = {key: places for key, places in context.items() if key.startswith(f"{LAYOUT}:")}
    if not recorded:
        raise LocalStackError(f"{_FILE} has no record yet; `sagas layout --write` records what is deployed")
    return [
        f"{key.removeprefix(LAYOUT + ':')}: {what}"
        for key, places in recorded.items()
        for what in moved(places, now.get(key, {}))
    ]


def record(assembly: Path, project: Path) -> int:
    """Write the places into ``cdk.context.json``, and keep all other content. Returns the number of places."""
    layouts = layouts_in(assembly)
    others = {key: value for key, value in _context(project).items() if not key.startswith(f"{LAYOUT}:")}
    text = json.dumps(others | layouts, indent=2, sort_keys=True)
    (project / _FILE).write_text(f"{text}\n")
    return sum(len(places) for places in layouts.values())


def _context(project: Path) -> dict[str, Any]:
    try:
        return json.loads((project / _FILE).read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise LocalStackError(f"{_FILE} cannot be read: {error}") from error
