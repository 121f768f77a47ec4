"""What a project's ``pyproject.toml`` says of its console: ``[tool.sagas.console]``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

from sagas.errors import InvalidRequest

_KNOWN = ("redact", "trace_url", "logs_url")


def settings_of(project: Path) -> dict[str, Any]:
    """Return the table; nothing where there is no file, or no such table in it."""
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
    known = cast("dict[str, Any]", settings)
    unknown = [name for name in known if name not in _KNOWN]
    if unknown:
        raise InvalidRequest(f"{path}: [tool.sagas.console] {unknown[0]}: is unknown; there are {', '.join(_KNOWN)}")
    return known
