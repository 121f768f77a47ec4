"""Applies each journaled fact to a state. A fact that is not about the current execution changes nothing."""

from __future__ import annotations

from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.commands import Decision, Send, Write
from sagas.core.ids import types_hash
from sagas.core.rules import (
    SHORT_WAIT,
    ForwardPlan,
    Plan,
    exhausted_policy,
    forward,
    in_wait,
    job_in_doubt,
    long_wait,
    next_fact,
    out_of_budget,
    owed_by_time,
    waits,
)
from sagas.core.states import (
    FanOut,
    Polling,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
    Unread,
)

_LONGEST_STORED = 300
"""Maximum characters that a saga stores about why a value does not fit or cannot be read. The journal has more."""
LISTED_AFTER = 900.0
"""Seconds after which a saga whose inputs are out of reach is on the attention list."""


def entered(state: SagaState) -> SagaState:
    """Return the state with one more entry, which also counts as a response."""
    return replace(state, seq=state.seq + 1, unanswered=0)


def released(state: SagaState, send: Send | None = None) -> Decision:
    """Release the lease."""
    return Decision(replace(state, lease=None), send=send)


def send_current(state: SagaState) -> Send:
    """Return the instruction to send the saga's current message."""
    wait = max(state.not_before, state.lost_until) if state.undoing else state.not_before
    index = min(state.cursor, len(state.steps) - 1)
    return Send(index, state.undoing, state.dispatch, wait)


def proceed(plan: Plan, state: SagaState, now: float) -> Decision:
    """Continue after a commit: journal the next fact, or else release the lease and send the current message."""
    fact = next_fact(plan, state, now) or owed_by_time(plan, state, now)
    if fact is None:
        idle = state.ended or state.status is SagaStatus.DEAD_LETTERED or long_wait(state, now)
        return released(state) if idle else released(state, send_current(state))
    if waits(state, fact, now):
        later = replace(state, not_before=max(state.not_before, state.lost_until), dispatch=state.dispatch + 1)
        return released(later, send_current(later))
    return Decision(state, Write(fact))


def _running(state: SagaState, fact: ev.StepFact) -> StepState | None:
    """Return the current step if it runs, and ``fact`` is about this execution."""
    step = state.current
    fits = step is not None and state.cursor == fact.index and step.attempts.made == fact.attempt
    return step if fits and state.lease and step is not None and step.status is StepStatus.RUNNING else None


def busy(state: SagaState) -> bool:
    """Whether user code may be running under the current lease."""
    step = state.current
    return step is not None and step.status in (StepStatus.RUNNING, StepStatus.COMPENSATING)


def step_completed(plan: Plan, state: SagaState, fact: ev.StepCompleted, now: float) -> Decision:
    """Advance the cursor. Past the last step the saga is COMPLETED, unless a cancel was accepted."""
    step = _running(state, fact)
    if step is None:
        return Decision(state)
    after = entered(state)
    done = replace(
        step,
        status=StepStatus.COMPLETED,
        attempts=step.attempts.settled(),
        result_seq=after.seq,
        outcome_unknown=False,
        postponed=False,
    )
    return _advanced(plan, after.with_step(fact.index, done), now)


def step_skipped(plan: Plan, state: SagaState, fact: ev.StepSkipped, now: float) -> Decision:
    """Continue without the step. If an earlier attempt has begun, it may have taken effect, so the step has failed."""
    step = _running(state, fact) or _unclaimed(state, fact)
    if step is None:
        return Decision(state)
    attempts = step.attempts.given_back() if fact.attempt else step.attempts
    passed = replace(step, status=StepStatus.SKIPPED, attempts=attempts)
    if attempts.made:
        in_doubt = step.outcome_unknown or job_in_doubt(plan, fact.index, step)
        passed = replace(passed, status=StepStatus.FAILED, outcome_unknown=in_doubt)
    return _advanced(plan, entered(state).with_step(fact.index, passed), now)


def _unclaimed(state: SagaState, fact: ev.StepSkipped) -> StepState | None:
    """Return the current step if no execution of it was claimed, and ``fact`` is about none."""
    step = state.current
    fits = step is not None and state.cursor == fact.index and not fact.attempt
    return step if fits and state.lease and step is not None and step.status is StepStatus.PENDING else None


def _advanced(plan: Plan, state: SagaState, now: float) -> Decision:
    """Advance the cursor: the step is completed, or the saga continues without it."""
    after = replace(
        state,
        status=SagaStatus.RUNNING,
        cursor=state.cursor + 1,
        recovery=state.recovery.progressed(),
        not_before=0.0,
        dispatch=state.dispatch + 1,
        polling=None,
    )
    if after.cursor == len(after.steps) and not after.cancel.at and not after.recovery.exhausted:
        after = replace(after, status=SagaStatus.COMPLETED, dispatch=state.dispatch)
    decision = proceed(plan, after, now)
    if isinstance(decision.then, Write) and isinstance(decision.then.fact, ev.StepSkipped):
        # No message is sent for a step that is skipped. In a chain, the message at hand stands for the step behind it.
        return replace(decision, state=replace(decision.state, dispatch=state.dispatch))
    return decision


def try_again(state: SagaState, retry_at: float, now: float) -> SagaState:
    """Try again later with the current message, or with a new one if the wait would use up its receives (rule 8)."""
    dispatch = state.dispatch + (1 if retry_at - now > SHORT_WAIT else 0)
    return replace(state, not_before=retry_at, dispatch=dispatch)


def step_failed(plan: Plan, state: SagaState, fact: ev.StepFailed, now: float) -> Decision:
    """Retry later. Mark the step FAILED if no attempt remains or the error is permanent."""
    step = _running(state, fact)
    if step is None:
        return Decision(state)
    unknown = step.outcome_unknown or fact.outcome_unknown
    postponed = step.postponed or fact.postponed
    step = replace(step, outcome_unknown=unknown, postponed=postponed, timed_out=fact.timed_out)
    after = entered(state)
    if fact.permanent or out_of_budget(plan, state):
        in_doubt = step.outcome_unknown or job_in_doubt(plan, fact.index, step)
        failed = after.with_step(fact.index, replace(step, status=StepStatus.FAILED, outcome_unknown=in_doubt))
        if exhausted_policy(plan, state, step, rejected=fact.rejected) == "CONTINUE":
            return _advanced(plan, failed, now)
        failed = replace(failed, rejected=fact.rejected, error_seq=after.seq, not_before=0.0, polling=None)
        return proceed(plan, failed, now)
    again = after.with_step(fact.index, replace(step, status=StepStatus.RETRYING))
    return proceed(plan, try_again(again, fact.retry_at, now), now)


def step_lost(plan: Plan, state: SagaState, fact: ev.StepLost, now: float) -> Decision:
    """Treat the attempt as failed, except that it may have taken effect."""
    step = _running(state, fact)
    if step is None:
        return Decision(state)
    after = entered(state)
    exhausted = out_of_budget(plan, state)
    status = StepStatus.FAILED if exhausted else StepStatus.RETRYING
    after = after.with_step(fact.index, replace(step, status=status, outcome_unknown=True))
    if exhausted and exhausted_policy(plan, state, step, rejected=False) == "CONTINUE":
        return _advanced(plan, after, now)
    if exhausted:
        after = replace(after, error_seq=after.seq, polling=None)
    dead = next_fact(plan, after, now)
    if isinstance(dead, ev.StepDeadLettered) and dead.cause.message_dies:
        return released(after, send_current(after))
    return proceed(plan, after, now)


def wait_started(plan: Plan, state: SagaState, fact: ev.WaitStarted, now: float) -> Decision:
    """Wait without a lease. If the signal was accepted before, or the time has come, the wait ends at once."""
    step = _running(state, fact) or _unasked(state, fact)
    if step is None or step.waits_for not in ("signal", "time"):
        return Decision(state)
    waiting = replace(step, status=StepStatus.WAITING, outcome_unknown=False, postponed=False)
    after = replace(
        entered(state).with_step(fact.index, waiting),
        status=SagaStatus.WAITING,
        not_before=fact.until,
        dispatch=state.dispatch + 1,
        recovery=state.recovery.progressed(),
        polling=None,
    )
    return proceed(plan, after, now)


def _unasked(state: SagaState, fact: ev.WaitStarted) -> StepState | None:
    """Return the current step if it is about to wait and has no code of its own."""
    step = state.current
    fits = step is not None and state.cursor == fact.index and not fact.attempt
    ready = step is not None and step.status in (StepStatus.PENDING, StepStatus.RETRYING)
    ready = ready or state.waiting_for == "retry"  # the step polled, but its code is missing now
    return step if fits and ready and state.lease else None


def _in_wait(state: SagaState, index: int, kind: str) -> StepState | None:
    """Return the current step if it waits for ``kind``: a signal, a time or children."""
    step = state.current
    fits = step is not None and state.cursor == index and step.waits_for == kind
    return step if fits and state.lease and in_wait(state) else None


def signal_received(plan: Plan, state: SagaState, fact: ev.SignalReceived, now: float) -> Decision:
    """Complete the step. The step's result is the value of the signal."""
    step = _in_wait(state, fact.index, "signal")
    if step is None or not step.signalled:
        return Decision(state)
    after = entered(state)
    done = replace(step, status=StepStatus.COMPLETED, result_seq=after.seq)
    return _advanced(plan, after.with_step(fact.index, done), now)


def wait_ended(plan: Plan, state: SagaState, fact: ev.WaitEnded, now: float) -> Decision:
    """Complete the step at its time. The step's result is null."""
    step = _in_wait(state, fact.index, "time")
    if step is None:
        return Decision(state)
    after = entered(state)
    done = replace(step, status=StepStatus.COMPLETED, result_seq=after.seq)
    return _advanced(plan, after.with_step(fact.index, done), now)


def wait_timed_out(plan: Plan, state: SagaState, fact: ev.WaitTimedOut, now: float) -> Decision:
    """Apply the wait's policy, unless a signal was accepted."""
    step = _in_wait(state, fact.index, "signal")
    if step is None or step.signalled:
        return Decision(state)
    failed = replace(step, status=StepStatus.FAILED, timed_out=True)
    after = entered(state).with_step(fact.index, failed)
    own = plan.steps[fact.index].forward
    if isinstance(own, ForwardPlan) and own.on_timeout == "CONTINUE":
        return _advanced(plan, after, now)
    return proceed(plan, replace(after, status=SagaStatus.RUNNING, error_seq=after.seq, not_before=0.0), now)


def children_started(plan: Plan, state: SagaState, fact: ev.ChildrenStarted, now: float) -> Decision:
    """Wait for the children without a lease. The function that advances parents starts them."""
    step = _running(state, fact)
    if step is None or step.waits_for != "children":
        return Decision(state)
    after = entered(state)
    own = plan.steps[fact.index].forward
    if isinstance(own, ev.Failure):
        # How the children run is unknown. None has been started, so the step's code requests them again.
        again = replace(step, status=StepStatus.RETRYING, attempts=step.attempts.excused())
        return proceed(plan, after.with_step(fact.index, again), now)
    waiting = replace(
        step,
        status=StepStatus.WAITING,
        outcome_unknown=False,
        fan_out=FanOut(
            children=fact.children,
            at_once=own.concurrency if 0 < own.concurrency < fact.children else 0,
            tolerate=own.tolerate,
            one_by_one=own.one_by_one,
            requests_seq=after.seq,
            of=types_hash(fact.types),
        ),
    )
    after = replace(
        after.with_step(fact.index, waiting),
        status=SagaStatus.WAITING,
        not_before=0.0,
        dispatch=state.dispatch + 1,
        recovery=state.recovery.progressed(),
        polling=None,
    )
    return proceed(plan, after, now)


def children_ended(plan: Plan, state: SagaState, fact: ev.ChildrenEnded, now: float) -> Decision:
    """Complete the step with the children's results. If too many failed, it fails. An unreadable result needs an
    operator."""
    step = _in_wait(state, fact.index, "children")
    if step is None:
        return Decision(state)
    after = entered(state)
    if fact.failure is None:
        done = replace(step, status=StepStatus.COMPLETED, result_seq=after.seq)
        return _advanced(plan, after.with_step(fact.index, done), now)
    failed = after.with_step(fact.index, replace(step, status=StepStatus.FAILED, timed_out=True))
    failed = replace(failed, status=SagaStatus.RUNNING, error_seq=after.seq, not_before=0.0)
    return proceed(plan, replace(failed, unreadable=unreadable_part(fact.failure)), now)


def step_postponed(plan: Plan, state: SagaState, fact: ev.StepPostponed, now: float) -> Decision:
    """Poll again later. The execution is counted, but not charged to the budget, because nothing failed.

    The code may have begun something that never completes. Whether that is in doubt is decided when the step fails for
    good or the saga is undone, by the undo that is deployed then (rule 11).

    A wait is postponed if the value of its signal cannot be read.
    """
    if fact.because == ev.INPUTS and _in_wait(state, fact.index, "signal") is not None:
        return proceed(plan, not_called(state, fact, now), now)
    step = _running(state, fact)
    if step is None:
        return Decision(state)
    if fact.because:
        ready = StepStatus.RETRYING if state.polling is None else StepStatus.WAITING
        step = replace(step, status=ready, attempts=step.attempts.given_back())
        after = not_called(state.with_step(fact.index, step), fact, now)
        return proceed(plan, replace(after, status=_before_call(state)), now)
    again = replace(
        step,
        status=StepStatus.WAITING,
        attempts=step.attempts.excused(),
        postponed=True,
    )
    after = replace(
        entered(state).with_step(fact.index, again),
        status=SagaStatus.WAITING,
        recovery=state.recovery.progressed(),
        polling=Polling(fact.since, fact.looks, fact.message, fact.after, fact.retry_at, fact.redacted_by),
    )
    return proceed(plan, try_again(after, fact.retry_at, now), now)


def _before_call(state: SagaState) -> SagaStatus:
    """Return the status of a saga whose step was claimed and not called."""
    return SagaStatus.RUNNING if state.polling is None else SagaStatus.WAITING


def not_called(state: SagaState, fact: ev.Postponed, now: float) -> SagaState:
    """Try again later with a new message, because a stored value does not fit the deployed code or cannot be read, or
    because there was no time."""
    again = replace(entered(state), dispatch=state.dispatch + 1, not_before=fact.retry_at)
    if fact.because == ev.LATE:
        return again
    if fact.because == ev.INPUTS:
        return replace(again, unread=unread(state.unread, fact.since, (fact.code, fact.message, fact.key), now))
    return replace(again, unreadable=fact.message[:_LONGEST_STORED])


def unread(before: Unread | None, first: float, why: tuple[str, str, str], now: float) -> Unread:
    """Return the mark of a saga whose inputs could not be read. A missing right puts it on the attention list at once,
    and anything else after a while. ``before``: the mark of the last look. ``first``: the time of the first look, if
    this is it. ``why``: a code, a text, and the object that may be missing."""
    code, text, key = why
    error = text[:_LONGEST_STORED]
    since = first if before is None else before.since
    listed = code == ev.AttentionCode.NO_RIGHT or now - since >= LISTED_AFTER
    if before is not None and before.error == error:  # somebody may have looked for the object since
        return replace(before, listed=listed)
    return Unread(since, code, error, listed, key)


def step_dead_lettered(plan: Plan, state: SagaState, fact: ev.StepDeadLettered, now: float) -> Decision:
    """Wait for an operator. The current message may be dead-lettered. If the deployed code does not fit the step, or
    the step stalled too often, it fails without an attempt. An attempt that was already claimed no longer counts."""
    step = state.current
    if state.lease is None or step is None or fact.index != state.cursor:
        return Decision(state)
    called = step.status is StepStatus.RUNNING and fact.cause is ev.DeadLetterCause.TYPE_CHANGED
    failed_before = step.status is StepStatus.FAILED and not fact.cause.fails_step
    if not (failed_before or called or (fact.cause.fails_step and _may_fail_uncalled(state, step, fact.cause, now))):
        return Decision(state)
    after = replace(entered(state), status=SagaStatus.DEAD_LETTERED, dead=fact.message, polling=None)
    if fact.cause.fails_step:
        attempts = step.attempts.given_back() if called else step.attempts
        # A wait for a signal has begun, so it may have to be undone.
        timed_out = step.timed_out or state.waiting_for == "signal"
        failed = replace(step, status=StepStatus.FAILED, attempts=attempts, timed_out=timed_out)
        after = after.with_step(fact.index, failed)
        unreadable = "" if fact.cause is ev.DeadLetterCause.CODE_MISSING else unreadable_part(fact.failure)
        after = replace(after, error_seq=after.seq, not_before=0.0, unreadable=unreadable)
    return proceed(plan, after, now)


def _may_fail_uncalled(state: SagaState, step: StepState, cause: ev.DeadLetterCause, now: float) -> bool:
    """Whether the current step may fail for this cause although no attempt of it runs."""
    if step.status in (StepStatus.PENDING, StepStatus.RETRYING) or state.waiting_for == "retry":
        return True
    if state.waiting_for == "signal" and (state.not_before <= now or step.signalled):
        return cause is not ev.DeadLetterCause.STALLED
    # Without its code, the policy of a step that has failed is unknown, and of children that have ended.
    unknown = step.status is StepStatus.FAILED or state.joins
    return bool(unknown) and forward(state) and cause is ev.DeadLetterCause.CODE_MISSING


def unreadable_part(failure: ev.Failure | None) -> str:
    """Return a text on the stored value that does not fit the deployed code; empty if the failure has another cause."""
    return failure.message[:_LONGEST_STORED] if failure is not None and failure.type_changed else ""


def saga_failed(plan: Plan, state: SagaState, fact: ev.SagaFailed, now: float) -> Decision:
    """End FAILED."""
    if state.lease is None or next_fact(plan, state, now) != fact:
        return Decision(state)
    return released(replace(entered(state), status=SagaStatus.FAILED))


def redriven(plan: Plan, state: SagaState, fact: ev.SagaRetried, now: float) -> Decision:
    """Grant the failed step a new budget."""
    step = state.current
    if state.lease is None or step is None:
        return Decision(state)
    again = replace(step, status=StepStatus.RETRYING, attempts=step.attempts.renewed())
    if step.timed_out:
        again = replace(again, timed_out=False)
    if step.timed_out and step.waits_for:
        again = replace(again, signalled=False, round=step.round + 1)
    children = step.fan_out.requests_seq > 0
    if children:
        again = replace(again, status=StepStatus.WAITING)
    if children and step.timed_out:  # the failed children are started again
        again = replace(again, fan_out=replace(step.fan_out, handed_out=0))
    after = replace(
        entered(state).with_step(state.cursor, again),
        status=SagaStatus.WAITING if children else SagaStatus.RUNNING,
        dead=None,
        dispatch=state.dispatch + 1,
        recovery=Recovery(),
        not_before=0.0,
        error_seq=0,
        rejected=False,
        resolution_seq=0,
        unreadable="",
    )
    return proceed(plan, after, now)


def resent(plan: Plan, state: SagaState, fact: ev.MessageResent, now: float) -> Decision:
    """Send the current message again, under a new number."""
    if state.lease is None or busy(state):
        return Decision(state)
    at_once = (state.settling_since and not in_wait(state)) or (state.unread and not state.joins)
    after = replace(
        entered(state),
        recovery=replace(state.recovery, attempts=state.recovery.attempts + 1) if fact.stall else state.recovery,
        unanswered=state.unanswered if fact.stall else fact.unanswered,
        attention=now if fact.attention else state.attention,
        dispatch=state.dispatch + 1,
        not_before=0.0 if at_once else state.not_before,
    )
    if after.status is SagaStatus.WAITING:  # a long wait has no message that would do what is owed
        return proceed(plan, after, now)
    following = next_fact(plan, after, now)
    stops = isinstance(following, ev.StepDeadLettered) and not following.cause.message_dies
    if isinstance(following, ev.SagaRecoveryExhausted) or (following is not None and stops):
        return Decision(after, Write(following))
    if waits(after, following, now):
        after = replace(after, not_before=max(after.not_before, after.lost_until))
    return released(after, send_current(after))


def stalled(state: SagaState) -> bool:
    """Whether ``SagaRecoveryExhausted`` applies. The limit of stalls is not checked again: the plan may have changed,
    but a journaled fact stays valid."""
    return state.lease is not None and state.recovery.attempts > 0 and not busy(state)


def recovery_exhausted(plan: Plan, state: SagaState, fact: ev.SagaRecoveryExhausted, now: float) -> Decision:
    """Give up going forward. Undoing follows. Past the pivot, the saga waits for an operator instead."""
    if not stalled(state) or state.recovery.exhausted:
        return Decision(state)
    return proceed(plan, replace(entered(state), recovery=replace(state.recovery, exhausted=True)), now)


def resolvable(state: SagaState) -> bool:
    """Whether an operator can resolve the saga, or resolve it again with another reason."""
    return bool(state.attention or state.resolution_seq)


def resolved(plan: Plan, state: SagaState, fact: ev.SagaResolved, now: float) -> Decision:
    """Take the saga off the attention list. Steps undone by hand are not undone again. Steps that never began are
    ignored."""
    if state.lease is None or not resolvable(state):
        return Decision(state)
    after = entered(state)
    for index, step in enumerate(state.steps):
        if step.name in fact.steps and step.status not in (StepStatus.PENDING, StepStatus.SKIPPED):
            after = after.with_step(index, replace(step, status=StepStatus.COMPENSATED, outcome_unknown=False))
    return released(replace(after, resolution_seq=after.seq, unreadable=""))
