"""The console's settings: ``[tool.sagas.console]`` in a project's ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

from sagas.errors import InvalidRequest

_KEYS = ("redact", "trace_url", "logs_url")


def settings_of(project: Path) -> dict[str, Any]:
    """Return the settings; empty if the file or the table is missing."""
    path = project / "pyproject.toml"
    try:
        settings: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from None
    for name in ("tool", "sagas", "console"):
        settings = cast("dict[str, Any]", settings).get(name, {}) if isinstance(settings, dict) else None
    if not isinstance(settings, dict):
        raise InvalidRequest(f"{path}: [tool.sagas.console] must be a table")
    table = cast("dict[str, Any]", settings)
    unknown = [name for name in table if name not in _KEYS]
    if unknown:
        raise InvalidRequest(
            f"{path}: [tool.sagas.console] {unknown[0]}: unknown key; expected one of {', '.join(_KEYS)}"
        )
    return table
