"""What a project's ``pyproject.toml`` says of its console: ``[tool.sagas.console]``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sagas.errors import InvalidRequest


def settings_of(project: Path) -> dict[str, Any]:
    """Return the table; nothing where there is no file, or no such table in it.

    Args:
        project: the directory with ``pyproject.toml``.

    Raises:
        InvalidRequest: the file is no TOML.
    """
    path = project / "pyproject.toml"
    try:
        settings: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InvalidRequest(f"{path} is not TOML: {error}") from None
    for name in ("tool", "sagas", "console"):
        settings = settings.get(name, {})
    return settings
