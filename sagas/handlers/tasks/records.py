"""What SQS hands to a function."""

from __future__ import annotations

from typing import Any, cast

from sagas.errors import InvalidRequest, Problem


def records_of(event: Any) -> list[dict[str, Any]]:
    """Return the records of an event of SQS. None is handled unless each can be reported failed."""
    records: Any = cast("dict[str, Any]", event).get("Records", []) if isinstance(event, dict) else None
    if not isinstance(records, list):
        raise InvalidRequest("this is no event of SQS", [Problem("$.Records", "must be a list")])
    found = cast("list[Any]", records)
    ids: list[Any] = [cast("dict[str, Any]", one).get("messageId") if isinstance(one, dict) else None for one in found]
    missing = [place for place, one in enumerate(ids) if not isinstance(one, str)]
    if missing:
        problems = [Problem(f"$.Records[{place}].messageId", "missing") for place in missing]
        raise InvalidRequest("this is no event of SQS", problems)
    return found
