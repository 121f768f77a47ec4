"""The next action on a saga: the command line recommends it, and the console has it as the first button."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import epoch

_LETTER_KEPT = 13 * 86400
"""Seconds after which SQS may have deleted a dead letter: SQS keeps a message for 14 days after it was first sent."""
_LEASE_SLACK = 5.0
"""A lease counts as expired this many seconds late, because clocks differ."""
_CODE = ("CodeGone", "TypeChanged")
_CODE_OF_STEP = (
    "Deploy the code of step {step} again, then run `sagas retry {id}`. "
    'If the step has another name now, write `@step(name="{step}")`.'
)
_CODE_OF_UNDO = (
    "Deploy the undo of step {step} again and run `sagas retry {id}`, "
    "or undo it by hand and run `sagas resolve {id} --step {step}`."
)
_VALUE = (
    "Deploy code that reads the stored value (a default, `Old | New` or `upcast=`), then run `sagas retry {id}`. "
    "If it is missing in S3, restore it."
)


class Do(StrEnum):
    """An action that an operator can take on a saga."""

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
    """The next action on a saga, and its effect.

    Args:
        do: the action; ``NOTHING`` if there is nothing to do, or only to wait.
        title: the label of the button.
        problem: the headline of the problem; empty if there is no problem.
        means: the explanation of the situation, and of what the action runs again.
        step: the step with the problem; empty if there is none.
        runbook: the anchor in ``docs/operations/runbook.md``; empty if there is none.
        others: alternative actions, the likeliest first.
    """

    do: Do
    title: str = ""
    problem: str = ""
    means: str = ""
    step: str = ""
    runbook: str = ""
    others: tuple[Do, ...] = ()

    def command(self, name: str, saga_id: str) -> str:
        """Return the shell command of the action; empty if there is none."""
        return command_of(self.do, name, saga_id, self.step)


def command_of(do: Do, name: str, saga_id: str, step: str = "") -> str:
    """Return the shell command of an action; empty if there is none."""
    return {
        Do.REDRIVE: f"sagas dlq redrive {name} {saga_id}",
        Do.RESOLVE: f"sagas resolve {name} {saga_id} --reason ...",
        Do.RECOVER: f"sagas recover {name} {saga_id}",
        Do.SIGNAL: f"sagas signal {name} {saga_id} {step} --data JSON",
        Do.BREAKER: f"sagas breakers close {name} {step}",
        Do.NOTHING: "",
    }.get(do, f"sagas {do} {name} {saga_id}")


def next_action(saga: Mapping[str, Any], now: float) -> NextAction:
    """Return the next action on a saga. ``now``: epoch seconds."""
    action, pivot = _next_action(saga, now), saga.get("past_pivot")
    if not pivot:
        return action
    others = tuple(do for do in action.others if do not in (Do.CANCEL, Do.COMPENSATE))  # the API refuses these
    held = f"The saga is past its pivot {pivot}, so only `sagas compensate --force --reason ...` undoes it."
    means = f"{action.means} {held}" if action.problem else ""
    return replace(action, means=means, others=others)


def _next_action(saga: Mapping[str, Any], now: float) -> NextAction:
    """Return the next action as if the saga had no pivot."""
    overdue = reason_of(saga).startswith("its deadline")  # past its pivot, a saga continues after its deadline
    if saga.get("purged_at") or saga.get("resolution"):
        return NextAction(Do.NOTHING)
    if (saga.get("attention") and not overdue) or saga["status"] in (
        SagaStatus.DEAD_LETTERED,
        SagaStatus.COMPENSATION_FAILED,
    ):
        return _needed(saga, now)
    if saga["status"] in ENDED:
        if saga["status"] == SagaStatus.FAILED:
            return _failed(saga)
        return _in_doubt(saga) if saga.get("in_doubt") else NextAction(Do.NOTHING, others=(Do.RERUN,))
    return _in_flight(saga, now, overdue=overdue)


def _in_flight(saga: Mapping[str, Any], now: float, *, overdue: bool) -> NextAction:
    """Return the next action on a saga that runs, or that waits for something other than an operator."""
    waiting = saga.get("waiting")
    if waiting and waiting["kind"] == "release":
        others = (Do.RECOVER, Do.CANCEL) if saga["status"] != SagaStatus.COMPENSATING else (Do.RECOVER,)
        problem = "The saga waits for a release"
        return NextAction(Do.NOTHING, "", problem, release_awaited(saga), waiting.get("step", ""), others=others)
    lease, breaker = saga.get("lease"), saga.get("breaker")
    if lease and lease.get("expires_at") and epoch(lease["expires_at"]) + _LEASE_SLACK < now:
        means = "Its worker died. The supervisor takes the saga over within a minute; this does it now."
        return NextAction(Do.RECOVER, "Recover now", "The saga stalled", means, others=(Do.CANCEL,))
    if breaker:
        step = breaker["step"]
        means = (
            "The saga continues once the dependency of the step is fixed. "
            "Closing the breaker resumes the waiting sagas, spread over time."
        )
        problem = f"The saga waits for the breaker of {step}"
        return NextAction(Do.BREAKER, "Close the breaker", problem, means, step, "breaker-opened", (Do.CANCEL,))
    for step in saga.get("steps", ()):
        if step.get("waiting_for") == "signal":
            problem = f"{step['name']} waits for a signal"
            means = "The saga continues with the value, and the audit trail names the sender."
            return NextAction(Do.SIGNAL, "Send the signal", problem, means, step["name"], others=(Do.CANCEL,))
    if overdue:
        means = "The saga continues, and leaves the attention list when it ends."
        return NextAction(Do.NOTHING, "", "Its deadline has passed", means, "", "needs-attention")
    return NextAction(Do.NOTHING, others=(Do.CANCEL,) if saga["status"] != SagaStatus.COMPENSATING else ())


def release_awaited(saga: Mapping[str, Any]) -> str:
    """Return why a saga waits for a release, and what to do about it."""
    waiting = saga["waiting"]
    what, message = f"type {saga['type']}", waiting.get("message", "")
    if step := waiting.get("step"):
        what = f"the undo of step {step}" if saga["status"] == SagaStatus.COMPENSATING else f"step {step}"
    _, changed, before = message.partition(" now, and was ")
    kind = f" as {before.removesuffix(' when the saga started')}" if changed else ""
    gone = not message or changed or message.endswith("not in the deployed code")
    missing = f"The code of {what} is not deployed here{kind}." if gone else f"{message[:1].upper()}{message[1:]}."
    return f"{missing} If a deployment is under way, the saga continues without you."


def reason_of(saga: Mapping[str, Any]) -> str:
    """Return why a saga needs an operator; empty if it does not."""
    attention = saga.get("attention")
    return str(attention["reason"]) if attention else ""


def error_of(saga: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the step, the type and the message of a saga's error; empty texts if unknown. Errors of undos take
    precedence, because they need an operator."""
    attention: Mapping[str, Any] = saga.get("attention") or {}
    listed: Mapping[str, Any] | None = attention.get("error")
    if listed is None or not listed.get("undo"):
        for step in saga.get("steps", ()):
            if step["status"] == "COMPENSATION_FAILED" and step["error"]:
                return step["name"], step["error"]["type"], step["error"]["message"]
    error = listed or saga.get("error")
    return (error.get("step") or "", error["type"], error["message"]) if error else ("", "", "")


def _needed(saga: Mapping[str, Any], now: float) -> NextAction:
    """Return the next action on a saga that needs an operator. Reasons are checked in the API's order."""
    why, (step, kind, _) = reason_of(saga), error_of(saga)
    gone = kind.endswith(_CODE) or "deploy" in why
    if saga["status"] == SagaStatus.COMPENSATION_FAILED:
        undo = f"The undo of {step}" if step else "An undo"
        if gone:
            advice = _CODE_OF_UNDO.format(step=step, id=saga["saga_id"])
            return _deploy(f"{undo} was not called", step, advice, (Do.RETRY, Do.RESOLVE))
        means = "The saga is partly undone. Fix the cause, then retry: only the failed undo runs again."
        problem, runbook = f"{undo} failed", "compensation-failed"
        return NextAction(Do.RETRY, "Retry the undo", problem, means, step, runbook, (Do.RESOLVE,))
    if saga["status"] == SagaStatus.DEAD_LETTERED:
        return _dead_lettered(saga, now, gone=gone)
    if saga["status"] == SagaStatus.FAILED:
        return _failed(saga)
    if why.startswith("no response"):
        means = (
            "The step's function handles no messages: see its log. This undoes nothing. "
            "Once it runs again, the saga continues within an hour, or at once after a retry."
        )
        others = (Do.CANCEL,)
        return NextAction(Do.RETRY, "Retry", "The function is silent", means, step, "function-errors", others)
    if "stalled" in why:
        means = "The saga stalled too often. Usually its function is killed: see its log."
        problem, others = "Recovery is exhausted", (Do.CANCEL,) if saga["status"] not in ENDED else (Do.RERUN,)
        return NextAction(Do.RESOLVE, "Mark as settled", problem, means, step, "needs-attention", others)
    return _in_doubt(saga)


def _dead_lettered(saga: Mapping[str, Any], now: float, *, gone: bool) -> NextAction:
    why, (step, kind, message) = reason_of(saga), error_of(saga)
    if gone:
        by_value = kind.endswith("TypeChanged") and " now, and was " not in message
        advice = (_VALUE if by_value else _CODE_OF_STEP).format(step=step, id=saga["saga_id"])
        return _deploy(f"Step {step} was not called" if step else "A step was not called", step, advice)
    others, where = (Do.COMPENSATE, Do.RESOLVE), f"step {step}" if step else "a step"
    if kind == "WaitTimedOut" or "timed out:" in why:
        means = "No signal arrived in time. A retry starts the wait again, with its full length."
        return NextAction(Do.RETRY, "Wait again", f"{where} timed out", means, step, "dead-letters", others)
    problem = f"{where} used up its attempts"
    if saga.get("past_pivot") and "only goes forward" in why:  # no message died
        problem = f"{where} stalled too often" if "stalled" in why else f"{where} failed"
        means = "Nothing has been rolled back. Fix the cause, then retry: this step runs again."
        return NextAction(Do.RETRY, "Retry", problem, means, step, "needs-attention", others)
    if now - epoch(saga["updated_at"]) > _LETTER_KEPT:
        means = "Nothing has been rolled back. SQS may have deleted the message by now; a retry sends a new one."
        return NextAction(Do.RETRY, "Retry", problem, means, step, "dead-letters", others)
    means = "Nothing has been rolled back. Fix the cause, then redrive: the message returns, and this step runs again."
    return NextAction(Do.REDRIVE, "Redrive", problem, means, step, "dead-letters", (Do.RETRY, *others))


def _deploy(
    problem: str, step: str, advice: str, others: tuple[Do, ...] = (Do.RETRY, Do.COMPENSATE, Do.RESOLVE)
) -> NextAction:
    return NextAction(Do.NOTHING, "", problem, advice, step, "needs-attention", others)


def _failed(saga: Mapping[str, Any]) -> NextAction:
    step, means = error_of(saga)[0], "Nothing has been rolled back. Undo runs the undo of each completed step."
    problem = f"Step {step} failed" if step else "A step failed"
    return NextAction(Do.COMPENSATE, "Undo", problem, means, step, "failed", (Do.RERUN, Do.RESOLVE))


def _in_doubt(saga: Mapping[str, Any]) -> NextAction:
    steps = ", ".join(saga.get("in_doubt", ()))
    keys = ", ".join(f"{saga['saga_id']}:{step}" for step in saga.get("in_doubt", ()))
    means = f"An attempt was lost, and may have taken effect. Look for the key {keys} at the provider, then settle it."
    problem = f"{steps} may have taken effect"
    return NextAction(Do.RESOLVE, "Mark as settled", problem, means, steps, "needs-attention", (Do.RERUN,))
