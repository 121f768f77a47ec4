"""An exception as a fact: what a failed attempt leaves in the journal, and when the next one is due."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from sagas.authoring.policies import Retry
from sagas.core import events as ev
from sagas.core.states import Polling, SagaState, StepState
from sagas.engine.clock import Clock, claimed_at
from sagas.errors import NotYet, Rejected, TimedOut, TypeChanged, WrongResult, text_of

_LONGEST_MESSAGE = 1_000
_LONGEST_TRACE = 4_000
_SHORT_TRACE = 600
"""Characters that the first attempt keeps of it: its entry stays within a write unit."""
_LONGEST_REASON = 100
"""Characters of what a step says it waits for: they are in the control item."""
_MANY, _SLOW = 100, 60.0
"""Looks after which the next is at least so many seconds later."""
_HELD_UP = 60.0
"""Seconds of delay that queues and functions cause. A look that comes later than that was held up by a pause, an open
breaker or an outage, and a step's poll_timeout does not count the time for which nobody could look."""
_NOT_ITS_OWN = ("sagas.", "aws_lambda_powertools.")


def _as_it_is(text: str) -> str:
    return text


def step_failure(
    retry: Retry,
    step: StepState,
    index: int,
    error: Exception,
    clock: Clock,
    *,
    cancelled: bool = False,
    began: bool = True,
    redact: Callable[[str], str] = _as_it_is,
) -> tuple[ev.StepFailed | ev.StepDeadLettered, dict[str, Any]]:
    """Return the fact that a step raised, or could not be called, and what its entry keeps besides."""
    if isinstance(error, TypeChanged) and not began:
        failure = _failure(error, began, redact)
        return ev.StepDeadLettered(index, ev.DeadLetterCause.TYPE_CHANGED, failure=failure), {}
    used = step.attempts.used
    permanent = retry.gives_up(error)
    again = not permanent and not cancelled and used < retry.executions
    fact = ev.StepFailed(
        index,
        step.attempts.made,
        _failure(error, began, redact),
        permanent,
        isinstance(error, Rejected),
        retry_at=_retry_at(retry, used, clock) if again else 0.0,
        excused=cancelled or not began,
        outcome_unknown=isinstance(error, TimedOut | WrongResult) and began,
    )
    # The first attempt tells what is wrong while others follow, the last one what was wrong to the end.
    if cancelled or (again and used > 1):
        return fact, {}
    return fact, {"stack_trace": _stack_trace(error, redact, _SHORT_TRACE if again else _LONGEST_TRACE)}


def checked(error: NotYet) -> Exception:
    """Return a ``NotYet`` whose fields hold what its constructor lets pass; the constructor's error if they do not. A
    subclass may have set them itself."""
    try:
        return NotYet(error.after, error.message, steady=error.steady)
    except Exception as wrong:  # noqa: BLE001 - the fields are not ours, and the failure must be recorded all the same
        return wrong


def postponement(
    held: SagaState, index: int, error: NotYet, poll_timeout: float, now: float
) -> ev.StepFailed | ev.CompensationFailed | ev.Postponed:
    """Return the fact that a step or its undo postponed itself, or that it failed for good after its poll timeout.
    ``poll_timeout``: seconds from the first postponement. ``now``: epoch seconds."""
    polling, step = held.polling, held.steps[index]
    attempt = step.undo_attempts.made if held.undoing else step.attempts.made
    since, looks = (polling.since + _held_up(held, polling), polling.looks + 1) if polling else (now, 1)
    end, message = round(since + poll_timeout, 3), error.message[:_LONGEST_REASON]
    if now >= end and held.undoing:
        return ev.CompensationFailed(index, attempt, ev.Failure("NotYet", message))
    if now >= end:
        return ev.StepFailed(index, attempt, ev.Failure("NotYet", message), permanent=True, excused=True)
    after = max(error.after, _SLOW) if looks > _MANY and not error.steady else error.after
    again = min(round(now + after, 3), end)  # one last look at the end of its poll_timeout
    kind = ev.CompensationPostponed if held.undoing else ev.StepPostponed
    return kind(index, attempt, message, after, again, since, looks)


def _held_up(held: SagaState, polling: Polling) -> float:
    """Return the seconds by which a look came later than it was due, if more than queues and functions cause."""
    late = claimed_at(held.lease.owner) - polling.due if held.lease else 0.0
    return late if late > _HELD_UP else 0.0


def undo_failure(
    retry: Retry,
    step: StepState,
    index: int,
    error: Exception,
    clock: Clock,
    trace_id: str,
    *,
    began: bool = True,
    redact: Callable[[str], str] = _as_it_is,
) -> tuple[ev.CompensationAttemptFailed | ev.CompensationFailed, dict[str, Any]]:
    """Return the fact that a step's undo raised, and what its entry keeps besides."""
    used, failure = step.undo_attempts.used, _failure(error, began, redact)
    if failure.type_changed or retry.gives_up(error) or used >= retry.executions:
        attempts = step.undo_attempts.made - (1 if failure.type_changed else 0)
        details = {"stack_trace": _stack_trace(error, redact), "attempts": attempts, "trace_id": trace_id}
        return ev.CompensationFailed(index, step.undo_attempts.made, failure), details
    first = {"stack_trace": _stack_trace(error, redact, _SHORT_TRACE)} if used == 1 else {}
    return ev.CompensationAttemptFailed(index, step.undo_attempts.made, failure, _retry_at(retry, used, clock)), first


def _failure(error: Exception, began: bool, redact: Callable[[str], str]) -> ev.Failure:
    """The error by its class. What the library says of code that did not run, the author's own class cannot say."""
    failure = ev.Failure(type(error).__name__, redact(text_of(error))[:_LONGEST_MESSAGE])
    if failure.code_missing or (failure.type_changed and (began or not isinstance(error, TypeChanged))):
        failure = replace(failure, type=f"{type(error).__module__}.{failure.type}")
    return failure


def _stack_trace(error: Exception, redact: Callable[[str], str], longest: int = _LONGEST_TRACE) -> str:
    """The trace from where the saga's own code begins: what led there is always the same, and bytes are paid for."""
    own = error.__traceback__
    while own is not None and str(own.tb_frame.f_globals.get("__name__")).startswith(_NOT_ITS_OWN):
        own = own.tb_next
    lines = traceback.format_exception(type(error), error, own or error.__traceback__)
    return redact("".join(lines))[-longest:]


def _retry_at(retry: Retry, failures: int, clock: Clock) -> float:
    """Epoch seconds of the next attempt; never 0, which would say that there is none."""
    at = clock.now() + retry.delay(failures, clock.chance())
    return math.ceil(round(at * 1000, 2)) / 1000  # rounded first: a float's last bits are no millisecond
