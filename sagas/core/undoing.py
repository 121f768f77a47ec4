"""Applies each journaled fact about cancelling and undoing to a state."""

from __future__ import annotations

from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.commands import Decision
from sagas.core.rules import Plan, forward, job_in_doubt, next_undo, undo_out_of_budget, undo_pending, undoable
from sagas.core.states import Cancel, Order, Polling, Recovery, SagaState, SagaStatus, StepState, StepStatus
from sagas.core.transitions import busy, entered, not_called, proceed, released, stalled, try_again, unreadable_part


def cancel_requested(plan: Plan, state: SagaState, fact: ev.CancelRequested, now: float) -> Decision:
    """Record the accepted cancel. Undoing follows, unless the pivot has completed in the meantime."""
    if state.lease is None or busy(state) or not state.cancel.at or state.cancel.journaled:
        return Decision(state)
    if state.past_pivot:
        return _forward(plan, state, now)
    journaled = replace(entered(state), cancel=Cancel(state.cancel.at, journaled=True))
    return proceed(plan, journaled, now)


def saga_timed_out(plan: Plan, state: SagaState, fact: ev.SagaTimedOut, now: float) -> Decision:
    """Treat a deadline as a cancel that is an error. Past the pivot it only puts the saga on the attention list. The
    time is not compared again: a journaled fact stays valid."""
    if state.lease is None or busy(state) or state.cancel.journaled:
        return Decision(state)
    if state.past_pivot:
        recorded_before = state.overdue and not state.cancel.at
        return Decision(state) if recorded_before else _forward(plan, replace(state, overdue=True), now)
    after = entered(state)
    passed = Cancel(state.cancel.at or now, ev.DEADLINE, journaled=True)
    return proceed(plan, replace(after, cancel=passed, error_seq=after.seq), now)


def _forward(plan: Plan, state: SagaState, now: float) -> Decision:
    """Drop a cancel past the pivot. If no step remains, the saga has completed."""
    after = replace(entered(state), cancel=Cancel())
    completed = after.cursor == len(after.steps)
    return proceed(plan, replace(after, status=SagaStatus.COMPLETED) if completed else after, now)


def _being_undone(state: SagaState, fact: ev.StepFact, *, begun: bool = True) -> StepState | None:
    """Return the current step if its undo runs; without ``begun``, if it is to be undone but the undo cannot run."""
    step = state.current
    if step is None or not state.lease or state.cursor != fact.index or step.undo_attempts.made != fact.attempt:
        return None
    under_way = step.status is StepStatus.COMPENSATING
    return step if (under_way or state.joins if begun else not under_way) else None


def compensation_started(plan: Plan, state: SagaState, fact: ev.CompensationStarted, now: float) -> Decision:
    """Start to undo. From here on only undos run."""
    if state.lease is None or busy(state) or not _may_turn(state, fact.cause):
        return Decision(state)
    after = replace(entered(state), cause=fact.cause, dead=None, resolution_seq=0, unreadable="", polling=None)
    after = replace(after, order=_closed_order(state), not_before=0.0 if state.ended else after.not_before)
    after = replace(after, recovery=state.recovery.progressed())
    step = state.current
    turned = next_undo(plan, after, len(state.steps))
    if step is not None and step.status is StepStatus.WAITING:
        to_undo = turned.undoing and turned.cursor == state.cursor
        in_doubt = turned.steps[state.cursor].outcome_unknown or step.signalled
        # A signal that was accepted and could not be read may have said anything.
        failed = replace(turned.steps[state.cursor], status=StepStatus.FAILED, outcome_unknown=in_doubt)
        turned = turned if to_undo else turned.with_step(state.cursor, failed)
    return proceed(plan, turned, now)


def _closed_order(state: SagaState) -> Order | None:
    """Return the parent's request, marked as begun."""
    return None if state.order is None else replace(state.order, open=False)


def _may_turn(state: SagaState, cause: str) -> bool:
    """Whether undoing may begin for a cause. A later cancel does not matter: a journaled fact stays valid."""
    if cause == "operator":
        return not forward(state) or bool(state.past_pivot)
    if cause == "parent":
        return state.order is not None and state.order.open
    if cause in ("cancel", "timeout"):
        return state.cancel.journaled
    if cause == "recovery":
        return forward(state) and state.recovery.exhausted
    return forward(state) and state.current is not None and state.current.status is StepStatus.FAILED


def step_compensated(plan: Plan, state: SagaState, fact: ev.StepCompensated, now: float) -> Decision:
    """Continue with the next undo, or end the saga."""
    step = _being_undone(state, fact)
    if step is None:
        return Decision(state)
    undone = replace(
        step,
        status=StepStatus.COMPENSATED,
        undo_attempts=step.undo_attempts.settled(),
        outcome_unknown=False,
        undo=False,
    )
    after = replace(entered(state).with_step(fact.index, undone), recovery=state.recovery.progressed())
    return proceed(plan, next_undo(plan, after, fact.index), now)


def undo_attempt_failed(plan: Plan, state: SagaState, fact: ev.CompensationAttemptFailed, now: float) -> Decision:
    """Retry the undo later. If no attempt remains, the undo has failed for good."""
    step = _being_undone(state, fact)
    if step is None:
        return Decision(state)
    if undo_out_of_budget(plan, state):
        return undo_failed(plan, state, ev.CompensationFailed(fact.index, fact.attempt, fact.failure), now)
    again = entered(state).with_step(fact.index, replace(step, status=undo_pending(step)))
    return proceed(plan, try_again(again, fact.retry_at, now), now)


def undo_postponed(plan: Plan, state: SagaState, fact: ev.CompensationPostponed, now: float) -> Decision:
    """Call the undo again later. The execution is counted, but not charged to the budget, because nothing failed."""
    step = _being_undone(state, fact)
    if step is None or state.joins:
        return Decision(state)
    if fact.because == ev.NOT_OWED:
        return proceed(plan, _passed(plan, state, fact, step), now)
    if fact.because:
        step = replace(step, status=undo_pending(step), undo_attempts=step.undo_attempts.given_back())
        return proceed(plan, not_called(state.with_step(fact.index, step), fact, now), now)
    again = replace(step, status=undo_pending(step), undo_attempts=step.undo_attempts.excused())
    after = replace(
        entered(state).with_step(fact.index, again),
        recovery=state.recovery.progressed(),
        polling=Polling(fact.since, fact.looks, fact.message, fact.after, fact.retry_at, fact.redacted_by),
    )
    return proceed(plan, try_again(after, fact.retry_at, now), now)


def _passed(plan: Plan, state: SagaState, fact: ev.CompensationPostponed, step: StepState) -> SagaState:
    """Uncount the attempt and continue with the next undo: the step did not complete, so its undo is not owed."""
    in_doubt = step.outcome_unknown or job_in_doubt(plan, fact.index, step)
    attempts = step.undo_attempts.given_back()
    failed = replace(step, status=StepStatus.FAILED, undo_attempts=attempts, outcome_unknown=in_doubt)
    return next_undo(plan, entered(state).with_step(fact.index, failed), fact.index)


def undo_failed(plan: Plan, state: SagaState, fact: ev.CompensationFailed, now: float) -> Decision:
    """Record the failed undo and continue with the others."""
    step = _being_undone(state, fact, begun=not fact.failure.code_missing)
    if step is None:
        return Decision(state)
    attempts = step.undo_attempts.given_back() if fact.failure.type_changed else step.undo_attempts
    failed = replace(step, status=StepStatus.COMPENSATION_FAILED, undo_attempts=attempts)
    after = entered(state).with_step(fact.index, failed)
    after = replace(after, unreadable=unreadable_part(fact.failure) or after.unreadable)
    return proceed(plan, next_undo(plan, after, fact.index), now)


def undos_redriven(plan: Plan, state: SagaState, fact: ev.SagaRetried, now: float) -> Decision:
    """Run the failed undos again, each with a new budget. Successful and manual undos are not repeated."""
    if state.lease is None:
        return Decision(state)
    after = replace(entered(state), recovery=Recovery(), resolution_seq=0, unreadable="")
    after = replace(after, order=_closed_order(state), retrying_undos=True)
    return proceed(plan, next_undo(plan, after, len(after.steps)), now)


def undoing_exhausted(plan: Plan, state: SagaState, fact: ev.SagaRecoveryExhausted, now: float) -> Decision:
    """Give up undoing. Count all undos that still have to be done as failed."""
    if not stalled(state):
        return Decision(state)
    after = replace(
        entered(state),
        recovery=replace(state.recovery, exhausted=True),
        status=SagaStatus.COMPENSATION_FAILED,
        polling=None,
        retrying_undos=False,
    )
    for index, step in enumerate(after.steps[: after.cursor + 1]):
        owed = undoable(plan, index, step) and not state.retrying_undos
        if index == after.cursor or owed:
            after = after.with_step(index, replace(step, status=StepStatus.COMPENSATION_FAILED))
    return released(after)
