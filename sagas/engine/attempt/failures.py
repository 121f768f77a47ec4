"""Turns exceptions into facts, and keeps outcomes that could not be committed.

Such an outcome waits in its step's queue until the store is reachable again. A message with a pending commit is a copy
of the attempt's message, with the same dispatch number, and replaces it. Once the outcome is committed, or the lease is
taken over, it is an ordinary message again.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from sagas.authoring.policies import Retry
from sagas.core import events as ev
from sagas.core.commands import Postpone
from sagas.core.rules import next_reading
from sagas.core.states import Polling, SagaState, StepState
from sagas.engine.clock import Clock, claimed_at
from sagas.errors import Denied, NotYet, Rejected, SagaError, TimedOut, TypeChanged, Unavailable, WrongResult, text_of
from sagas.messaging.message import Message, PendingCommit
from sagas.messaging.routes import backoff
from sagas.store.connection import Withheld
from sagas.store.journal.entries import Entry, fact_of

_LONGEST_MESSAGE = 1_000
_LONGEST_TRACE = 4_000
_SHORT_TRACE = 600
"""Maximum characters of the first attempt's stored trace, so that its entry fits into one write unit."""
_LONGEST_REASON = 100
"""Maximum characters of the message of a ``NotYet``, which the control item stores."""
_MANY, _SLOW = 100, 60.0
"""From this many polls on, polls are at least this many seconds apart, unless the step asks for a steady rate."""
_UNREACHABLE = ev.AttentionCode.INPUTS_UNREACHABLE.value
_HELD_UP = 60.0
"""The longest delay in seconds that queues and functions cause. A longer delay is due to a pause, an open breaker or an
outage, and does not count towards the step's poll_timeout."""
_NOT_ITS_OWN = ("sagas.", "aws_lambda_powertools.", "asyncio.")


Redact = Callable[[str, int], str]
"""Returns a text without hidden values, cut to a number of characters."""


def _as_it_is(text: str, longest: int) -> str:
    return text[:longest]


def step_failure(
    retry: Retry,
    step: StepState,
    index: int,
    error: Exception,
    clock: Clock,
    *,
    cancelled: bool = False,
    began: bool = True,
    redact: Redact = _as_it_is,
    look_at: float = 0.0,
) -> tuple[ev.StepFailed | ev.StepDeadLettered | ev.StepPostponed, dict[str, Any]]:
    """Return the fact to record when a step raised or could not be called, and further details for its entry.
    ``look_at``: epoch seconds at which to try again with a new release; 0 if the saga waits for none."""
    if isinstance(error, TypeChanged) and not began:
        failure, now = _failure(error, began, redact), clock.now()
        if look_at:
            postponed = index, step.attempts.made, failure.message, round(look_at - now, 3), look_at, now
            return ev.StepPostponed(*postponed, because=ev.RELEASE), {}
        trace = {"stack_trace": _stack_trace(error, redact)} if error.__cause__ is not None else {}
        return ev.StepDeadLettered(index, ev.DeadLetterCause.TYPE_CHANGED, failure=failure), trace
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
    # While attempts follow, only the first failure stores its trace. The last failure stores the final trace.
    if cancelled or (again and used > 1):
        return fact, {}
    return fact, {"stack_trace": _stack_trace(error, redact, _SHORT_TRACE if again else _LONGEST_TRACE)}


def checked(error: NotYet) -> Exception:
    """Return a plain ``NotYet`` with the same fields, or the error if a subclass has set invalid ones."""
    try:
        return NotYet(error.after, error.message, steady=error.steady)
    except Exception as wrong:  # noqa: BLE001 - the fields are the user's, and the failure must be recorded anyway
        return wrong


def postponement(
    held: SagaState,
    index: int,
    error: NotYet,
    poll_timeout: float,
    now: float,
    redact: Redact = _as_it_is,
    mark: str = "",
) -> ev.StepFailed | ev.CompensationFailed | ev.Postponed:
    """Return the fact to record when a step or its undo raised ``NotYet``: a postponement, or a final failure after the
    poll timeout.
    ``poll_timeout``: seconds from the first postponement. ``now``: epoch seconds. ``mark``: that of ``redact``."""
    polling, step = held.polling, held.steps[index]
    attempt = step.undo_attempts.made if held.undoing else step.attempts.made
    since, looks = (polling.since + _held_up(held, polling), polling.looks + 1) if polling else (now, 1)
    end, message = round(since + poll_timeout, 3), redact(error.message, _LONGEST_REASON)
    if now >= end and held.undoing:
        return ev.CompensationFailed(index, attempt, ev.Failure("NotYet", message))
    if now >= end:
        return ev.StepFailed(index, attempt, ev.Failure("NotYet", message), permanent=True, excused=True)
    after = max(error.after, _SLOW) if looks > _MANY and not error.steady else error.after
    again = min(round(now + after, 3), end)  # the last poll is at the end of the poll_timeout
    kind = ev.CompensationPostponed if held.undoing else ev.StepPostponed
    return kind(index, attempt, message, after, again, since, looks, redacted_by=mark)


class NotRead(SagaError):
    """The inputs of the code cannot be read for now, which says nothing about the code. ``cause``: why."""

    def __init__(self, cause: Unavailable) -> None:
        super().__init__("the inputs cannot be read")
        self.cause = cause


def is_gone(held: SagaState, error: Unavailable) -> bool:
    """Whether the supervisor has found that the object which S3 denies is missing."""
    unread = held.unread
    return unread is not None and unread.gone and isinstance(error, Withheld) and error.key == unread.key


def not_read(held: SagaState, index: int, error: Unavailable, clock: Clock) -> ev.Postponed:
    """Return the fact to record when the inputs of a step or its undo cannot be read, so that its code is not called
    (rule 19)."""
    now = clock.now()
    step = held.steps[index]
    kind = ev.CompensationPostponed if held.undoing else ev.StepPostponed
    attempt = step.undo_attempts.made if held.undoing else step.attempts.made
    since = now if held.unread is None else held.unread.since
    again, (code, text, key) = next_reading(since, now, clock.chance()), why_not_read(error)
    return kind(index, attempt, text, round(again - now, 3), again, since, because=ev.INPUTS, code=code, key=key)


def why_not_read(error: Unavailable) -> tuple[str, str, str]:
    """Return why a value cannot be read, as a code and as a text, and the object that may be missing."""
    right = error.right if isinstance(error, Denied) else ""
    key = error.key if isinstance(error, Withheld) else ""
    return (ev.AttentionCode.NO_RIGHT.value, right, key) if right else (_UNREACHABLE, str(error), key)


def _held_up(held: SagaState, polling: Polling) -> float:
    """Return the seconds by which a poll was late, unless queues and functions may have caused the delay."""
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
    redact: Redact = _as_it_is,
) -> tuple[ev.CompensationAttemptFailed | ev.CompensationFailed, dict[str, Any]]:
    """Return the fact to record when a step's undo raised, and further details for its entry."""
    used, failure = step.undo_attempts.used, _failure(error, began, redact)
    if failure.type_changed or retry.gives_up(error) or used >= retry.executions:
        attempts = step.undo_attempts.made - (1 if failure.type_changed else 0)
        details = {"stack_trace": _stack_trace(error, redact), "attempts": attempts, "trace_id": trace_id}
        return ev.CompensationFailed(index, step.undo_attempts.made, failure), details
    first = {"stack_trace": _stack_trace(error, redact, _SHORT_TRACE)} if used == 1 else {}
    return ev.CompensationAttemptFailed(index, step.undo_attempts.made, failure, _retry_at(retry, used, clock)), first


def _failure(error: Exception, began: bool, redact: Redact) -> ev.Failure:
    """Return the failure with the name of the error's class. Some names say that code did not run. If the code itself
    raised such an error, the module's name is put in front."""
    failure = ev.Failure(type(error).__name__, redact(text_of(error), _LONGEST_MESSAGE))
    if failure.code_missing or (failure.type_changed and (began or not isinstance(error, TypeChanged))):
        failure = replace(failure, type=f"{type(error).__module__}.{failure.type}")
    return failure


def _stack_trace(error: Exception, redact: Redact, longest: int = _LONGEST_TRACE) -> str:
    """Return the traceback of an error and of its causes, each starting at the saga's own code. The frames before it,
    of the library and asyncio, are always the same. In a long traceback, the message is cut rather than the frames,
    after secrets were redacted."""
    whole = traceback.TracebackException.from_exception(error, compact=True)
    parts: list[tuple[BaseException | None, traceback.TracebackException | None]] = [(error, whole)]
    for raised, part in parts:
        if raised is not None and part is not None:
            modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(raised.__traceback__)]
            del part.stack[: len([*takewhile(lambda module: module.startswith(_NOT_ITS_OWN), modules)])]
            parts += (raised.__cause__, part.__cause__), (raised.__context__, part.__context__)
    lines = [redact(line, longest) for line in whole.format()]
    if sum(map(len, lines)) > longest:
        most = longest // 4
        lines = [line if len(line) <= most else f"{line[: most - 4]}...\n" for line in lines]
    return "".join(lines)[-longest:]


def _retry_at(retry: Retry, failures: int, clock: Clock) -> float:
    """Return the epoch seconds of the next attempt. The result is never 0, which would mean that there is none."""
    at = clock.now() + retry.delay(failures, clock.chance())
    return math.ceil(round(at * 1000, 2)) / 1000  # rounded first, so that a float's last bits do not add a millisecond


LARGEST_BODY = 1_000_000
"""Maximum bytes of a message's body. SQS accepts 1 MiB, including the attributes."""
_LONGEST_PAUSE = 30.0
"""Maximum seconds between two tries. The supervisor needs longer to find an expired lease."""


def with_pending(message: Message, pending: PendingCommit) -> Message | None:
    """Return the message that replaces ``message``; ``None`` if that would be too large to send."""
    copy = replace(message, pending_commit=pending, hops=message.hops + 1)
    return copy if len(copy.body.encode()) <= LARGEST_BODY else None


def comes_back(message: Message, clock: Clock) -> Postpone:
    """Postpone a message with a pending commit, each time for longer, with jitter."""
    tries = message.receives + message.hops
    return Postpone(clock.now() + backoff(tries, clock.chance(), _LONGEST_PAUSE))


def pending_fact(state: SagaState, message: Message, pending: PendingCommit) -> ev.Fact | None:
    """Return the fact to commit; ``None`` if it no longer counts. The fact counts if nobody has taken over its lease,
    even an expired one, and the journal has no later entry."""
    step, lease = state.current, state.lease
    if step is None or lease is None or lease.owner != pending.owner:
        return None
    attempt = step.undo_attempts.made if message.undo else step.attempts.made
    claimed = (state.token, state.seq, state.cursor, step.name, state.undoing, attempt)
    if claimed != (pending.token, pending.seq, message.index, message.step, message.undo, pending.attempt):
        return None
    entry = Entry(
        saga_id=state.saga_id,
        seq=pending.seq + 1,
        at=state.updated_at,
        saga=state.saga,
        action=pending.action,
        status=state.status.value,
        token=pending.token,
        attempt=pending.attempt,
        details=pending.details,
    )
    return fact_of(entry, message.index)
