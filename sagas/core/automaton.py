"""The life of a saga as one table.

Theory. A saga runs its steps in order (Garcia-Molina and Salem, "Sagas", SIGMOD 1987, with backward recovery). The saga
and the step under its cursor each have a status. Both together are the state. Three principles hold, and the commit
protocol ensures them across processes. Its rules are cited by number:

-   *Only a lease holder journals.* A fact only changes the state if the saga's lease is held and the fact is about the
    current execution. Any other fact is a duplicate, late or impossible, and changes nothing. So nothing is committed
    twice, whatever the order of facts.
-   *Undoing only goes backward.* No row leads from COMPENSATING or a final status to RUNNING. DEAD_LETTERED is not a
    final status: an operator's retry leads from there to RUNNING.
-   *Every state has a next action*, unless the saga has ended or waits for an operator. The action is the current
    message, or another fact that the lease holder must journal (``rules.next_fact``). Every fact uses up something
    finite: steps, attempts or recoveries. So once no more events come, the saga ends or waits.

``decide`` looks up the pair (status, kind of event) in ``TABLE``; for other pairs, nothing happens. A saga only begins
to undo when no lost execution can act any more (``lost_until``), so an undo never runs at the same time as its step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sagas.core import arrivals, transitions, undoing
from sagas.core import events as ev
from sagas.core.commands import (
    CancelArrived,
    ChildrenSeen,
    CompensateArrived,
    Decision,
    Event,
    MessageArrived,
    ResolveArrived,
    RetryArrived,
    SignalArrived,
    Visited,
)
from sagas.core.rules import Plan, forward, has_failed, misfit, needs_attention
from sagas.core.states import ENDED, SagaState, SagaStatus

S = SagaStatus
_UNDONE = (S.COMPENSATING, S.COMPENSATED, S.CANCELLED, S.COMPENSATION_FAILED)
_TURNED = (S.COMPENSATING, S.COMPENSATED, S.CANCELLED)
_ACTIVE = (S.PENDING, S.RUNNING, S.WAITING, S.COMPENSATING)
_STANDING = (S.COMPLETED, S.FAILED, S.COMPENSATION_FAILED)
_ON = (S.PENDING, S.RUNNING, S.WAITING)


class Row(Struct, frozen=True):
    """One line of the table.

    Args:
        sources: the statuses to which it applies.
        event: the kind of event.
        apply: computes the decision from plan, state, event and the time.
        targets: the other statuses to which it can lead.
        meaning: the label in the diagram; empty for a row that never changes the status.
    """

    sources: tuple[SagaStatus, ...]
    event: type[Any]
    apply: Callable[[Plan, SagaState, Any, float], Decision]
    targets: tuple[SagaStatus, ...]
    meaning: str = ""


ROWS: tuple[Row, ...] = (
    # Facts: committed journal entries.
    Row((S.RUNNING,), ev.StepCompleted, transitions.step_completed, (S.RUNNING, S.COMPLETED), "last step completed"),
    Row((S.RUNNING,), ev.StepSkipped, transitions.step_skipped, (S.RUNNING, S.COMPLETED), "last step skipped"),
    Row((S.RUNNING,), ev.StepFailed, transitions.step_failed, (S.RUNNING, S.COMPLETED)),
    Row((S.RUNNING,), ev.StepLost, transitions.step_lost, (S.RUNNING, S.COMPLETED)),
    Row((S.PENDING, S.RUNNING), ev.WaitStarted, transitions.wait_started, (S.WAITING,), "it waits"),
    # The step polled, but a deployment has replaced it with a wait without code.
    Row((S.WAITING,), ev.WaitStarted, transitions.wait_started, ()),
    Row((S.WAITING,), ev.SignalReceived, transitions.signal_received, (S.RUNNING, S.COMPLETED), "a signal came"),
    Row((S.WAITING,), ev.WaitEnded, transitions.wait_ended, (S.RUNNING, S.COMPLETED), "the time came"),
    Row((S.WAITING,), ev.WaitTimedOut, transitions.wait_timed_out, (S.RUNNING, S.COMPLETED), "its wait timed out"),
    Row((S.RUNNING,), ev.ChildrenStarted, transitions.children_started, (S.WAITING,), "it waits for its children"),
    Row((S.WAITING,), ev.ChildrenEnded, transitions.children_ended, (S.RUNNING, S.COMPLETED), "its children ended"),
    Row((S.RUNNING,), ev.StepPostponed, transitions.step_postponed, (S.WAITING,), "a step will poll again"),
    # The value of the signal cannot be read.
    Row((S.WAITING,), ev.StepPostponed, transitions.step_postponed, ()),
    Row((S.PENDING,), ev.StepDeadLettered, transitions.step_dead_lettered, (S.DEAD_LETTERED,), "code missing"),
    Row(
        *((S.RUNNING,), ev.StepDeadLettered, transitions.step_dead_lettered, (S.DEAD_LETTERED,)),
        "exhausted or code missing",
    ),
    Row((S.WAITING,), ev.StepDeadLettered, transitions.step_dead_lettered, (S.DEAD_LETTERED,), "code missing"),
    Row((S.RUNNING,), ev.SagaFailed, transitions.saga_failed, (S.FAILED,), "exhausted, FAIL"),
    # The cancel came while the pivot ran, which was the last step, so the saga has ended.
    Row(
        (S.RUNNING,),
        ev.CancelRequested,
        undoing.cancel_requested,
        (S.COMPLETED,),
        "the cancel came too late",
    ),
    Row((S.RUNNING,), ev.SagaTimedOut, undoing.saga_timed_out, (S.COMPLETED,), "the cancel came too late"),
    Row((S.PENDING, S.WAITING, S.DEAD_LETTERED), ev.CancelRequested, undoing.cancel_requested, ()),
    Row((S.PENDING, S.WAITING, S.DEAD_LETTERED), ev.SagaTimedOut, undoing.saga_timed_out, ()),
    Row((S.PENDING,), ev.CompensationStarted, undoing.compensation_started, _TURNED[1:], "cancelled or given up"),
    Row((S.RUNNING,), ev.CompensationStarted, undoing.compensation_started, _TURNED, "exhausted or cancelled"),
    Row((S.WAITING,), ev.CompensationStarted, undoing.compensation_started, _TURNED, "cancelled or given up"),
    Row((S.DEAD_LETTERED,), ev.CompensationStarted, undoing.compensation_started, _TURNED, "cancelled or given up"),
    Row((S.FAILED,), ev.CompensationStarted, undoing.compensation_started, _TURNED[:2], "given up"),
    Row((S.COMPLETED,), ev.CompensationStarted, undoing.compensation_started, _TURNED[:2], "undone by force"),
    Row((S.COMPENSATING,), ev.StepCompensated, undoing.step_compensated, _UNDONE, "last undo done"),
    Row((S.COMPENSATING,), ev.CompensationAttemptFailed, undoing.undo_attempt_failed, (S.COMPENSATION_FAILED,)),
    Row((S.COMPENSATING,), ev.CompensationPostponed, undoing.undo_postponed, _UNDONE, "no undo is left"),
    Row((S.COMPENSATING,), ev.CompensationFailed, undoing.undo_failed, (S.COMPENSATION_FAILED,), "an undo failed"),
    Row((S.DEAD_LETTERED,), ev.SagaRetried, transitions.redriven, (S.RUNNING, S.WAITING), "retried by an operator"),
    Row((S.COMPENSATION_FAILED,), ev.SagaRetried, undoing.undos_redriven, _UNDONE, "retried by an operator"),
    Row(_ACTIVE, ev.MessageResent, transitions.resent, ()),
    Row(_ACTIVE, ev.SagaRecovered, transitions.resent, ()),
    Row(_ON, ev.SagaRecoveryExhausted, transitions.recovery_exhausted, ()),
    Row((S.COMPENSATING,), ev.SagaRecoveryExhausted, undoing.undoing_exhausted, (S.COMPENSATION_FAILED,), "given up"),
    Row((S.DEAD_LETTERED, *sorted(ENDED)), ev.SagaResolved, transitions.resolved, ()),
    # Arrivals: a message, or a request of the supervisor, an operator or a caller. They only change leases, flags and
    # counts of attempts.
    Row((S.PENDING, S.RUNNING), MessageArrived, arrivals.message_arrived, (S.RUNNING,), "first step claimed"),
    Row((S.WAITING,), MessageArrived, arrivals.message_arrived, (S.RUNNING,), "it polls again"),
    Row((S.COMPENSATING, S.DEAD_LETTERED), MessageArrived, arrivals.message_arrived, ()),
    Row(tuple(sorted(ENDED)), MessageArrived, arrivals.message_arrived_late, ()),
    Row((*_ACTIVE, S.DEAD_LETTERED), Visited, arrivals.stall_noticed, ()),
    Row(_STANDING, Visited, arrivals.order_noticed, ()),
    Row((S.WAITING, S.COMPENSATING), ChildrenSeen, arrivals.children_seen, ()),
    Row(tuple(S), CancelArrived, arrivals.cancel_arrived, ()),
    Row(tuple(S), SignalArrived, arrivals.signal_arrived, ()),
    Row(tuple(S), RetryArrived, arrivals.retry_arrived, ()),
    Row(tuple(S), CompensateArrived, arrivals.compensate_arrived, ()),
    Row(tuple(S), ResolveArrived, arrivals.resolve_arrived, ()),
)

TABLE: dict[tuple[SagaStatus, type[Any]], Row] = {(s, row.event): row for row in ROWS for s in row.sources}


_LONGEST_TYPE = 100
"""Maximum characters that a saga stores of an error's type."""


def decide(plan: Plan, state: SagaState, event: Event, now: float) -> Decision:
    """Return the next state and what to do. ``now``: epoch seconds. For a duplicate, late or impossible event, the
    state is unchanged and there is nothing to do."""
    row = TABLE.get((state.status, type(event)))
    if row is None:
        return Decision(state)
    decision = row.apply(plan, state, event, now)
    if decision.state is state:
        return decision
    after = _settled(plan, state, decision.state, event, now)
    # If an ended saga changes again, for example by a resolve, it keeps its end time.
    end = state.ended_at if state.ended else now
    attention = (after.attention or now) if needs_attention(after) else 0.0
    complete = replace(
        after,
        attention=attention,
        updated_at=now if isinstance(event, ev.Fact) else after.updated_at,
        ended_at=end if after.ended else 0.0,
        failed=after.failed or has_failed(after),
        error_type=_error_type(state, after, event) if attention or forward(after) or after.in_doubt else "",
    )
    return replace(decision, state=complete)


def _settled(plan: Plan, before: SagaState, after: SagaState, event: Event, now: float) -> SagaState:
    """Return the saga with the time since which it waits for a release, and with what it could not read. A look at the
    saga keeps both. Any other commit ends the wait, and begins a new one if the deployed code does not fit the next
    step."""
    if not isinstance(event, ev.Fact):
        return after
    because = event.because if isinstance(event, ev.Postponed) else ""
    looked = because in (ev.RELEASE, ev.INPUTS, ev.LATE) or isinstance(event, ev.MessageResent)
    if after.unread and not (looked and (because != ev.RELEASE or after.unread.gone)):
        after = replace(after, unread=None)
    if plan.settle or before.settling_since:
        return _settling(plan, before, after, event, now, looked=looked, released=because == ev.RELEASE)
    return after


def _settling(
    plan: Plan, before: SagaState, after: SagaState, fact: ev.Fact, now: float, *, looked: bool, released: bool
) -> SagaState:
    """Return the saga with the time since which it waits for a release. ``looked``: the commit was only a look at it.
    ``released``: a stored value did not fit the code that was to run."""
    stopped = after.ended or after.status is SagaStatus.DEAD_LETTERED
    lost = getattr(fact, "failure", None) in (ev.LOST, ev.HUNG)
    since = before.settling_since if looked or (lost and misfit(plan, after, now)) else 0.0
    if not since and not stopped and plan.settle and (released or misfit(plan, after, now)):
        since = float(int(now))
    shown = since or after.status is SagaStatus.DEAD_LETTERED or after.unreadable != before.unreadable
    unread = after.unreadable if shown else ""
    return replace(after, settling_since=0.0 if stopped else since, unreadable=unread)


def _error_type(before: SagaState, after: SagaState, event: Event) -> str:
    """Return the type of the error for which the saga needs an operator. Incidents are grouped by it."""
    if isinstance(event, ev.SagaRetried):
        return ""
    if after.error_seq == before.error_seq and not isinstance(event, ev.CompensationFailed):
        return after.error_type
    failure: ev.Failure | None = getattr(event, "failure", None) or getattr(event, "why", None)
    return failure.type[:_LONGEST_TYPE] if failure is not None else ""
