"""The supervisor's function."""

from __future__ import annotations

from typing import Any

from sagas.handlers import supervisor
from tests.soak import sagas as _sagas
from tests.soak.entry import invocation

_ = _sagas  # loaded with the function rather than in its first invocation


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle a tick. What is done to a saga is told apart by the saga."""
    with invocation("supervisor"):
        return supervisor.handler(event, context)
