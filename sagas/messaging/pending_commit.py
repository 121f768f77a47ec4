"""The outcome of an attempt that could not be recorded, as it travels back in a message of its step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from sagas.core.times import epoch
from sagas.errors import Problem

_FIELDS: dict[str, type] = {
    "action": str,
    "attempt": int,
    "token": int,
    "seq": int,
    "owner": str,
    "details": dict,
    "trace_id": str,
}
_COUNTS = ("attempt", "token", "seq")
_LARGEST_COUNT = 10**15
_SUCCESSES = {False: "StepCompleted", True: "StepCompensated"}
_FAILURES = {False: ("StepFailed",), True: ("CompensationAttemptFailed", "CompensationFailed")}


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """What an attempt has to say, and the claim under which it may say so.

    Args:
        action: the fact's name.
        attempt: the number of the execution.
        token: the claim's fencing token.
        seq: the last committed entry when it was claimed.
        owner: the claim's nonce.
        details: what the entry is to keep, as JSON builtins.
        trace_id: of the invocation it ran in.
        payload: a step's result, as JSON text.
    """

    action: str
    attempt: int
    token: int
    seq: int
    owner: str
    details: dict[str, Any]
    trace_id: str = ""
    payload: str | None = None


def problems_of(value: Any, undo: bool) -> list[Problem]:
    """Return what is wrong with a report as it was received.

    Args:
        value: the report, as JSON builtins.
        undo: whether it must be an undo's.
    """
    if not isinstance(value, dict):
        return [Problem("$.commit", "must be an object")]
    fields = cast("dict[str, Any]", value)
    wrong = [name for name, kind in _FIELDS.items() if type(fields.get(name)) is not kind]
    if not wrong:
        wrong = [name for name in _COUNTS if not 1 <= fields[name] <= _LARGEST_COUNT] + _unfit(fields, undo)
    return [Problem(f"$.commit.{name}", "missing or not what it must be") for name in wrong]


def _unfit(fields: Mapping[str, Any], undo: bool) -> list[str]:
    action, payload, details = fields["action"], fields.get("payload"), fields["details"]
    wrong: list[str] = []
    if action != _SUCCESSES[undo] and action not in _FAILURES[undo]:
        wrong.append("action")
    if not (_is_json(payload) if action == "StepCompleted" else payload is None):
        wrong.append("payload")
    if not (_tells_why(details) if action in _FAILURES[undo] else "error" not in details):
        wrong.append("details")
    return wrong


def _is_json(text: Any) -> bool:
    try:
        json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(text, str)


def _tells_why(details: Mapping[str, Any]) -> bool:
    error = details.get("error")
    if not isinstance(error, dict):
        return False
    told = cast("dict[str, Any]", error)
    return all(isinstance(told.get(name), str) for name in ("type", "message")) and _is_when(details)


def _is_when(details: Mapping[str, Any]) -> bool:
    if "next_attempt_at" not in details:
        return True
    try:
        epoch(details["next_attempt_at"])
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def pending_commit_of(value: Mapping[str, Any]) -> PendingCommit:
    """Return the report that ``value``, which has no problems, is."""
    return PendingCommit(**{name: value[name] for name in _FIELDS}, payload=value.get("payload"))
