"""``sagas layout``: where queues, tables and buckets are in the templates, compared with what was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sagas.local.errors import LocalStackError
from sagas.topology import LAYOUT, moved

_FILE = "cdk.context.json"


def layouts_in(assembly: Path) -> dict[str, dict[str, str]]:
    """Return the places that each service left in an app's output, by the key of its record."""
    artifacts: dict[str, Any] = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    found: dict[str, dict[str, str]] = {}
    for artifact in artifacts.values():
        metadata: dict[str, Any] = dict(artifact.get("metadata", {}))
        if "additionalMetadataFile" in artifact:
            metadata |= json.loads((assembly / artifact["additionalMetadataFile"]).read_text())
        for path, entries in metadata.items():
            found |= {f"{LAYOUT}:{path.strip('/')}": one["data"] for one in entries if one["type"] == LAYOUT}
    if not found:
        raise LocalStackError("the app has no SagaService")
    return found


def compare(assembly: Path, project: Path) -> list[str]:
    """Return what a deployment would replace or drop of what was recorded."""
    context, now = _context(project), layouts_in(assembly)
    recorded = {key: places for key, places in context.items() if key.startswith(f"{LAYOUT}:")}
    if not recorded:
        raise LocalStackError(f"{_FILE} has no record yet; `sagas layout --write` makes one of what is deployed")
    return [
        f"{key.removeprefix(LAYOUT + ':')}: {what}"
        for key, places in recorded.items()
        for what in moved(places, now.get(key, {}))
    ]


def record(assembly: Path, project: Path) -> int:
    """Write the places into ``cdk.context.json``, beside what else is there. Returns how many there are."""
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
