"""The JSON of sagas that the API, the client and the command line show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sagas.core.events import GONE, AttentionCode, DeadLetterCause, Failure, SagaTimedOut
from sagas.core.fit import KINDS
from sagas.core.gates import Pause, Scope
from sagas.core.rules import (
    Plan,
    attention_code,
    error_in_trouble,
    forward,
    misfit,
    needs_attention,
    pivot_holds,
    step_in_trouble,
    unread_of,
)
from sagas.core.states import Purge, SagaState, SagaStatus, StepState, StepStatus, Unread
from sagas.core.text import epoch, iso, moment
from sagas.engine.clock import claimed_at
from sagas.engine.read.answers import (
    AttentionView,
    AuditEntry,
    ErrorView,
    PauseView,
    SagaErrorView,
    SagaView,
    StepView,
    Summary,
    VerificationView,
    WaitingView,
)
from sagas.store.journal.chain import Verified, Wrong
from sagas.store.journal.entries import RESULTS, Entry

_ON_ITS_WAY = (StepStatus.PENDING, StepStatus.RUNNING, StepStatus.RETRYING, StepStatus.WAITING)
_BEGINNINGS = ("WaitStarted", "StepPostponed", "ChildrenStarted")
_ENDS = (
    *("StepFailed", "StepLost", "WaitTimedOut", *RESULTS),
    *("StepCompensated", "CompensationAttemptFailed", "CompensationFailed"),
)
_SHORT = 200
"""Characters of an error's message in lists."""


def _when(seconds: float) -> str | None:
    return iso(seconds) if seconds else None


_WHY_STOPPED = {
    "cancel": ("Cancelled", "the saga was cancelled while the step waited"),
    "timeout": (SagaTimedOut.__name__, "the saga's own timeout passed while the step waited"),
}
"""The error of a step that waited when its saga was stopped, by the cause of the saga's undoing."""


def errors_in(state: SagaState) -> tuple[int, ...]:
    """Return the numbers of the entries that may contain a saga's errors."""
    last = (state.seq,) if state.status is SagaStatus.COMPENSATION_FAILED else ()
    return (*last, state.error_seq) if state.error_seq else last


def _saga_error(state: SagaState, entries: Mapping[int, Entry], longest: int | None) -> SagaErrorView | None:
    return _error_at(entries.get(state.error_seq), longest)


def _error_at(entry: Entry | None, longest: int | None) -> SagaErrorView | None:
    error = error_view(entry)
    if entry is None or error is None:
        return None
    return {"step": entry.step, "type": error["type"], "message": error["message"][:longest]}


def _attention(state: SagaState, entries: Mapping[int, Entry], release: WaitingView | None) -> AttentionView | None:
    """Return why a saga is on the attention list, since when, and its error; ``None`` if it is not. ``release``: that
    it is there because it waits for a release."""
    if release is not None:
        until = release["until"] or iso(state.settling_since)
        return {
            "code": AttentionCode.DOES_NOT_FIT.value,
            "step": step_in_trouble(state),
            "error_type": error_in_trouble(state),
            "reason": f"{release.get('message')}; the saga waits for a release until {moment(until)}",
            "since": iso(state.settling_since),
            "error": None,
            "until": until,
        }
    unread = unread_of(state)
    if not needs_attention(state) and unread is None:
        return None
    last = entries.get(state.seq)
    undo = last is not None and last.action == "CompensationFailed"
    error = _error_at(last if undo else entries.get(state.error_seq), _SHORT)
    return {
        "code": attention_code(state).value,
        "step": step_in_trouble(state),
        "error_type": state.error_type or None,
        "reason": _reason(state),
        "since": iso(unread.since if unread else state.attention),
        "error": error and {**error, "undo": undo},
    }


def summary_view(
    state: SagaState,
    start: Mapping[str, Any],
    entries: Mapping[int, Entry],
    *,
    paused: bool = False,
    release: WaitingView | None = None,
    longest: int | None = _SHORT,
) -> Summary:
    """Return a saga as lists show it. ``start``: the details of its first entry that may be shown. ``release``: that
    the saga is on the attention list because it waits for a release."""
    summary: Summary = {
        "saga_id": state.saga_id,
        "type": state.saga,
        "label": start.get("label"),
        "key": start.get("key"),
        "version": state.version,
        "status": state.status.value,
        "seq": state.seq,
        "in_doubt": list(state.in_doubt),
        "recovery_attempts": state.recovery.attempts,
        "cancel_requested_at": _when(state.cancel.at),
        "paused": paused,
        "error": _saga_error(state, entries, longest),
        "attention": _attention(state, entries, release),
        "created_at": iso(state.created_at),
        "updated_at": iso(state.updated_at),
        "ended_at": _when(state.ended_at),
        "links": {"self": f"/sagas/{state.saga}/{state.saga_id}"},
    }
    if state.parent is not None:
        parent = state.parent
        summary["parent"] = {
            "type": parent.saga,
            "saga_id": parent.saga_id,
            "step": parent.step,
            "position": parent.position,
        }
    if state.past_pivot and (forward(state) or state.status in (SagaStatus.DEAD_LETTERED, SagaStatus.COMPLETED)):
        summary["past_pivot"] = state.past_pivot
    if state.lease is not None and state.purge is None:  # a purge keeps the lease for good
        claimed = _when(claimed_at(state.lease.owner))
        expires = iso(state.lease.expires_at)
        summary["lease"] = {"claimed_at": claimed, "expires_at": expires, "heartbeat_at": None}
    return summary


def _reason(state: SagaState) -> str:
    """Return a line that says why the saga needs an operator."""
    step = state.current.name if state.current else state.steps[-1].name
    cure = "restore it" if state.unreadable.endswith(GONE) else "deploy code that fits"
    code = attention_code(state)
    if unread := unread_of(state):
        return unread_reason(state, unread)
    if code in (AttentionCode.UNDO_FAILED, AttentionCode.UNDO_NOT_CALLED):
        return _reason_of_undos(state, cure, tried=code is AttentionCode.UNDO_FAILED)
    waits_for = state.current.waits_for if state.current else ""
    called = "" if waits_for else f"step {step} was not called; "
    cure = f"{'restore it' if waits_for else cure} and retry"
    cure = "retry, and have it sent again" if waits_for == "signal" else cure
    undo = "compensate with force" if state.past_pivot else "compensate"
    return {
        AttentionCode.EXHAUSTED: f"step {step} used up its attempts; its message is in the dead-letter queue",
        AttentionCode.CHILDREN_FAILED: f"too many children of step {step} failed; retry starts the failed ones again",
        AttentionCode.WAIT_TIMED_OUT: f"step {step} timed out: no signal arrived in time; retry waits again",
        AttentionCode.PIVOT_HOLDS: f"step {step} failed, and {pivot_holds(state)}; retry, or {undo}",
        AttentionCode.STALLED: f"step {step} stalled too often, and {pivot_holds(state)}",
        AttentionCode.IN_DOUBT: f"the outcome of {', '.join(state.in_doubt)} is unknown",
        AttentionCode.CODE_MISSING: f"the code of step {step} is missing: deploy it again and retry, or {undo}",
        AttentionCode.TYPE_CHANGED: f"{state.unreadable}: {called}{cure}, or {undo}",
        AttentionCode.FAILED: f"step {step} failed and nothing was undone",
        AttentionCode.RECOVERY_EXHAUSTED: "it stalled too often and was given up",
        AttentionCode.NO_RESPONSE: f"no response at step {step}: "
        f"its function handled none of {state.unanswered} messages in a row",
        AttentionCode.OVERDUE: f"its deadline has passed, and {pivot_holds(state)}",
    }[code]


def unread_reason(state: SagaState, unread: Unread) -> str:
    """Return a line that says why the saga waits for its inputs."""
    step = state.current.name if state.current else state.steps[-1].name
    code = f"the undo of step {step} was" if state.undoing else f"step {step} was"
    code = f"the children of step {step} were" if state.joins else code
    called = "not joined" if state.joins else "not called"
    cause = f"the right {unread.error} is missing" if unread.code == AttentionCode.NO_RIGHT else unread.error
    if state.waiting_for == "signal":
        return f"the signal of step {step} was not taken: its value cannot be read ({cause})"
    return f"{code} {called}: its inputs cannot be read ({cause})"


def _reason_of_undos(state: SagaState, cure: str, *, tried: bool) -> str:
    failed = [step for step in state.steps if step.status is StepStatus.COMPENSATION_FAILED]
    if tried:
        message = f"the undo of {', '.join(step.name for step in failed)} failed"
        has_children = any(step.waits_for == "children" for step in failed)
        return message + ("; retry also retries those children" if has_children else "")
    untried = ", ".join(step.name for step in failed if not step.undo_attempts.used)
    if state.unreadable:
        return f"{state.unreadable}: the undo of {untried} was not called; {cure} and retry, or undo it by hand"
    return f"the code of the undo of {untried} is missing: deploy it again and retry, or undo it by hand"


def _without_code(entry: Entry) -> bool:
    """Whether an entry says that a step's code is missing or could not be called."""
    cause = entry.details.get("cause") if entry.action == "StepDeadLettered" else None
    return cause is not None and DeadLetterCause(cause).fails_step


def error_view(entry: Entry | None) -> ErrorView | None:
    """Return an entry's error; ``None`` if it has none."""
    error: dict[str, Any] | None = entry.details.get("error") if entry is not None else None
    if error is None:
        return None
    return {"type": error.get("type", "Unknown"), "message": error.get("message", "")}


def _payload(entry: Entry | None) -> Any:
    return json.loads(entry.payload) if entry is not None and entry.payload is not None else None


def _standing_error(past: Sequence[Entry]) -> Entry | None:
    """Return the entry of the last error of a step's undo, or else of the step, if no success followed."""
    forward: Entry | None = None
    backward: Entry | None = None
    for entry in past:
        if entry.action in ("StepFailed", "StepLost", "StepDeadLettered", "WaitTimedOut", *RESULTS):
            forward = entry if entry.action not in RESULTS or "error" in entry.details else None
        else:
            backward = entry if entry.action != "StepCompensated" else None
    return backward or forward


def _trace_id(entry: Entry | None) -> str | None:
    """Return the X-Ray trace of an attempt. The entry of a failed undo has it in its details."""
    return (entry.trace_id or entry.details.get("trace_id") or None) if entry is not None else None


def step_status(state: SagaState, index: int) -> StepStatus:
    """Return the status of a step in a view."""
    step = state.steps[index]
    # Between two attempts of its undo, a step counts as COMPENSATING whatever its stored status.
    if state.undoing and state.cursor == index and step.undo_attempts.used > 0:
        return StepStatus.COMPENSATING
    # A RETRYING step is not retried, so it has failed, if the saga is being undone or has ended.
    return StepStatus.FAILED if step.status is StepStatus.RETRYING and not forward(state) else step.status


def _since_last_wait(entries: Sequence[Entry], step: str) -> list[Entry]:
    """Return the entries of a step, beginning with its last wait. Older entries do not count once a retry makes the
    step wait again."""
    own = [entry for entry in entries if entry.step == step]
    begun = [number for number, entry in enumerate(own) if entry.action in ("WaitStarted", "ChildrenStarted")]
    return own[begun[-1] :] if begun else own


def _started_at(state: SagaState, step: StepState, own: Sequence[Entry], past: Sequence[Entry]) -> str | None:
    """Return when a step began. ``own`` are the step's entries, and ``past`` those that ended an attempt, a wait or an
    undo."""
    began = next((entry for entry in own if entry.action in _BEGINNINGS), None)
    if began and (not past or began.seq < past[0].seq):
        return iso(began.at) if began.attempt is None else str(began.details.get("started_at") or iso(began.at))
    if past:
        return str(past[0].details.get("started_at") or iso(past[0].at))
    if step.status is StepStatus.RUNNING and state.lease is not None:
        return _when(claimed_at(state.lease.owner))
    return None


def _ended_at(step: StepState, past: Sequence[Entry]) -> str | None:
    return iso(past[-1].at) if past and step.status not in _ON_ITS_WAY else None


def _message(state: SagaState, step: StepState, own: Sequence[Entry], *, waits: bool) -> str | None:
    """Return what a step that polls waits for, or why a step was skipped."""
    if step.status is StepStatus.SKIPPED:  # a purge deletes the reason
        return next((entry.details.get("reason") for entry in own if entry.action == "StepSkipped"), None)
    return state.polling.message if waits and state.polling else None


def _took(past: Sequence[Entry]) -> float | None:
    """Return the number of seconds that a step's last attempt ran, not counting attempts of its undo."""
    own = (entry for entry in reversed(past) if entry.action in ("StepFailed", "StepLost", *RESULTS))
    ran = next((entry for entry in own if "started_at" in entry.details), None)
    return None if ran is None else round(max(ran.at - epoch(str(ran.details["started_at"])), 0.0), 3)


def _stopped(state: SagaState, step: StepState) -> ErrorView | None:
    """Return the error of a step that has failed without one of its own, because its saga was cancelled, or passed its
    deadline, while it waited."""
    why = _WHY_STOPPED.get(state.cause)
    return {"type": why[0], "message": why[1]} if why and step.status is StepStatus.FAILED else None


def _step_view(state: SagaState, index: int, entries: Sequence[Entry]) -> StepView:
    step = state.steps[index]
    own = _since_last_wait(entries, step.name)
    past = [entry for entry in own if entry.action in _ENDS or _without_code(entry)]
    waiting_for = state.waiting_for if state.cursor == index else ""
    waits = state.cursor == index and not state.ended and state.lease is None
    # A waiting step has not failed, whatever its entries say: no entry records that its children were started again.
    waiting = state.status is SagaStatus.WAITING and waiting_for in ("signal", "time", "children")
    failed = None if waiting else _standing_error(past)
    view: StepView = {
        "name": step.name,
        "status": step_status(state, index).value,
        "attempts": step.attempts.made,
        "undo_attempts": step.undo_attempts.made,
        "started_at": _started_at(state, step, own, past),
        "ended_at": _ended_at(step, past),
        "result": _payload(next((entry for entry in reversed(past) if entry.action in RESULTS), None)),
        "error": error_view(failed) or _stopped(state, step),
        "trace_id": _trace_id(failed),
        "next_attempt_at": _when(state.not_before) if waits and waiting_for in ("", "retry") else None,
        "waiting_for": waiting_for or None,
        "waits_until": _when(state.not_before) if waiting_for else None,
        "message": _message(state, step, own, waits=waits),
        "took": _took(past),
    }
    if step.pivot:
        view["pivot"] = True
    return view


def saga_view(
    state: SagaState, entries: Sequence[Entry], *, paused: bool = False, release: WaitingView | None = None
) -> SagaView:
    """Return a saga with its steps. ``release``: as for :func:`summary_view`."""
    by_seq = {entry.seq: entry for entry in entries}
    settled = by_seq.get(state.resolution_seq)
    progress = state.progress
    step = state.current
    start = by_seq[1].details if 1 in by_seq else {}
    view: SagaView = {
        **summary_view(state, start, by_seq, paused=paused, release=release, longest=None),
        "request": _payload(by_seq.get(1)),
        "steps": [_step_view(state, index, entries) for index in range(len(state.steps))],
        "progress": None,
        "breaker": None,
        "waiting": _waiting_view(state, paused=paused),
        "resolution": None,
        "correlation_id": state.correlation_id or (by_seq[1].correlation_id if 1 in by_seq else ""),
        "result": None,
        "deadline": _when(state.ends_at),
    }
    if state.status is SagaStatus.COMPLETED:
        view["result"] = view["steps"][state.steps.index(state.result_step)]["result"]
    if progress is not None and step is not None:
        message = progress.message
        at = iso(progress.at)
        view["progress"] = {"step": step.name, "fraction": progress.fraction, "message": message, "at": at}
    if settled is not None:
        resolved = [entry for entry in entries if entry.action == "SagaResolved"]  # the last one may correct others
        by_hand = dict.fromkeys(step for entry in resolved for step in entry.details.get("undone_by_hand", ()))
        view["resolution"] = {
            "by": settled.actor,
            "at": iso(settled.at),
            "reason": settled.details.get("reason", ""),
            "action": settled.details.get("action", ""),
            "steps": [*by_hand],
        }
    return view


def pause_view(scope: Scope, pause: Pause, until: float = 0.0) -> PauseView:
    """Return a pause and its scope. ``until``: epoch seconds at which it ends on its own, 0 for never."""
    return {
        "step": scope.step or None,
        "saga_id": scope.saga_id or None,
        "starts_only": pause.starts_only,
        "starts": pause.starts,
        "undos": pause.undos,
        "at": _when(pause.at),
        "by": pause.by or None,
        "reason": pause.reason or None,
        "until": _when(until),
    }


def _waiting_view(state: SagaState, *, paused: bool) -> WaitingView | None:
    """Return what a saga waits for, from its control item."""
    if state.ended or (state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at):
        return None
    if state.lease is not None:
        return {"kind": "lease", "until": iso(state.lease.expires_at)}
    if not paused and state.unread is not None and not state.unread.gone and state.current is not None:
        reason = unread_reason(state, state.unread)
        return {"kind": "inputs", "until": _when(state.not_before), "step": state.current.name, "message": reason}
    if state.waiting_for in ("signal", "time", "children"):
        return {"kind": state.waiting_for, "until": _when(state.not_before)}
    if paused:
        return {"kind": "paused", "until": None}
    if state.not_before > state.updated_at:
        return {"kind": "backoff", "until": iso(state.not_before)}
    return {"kind": "queue", "until": None}


def release_view(state: SagaState, plan: Plan) -> WaitingView | None:
    """Return what a saga waits for if the deployed code does not fit its next step."""
    step = state.current
    since = state.settling_since
    if step is None or state.lease is not None:
        return None
    failure = misfit(plan, state, since or state.updated_at)
    until = since and since + plan.settle
    if since and state.waiting_for == "signal":  # while its step is not deployed, nobody can send the signal
        own = plan.steps[state.cursor].forward
        failure = own if isinstance(own, Failure) else None
        until = max(until, state.not_before)
    message = state.unreadable if since else ""
    if failure is not None:
        kind = "" if failure.code_missing else f" as {KINDS[step.waits_for]}"
        code = "undo" if state.undoing else "code"
        message = f"the {code} of step {step.name} of release {state.version} is not deployed here{kind}"
    return {"kind": "release", "until": _when(until), "step": step.name, "message": message} if message else None


def read_only_view(
    state: SagaState,
    entries: Sequence[Entry],
    purge: Purge | None,
    objects: Sequence[tuple[str, str]] = (),
    more_objects: int = 0,
) -> SagaView:
    """Return a saga that can only be read."""
    view = saga_view(state, entries)
    if purge is not None:
        view["purged_at"] = iso(purge.at)
        view["purge_reason"] = purge.reason
        view["objects"] = [{"bucket": bucket, "key": key} for bucket, key in objects]
        view["more_objects"] = more_objects
    return view


_WRONG_TEXTS = {
    Wrong.CHANGED: "entry {0} was changed",
    Wrong.MISSING: "entry {0} is missing",
    Wrong.INSERTED: "entry {0} was inserted after the last one",
    Wrong.CUT_OFF: "entry {0} and all later ones are missing",
}


def verification_view(saga_id: str, verified: Verified) -> VerificationView:
    """Return the result of verifying a saga's audit trail."""
    finding = verified.finding
    bad = verified.finding.bad
    view: VerificationView = {
        "saga_id": saga_id,
        "verified": bad is None,
        "entries": finding.entries,
        "broken": None,
    }
    if bad is not None:
        view["broken"] = {"seq": bad.seq, "what": bad.wrong.value, "message": _WRONG_TEXTS[bad.wrong].format(bad.seq)}
    if verified.purged_at:
        view["purged_at"] = iso(verified.purged_at)
    return view


def audit_view(entry: Entry) -> AuditEntry:
    """Return one entry of the audit trail."""
    return {
        "saga_id": entry.saga_id,
        "seq": entry.seq,
        "at": iso(entry.at),
        "type": entry.saga,
        "action": entry.action,
        "step": entry.step,
        "attempt": entry.attempt,
        "status": entry.status,
        "actor": entry.actor,
        "correlation_id": entry.correlation_id,
        "trace_id": entry.trace_id or None,
        "details": entry.details,
    }
