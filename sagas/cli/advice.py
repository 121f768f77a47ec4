"""What went wrong with a saga, what comes next, and when: in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from sagas.cli.output import plain
from sagas.cli.times import moment, span
from sagas.client import ErrorView, SagaView, StepView
from sagas.core.times import epoch

_NEXT = {
    "PENDING": "Its first step is about to begin.",
    "COMPENSATING": "Its completed steps are being undone.",
    "DEAD_LETTERED": "It waits for you. `sagas retry {name} {saga_id}` goes on at the failed step, "
    "and so does `sagas dlq redrive {name}`; `sagas compensate {name} {saga_id}` gives up and undoes it.",
    "COMPENSATED": "What was done is undone.",
    "CANCELLED": "It was cancelled, and what was done is undone.",
    "FAILED": "Nothing was undone. `sagas compensate {name} {saga_id}` undoes it; "
    "`sagas resolve {name} {saga_id} --note ...` says that you have settled it.",
    "COMPENSATION_FAILED": "`sagas retry {name} {saga_id}` repeats the failed undos; "
    "`sagas resolve {name} {saga_id} --note ... --step STEP` says that you have undone a step by hand.",
}
_UNDOING = ("COMPENSATING", "COMPENSATION_FAILED")
_IN_DOUBT = "Whether {steps} took effect is unknown: look, then `sagas resolve {name} {saga_id} --note ...`."


def advice(saga: SagaView, now: float) -> list[str]:
    """Return sentences about a saga: its errors, what happens next, and what a person can do.

    Args:
        saga: as the API shows it.
        now: epoch seconds.
    """
    if "purged_at" in saga:
        why = f" ({reason})" if (reason := saga.get("purge_reason")) else ""
        return [plain(f"It was purged on {moment(saga['purged_at'])}{why}: request, results and errors are gone.")]
    who = {"name": saga["name"], "saga_id": saga["saga_id"]}
    said = [
        *_errors(saga),
        *_breaker(saga, now),
        *(_waiting(saga, step, now) for step in saga["steps"] if step.get("waiting_for")),
        *(
            _next_attempt(step, now)
            for step in saga["steps"]
            if step["next_attempt_at"] and not step.get("waiting_for")
        ),
    ]
    for one in saga.get("left_out", ()):
        if one["why"] == "too_large":
            where = (
                f"in the payload bucket under {one['object']}" if one["object"] else f"in audit entry {one['entry']}"
            )
            said.append(f"{one['path']} is too large to be answered: it is {where}.")
    settled = saga["resolution"]
    if settled is not None:
        done = f" ({settled['action']})" if settled.get("action") else ""
        said.append(f"Settled by {settled['by']} on {moment(settled['at'])}: {settled['note']}{done}")
    else:
        if saga["in_doubt"]:
            said.append(_IN_DOUBT.format(steps=", ".join(saga["in_doubt"]), **who))
        if saga["status"] in _NEXT:
            said.append(_NEXT[saga["status"]].format(**who))
    return [plain(sentence) for sentence in said]


def _waiting(saga: SagaView, step: StepView, now: float) -> str:
    """What a step waits for, since when, until when, and how to send it."""
    until = step["waits_until"] or ""
    left = f"{moment(until)}, in {span(max(0.0, epoch(until) - now))}" if until else "further notice"
    since = f" since {moment(step['started_at'])}" if step["started_at"] else ""
    if step["waiting_for"] == "retry":
        why = f" ({step['message']})" if step["message"] else ""
        return f"{step['name']}: not yet{why}. It looks again at {left}."
    children = step.get("children")
    if step["waiting_for"] == "children" and children is not None:
        counts = f"{children['completed']} of {children['total']} completed, {children['failed']} failed"
        return f"{step['name']} waits for its children: {counts}. `sagas list --parent {saga['saga_id']}` lists them."
    if step["waiting_for"] == "time":
        return f"{step['name']} sleeps{since} until {left}."
    command = f"sagas signal {saga['name']} {saga['saga_id']} {step['name']} --data JSON"
    return f"{step['name']} waits for a signal{since}, until {left}. Who may call the API can send it: `{command}`."


def _errors(saga: SagaView) -> Iterator[str]:
    """The error that ended the forward way, then those of undos, and of the step that is being retried."""
    cause = saga["error"]
    if cause is not None:
        failed = next((step for step in saga["steps"] if step["name"] == cause.get("step")), None)
        yield (
            f"{_attempt(saga, failed)} failed: {_error(cause)}" if failed else f"{saga['name']} failed: {_error(cause)}"
        )
    for step in saga["steps"]:
        error = step["error"]
        if error is None or step["status"] == "COMPENSATED" or (cause is not None and _error(error) == _error(cause)):
            continue
        undone = step["status"] in _UNDOING
        yield f"{'The undo of ' if undone else ''}{_attempt(saga, step, undo=undone)} failed: {_error(error)}"


def _attempt(saga: SagaView, step: StepView, *, undo: bool = False) -> str:
    number = step["undo_attempts"] if undo else step["attempts"]
    return f"{saga['name']} {saga['saga_id']}, step {step['name']}, attempt {number}"


def _error(error: ErrorView) -> str:
    return f"{error['type']}: {error['message']}" if error["message"] else error["type"]


def _breaker(saga: SagaView, now: float) -> Iterator[str]:
    """What the saga waits behind, if it does; an older service does not say."""
    waits = saga.get("breaker")
    if waits is None:
        return
    until, place = waits["open_until"], f"the breaker of step {waits['step']}"
    yield f"It waits for {place}, " + (
        f"open until {moment(until)}." if epoch(until) > now else f"which lets one saga try since {moment(until)}."
    )
    yield f"`sagas breakers close {saga['name']} {waits['step']}` lets all go on."


def _next_attempt(step: StepView, now: float) -> str:
    due = step["next_attempt_at"] or ""
    undoing = step["status"] in _UNDOING
    number = (step["undo_attempts"] if undoing else step["attempts"]) + 1
    what = f"the undo of step {step['name']}" if undoing else f"step {step['name']}"
    left = epoch(due) - now
    when = f"in {span(left)}" if left > 0 else "now"
    return f"Attempt {number} of {what} is due {when} ({moment(due)})."
