"""What SQS hands to a function."""

from __future__ import annotations

from typing import Any, cast

from sagas.errors import InvalidRequest, Problem


def records_of(event: Any) -> list[dict[str, Any]]:
    """Return the records of an event of SQS. None is handled unless each can be reported failed.

    Raises:
        InvalidRequest: it is no such event, or a record has no id to report it by.
    """
    records: Any = cast("dict[str, Any]", event).get("Records", []) if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise InvalidRequest("this is no event of SQS", [Problem("$.Records", "must be a list")])
    found = cast("list[Any]", records)
    problems = [Problem(f"$.Records[{i}].messageId", "missing") for i, one in enumerate(found) if not _has_id(one)]
    if problems:
        raise InvalidRequest("this is no event of SQS", problems)
    return found


def _has_id(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(cast("dict[str, Any]", record).get("messageId"), str)
