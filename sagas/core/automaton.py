"""The life of a saga as one table.

Theory. A saga runs its steps in order (Garcia-Molina and Salem, "Sagas", SIGMOD 1987, with backward recovery). At any
time it is in one status and, under its cursor, one step is in one status; the pair is the state. Three principles
hold it together; the commit protocol, whose rules are cited by number, is how they are kept between processes:

-   *Only a lease holder journals.* A fact changes a state only while its lease is held, and only when it is
    about the execution that is under way; any other fact, being a duplicate, late or impossible, leaves the state
    as it is and asks for nothing. Committing twice is therefore impossible, in whatever order facts come.
-   *Strictly backward.* No row leads from COMPENSATING, or from the end, to RUNNING. (An operator's retry of a
    DEAD_LETTERED saga does, which is why DEAD_LETTERED is neither.)
-   *Something is always owed.* After each fact the state tells what comes next: another fact the holder owes
    (``rules.next_fact``), the current message, or nothing because the saga is over or waits for a person. Every fact
    uses up something finite (steps, attempts, recoveries), so once events stop the saga has ended or waits.

``decide`` looks the pair (status, kind of event) up in ``TABLE``; what is not in the table does nothing. Leaving the
forward way waits until no lost execution can act any more (``lost_until``), so an undo never runs beside its step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from sagas.core import arrivals, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import (
    CancelAsked,
    ChildrenSeen,
    CompensateAsked,
    Event,
    MessageArrived,
    ResolveAsked,
    RetryAsked,
    SignalAsked,
    StallNoticed,
)
from sagas.core.effects import Decision
from sagas.core.rules import Plan, forward, has_failed, needs_attention
from sagas.core.states import OVER, SagaState, SagaStatus

S = SagaStatus
_UNDONE = (S.COMPENSATING, S.COMPENSATED, S.CANCELLED, S.COMPENSATION_FAILED)
_TURNED = (S.COMPENSATING, S.COMPENSATED, S.CANCELLED)
_ACTIVE = (S.PENDING, S.RUNNING, S.WAITING, S.COMPENSATING)
_STANDING = (S.COMPLETED, S.FAILED, S.COMPENSATION_FAILED)
_ON = (S.PENDING, S.RUNNING, S.WAITING)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Args:
        sources: the statuses it applies to.
        event: the kind of event.
        apply: computes the decision from plan, state, event and the time.
        targets: the statuses it can lead to, besides staying.
        meaning: for the diagram; empty for a row that never changes the status.
    """

    sources: tuple[SagaStatus, ...]
    event: type[Any]
    apply: Callable[[Plan, SagaState, Any, float], Decision]
    targets: tuple[SagaStatus, ...]
    meaning: str = ""


ROWS: tuple[Row, ...] = (
    # Facts: committed journal entries.
    Row((S.RUNNING,), ev.StepCompleted, transitions.step_completed, (S.RUNNING, S.COMPLETED), "last step completed"),
    Row((S.RUNNING,), ev.StepFailed, transitions.step_failed, (S.RUNNING, S.COMPLETED)),
    Row((S.RUNNING,), ev.StepLost, transitions.step_lost, (S.RUNNING, S.COMPLETED)),
    Row((S.PENDING, S.RUNNING), ev.WaitStarted, transitions.wait_started, (S.WAITING,), "it waits"),
    # Where the code is gone that was to look again, and the wait asks nobody.
    Row((S.WAITING,), ev.WaitStarted, transitions.wait_started, ()),
    Row((S.WAITING,), ev.SignalReceived, transitions.signal_received, (S.RUNNING, S.COMPLETED), "a signal came"),
    Row((S.WAITING,), ev.WaitEnded, transitions.wait_ended, (S.RUNNING, S.COMPLETED), "the time came"),
    Row((S.WAITING,), ev.WaitTimedOut, transitions.wait_timed_out, (S.RUNNING, S.COMPLETED), "it waited in vain"),
    Row((S.RUNNING,), ev.ChildrenStarted, transitions.children_started, (S.WAITING,), "it waits for its children"),
    Row((S.WAITING,), ev.ChildrenEnded, transitions.children_ended, (S.RUNNING, S.COMPLETED), "its children are over"),
    Row((S.RUNNING,), ev.StepPostponed, transitions.step_postponed, (S.WAITING,), "a step looks again later"),
    Row((S.PENDING,), ev.StepDeadLettered, transitions.step_dead_lettered, (S.DEAD_LETTERED,), "code gone"),
    Row(
        (S.RUNNING,), ev.StepDeadLettered, transitions.step_dead_lettered, (S.DEAD_LETTERED,), "exhausted or code gone"
    ),
    Row((S.WAITING,), ev.StepDeadLettered, transitions.step_dead_lettered, (S.DEAD_LETTERED,), "code gone"),
    Row((S.RUNNING,), ev.SagaFailed, transitions.saga_failed, (S.FAILED,), "exhausted, FAIL"),
    # The pivot was the last step, and the cancel came while it ran: the saga is over.
    Row(
        (S.RUNNING,),
        ev.CancelRequested,
        transitions.cancel_requested,
        (S.COMPLETED,),
        "a cancel comes too late",
    ),
    Row((S.RUNNING,), ev.SagaTimedOut, transitions.saga_timed_out, (S.COMPLETED,), "a cancel comes too late"),
    Row((S.PENDING, S.WAITING, S.DEAD_LETTERED), ev.CancelRequested, transitions.cancel_requested, ()),
    Row((S.PENDING, S.WAITING, S.DEAD_LETTERED), ev.SagaTimedOut, transitions.saga_timed_out, ()),
    Row((S.PENDING,), ev.CompensationStarted, undoing.compensation_started, _TURNED[1:], "cancelled or given up"),
    Row((S.RUNNING,), ev.CompensationStarted, undoing.compensation_started, _TURNED, "exhausted or cancelled"),
    Row((S.WAITING,), ev.CompensationStarted, undoing.compensation_started, _TURNED, "cancelled or given up"),
    Row((S.DEAD_LETTERED,), ev.CompensationStarted, undoing.compensation_started, _TURNED, "cancelled or given up"),
    Row((S.FAILED,), ev.CompensationStarted, undoing.compensation_started, _TURNED[:2], "given up"),
    Row((S.COMPLETED,), ev.CompensationStarted, undoing.compensation_started, _TURNED[:2], "undone after all"),
    Row((S.COMPENSATING,), ev.StepCompensated, undoing.step_compensated, _UNDONE, "last undo done"),
    Row((S.COMPENSATING,), ev.CompensationAttemptFailed, undoing.undo_attempt_failed, (S.COMPENSATION_FAILED,)),
    Row((S.COMPENSATING,), ev.CompensationPostponed, undoing.undo_postponed, ()),
    Row((S.COMPENSATING,), ev.CompensationFailed, undoing.undo_failed, (S.COMPENSATION_FAILED,), "an undo failed"),
    Row((S.DEAD_LETTERED,), ev.SagaRetried, transitions.redriven, (S.RUNNING, S.WAITING), "redriven"),
    Row((S.COMPENSATION_FAILED,), ev.SagaRetried, undoing.undos_redriven, _UNDONE, "retried by an operator"),
    Row(_ACTIVE, ev.SagaRecovered, transitions.recovered, ()),
    Row(_ON, ev.SagaRecoveryExhausted, transitions.recovery_exhausted, ()),
    Row((S.COMPENSATING,), ev.SagaRecoveryExhausted, undoing.undoing_exhausted, (S.COMPENSATION_FAILED,), "given up"),
    Row((S.DEAD_LETTERED, *sorted(OVER)), ev.SagaResolved, transitions.resolved, ()),
    # Arrivals: a message, the supervisor, an operator or a caller; claims are the only changes.
    Row((S.PENDING, S.RUNNING), MessageArrived, arrivals.message_arrived, (S.RUNNING,), "first step claimed"),
    Row((S.WAITING,), MessageArrived, arrivals.message_arrived, (S.RUNNING,), "it looks again"),
    Row((S.COMPENSATING, S.DEAD_LETTERED), MessageArrived, arrivals.message_arrived, ()),
    Row(tuple(sorted(OVER)), MessageArrived, arrivals.message_arrived_late, ()),
    Row((*_ACTIVE, S.DEAD_LETTERED), StallNoticed, arrivals.stall_noticed, ()),
    Row(_STANDING, StallNoticed, arrivals.order_noticed, ()),
    Row((S.WAITING, S.COMPENSATING), ChildrenSeen, arrivals.children_seen, ()),
    Row(tuple(S), CancelAsked, arrivals.cancel_asked, ()),
    Row(tuple(S), SignalAsked, arrivals.signal_asked, ()),
    Row(tuple(S), RetryAsked, arrivals.retry_asked, ()),
    Row(tuple(S), CompensateAsked, arrivals.compensate_asked, ()),
    Row(tuple(S), ResolveAsked, arrivals.resolve_asked, ()),
)

TABLE: dict[tuple[SagaStatus, type[Any]], Row] = {(s, row.event): row for row in ROWS for s in row.sources}


_LONGEST_TYPE = 100
"""The most characters of an error's type that a saga keeps."""


def decide(plan: Plan, state: SagaState, event: Event, now: float) -> Decision:
    """Return the next state and what to do about ``event``. ``now``: epoch seconds. Returns the same state, and nothing
    to do, when the event is a duplicate, late or impossible."""
    row = TABLE.get((state.status, type(event)))
    if row is None:
        return Decision(state)
    decision = row.apply(plan, state, event, now)
    if decision.state is state:
        return decision
    after = decision.state
    # What happens to a saga that is over, a settlement say, leaves its end where it was.
    end = state.ended_at if state.over else now
    attention = (after.attention or now) if needs_attention(after) else 0.0
    noted = replace(
        after,
        attention=attention,
        updated_at=now if isinstance(event, ev.Fact) else after.updated_at,
        ended_at=end if after.over else 0.0,
        failed=after.failed or has_failed(after),
        error_type=_error_type(state, after, event) if attention or forward(after) or after.in_doubt else "",
    )
    return replace(decision, state=noted)


def _error_type(before: SagaState, after: SagaState, event: Event) -> str:
    """The type of the error for which the saga needs an operator, or will: sagas that failed alike are one incident."""
    if isinstance(event, ev.SagaRetried):
        return ""
    if after.error_seq == before.error_seq and not isinstance(event, ev.CompensationFailed):
        return after.error_type
    failure: ev.Failure | None = getattr(event, "failure", None) or getattr(event, "why", None)
    return failure.type[:_LONGEST_TYPE] if failure is not None else ""
