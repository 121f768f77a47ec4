"""How long each file's tests took in the last run of its tier, kept in pytest's cache folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / ".pytest_cache/durations"


def read() -> dict[str, float]:
    """Return the seconds of each file that has run; a file's name begins at the top of the clone."""
    seconds: dict[str, float] = {}
    for record in sorted(_FOLDER.glob("*.json")):
        seconds |= json.loads(record.read_text())
    return seconds


def write(tier: str, seconds: Mapping[str, float]) -> None:
    """Keep the seconds of a tier's files."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / f"{tier}.json").write_text(json.dumps(seconds, indent=1, sort_keys=True))
