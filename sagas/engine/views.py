"""Sagas as people and programs read them: the JSON of the API, of the client and of the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sagas.core.rules import needs_attention
from sagas.core.states import SagaState, SagaStatus, StepState, StepStatus
from sagas.core.times import iso
from sagas.engine.clock import claimed_at
from sagas.store.entries import Entry

_FAILURES = ("StepFailed", "StepLost", "CompensationAttemptFailed", "CompensationFailed")
_ENDS = (*_FAILURES, "StepCompleted", "StepCompensated")


def _when(seconds: float) -> str | None:
    return iso(seconds) if seconds else None


def summary_view(state: SagaState) -> dict[str, Any]:
    """Return what a list shows of a saga."""
    return {
        "saga_id": state.saga_id,
        "name": state.saga,
        "version": state.version,
        "status": state.status.value,
        "in_doubt": list(state.in_doubt),
        "recovery_attempts": state.recovery_attempts,
        "cancel_requested_at": _when(state.cancel_requested_at),
        "created_at": iso(state.created_at),
        "updated_at": iso(state.updated_at),
        "links": {"self": f"/sagas/{state.saga}/{state.saga_id}"},
    } | ({"why": _why(state)} if needs_attention(state) else {})


def _why(state: SagaState) -> str:
    """One line for people: why the saga needs one."""
    step = state.current.name if state.current else state.steps[-1].name
    failed = [s.name for s in state.steps if s.status is StepStatus.COMPENSATION_FAILED]
    gone = [] if state.recovery_exhausted else [s.name for s in state.steps if s.name in failed and _untried(s)]
    if gone:
        return f"the code of the undo of {', '.join(gone)} is gone: deploy it again and retry, or undo it by hand"
    if failed:
        return f"the undo of {', '.join(failed)} failed"
    if state.status is SagaStatus.DEAD_LETTERED and state.dead is None:
        return f"the code of step {step} is gone: deploy it again and retry, or compensate"
    if state.status is SagaStatus.DEAD_LETTERED:
        return f"step {step} used up its attempts; its message is in the dead-letter queue"
    if state.status is SagaStatus.FAILED:
        return f"step {step} failed and nothing was undone"
    if state.recovery_exhausted:
        return "it stalled too often and was given up"
    return f"the outcome of {', '.join(state.in_doubt)} is unknown"


def _untried(step: StepState) -> bool:
    return step.undo_attempts == step.undo_attempts_at_grant


@dataclass(frozen=True, slots=True)
class _History:
    """The journal of one step, by what a reader asks."""

    entries: list[Entry]

    def of(self, step: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.step == step and (entry.action in _ENDS or _gone(entry))]


def _gone(entry: Entry) -> bool:
    return entry.action == "StepDeadLettered" and "error" in entry.details


def _error(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None or not (entry.action in _FAILURES or _gone(entry)):
        return None
    error: dict[str, Any] = entry.details.get("error") or {}
    return {"type": error.get("type", "Unknown"), "message": error.get("message", "")}


def _payload(entry: Entry | None) -> Any:
    return json.loads(entry.payload) if entry is not None and entry.payload is not None else None


def _standing_error(past: list[Entry]) -> Entry | None:
    """The step's last failure that no later success made good: that of its undo, else its own."""
    forward: Entry | None = None
    backward: Entry | None = None
    for entry in past:
        if entry.action in ("StepFailed", "StepLost", "StepDeadLettered", "StepCompleted"):
            forward = entry if entry.action != "StepCompleted" else None
        else:
            backward = entry if entry.action != "StepCompensated" else None
    return backward or forward


def _started(state: SagaState, step: StepState, past: list[Entry]) -> str | None:
    if past:
        return str(past[0].details.get("started_at") or iso(past[0].at))
    busy = step.status is StepStatus.RUNNING and state.lease is not None
    return _when(claimed_at(state.lease.owner)) if busy and state.lease else None


def _shown_status(state: SagaState, index: int, step: StepState) -> StepStatus:
    """Between two attempts of its undo a step is being compensated, whatever it was before."""
    waiting = state.undoing and state.cursor == index and step.undo_attempts > step.undo_attempts_at_grant
    return StepStatus.COMPENSATING if waiting else step.status


def _step_view(state: SagaState, index: int, history: _History) -> dict[str, Any]:
    step = state.steps[index]
    past = history.of(step.name)
    last = past[-1] if past else None
    committed = step.status not in (StepStatus.PENDING, StepStatus.RUNNING, StepStatus.RETRYING)
    completed = next((entry for entry in past if entry.action == "StepCompleted"), None)
    waits = state.cursor == index and not state.over and state.lease is None and state.not_before
    return {
        "name": step.name,
        "status": _shown_status(state, index, step).value,
        "attempts": step.attempts,
        "undo_attempts": step.undo_attempts,
        "started_at": _started(state, step, past),
        "ended_at": iso(last.at) if last is not None and committed else None,
        "result": _payload(completed),
        "error": _error(_standing_error(past)),
        "next_attempt_at": _when(state.not_before) if waits else None,
    }


def saga_view(state: SagaState, entries: list[Entry]) -> dict[str, Any]:
    """Return a saga with its steps.

    Args:
        state: its control item.
        entries: its journal up to the last committed entry, payloads loaded.
    """
    history = _History(entries)
    by_seq = {entry.seq: entry for entry in entries}
    cause = by_seq.get(state.error_seq)
    error = _error(cause)
    return summary_view(state) | {
        "request": _payload(by_seq.get(1)),
        "steps": [_step_view(state, index, history) for index in range(len(state.steps))],
        "error": {"step": cause.step, **error} if cause is not None and error is not None else None,
        "progress": _progress(state),
        "resolution": _resolution(by_seq.get(state.resolution_seq)),
        "correlation_id": state.correlation_id,
    }


def _progress(state: SagaState) -> dict[str, Any] | None:
    told, step = state.progress, state.current
    if told is None or step is None:
        return None
    return {"step": step.name, "fraction": told.fraction, "message": told.message, "at": iso(told.at)}


def _resolution(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "by": entry.actor,
        "at": iso(entry.at),
        "note": entry.details.get("note"),
        "action": entry.details.get("action"),
        "steps": entry.details.get("undone_by_hand", []),
    }


def audit_view(entry: Entry) -> dict[str, Any]:
    """Return one entry of the audit trail."""
    return {
        "saga_id": entry.saga_id,
        "seq": entry.seq,
        "at": iso(entry.at),
        "saga": entry.saga,
        "action": entry.action,
        "step": entry.step,
        "attempt": entry.attempt,
        "status": entry.status,
        "actor": entry.actor,
        "correlation_id": entry.correlation_id,
        "trace_id": entry.trace_id or None,
        "details": entry.details,
    }
