"""What went wrong with a saga, what comes next, and when: in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sagas.client.read.next_action import Do, next_action
from sagas.core.states import OVER
from sagas.core.text import age, ago, epoch, moment, plain, span

if TYPE_CHECKING:
    from sagas.engine.read.answers import ErrorView, SagaView, StepView

_NEXT = {
    "PENDING": "Its first step is about to begin.",
    "COMPENSATING": "Its completed steps are being undone.",
    "DEAD_LETTERED": "It waits for you. `sagas {first}` goes on at the failed step{second}; "
    "`sagas compensate {type} {saga_id}` gives up and undoes it.",
    "FAILED": "Nothing was undone. `sagas compensate {type} {saga_id}` undoes it; "
    "`sagas resolve {type} {saga_id} --reason ...` says that you have settled it.",
    "COMPENSATION_FAILED": "`sagas retry {type} {saga_id}` repeats the failed undos; "
    "`sagas resolve {type} {saga_id} --reason ... --step STEP` says that you have undone a step by hand.",
}
_UNDOING = ("COMPENSATING", "COMPENSATION_FAILED")
_UNDONE = ("COMPENSATED", "CANCELLED")
_IN_DOUBT = "Whether {steps} took effect is unknown: look, then `sagas resolve {type} {saga_id} --reason ...`."


def advice(saga: SagaView, now: float) -> list[str]:
    """Return sentences about a saga: its errors, what happens next, and what a person can do. ``now``: epoch
    seconds."""
    if "purged_at" in saga:
        return _purged(saga, saga["purged_at"])
    who = {"type": saga["type"], "saga_id": saga["saga_id"]}
    said = [*_errors(saga)]
    behind = saga["breaker"]
    said += _breaker(saga, now)
    if saga["paused"]:
        said.append(_pause(saga))
    said += [waits_for(saga, step, now) for step in saga["steps"] if step.get("waiting_for")]
    said += [_children(saga, step) for step in saga["steps"] if step.get("waiting_for") != "children"]
    said += [
        _next_attempt(step, now)
        for step in saga["steps"]
        if step["next_attempt_at"] and not step.get("waiting_for") and not behind
    ]
    said += _lease(saga, now)
    said += _left_out(saga)
    settled = saga["resolution"]
    if settled is not None:
        done = f" ({settled['action']})" if settled.get("action") else ""
        said.append(f"Settled by {settled['by']} on {moment(settled['at'])}: {settled['reason']}{done}")
    else:
        if saga["in_doubt"]:
            said.append(_IN_DOUBT.format(steps=", ".join(saga["in_doubt"]), **who))
        if saga["status"] in _UNDONE:
            said.append(_undone(saga))
        elif saga["status"] in _NEXT and not behind:
            said.append(_NEXT[saga["status"]].format(**who, **_ways_on(saga, now)))
    return [plain(sentence) for sentence in said if sentence]


def _purged(saga: SagaView, purged_at: str) -> list[str]:
    """What is left of a saga that was purged."""
    why = f" ({reason})" if (reason := saga.get("purge_reason")) else ""
    said = [f"It was purged on {moment(purged_at)}{why}: request, results and errors are gone."]
    said += [f"s3://{one['bucket']}/{one['key']} is left to the sweep." for one in saga.get("objects", ())]
    more = saga.get("more_objects", 0)
    return [*map(plain, said), *([f"{more} more objects are left to the sweep."] if more else [])]


def _breaker(saga: SagaView, now: float) -> Iterator[str]:
    """Until when a breaker holds the saga back, and what ends that."""
    behind = saga["breaker"]
    if behind is None:
        return
    until = moment(behind["open_until"])
    state = f"open until {until}" if epoch(behind["open_until"]) > now else f"which lets one saga try since {until}"
    yield f"It waits for the breaker of step {behind['step']}, {state}."
    yield f"`sagas breakers close {saga['type']} {behind['step']}` lets all go on."


def _left_out(saga: SagaView) -> Iterator[str]:
    """What the answer lacks, and where it is."""
    for one in saga.get("left_out", ()):
        where = f"in the payload bucket under {one['object']}" if one["object"] else f"in audit entry {one['entry']}"
        why = {
            "too_large": f"is too large to be answered: it is {where}.",
            "unreadable": f"cannot be read: what should be {where} is gone or was changed.",
        }
        if one["why"] in why:
            yield f"{one['path']} {why[one['why']]}"


def _pause(saga: SagaView) -> str:
    """What is paused, by whom, why, and how it goes on."""
    pause = saga.get("pause")
    what = " ".join(part for part in (saga["type"], pause and pause["step"], pause and pause["saga_id"]) if part)
    by = f" by {pause['by']}" if pause and pause["by"] else ""
    why = f" ({pause['reason']})" if pause and pause["reason"] else ""
    return f"{what} is paused{by}{why}: no further step begins until `sagas resume {what}`."


def _ways_on(saga: SagaView, now: float) -> dict[str, str]:
    """How a saga goes on that waits at a failed step: the right way first."""
    action, name, saga_id = next_action(saga, now), saga["type"], saga["saga_id"]
    retry = f"retry {name} {saga_id}"
    if action.do is not Do.REDRIVE:
        return {"first": retry, "second": ", once its code is deployed" if action.do is Do.NOTHING else ""}
    redrive = action.command(name, saga_id).removeprefix("sagas ")
    return {"first": redrive, "second": f", and so does `sagas {retry}`, which leaves its message in the queue"}


def _undone(saga: SagaView) -> str:
    """What was undone of a saga that is over, and what was not, since it has no undo."""
    undone = [step["name"] for step in saga["steps"] if step["status"] == "COMPENSATED"]
    left = [step["name"] for step in saga["steps"] if step["status"] == "COMPLETED"]
    if left:
        stays = f"{', '.join(left)} {'has' if len(left) == 1 else 'have'} no undo"
        are = "is" if len(undone) == 1 else "are"
        said = f"{', '.join(undone)} {are} undone, {stays}." if undone else f"nothing was undone, as {stays}."
    else:
        said = "what was done is undone." if undone else "there was nothing to undo."
    if saga["status"] == "CANCELLED":
        return f"It was cancelled: {said}"
    return said if undone and left else said[0].upper() + said[1:]


def _lease(saga: SagaView, now: float) -> Iterator[str]:
    """Who is at work, since when, and when it last showed that it lives."""
    lease = saga.get("lease")
    if not lease or saga["status"] in OVER:
        return
    beat = f", last heartbeat {ago(lease['heartbeat_at'], now)}" if lease.get("heartbeat_at") else ""
    left = epoch(lease["expires_at"]) - now
    ends = f"its lease ends in {span(left)}" if left > 0 else f"its lease ran out {ago(lease['expires_at'], now)}"
    since = f" for {age(now - epoch(lease['claimed_at']))}" if lease["claimed_at"] else ""
    yield f"A worker has had it{since}{beat}; {ends}."
    if left <= 0:
        yield f"`sagas recover {saga['type']} {saga['saga_id']}` takes it over now, the supervisor soon."


def waits_for(saga: SagaView, step: StepView, now: float) -> str:
    """Return what a step waits for, since when, until when, who may send it, and by which command. ``now``: epoch
    seconds."""
    until = step["waits_until"] or ""
    left = f"{moment(until)}, in {span(max(0.0, epoch(until) - now))}" if until else "further notice"
    since = f" since {moment(step['started_at'])}" if step["started_at"] else ""
    if step["waiting_for"] == "retry":
        why = f" ({step['message']})" if step["message"] else ""
        return f"{step['name']}: not yet{why}. It looks again at {left}."
    if step["waiting_for"] == "children" and step.get("children"):
        return _children(saga, step)
    if step["waiting_for"] == "time":
        return f"{step['name']} sleeps{since} until {left}."
    command = f"sagas signal {saga['type']} {saga['saga_id']} {step['name']} --data JSON"
    return f"{step['name']} waits for a signal{since}, until {left}. Who may call the API can send it: `{command}`."


def _children(saga: SagaView, step: StepView) -> str:
    """How far the children of a step are, and which command lists them; nothing if it has started none."""
    children = step.get("children")
    waits = step.get("waiting_for") == "children"
    if not children or not (waits or children["total"]):
        return ""
    what = f"{step['name']} waits for its children" if waits else f"The children of {step['name']}"
    over = f", {children['finished']:.0%} over"
    counts = f"{children['completed']} of {children['total']} completed, {children['failed']} failed{over}"
    return f"{what}: {counts}. `sagas list --parent {saga['saga_id']}` lists them."


def failed_children(saga: SagaView) -> list[str]:
    """Return a line for each child that failed, as far as the API names them, whatever became of their parent since."""
    lines = list[str]()
    for step in saga["steps"]:
        children = step.get("children")
        for failure in children.get("failures", ()) if children else ():
            why = f": {_error(failure['error'])}" if failure["error"] else ""
            lines.append(f"{step['name']}[{failure['position']}] {failure['saga_id']} {failure['status']}{why}")
    return [plain(line) for line in lines]


def _errors(saga: SagaView) -> Iterator[str]:
    """The error that ended the forward way, then those of undos, and of the step that is being retried."""
    cause = saga["error"]
    if cause is not None:
        failed = next((step for step in saga["steps"] if step["name"] == cause.get("step")), None)
        yield _failure(saga, failed, cause) if failed else f"{saga['type']} failed: {_error(cause)}"
    for step in saga["steps"]:
        error = step["error"]
        if error is None or step["status"] == "COMPENSATED" or (cause is not None and _error(error) == _error(cause)):
            continue
        # The undo that runs as its first attempt has not failed: the error is still the step's own.
        undone = step["status"] in _UNDOING and _blamed(step, undo=True) > 0
        yield f"{'The undo of ' if undone else ''}{_failure(saga, step, error, undo=undone)}"


def _failure(saga: SagaView, step: StepView, error: ErrorView, *, undo: bool = False) -> str:
    number, where = _blamed(step, undo=undo), f"{saga['type']} {saga['saga_id']}, step {step['name']}"
    if not number and not step.get("waiting_for"):
        return f"{where} was not called: {_error(error)}"
    return f"{where}, attempt {number} failed: {_error(error)}"


def _blamed(step: StepView, *, undo: bool) -> int:
    """The number of the attempt that an error is of: one that runs has not failed, the one before it did."""
    number = step["undo_attempts"] if undo else step["attempts"]
    runs = step["status"] == ("COMPENSATING" if undo else "RUNNING") and not step["next_attempt_at"]
    return max(number - runs, 0)


def _error(error: ErrorView) -> str:
    return f"{error['type']}: {error['message']}" if error["message"] else error["type"]


def _next_attempt(step: StepView, now: float) -> str:
    due = step["next_attempt_at"] or ""
    undoing = step["status"] in _UNDOING
    number = (step["undo_attempts"] if undoing else step["attempts"]) + 1
    what = f"the undo of step {step['name']}" if undoing else f"step {step['name']}"
    left = epoch(due) - now
    when = f"in {span(left)}" if left > 0 else "now"
    return f"Attempt {number} of {what} is due {when} ({moment(due)})."
