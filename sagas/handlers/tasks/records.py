"""The records of SQS events."""

from __future__ import annotations

from typing import Any, cast

from sagas.errors import InvalidRequest, Problem


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
