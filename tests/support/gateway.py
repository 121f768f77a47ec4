"""What API Gateway matches a path to, before it calls the API's function."""

from __future__ import annotations

import re

from sagas.operations import OPERATIONS

RESOURCES = (*dict.fromkeys(operation.resource for operation in OPERATIONS), "/callbacks/{token}")
"""The resources of the template, as a test of it holds."""
_PATTERNS = {name: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", name)) for name in RESOURCES}


def matched(path: str, mount: str = "") -> tuple[str, dict[str, str] | None]:
    """Return the resource that a path belongs to, and the path's parameters.

    Args:
        path: without the stage. It is its own resource if the service has none for it.
        mount: the resource below which the service's own are.
    """
    for resource, pattern in _PATTERNS.items():
        if path.startswith(mount) and (match := pattern.fullmatch(path.removeprefix(mount).rstrip("/"))):
            return mount + resource, match.groupdict() or None
    return path, None
