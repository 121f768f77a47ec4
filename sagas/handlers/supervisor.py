"""The function behind the schedule."""

from __future__ import annotations

from typing import Any

from sagas.handlers.telemetry import telemetry

__all__ = ["handler"]


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a tick. Recovery and sweeping are not part of this version: a tick is only logged."""
    telemetry().logger.info("tick", detail=event.get("task", "unknown"))
    return {"recovered": 0}
