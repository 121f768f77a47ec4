"""Writes sentences about a saga: its errors, what comes next, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sagas.client.read.next_action import Do, command_of, inputs_awaited, next_action, release_awaited, state_of
from sagas.core.events import AttentionCode
from sagas.core.states import ENDED
from sagas.core.text import age, ago, epoch, moment, plain, span

if TYPE_CHECKING:
    from sagas.engine.read.answers import ErrorView, SagaView, StepView

_NEXT = {
    "PENDING": "Its first step has not started yet.{late}",
    "COMPENSATING": "Its completed steps are being undone.",
    "DEAD_LETTERED": "The saga waits for you. `sagas retry {type} {saga_id}` continues at the failed step. {undo}",
    "FAILED": "Nothing has been rolled back. {undo} "
    "`sagas resolve {type} {saga_id} --reason ...` marks the saga as settled by hand.",
    "COMPENSATION_FAILED": "`sagas retry {type} {saga_id}` repeats the failed undos. "
    "`sagas resolve {type} {saga_id} --reason ... --undone STEP` records a step that you undid by hand.",
}
_SURELY_BEGUN = 60.0
"""Seconds after which the first step of a saga has usually begun, also after a cold start."""
_STOPPED = ("DEAD_LETTERED", "COMPENSATION_FAILED")
_UNSEEN = (AttentionCode.RECOVERY_EXHAUSTED, AttentionCode.NO_RESPONSE)
"""Reasons for attention that neither a status nor an error shows."""
_UNDOING = ("COMPENSATING", "COMPENSATION_FAILED")
_UNDONE = ("COMPENSATED", "CANCELLED")
_IN_DOUBT = (
    "In doubt: {steps} may or may not have taken effect. Check, then `sagas resolve {type} {saga_id} --reason ...`."
)


def advice(saga: SagaView, now: float) -> list[str]:
    """Return sentences about a saga: its errors, what comes next, and what you can do. ``now``: epoch seconds."""
    if "purged_at" in saga:
        return _purged(saga, saga["purged_at"])
    ids = {"type": saga["type"], "saga_id": state_of(saga)}
    sentences = [*_errors(saga)]
    breaker = saga["breaker"]
    sentences += _breaker(saga, now)
    if saga["paused"]:
        sentences.append(_pause(saga))
    sentences += [waits_for(saga, step, now) for step in saga["steps"] if step.get("waiting_for")]
    sentences += [_children(saga, step) for step in saga["steps"] if step.get("waiting_for") != "children"]
    sentences += [
        _next_attempt(step, now)
        for step in saga["steps"]
        if step["next_attempt_at"] and not step.get("waiting_for") and not breaker
    ]
    sentences += _lease(saga, now)
    sentences += _left_out(saga)
    resolution = saga["resolution"]
    if resolution is not None:
        action = f" ({resolution['action']})" if resolution.get("action") else ""
        sentences.append(f"Settled by {resolution['by']} on {moment(resolution['at'])}: {resolution['reason']}{action}")
    else:
        if saga["in_doubt"]:
            sentences.append(_IN_DOUBT.format(steps=", ".join(saga["in_doubt"]), **ids))
        sentences.append(_undone(saga) if saga["status"] in _UNDONE else _next(saga, now))
        sentences.append(_given_up(saga, now))
    return [plain(sentence) for sentence in sentences if sentence]


def _next(saga: SagaView, now: float) -> str:
    """Return the sentence about what comes next, or what to do; empty if there is nothing to say."""
    waiting = saga.get("waiting")
    status = saga["status"]
    if waiting is not None and waiting["kind"] == "release":
        until = f" until {moment(waiting['until'])}" if waiting["until"] else ""
        return f"Waiting for a release{until}. {release_awaited(saga)}"
    if waiting is not None and waiting["kind"] == "inputs":
        again = f" It tries again on {moment(waiting['until'])}." if waiting["until"] else ""
        return inputs_awaited(saga) + again
    if status not in _NEXT or saga["breaker"]:
        return ""
    action = next_action(saga, now)
    ids = {"type": saga["type"], "saga_id": state_of(saga)}
    if status in _STOPPED and action.do is Do.NOTHING and action.means:
        return action.means
    late = now - epoch(saga["created_at"]) > _SURELY_BEGUN
    late_text = " If that lasts, its function may not load its code: `sagas doctor` finds that out." if late else ""
    return _NEXT[status].format(undo=_undo(saga), late=late_text, **ids)


def _undo(saga: SagaView) -> str:
    """Return the sentence about the command that undoes the saga."""
    command = command_of(Do.COMPENSATE, saga)
    pivot = saga.get("past_pivot")
    if pivot:
        return f"The saga is past its pivot {pivot}, so only `{command} --force --reason ...` undoes it."
    return f"`{command}` undoes the completed steps."


def _given_up(saga: SagaView, now: float) -> str:
    """Return the sentences on a saga that stalled too often, or whose function does not respond; empty for others."""
    attention = saga["attention"]
    if attention is None or attention["code"] not in _UNSEEN:
        return ""
    action = next_action(saga, now)
    commands = [command_of(do, saga, action.step) for do in (action.do, *action.others)]
    return f"{action.means} Next: {', or '.join(f'`{command}`' for command in commands)}."


def _purged(saga: SagaView, purged_at: str) -> list[str]:
    why = f" ({reason})" if (reason := saga.get("purge_reason")) else ""
    sentences = [f"The saga was purged on {moment(purged_at)}{why}: request, results and errors are deleted."]
    sentences += [f"s3://{place['bucket']}/{place['key']} is left to the sweep." for place in saga.get("objects", ())]
    more = saga.get("more_objects", 0)
    others = f"{more} more {'object is' if more == 1 else 'objects are'} left to the sweep."
    return [*map(plain, sentences), *([others] if more else [])]


def _breaker(saga: SagaView, now: float) -> Iterator[str]:
    """Yield sentences about the breaker that the saga waits for, and the command that closes the breaker."""
    breaker = saga["breaker"]
    if breaker is None:
        return
    until = moment(breaker["open_until"])
    state = f"open until {until}" if epoch(breaker["open_until"]) > now else f"half-open since {until}"
    yield f"The saga waits for the circuit breaker of step {breaker['step']}, {state}."
    yield f"`sagas breakers close {saga['type']} {breaker['step']}` closes it, and all waiting sagas continue."


def _left_out(saga: SagaView) -> Iterator[str]:
    """Yield a sentence on each payload that the answer does not contain, with the place of the payload."""
    for part in saga.get("left_out", ()):
        where = f"in the payload bucket at {part['object']}" if part["object"] else f"in audit entry {part['entry']}"
        reasons = {
            "too_large": f"is too large for an answer; it is stored {where}.",
            "unreadable": f"cannot be read: it is missing, was changed or may not be read {where}.",
        }
        if part["reason"] in reasons:
            yield f"{part['path']} {reasons[part['reason']]}"


def _pause(saga: SagaView) -> str:
    """Return the sentence about the pause that stops the saga, and the command that ends the pause."""
    pause = saga.get("pause")
    what = " ".join(part for part in (saga["type"], pause and pause["step"], pause and pause["saga_id"]) if part)
    by = f" by {pause['by']}" if pause and pause["by"] else ""
    why = f" ({pause['reason']})" if pause and pause["reason"] else ""
    return f"{what} is paused{by}{why}: no further step starts until `sagas resume {what}`."


def _undone(saga: SagaView) -> str:
    """Return the sentence about a saga that was undone: its undone steps, and steps without an undo."""
    undone = [step["name"] for step in saga["steps"] if step["status"] == "COMPENSATED"]
    completed = [step["name"] for step in saga["steps"] if step["status"] == "COMPLETED"]
    if completed:
        stays = f"{', '.join(completed)} {'has' if len(completed) == 1 else 'have'} no undo"
        were = "was" if len(undone) == 1 else "were"
        text = f"{', '.join(undone)} {were} undone; {stays}." if undone else f"nothing to roll back: {stays}."
    else:
        text = "all completed steps were undone." if undone else "nothing to roll back."
    if saga["status"] == "CANCELLED":
        return f"The saga was cancelled: {text}"
    return text if undone and completed else text[0].upper() + text[1:]


def _lease(saga: SagaView, now: float) -> Iterator[str]:
    """Yield sentences about the worker that holds the saga's lease, and its last heartbeat."""
    lease = saga.get("lease")
    if not lease or saga["status"] in ENDED:
        return
    beat = f", last heartbeat {ago(lease['heartbeat_at'], now)}" if lease.get("heartbeat_at") else ""
    remaining = epoch(lease["expires_at"]) - now
    expired = f"its lease expired {ago(lease['expires_at'], now)}"
    ends = f"its lease expires in {span(remaining)}" if remaining > 0 else expired
    since = f" for {age(now - epoch(lease['claimed_at']))}" if lease["claimed_at"] else ""
    yield f"A worker has held the saga{since}{beat}; {ends}."
    if remaining <= 0:
        command = f"sagas recover {saga['type']} {saga['saga_id']}"
        yield f"The supervisor takes the saga over soon; `{command}` does so now."


def waits_for(saga: SagaView, step: StepView, now: float) -> str:
    """Return a sentence on a step's wait: start, end, and the command that ends it. ``now`` is in epoch seconds."""
    until = step["waits_until"] or ""
    end = f"{moment(until)}, in {span(max(0.0, epoch(until) - now))}" if until else "further notice"
    since = f" since {moment(step['started_at'])}" if step["started_at"] else ""
    if step["waiting_for"] == "retry":
        why = f" ({step['message']})" if step["message"] else ""
        return f"{step['name']} is not ready{why}. It runs again at {end}."
    if step["waiting_for"] == "children" and step.get("children"):
        return _children(saga, step)
    if step["waiting_for"] == "time":
        return f"{step['name']} sleeps{since} until {end}."
    command = f"sagas signal {saga['type']} {saga['saga_id']} {step['name']} --data JSON"
    return f"{step['name']} waits for a signal{since}, until {end}. To send it: `{command}`."


def _children(saga: SagaView, step: StepView) -> str:
    """Return the sentence about the children of a step; empty if it has started no children."""
    children = step.get("children")
    waits = step.get("waiting_for") == "children"
    if not children or not (waits or children["total"]):
        return ""
    what = f"{step['name']} waits for its children" if waits else f"The children of {step['name']}"
    ended = f"{children['finished']:.0%} ended"
    counts = f"{children['completed']} of {children['total']} completed, {children['failed']} failed, {ended}"
    return f"{what}: {counts}. `sagas list --parent {saga['saga_id']}` lists them."


def failed_children(saga: SagaView) -> list[str]:
    """Return a line for each failed child that the API names, whatever the status of the parent."""
    lines = list[str]()
    for step in saga["steps"]:
        children = step.get("children")
        for failure in children.get("failures", ()) if children else ():
            why = f": {_error(failure['error'])}" if failure["error"] else ""
            label = f"{failure['label']} " if failure["label"] else ""
            lines.append(f"{step['name']}[{failure['position']}] {label}{failure['saga_id']} {failure['status']}{why}")
    return [plain(line) for line in lines]


def _errors(saga: SagaView) -> Iterator[str]:
    """Yield the error that made the saga fail, then the errors of undos and of retried steps."""
    cause = saga["error"]
    if cause is not None:
        failed = next((step for step in saga["steps"] if step["name"] == cause.get("step")), None)
        yield _failure(saga, failed, cause) if failed else f"{saga['type']} failed: {_error(cause)}"
    for step in saga["steps"]:
        error = step["error"]
        if error is None or step["status"] == "COMPENSATED" or (cause is not None and _error(error) == _error(cause)):
            continue
        # While the first attempt of an undo runs, the error is still the step's own.
        # After a retry, the step is COMPLETED until the next attempt of the undo.
        tried = step["status"] in (*_UNDOING, "COMPLETED") and _failed_attempt(step, undo=True) > 0
        undo = tried or step["status"] == "COMPENSATION_FAILED"  # the undo may have no code
        yield f"{'The undo of ' if undo else ''}{_failure(saga, step, error, undo=undo)}"


def _failure(saga: SagaView, step: StepView, error: ErrorView, *, undo: bool = False) -> str:
    number = _failed_attempt(step, undo=undo)
    where = f"{saga['type']} {saga['saga_id']}, step {step['name']}"
    if not number and not step.get("waiting_for"):
        return f"{where} was not called: {_error(error)}"
    return f"{where}, attempt {number} failed: {_error(error)}"


def _failed_attempt(step: StepView, *, undo: bool) -> int:
    """Return the number of the attempt that failed. While an attempt runs, that is the previous attempt."""
    number = step["undo_attempts"] if undo else step["attempts"]
    runs = step["status"] == ("COMPENSATING" if undo else "RUNNING") and not step["next_attempt_at"]
    return max(number - runs, 0)


def why(step: StepView) -> str:
    """Return in a few words why a step failed or was skipped; empty for other steps."""
    if step["status"] == "SKIPPED":
        return f"skipped: {step['message']}" if step["message"] else ""
    return step["error"]["type"] if step["error"] and step["status"] != "RUNNING" else ""


def _error(error: ErrorView) -> str:
    return f"{error['type']}: {error['message']}" if error["message"] else error["type"]


def _next_attempt(step: StepView, now: float) -> str:
    due = step["next_attempt_at"] or ""
    undoing = step["status"] in _UNDOING
    number = (step["undo_attempts"] if undoing else step["attempts"]) + 1
    what = f"the undo of step {step['name']}" if undoing else f"step {step['name']}"
    remaining = epoch(due) - now
    when = f"in {span(remaining)}" if remaining > 0 else "now"
    return f"Attempt {number} of {what} is due {when} ({moment(due)})."
