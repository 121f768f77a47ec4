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
from typing import Any, cast

from msgspec.structs import replace

from sagas.authoring.policies import Retry
from sagas.core import events as ev
from sagas.core.commands import Postpone
from sagas.core.rules import next_reading
from sagas.core.states import Polling, SagaState, StepState
from sagas.core.text import span
from sagas.engine.clock import Clock, claimed_at
from sagas.errors import (
    Denied,
    NotYet,
    Rejected,
    SagaError,
    TypeChanged,
    Unavailable,
    WrongResult,
    leaves,
    text_of,
)
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
_MANY = 100
_SLOW = 60.0
"""From this many polls on, polls are at least this many seconds apart, unless the step asks for a steady rate."""
_UNREACHABLE = ev.AttentionCode.INPUTS_UNREACHABLE.value
_HELD_UP = 60.0
"""The longest delay in seconds that queues and functions cause. A longer delay is due to a pause, an open breaker or an
outage, and does not count towards the step's ``within``."""
_MOST_NAMES = 5
"""Maximum classes that a failure lists of a group's other errors."""
_NOT_ITS_OWN = ("sagas.", "aws_lambda_powertools.", "asyncio.", "contextlib")


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
    raised: Exception,
    cancelled: bool = False,
    began: bool = True,
    redact: Redact = _as_it_is,
    look_at: float = 0.0,
    in_doubt_on: tuple[type[BaseException], ...] | None = (),
    late: bool = False,
) -> tuple[ev.StepFailed | ev.StepDeadLettered | ev.StepPostponed, dict[str, Any]]:
    """Return the fact to record when a step raised or could not be called, and further details for its entry.
    ``raised``: the error itself, or the group that it leads. ``look_at``: epoch seconds at which to try again with a
    new release; 0 if the saga waits for none. ``in_doubt_on``: as in ``@step``. ``late``: whether the code ended after
    its deadline."""
    failure = _failure(error, raised, began, redact)
    if isinstance(error, TypeChanged) and not began:
        now = clock.now()
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
        failure,
        permanent,
        isinstance(error, Rejected),
        retry_at=_retry_at(retry, used, clock) if again else 0.0,
        excused=cancelled or not began,
        outcome_unknown=began and (late or _leaves_doubt(error, raised, in_doubt_on)),
        postponed=any(isinstance(leaf, NotYet) for leaf in leaves(raised)),
    )
    # While attempts follow, only the first failure stores its trace. The last failure stores the final trace.
    if cancelled or (again and used > 1):
        return fact, {}
    traced = _traced(error, raised)
    return fact, {"stack_trace": _stack_trace(traced, redact, _SHORT_TRACE if again else _LONGEST_TRACE)}


def _leaves_doubt(error: Exception, raised: Exception, in_doubt_on: tuple[type[BaseException], ...] | None) -> bool:
    """Whether the code may have taken effect, although it failed."""
    if isinstance(error, WrongResult):  # the code has run to its end
        return True
    if in_doubt_on is None:
        return False
    from sagas.engine.attempt.doubt import in_doubt  # imported here, because most attempts do not fail

    return in_doubt(raised, in_doubt_on)


def leading(error: Exception, retry: Retry) -> Exception:
    """Return the error that decides what follows: of the errors in a group the first ``Rejected``, else the first that
    the policy gives up, else the first that is not a ``NotYet``. If all are ``NotYet``, return one with the earliest
    time. A group whose class the policy names decides itself."""
    if retry.names_group(error):
        return error
    errors = [_checked(leaf) if isinstance(leaf, NotYet) else leaf for leaf in leaves(error)]
    failures = [each for each in errors if isinstance(each, Exception) and not isinstance(each, NotYet)]
    for decides in (_is_rejection, retry.gives_up):
        for failure in failures:
            if decides(failure):
                return failure
    if failures:
        return failures[0]
    polls = [each for each in errors if isinstance(each, NotYet)]
    message = "; ".join(poll.message for poll in polls if poll.message)
    return NotYet(min(poll.after for poll in polls), message, steady=all(poll.steady for poll in polls))


def _is_rejection(error: Exception) -> bool:
    return isinstance(error, Rejected)


def _checked(error: NotYet) -> Exception:
    """Return a plain ``NotYet`` with the same fields, or the error if a subclass has set invalid ones."""
    try:
        return NotYet(error.after, error.message, steady=error.steady)
    except Exception as wrong:  # noqa: BLE001 - the fields are the user's, and the failure must be recorded anyway
        return wrong


def postponement(
    held: SagaState,
    index: int,
    error: NotYet,
    within: float,
    now: float,
    redact: Redact = _as_it_is,
    mark: str = "",
) -> ev.StepFailed | ev.CompensationFailed | ev.Postponed:
    """Return the fact to record when a step or its undo raised ``NotYet``: a postponement, or a final failure after
    ``within`` seconds from the first postponement. ``now``: epoch seconds. ``mark``: that of ``redact``."""
    polling = held.polling
    step = held.steps[index]
    attempt = step.undo_attempts.made if held.undoing else step.attempts.made
    since, looks = (polling.since + _held_up(held, polling), polling.looks + 1) if polling else (now, 1)
    end = round(since + within, 3)
    message = redact(error.message, _LONGEST_REASON)
    if now >= end:
        length = f"{within:g} s" if within < 60 else span(within)
        failure = ev.Failure("NotYet", f"not yet after {length}" + (f": {message}" if message else ""))
        if held.undoing:
            return ev.CompensationFailed(index, attempt, failure)
        # The method of a wait or of children may poll, too. Their own policy for a timeout is about something else.
        timed_out = not step.waits_for
        return ev.StepFailed(index, attempt, failure, permanent=True, excused=True, timed_out=timed_out)
    after = max(error.after, _SLOW) if looks > _MANY and not error.steady else error.after
    again = min(round(now + after, 3), end)  # the last poll is at the end
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
    again = next_reading(since, now, clock.chance())
    code, text, key = why_not_read(error)
    return kind(index, attempt, text, round(again - now, 3), again, since, because=ev.INPUTS, code=code, key=key)


class NotCalled(SagaError):
    """The code is not called, which says nothing about it. ``because``: as in :class:`sagas.core.events.Postponed`."""

    def __init__(self, because: str, why: str) -> None:
        super().__init__(why)
        self.because = because


class Skipped(SagaError):
    """The condition of the step is false, so its code is not called. Its text is the reason."""


def not_called(held: SagaState, index: int, error: NotCalled, now: float) -> ev.Postponed:
    """Return the fact to record when a step or its undo is not called, and need not wait. ``now``: epoch seconds."""
    step = held.steps[index]
    kind = ev.CompensationPostponed if held.undoing else ev.StepPostponed
    attempt = step.undo_attempts.made if held.undoing else step.attempts.made
    return kind(index, attempt, str(error), 0.0, now, now, because=error.because)


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
    raised: Exception,
    began: bool = True,
    redact: Redact = _as_it_is,
) -> tuple[ev.CompensationAttemptFailed | ev.CompensationFailed, dict[str, Any]]:
    """Return the fact to record when a step's undo raised, and further details for its entry. ``raised``: the error
    itself, or the group that it leads."""
    used = step.undo_attempts.used
    failure = _failure(error, raised, began, redact)
    traced = _traced(error, raised)
    if failure.type_changed or retry.gives_up(error) or used >= retry.executions:
        attempts = step.undo_attempts.made - (1 if failure.type_changed else 0)
        details = {"stack_trace": _stack_trace(traced, redact), "attempts": attempts, "trace_id": trace_id}
        return ev.CompensationFailed(index, step.undo_attempts.made, failure), details
    first = {"stack_trace": _stack_trace(traced, redact, _SHORT_TRACE)} if used == 1 else {}
    return ev.CompensationAttemptFailed(index, step.undo_attempts.made, failure, _retry_at(retry, used, clock)), first


def _failure(error: Exception, raised: Exception, began: bool, redact: Redact) -> ev.Failure:
    """Return the failure with the name of the error's class. Some names say that code did not run. If the code itself
    raised such an error, the module's name is put in front. Of a group, the other errors are counted."""
    others = _others(error, raised)
    text = redact(text_of(error), _LONGEST_MESSAGE - len(others))
    failure = ev.Failure(type(error).__name__, f"{text}{others}".lstrip() if others else text)
    if failure.code_missing or (failure.type_changed and (began or not isinstance(error, TypeChanged))):
        failure = replace(failure, type=f"{type(error).__module__}.{failure.type}")
    return failure


def _others(error: Exception, raised: Exception) -> str:
    """Return how many errors a group has besides the one that decides, and their classes."""
    count = len(leaves(raised)) - 1
    if error is raised or count < 1:
        return ""
    others = [type(leaf).__name__ for leaf in leaves(raised) if leaf is not error]
    names = list(dict.fromkeys(others))
    listed = ", ".join([*names[:_MOST_NAMES], *(["..."] if len(names) > _MOST_NAMES else [])])
    return f" (and {count} more: {listed})"


def _traced(error: Exception, raised: Exception) -> Exception:
    """Return the error whose trace is stored: the whole group, if the error leads one."""
    return raised if isinstance(raised, BaseExceptionGroup) else error


def _stack_trace(error: Exception, redact: Redact, longest: int = _LONGEST_TRACE) -> str:
    """Return the traceback of an error and of its causes, each starting at the saga's own code. The frames before it,
    of the library, asyncio and contextlib, are always the same. In a long traceback, the message is cut rather than
    the frames, after secrets were redacted."""
    whole = traceback.TracebackException.from_exception(error, compact=True)
    parts: list[tuple[BaseException | None, traceback.TracebackException | None]] = [(error, whole)]
    for raised, part in parts:
        if raised is not None and part is not None:
            modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(raised.__traceback__)]
            del part.stack[: len([*takewhile(lambda module: module.startswith(_NOT_ITS_OWN), modules)])]
            parts += (raised.__cause__, part.__cause__), (raised.__context__, part.__context__)
            if isinstance(raised, BaseExceptionGroup) and part.exceptions is not None:
                group = cast("BaseExceptionGroup[BaseException]", raised)
                parts += zip(group.exceptions, part.exceptions, strict=True)
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
    step = state.current
    lease = state.lease
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
