"""The next action on a saga: the command line recommends it, and the console has it as the first button."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sagas.core.events import AttentionCode
from sagas.core.states import ENDED, SagaStatus
from sagas.core.text import epoch
from sagas.operations import VERBS

_LEASE_SLACK = 5.0
"""A lease counts as expired this many seconds late, because clocks differ."""
_CODE_OF_STEP = (
    "Deploy the code of step {step} again, then run `sagas retry {sagas}`. "
    'If the step has another name now, write `@step(name="{step}")`.'
)
_CODE_OF_UNDO = (
    "Deploy the undo of step {step} again and run `sagas retry {sagas}`, "
    "or undo it by hand and run `sagas resolve {sagas} --undone {step}`."
)
_VALUE = (
    "Deploy code that reads the stored value (a default, `Old | New` or `upcast=`), then run `sagas retry {sagas}`. "
    "If it is missing in S3, restore it."
)


class Do(StrEnum):
    """An action that an operator can take on a saga."""

    RETRY = "retry"
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
    """The next action on a saga, and its effect. ``NOTHING`` means that you can only wait, or that nothing is left to
    do. ``title`` is the label of the action's button or, without a button, a short name of the action. ``problem`` is a
    headline. ``means`` explains the situation, and what the action runs again. ``runbook`` is an anchor in
    ``docs/operations/runbook.md``. ``others`` are alternatives, the likeliest first. A text is empty if there is
    nothing to say."""

    do: Do
    title: str = ""
    problem: str = ""
    means: str = ""
    step: str = ""
    runbook: str = ""
    others: tuple[Do, ...] = ()


_KEPT = "Nothing has been rolled back. "
_AGAIN = f"{_KEPT}Fix the cause, then retry: this step runs again."
_STOP = Do.COMPENSATE, Do.RESOLVE
_NEEDED: Mapping[str, NextAction] = {
    AttentionCode.UNDO_FAILED: NextAction(
        *(Do.RETRY, "Retry the undo", "The undo of {step} failed"),
        "The saga is partly undone. Fix the cause, then retry: only the failed undo runs again.",
        *("{step}", "compensation-failed", (Do.RESOLVE,)),
    ),
    AttentionCode.UNDO_NOT_CALLED: NextAction(
        *(Do.NOTHING, "Deploy", "The undo of {step} was not called", _CODE_OF_UNDO),
        *("{step}", "needs-attention", (Do.RETRY, Do.RESOLVE)),
    ),
    AttentionCode.EXHAUSTED: NextAction(
        *(Do.RETRY, "Retry", "Step {step} used up its attempts", _AGAIN, "{step}", "dead-letters", _STOP)
    ),
    AttentionCode.CHILDREN_FAILED: NextAction(
        *(Do.RETRY, "Retry", "Too many children of {step} failed"),
        f"{_KEPT}A retry starts the failed children again.",
        *("{step}", "dead-letters", _STOP),
    ),
    AttentionCode.WAIT_TIMED_OUT: NextAction(
        *(Do.RETRY, "Wait again", "Step {step} timed out"),
        "No signal arrived in time. A retry starts the wait again, with its full length.",
        *("{step}", "dead-letters", _STOP),
    ),
    AttentionCode.PIVOT_HOLDS: NextAction(
        *(Do.RETRY, "Retry", "Step {step} failed", _AGAIN, "{step}", "needs-attention", _STOP)
    ),
    AttentionCode.STALLED: NextAction(
        *(Do.RETRY, "Retry", "Step {step} stalled too often", _AGAIN, "{step}", "needs-attention", _STOP)
    ),
    AttentionCode.IN_DOUBT: NextAction(
        *(Do.RESOLVE, "Mark as settled", "{doubt} may have taken effect"),
        "An attempt was lost, and may have taken effect. Look for the key {keys} at the provider, then settle it.",
        *("{doubt}", "needs-attention", (Do.RERUN,)),
    ),
    AttentionCode.CODE_MISSING: NextAction(
        *(Do.NOTHING, "Deploy", "Step {step} was not called", _CODE_OF_STEP),
        *("{step}", "needs-attention", (Do.RETRY, *_STOP)),
    ),
    AttentionCode.TYPE_CHANGED: NextAction(
        *(Do.NOTHING, "Deploy", "Step {step} was not called", _VALUE),
        *("{step}", "needs-attention", (Do.RETRY, *_STOP)),
    ),
    AttentionCode.FAILED: NextAction(
        *(Do.COMPENSATE, "Undo", "Step {step} failed"),
        f"{_KEPT}Undo runs the undo of each completed step.",
        *("{step}", "failed", (Do.RERUN, Do.RESOLVE)),
    ),
    AttentionCode.RECOVERY_EXHAUSTED: NextAction(
        *(Do.RESOLVE, "Mark as settled", "Recovery is exhausted"),
        "The saga stalled too often and was given up. Usually its function was killed: see its log.",
        *("{step}", "needs-attention", (Do.RERUN,)),
    ),
    AttentionCode.NO_RESPONSE: NextAction(
        *(Do.RETRY, "Retry", "The function is silent"),
        "The step's function handles no messages: see its log. This undoes nothing. "
        "Once it runs again, the saga continues within an hour, or at once after a retry.",
        *("{step}", "function-errors", (Do.CANCEL,)),
    ),
    AttentionCode.NO_RIGHT: NextAction(
        *(Do.NOTHING, "Allow", "The inputs of {step} cannot be read"),
        "Give the function the right that the reason names. The saga continues within five minutes, "
        "and leaves the attention list by itself.",
        *("{step}", "inputs-unread", (Do.RECOVER, Do.CANCEL)),
    ),
    AttentionCode.INPUTS_UNREACHABLE: NextAction(
        *(Do.NOTHING, "Wait", "The inputs of {step} cannot be read"),
        "The saga tries again every five minutes, and leaves the attention list by itself. "
        "If it is no outage of AWS, see the error that the reason names.",
        *("{step}", "inputs-unread", (Do.RECOVER, Do.CANCEL)),
    ),
    AttentionCode.DOES_NOT_FIT: NextAction(
        *(Do.NOTHING, "Deploy", "Step {step} does not fit the release"),
        "If a deployment is under way, the sagas continue without you. Otherwise deploy code that has the step, or "
        "retire it (`retired=True`), before they need you.",
        *("{step}", "needs-attention", (Do.CANCEL,)),
    ),
    AttentionCode.OVERDUE: NextAction(
        *(Do.NOTHING, "Wait", "Its deadline has passed"),
        "The saga continues, and leaves the attention list when it ends.",
        *("", "needs-attention"),
    ),
}
"""What to do about each reason for which a saga needs an operator."""


def needed(code: str, step: str, sagas: str, doubt: Sequence[str] = ()) -> NextAction:
    """Return the action for an ``AttentionCode``, the reason that sagas need an operator, and for the step in trouble.
    ``sagas``: the arguments that name sagas in a command: :func:`state_of` or :func:`incident_arguments`. ``doubt``:
    the steps whose outcome is unknown; by default ``step``."""
    if code not in _NEEDED:  # a newer service has more codes
        return NextAction(Do.NOTHING, "Look", "The saga needs an operator", step=step)
    action = _NEEDED[code]
    doubtful = doubt or (step,)
    keys = ", ".join(f"{sagas.partition(' ')[0] if doubt else 'ID'}:{name}" for name in doubtful)
    words = {"step": step, "sagas": sagas, "doubt": ", ".join(doubtful), "keys": keys}
    problem, means, of = (text.format(**words) for text in (action.problem, action.means, action.step))
    return replace(action, problem=problem, means=means, step=of)


def incident_arguments(incident: Mapping[str, Any]) -> str:
    """Return the arguments by which a command acts on all sagas of an incident, for a shell."""
    parts = {"step": incident["step"], "code": incident["code"], "error": incident["error_type"] or ""}
    options = " ".join(f"--{name} {_quoted(text)}" for name, text in parts.items())
    return f"{_quoted(incident['type'])} --all {options}"


def _quoted(text: str) -> str:
    """Quote a text for a shell. Nothing in it controls a terminal."""
    if text.isprintable():
        return shlex.quote(text)
    plain = (chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in text.encode())
    return f"$'{''.join(plain)}'"


def state_of(saga: Mapping[str, Any]) -> str:
    """Return the arguments by which a command acts on a saga as it is, and on no later state."""
    return f"{saga['saga_id']} --seq {saga['seq']}"


def command_of(do: Do, saga: Mapping[str, Any], step: str = "") -> str:
    """Return the shell command of an action on a saga; empty if there is none. If the action can name the state of the
    saga, the command does."""
    name = saga["type"]
    saga_id = saga["saga_id"]
    named = state_of(saga) if do in VERBS and VERBS[do].takes_seq else saga_id
    return {
        Do.RESOLVE: f"sagas resolve {name} {named} --reason ...",
        Do.SIGNAL: f"sagas signal {name} {saga_id} {step} --data JSON",
        Do.BREAKER: f"sagas breakers close {name} {step}",
        Do.NOTHING: "",
    }.get(do, f"sagas {do} {name} {named}")


def next_action(saga: Mapping[str, Any], now: float) -> NextAction:
    """Return the next action on a saga. ``now``: epoch seconds."""
    action = _next_action(saga, now)
    pivot = saga.get("past_pivot")
    if not pivot:
        return action
    others = tuple(do for do in action.others if do not in (Do.CANCEL, Do.COMPENSATE))  # the API refuses these
    held = f"The saga is past its pivot {pivot}, so only `sagas compensate --force --reason ...` undoes it."
    means = f"{action.means} {held}" if action.problem else ""
    return replace(action, means=means, others=others)


def _next_action(saga: Mapping[str, Any], now: float) -> NextAction:
    attention: Mapping[str, Any] = saga.get("attention") or {}
    code: str = attention.get("code", "")
    # An overdue saga that is past its pivot still runs, and of one that waits for a release its page says more.
    overdue = code == AttentionCode.OVERDUE
    waits = code == AttentionCode.DOES_NOT_FIT and "waiting" in saga
    if saga.get("purged_at") or saga.get("resolution"):
        return NextAction(Do.NOTHING)
    if code and not overdue and not waits:
        action = needed(code, attention["step"], state_of(saga), saga.get("in_doubt", ()))
        if saga["status"] == SagaStatus.COMPENSATING:  # it can no longer be cancelled
            return replace(action, others=tuple(do for do in action.others if do is not Do.CANCEL))
        in_flight = code == AttentionCode.RECOVERY_EXHAUSTED and saga["status"] not in ENDED
        return replace(action, others=(Do.CANCEL,)) if in_flight else action
    if saga["status"] == SagaStatus.FAILED:  # a child; its parent needs the operator
        return needed(AttentionCode.FAILED, error_of(saga)[0], state_of(saga))
    if saga["status"] in ENDED:
        if saga.get("in_doubt"):
            return needed(AttentionCode.IN_DOUBT, "", state_of(saga), saga["in_doubt"])
        return NextAction(Do.NOTHING, others=(Do.RERUN,))
    return _in_flight(saga, now, overdue=overdue)


def _in_flight(saga: Mapping[str, Any], now: float, *, overdue: bool) -> NextAction:
    """Return the next action on a saga that runs, or that waits for something other than an operator."""
    waiting = saga.get("waiting")
    if waiting and waiting["kind"] == "release":
        # A cancel is refused while the saga is undone, and if its type is not deployed. A look finds no other code.
        others = (Do.CANCEL,) if saga["status"] != SagaStatus.COMPENSATING and "step" in waiting else ()
        problem = "The saga waits for a release"
        return NextAction(Do.NOTHING, "", problem, release_awaited(saga), waiting.get("step", ""), others=others)
    if waiting and waiting["kind"] == "inputs":
        others = (Do.RECOVER, Do.CANCEL) if saga["status"] != SagaStatus.COMPENSATING else (Do.RECOVER,)
        problem = "The saga waits until its inputs can be read"
        return NextAction(Do.NOTHING, "", problem, inputs_awaited(saga), waiting["step"], "inputs-unread", others)
    lease = saga.get("lease")
    breaker = saga.get("breaker")
    if lease and lease.get("expires_at") and epoch(lease["expires_at"]) + _LEASE_SLACK < now:
        means = "Its worker died. The supervisor takes the saga over within a minute. With this action, it does so now."
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
        return needed(AttentionCode.OVERDUE, "", state_of(saga))
    return NextAction(Do.NOTHING, others=(Do.CANCEL,) if saga["status"] != SagaStatus.COMPENSATING else ())


def release_awaited(saga: Mapping[str, Any]) -> str:
    """Return why a saga waits for a release, and what to do about it."""
    missing = saga["waiting"].get("message") or f"the code of type {saga['type']} is not deployed here"
    return f"{missing[:1].upper()}{missing[1:]}. If a deployment is under way, the saga continues without you."


def inputs_awaited(saga: Mapping[str, Any]) -> str:
    """Return why a saga waits until its inputs can be read."""
    message = str(saga["waiting"]["message"])
    return f"{message[:1].upper()}{message[1:]}. No attempt is counted, and the saga continues by itself."


def breaker_error(error: Mapping[str, Any] | None) -> str:
    """Return the error that a breaker counted last, in a line; empty if there is none."""
    if error is None:
        return ""
    return f"{error['type']}: {error['message']}" if error["message"] else error["type"]


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
