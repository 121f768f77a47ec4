"""The API's function."""

from __future__ import annotations

from typing import Any

from sagas.handlers import api
from tests.soak import sagas as _sagas
from tests.soak.entry import invocation

_ = _sagas  # loaded with the function rather than in its first invocation


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle a request."""
    headers: dict[str, str] = event.get("headers") or {}
    keys = [value for name, value in headers.items() if name.lower() == "idempotency-key"]
    with invocation("/".join(["api", event["httpMethod"], event["path"], *keys])):
        return api.handler(event, context)
