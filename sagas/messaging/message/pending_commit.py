"""The outcome of an attempt that could not be committed, as part of a message of the step."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sagas.core.events import FACTS, Fact, Reports
from sagas.core.text import epoch, iso
from sagas.errors import Problem

Count = Annotated[int, msgspec.Meta(ge=1, le=10**15)]
"""A limit far above any real count, and within the range of DynamoDB's numbers."""
_REQUIRED: dict[str, dict[str, type[Any]]] = {
    "WaitStarted": {"until": str},
    "StepPostponed": {"message": str, "since": str, "looks": int},
    "CompensationPostponed": {"message": str, "since": str, "looks": int},
    "ChildrenStarted": {"children": int, "types": list},
}
"""The details that each action must have, with their types."""


class PendingCommit(msgspec.Struct, frozen=True):
    """An attempt's report, and the claim under which it may be committed.

    Args:
        action: the fact's name.
        attempt: the number of the execution.
        token: the claim's fencing token.
        seq: the last committed entry at the time of the claim.
        owner: the claim's nonce.
        details: the entry's details, as JSON builtins.
        trace_id: the trace id of the invocation that made the attempt.
        payload: a step's result, or the requests of its children, as JSON text.
    """

    action: str
    attempt: Count
    token: Count
    seq: Count
    owner: str
    details: dict[str, Any]
    trace_id: str = ""
    payload: str | None = None


class _Error(msgspec.Struct):
    type: str
    message: str


class _Failure(msgspec.Struct):
    """The details that a failure must have."""

    error: _Error
    next_attempt_at: str = iso(0)


def problems_of(pending: PendingCommit, undo: bool) -> list[Problem]:
    """Return the problems of a received report."""
    action, kind = pending.action, FACTS.get(pending.action, Fact)
    failed = kind.reports is (Reports.UNDO_FAILED if undo else Reports.STEP_FAILED)
    succeeded = kind.reports is (Reports.UNDO_SUCCEEDED if undo else Reports.STEP_SUCCEEDED)
    fits = {
        "action": failed or succeeded,
        "payload": is_json(pending.payload) if kind.has_payload else pending.payload is None,
        "details": _is_failure(pending.details) if failed else _is_complete(action, pending.details),
    }
    return [Problem(f"$.commit.{name}", f"does not fit {action}") for name, fit in fits.items() if not fit]


def is_json(text: str | None) -> bool:
    """Whether a text is a single JSON value."""
    try:
        msgspec.json.decode(text or "", type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True


def _is_complete(action: str, details: dict[str, Any]) -> bool:
    """Whether details have valid times, and everything that the fact needs except its failure."""
    required = _REQUIRED.get(action, {})
    try:
        for name in ("until", "since", "next_attempt_at"):
            if name in details or name in required:
                epoch(details[name])
        float(details.get("after", 0.0))
    except (KeyError, TypeError, ValueError, OverflowError):
        return False
    return "error" not in details and all(isinstance(details.get(name), kind) for name, kind in required.items())


def _is_failure(details: dict[str, Any]) -> bool:
    try:
        epoch(msgspec.convert(details, _Failure).next_attempt_at)
    except (ValueError, OverflowError, RecursionError):
        return False
    return True
