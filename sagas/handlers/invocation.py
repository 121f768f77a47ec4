"""Prepares a function in Lambda's init phase, and reads the records of an SQS event."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

from sagas.errors import InvalidRequest, Problem
from sagas.handlers.telemetry import frames, telemetry

_IN_LAMBDA = "AWS_LAMBDA_INITIALIZATION_TYPE"
"""Lambda sets this variable. If it is missing, this module was imported elsewhere."""


def warm(*parts: Callable[[], object]) -> None:
    """Create what the first invocation needs, if this is Lambda's init phase. No request is sent.

    Errors are only logged: a function that fails to initialise cannot respond. The first invocation meets them again.
    """
    if _IN_LAMBDA not in os.environ:
        return
    try:
        for make in parts:
            make()
    except Exception as error:  # noqa: BLE001 - the first invocation reports it again
        telemetry().logger.error("preparation failed in the init phase", error=type(error).__name__, at=frames(error))


def records_of(event: Any) -> list[dict[str, Any]]:
    """Return the records of an SQS event. If a record has no id, all records are refused, because this one could not be
    reported as failed."""
    records: Any = cast("dict[str, Any]", event).get("Records", []) if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise InvalidRequest("the event is not from SQS", [Problem("$.Records", "must be a list")])
    listed = cast("list[Any]", records)
    ids: list[Any] = [cast("dict[str, Any]", r).get("messageId") if isinstance(r, dict) else None for r in listed]
    missing = [place for place, message_id in enumerate(ids) if not isinstance(message_id, str)]
    if missing:
        problems = [Problem(f"$.Records[{place}].messageId", "missing") for place in missing]
        raise InvalidRequest("the event is not from SQS", problems)
    return listed
