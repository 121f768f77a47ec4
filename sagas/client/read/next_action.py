"""The one right next action of a saga: what the command line advises, and the button that the console puts first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sagas.core.states import OVER, SagaStatus
from sagas.core.text import epoch

_LETTER_KEPT = 13 * 86400
"""Seconds after which SQS may have dropped a dead letter: it keeps one for 14 days, counted from its first sending."""
_LEASE_SLACK = 5.0
"""Seconds that a clock may be off before a lease counts as run out."""
_CODE = ("CodeGone", "TypeChanged")


class Do(StrEnum):
    """What can be done about a saga."""

    RETRY = "retry"
    REDRIVE = "redrive"
    COMPENSATE = "compensate"
    RESOLVE = "resolve"
    CANCEL = "cancel"
    RECOVER = "recover"
    SIGNAL = "signal"
    BREAKER = "breaker"
    RERUN = "rerun"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class NextAction:
    """The right next action of a saga, and what it does.

    Args:
        do: what; ``NOTHING`` where there is nothing to do, or only to wait.
        title: what to call it, as on a button.
        problem: what is the matter, as a headline; empty if nothing is.
        means: what it means, and what the action runs again and what not.
        step: the step that it is about; empty if it is about none.
        runbook: heading of ``docs/operations/runbook.md``, as an anchor; empty if there is none.
        others: what else makes sense, the likelier first.
    """

    do: Do
    title: str = ""
    problem: str = ""
    means: str = ""
    step: str = ""
    runbook: str = ""
    others: tuple[Do, ...] = ()

    def command(self, name: str, saga_id: str) -> str:
        """Return the shell command that does it; empty if there is none."""
        return command_of(self.do, name, saga_id, self.step)


def command_of(do: Do, name: str, saga_id: str, step: str = "") -> str:
    """Return the shell command that does something to a saga; empty if there is none."""
    return {
        Do.REDRIVE: f"sagas dlq redrive {name} {saga_id}",
        Do.RESOLVE: f"sagas resolve {name} {saga_id} --reason ...",
        Do.RECOVER: f"sagas recover {name} {saga_id}",
        Do.SIGNAL: f"sagas signal {name} {saga_id} {step} --data JSON",
        Do.BREAKER: f"sagas breakers close {name} {step}",
        Do.NOTHING: "",
    }.get(do, f"sagas {do} {name} {saga_id}")


def next_action(saga: Mapping[str, Any], now: float) -> NextAction:
    """Return the one right next action of a saga. ``now``: epoch seconds."""
    action, pivot = _next_action(saga, now), saga.get("past_pivot")
    if not pivot:
        return action
    others = tuple(do for do in action.others if do not in (Do.CANCEL, Do.COMPENSATE))  # the API refuses both
    held = f"It is past its pivot {pivot}, so only `sagas compensate --force --reason ...` undoes it."
    means = f"{action.means} {held}" if action.problem else ""
    return replace(action, means=means, others=others)


def _next_action(saga: Mapping[str, Any], now: float) -> NextAction:
    """The action, as if no saga had a pivot."""
    overdue = reason_of(saga).startswith("its deadline")  # past its pivot it is at work all the same
    if saga.get("purged_at") or saga.get("resolution"):
        return NextAction(Do.NOTHING)
    if (saga.get("attention") and not overdue) or saga["status"] in (
        SagaStatus.DEAD_LETTERED,
        SagaStatus.COMPENSATION_FAILED,
    ):
        return _needed(saga, now)
    if saga["status"] in OVER:
        if saga["status"] == SagaStatus.FAILED:
            return _failed(saga)
        return _in_doubt(saga) if saga.get("in_doubt") else NextAction(Do.NOTHING, others=(Do.RERUN,))
    # From here on it is at work, or waits by itself.
    lease, breaker = saga.get("lease"), saga.get("breaker")
    if lease and lease.get("expires_at") and epoch(lease["expires_at"]) + _LEASE_SLACK < now:
        means = "Its worker died or lost its way. The supervisor takes it over within a minute, or at once by this."
        return NextAction(Do.RECOVER, "Recover now", "It stalled", means, others=(Do.CANCEL,))
    if breaker:
        step = breaker["step"]
        means = (
            "It continues by itself once what the step calls is fixed. "
            "Closing the breaker sends those that wait, spread over time."
        )
        problem = f"It waits for the breaker of {step}"
        return NextAction(Do.BREAKER, "Close the breaker", problem, means, step, "breaker-opened", (Do.CANCEL,))
    for step in saga.get("steps", ()):
        if step.get("waiting_for") == "signal":
            problem = f"{step['name']} waits for a signal"
            means = "It goes on with what is sent, and keeps who sent it."
            return NextAction(Do.SIGNAL, "Send it", problem, means, step["name"], others=(Do.CANCEL,))
    if overdue:
        means = "It goes on, and leaves the attention list when it ends."
        return NextAction(Do.NOTHING, "", "Its deadline has passed", means, "", "needs-attention")
    return NextAction(Do.NOTHING, others=(Do.CANCEL,) if saga["status"] != SagaStatus.COMPENSATING else ())


def reason_of(saga: Mapping[str, Any]) -> str:
    """Return why a saga needs an operator; empty if it needs none."""
    attention = saga.get("attention")
    return str(attention["reason"]) if attention else ""


def error_of(saga: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the step of a saga's error, its type and its message; empty texts if unknown. The error that needs an
    operator comes first, then those of undos."""
    attention = saga.get("attention")
    if attention and attention["error"]:
        error = attention["error"]
        return error["step"] or "", error["type"], error["message"]
    for step in saga.get("steps", ()):
        if step["status"] == "COMPENSATION_FAILED" and step["error"]:
            return step["name"], step["error"]["type"], step["error"]["message"]
    error = saga.get("error")
    if error:
        return error.get("step") or "", error["type"], error["message"]
    failed = next((step for step in saga.get("steps", ()) if step["status"] == "FAILED" and step["error"]), None)
    return (failed["name"], failed["error"]["type"], failed["error"]["message"]) if failed else ("", "", "")


def _needed(saga: Mapping[str, Any], now: float) -> NextAction:
    """Of a saga that needs a person: the reasons in the order in which the API tells one."""
    why, (step, kind, _) = reason_of(saga), error_of(saga)
    gone = kind.endswith(_CODE) or "deploy" in why
    if saga["status"] == SagaStatus.COMPENSATION_FAILED:
        undo = f"The undo of {step}" if step else "An undo"
        if gone:
            return _deploy(f"{undo} was not called", step, (Do.RETRY, Do.RESOLVE))
        means = "The world is half undone. Fix the cause: only the failed undo runs again, under the same key."
        others = (Do.RESOLVE,)
        return NextAction(Do.RETRY, "Retry the undo", f"{undo} failed", means, step, "compensation-failed", others)
    if saga["status"] == SagaStatus.DEAD_LETTERED:
        return _dead_lettered(saga, now, gone=gone)
    if saga["status"] == SagaStatus.FAILED:
        return _failed(saga)
    if why.startswith("no response"):
        means = (
            "Messages are sent and none is handled: see the log of the step's function. Nothing is undone. "
            "Once it runs again this saga goes on within an hour, or at once by a retry."
        )
        return NextAction(Do.RETRY, "Retry", "Nothing answers", means, step, "function-errors", (Do.CANCEL,))
    if "stalled" in why:
        means = "It was given up after stalling again and again, mostly since its function is killed: see its log."
        problem, others = "Recovery is exhausted", (Do.CANCEL,) if saga["status"] not in OVER else (Do.RERUN,)
        return NextAction(Do.RESOLVE, "It is settled", problem, means, step, "needs-attention", others)
    return _in_doubt(saga)


def _dead_lettered(saga: Mapping[str, Any], now: float, *, gone: bool) -> NextAction:
    why, (step, kind, _) = reason_of(saga), error_of(saga)
    if gone:
        return _deploy(f"Step {step} was not called" if step else "A step was not called", step)
    others = (Do.COMPENSATE, Do.RESOLVE)
    where = f"step {step}" if step else "a step"
    if kind == "WaitTimedOut" or "timed out:" in why:
        means = "No signal came in time. A retry starts the wait again, with its full time."
        return NextAction(Do.RETRY, "Wait again", f"{where} waited in vain", means, step, "dead-letters", others)
    problem = f"{where} used up its attempts"
    if saga.get("past_pivot") and "only goes forward" in why:  # no message died
        problem = f"{where} stalled too often" if "stalled" in why else f"{where} failed"
        means = "Nothing was undone. Fix the cause, then retry: this step runs again."
        return NextAction(Do.RETRY, "Retry", problem, means, step, "needs-attention", others)
    if now - epoch(saga["updated_at"]) > _LETTER_KEPT:
        means = "Nothing was undone. Its message may be gone from the queue by now; a retry sends a new one."
        return NextAction(Do.RETRY, "Retry", problem, means, step, "dead-letters", others)
    means = (
        "Nothing was undone. Fix the cause, then redrive: the message returns to its queue, and this step runs again."
    )
    return NextAction(Do.REDRIVE, "Redrive", problem, means, step, "dead-letters", (Do.RETRY, *others))


def _deploy(problem: str, step: str, others: tuple[Do, ...] = (Do.RETRY, Do.COMPENSATE, Do.RESOLVE)) -> NextAction:
    means = (
        "Its code is gone or does not fit what is stored: deploy code that has it, @step(retired=True), then retry. "
        "If what is stored is gone from S3, restore that."
    )
    return NextAction(Do.NOTHING, "", problem, means, step, "needs-attention", others)


def _failed(saga: Mapping[str, Any]) -> NextAction:
    step, means = error_of(saga)[0], "Nothing was undone. Undoing runs the undo of each completed step, last first."
    problem = f"Step {step} failed" if step else "A step failed"
    others = (Do.RERUN, Do.RESOLVE)
    return NextAction(Do.COMPENSATE, "Undo", problem, means, step, "failed", others)


def _in_doubt(saga: Mapping[str, Any]) -> NextAction:
    steps = ", ".join(saga.get("in_doubt", ()))
    keys = ", ".join(f"{saga['saga_id']}:{step}" for step in saga.get("in_doubt", ()))
    means = f"An attempt was lost; nobody knows what it did. Look at the provider by the key {keys}, and say so here."
    problem = f"Whether {steps} took effect is unknown"
    return NextAction(Do.RESOLVE, "It is settled", problem, means, steps, "needs-attention", (Do.RERUN,))
