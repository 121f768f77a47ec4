"""The plan of a saga, and the rules that several transitions share.

A plan has the numbers and policies of a saga type, but no code. Each rule is a pure function of plan and state.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sagas.core.events import (
    CODE_GONE,
    DEADLINE,
    HUNG,
    LOST,
    AttentionCode,
    CancelRequested,
    ChildrenStarted,
    CompensationAttemptFailed,
    CompensationFailed,
    CompensationStarted,
    DeadLetterCause,
    Fact,
    Failure,
    MessageResent,
    SagaFailed,
    SagaRecoveryExhausted,
    SagaRetried,
    SagaTimedOut,
    SignalReceived,
    StepDeadLettered,
    StepFailed,
    StepLost,
    StepSkipped,
    WaitEnded,
    WaitStarted,
    WaitTimedOut,
)
from sagas.core.states import SagaState, SagaStatus, StepState, StepStatus, Unread
from sagas.errors import TypeChanged

SHORT_WAIT = 5.0
"""Maximum seconds for which a message is hidden. A longer wait takes a new message or a copy, because SQS counts each
receive, and limits the number of hidden messages."""
LONG_WAIT = 900.0
"""Maximum seconds for which a message is delayed: SQS's limit. A saga that waits longer has no message until the
supervisor sends one, shortly before the end."""
_FORWARD = (SagaStatus.PENDING, SagaStatus.RUNNING, SagaStatus.WAITING)
_LOOKS = (60.0, 180.0, 420.0, 720.0)
"""The first looks at a saga that waits for a release come this many seconds after the wait began."""
_LOOK_AGAIN = 300.0
"""Later looks are this many seconds apart."""
_MOST_DOUBLINGS = 10
"""Maximum doublings of the seconds without a response."""
_LONGEST_SILENCE = 3600.0
"""Maximum seconds until an unanswered message is sent again. Once its function works again, a saga continues within
this time."""
_READY = (StepStatus.PENDING, StepStatus.RETRYING)
_STARTED = (StepStatus.FAILED, StepStatus.RETRYING, StepStatus.RUNNING, StepStatus.WAITING)


Policy = Literal["COMPENSATE", "FAIL", "DEAD_LETTER", "CONTINUE"]
"""The policy for a step that has failed for good."""


class ForwardPlan(Struct, frozen=True):
    """The deployed policies of a step.

    Args:
        executions: the maximum number of executions in one budget.
        exhausted: the policy once these are used up.
        asks: whether the step has code. A wait without code begins on its own.
        wait: maximum seconds for which the step waits, after its code has run.
        on_timeout: the policy if no signal arrives in time, too many children fail, or the step polls for too long.
        concurrency: the number of children that may be in flight at a time.
        tolerate: the number of children that may fail.
        one_by_one: whether children are undone one after the other, not all at once.
        skip: why the step is skipped, in the plan of the one commit that has asked; else empty.
    """

    executions: int = 1
    exhausted: Policy = "COMPENSATE"
    asks: bool = True
    wait: float = 0.0
    on_timeout: Policy = "COMPENSATE"
    concurrency: int = 0
    tolerate: int = 0
    one_by_one: bool = False
    skip: str = ""

    def policy(self, step: StepState) -> Policy:
        """Return the policy for a step that has failed for good."""
        return self.on_timeout if step.timed_out else self.exhausted


class UndoPlan(Struct, frozen=True):
    """The deployed policies of a step's undo.

    Args:
        executions: the maximum number of executions of the undo in one budget.
        when_started: whether the step is also undone if it has failed or its outcome is unknown.
        needs_result: the undo takes the step's own result, so it cannot be called without one.
    """

    executions: int = 1
    when_started: bool = False
    needs_result: bool = False


class StepPlan(Struct, frozen=True):
    """One step, as the deployed code has it. What the deployed code does not have is unknown, and has no default.

    Args:
        forward: the policies of the step; a failure that says why they are unknown if the deployed code does not fit
            the step. See :func:`sagas.core.fit.fit`.
        undo: the policies of the step's undo; a failure that says why they are unknown if the deployed code has no
            undo; ``None`` if the step's children are undone, which needs no code of the step.
        owes_undo: whether the step has to be undone once it has completed.
    """

    forward: ForwardPlan | Failure = ForwardPlan()
    undo: UndoPlan | Failure | None = UndoPlan()
    owes_undo: bool = False


class Plan(Struct, frozen=True):
    """The steps of one saga, in its order, and its limits.

    Args:
        steps: a plan for each step that the saga was started with.
        max_recovery_attempts: stalls after which the saga is no longer recovered.
        stale_after: seconds without a response after which a message counts as lost.
        settle: seconds for which the saga waits for a release if the deployed code does not fit its next step.
    """

    steps: tuple[StepPlan, ...]
    max_recovery_attempts: int = 5
    stale_after: float = 120.0
    settle: float = 0.0


def forward(state: SagaState) -> bool:
    """Whether forward steps may still run."""
    return state.status in _FORWARD


def ready(state: SagaState) -> bool:
    """Whether the step under the cursor can run."""
    return state.current is not None and state.current.status in _READY


def quiet_until(state: SagaState, stale_after: float) -> float:
    """Return the time until which a missing response does not mean a stall (rule 9). Requested waits do not count. Each
    stall doubles the time. Each unanswered message does, too, up to an hour."""
    quiet = max(state.updated_at, state.not_before, state.lost_until if state.undoing else 0.0)
    stalls, silence = (2 ** min(n, _MOST_DOUBLINGS) for n in (state.recovery.attempts, state.unanswered))
    return quiet + max(stale_after * stalls, min(stale_after * silence, _LONGEST_SILENCE))


def in_wait(state: SagaState) -> bool:
    """Whether the saga waits for a signal, a time or its children. Waiting for the next poll does not count."""
    return state.status is SagaStatus.WAITING and state.polling is None


def waits_without_code(plan: Plan, state: SagaState, index: int) -> bool:
    """Whether a step needs no code now, because it waits, or has no code and is about to wait."""
    waiting = in_wait(state) and index == state.cursor
    own = plan.steps[index].forward
    return waiting or (bool(state.steps[index].waits_for) and isinstance(own, ForwardPlan) and not own.asks)


def order_to_obey(state: SagaState) -> Fact | None:
    """Return the fact with which an ended saga begins to undo at its parent's request; ``None`` without one."""
    if state.order is None or not state.order.open:
        return None
    if state.status in (SagaStatus.COMPLETED, SagaStatus.FAILED):
        return None if state.past_pivot else CompensationStarted("parent")
    return SagaRetried("ordered by its parent") if state.status is SagaStatus.COMPENSATION_FAILED else None


def long_wait(state: SagaState, now: float) -> bool:
    """Whether the saga waits longer than a message can be delayed."""
    return state.status is SagaStatus.WAITING and state.not_before - now > LONG_WAIT


def misfit(plan: Plan, state: SagaState, now: float) -> Failure | None:
    """Return why the deployed code does not fit what the saga does next; ``None`` if it does, or if no code is needed.

    A wait that has begun needs code only for its timeout. While the wait is not deployed, nobody can send its signal,
    so it must not time out. A step that has failed for good needs its policy. A takeover needs the policies of its
    step, too, because it commits what the predecessor may have journaled.
    """
    step = state.current
    if step is None:
        return None
    own = plan.steps[state.cursor]
    lapsed = state.lease is not None and state.lease.expires_at <= now
    if state.undoing:
        runs = lapsed or step.status is not StepStatus.COMPENSATING
        return own.undo if isinstance(own.undo, Failure) and runs and not state.joins else None
    if not forward(state):
        return None
    if step.status is StepStatus.FAILED:
        policy = exhausted_policy(plan, state, step, rejected=state.rejected)
        return policy if isinstance(policy, Failure) else None
    ended = state.waiting_for == "signal" and state.not_before <= now
    runs = step.status in _READY or state.waiting_for == "retry" or ended or lapsed
    return own.forward if isinstance(own.forward, Failure) and runs else None


def lacks_policy(plan: Plan, state: SagaState, fact: Fact) -> bool:
    """Whether what follows from a fact depends on policies of the current step that are unknown."""
    own = plan.steps[state.cursor]
    depends = isinstance(fact, StepFailed | ChildrenStarted | CompensationAttemptFailed)
    return depends and isinstance(own.undo if state.undoing else own.forward, Failure)


def not_called(state: SagaState) -> bool:
    """Whether the saga waits for a release, or until inputs can be read (rules 18 and 19). A signal also marks a saga
    that waits for an operator, for its sender."""
    return bool(state.settling_since or state.unread) and state.status is not SagaStatus.DEAD_LETTERED


def next_reading(since: float, now: float, chance: float) -> float:
    """Return when (epoch seconds) to try again to read inputs: after as long as the saga has waited since the first
    try, at least 5 seconds and at most 5 minutes, and up to half of it earlier. ``chance``: from 0 to 1."""
    return round(now + min(max(now - since, SHORT_WAIT), _LOOK_AGAIN) * (1 - chance / 2), 3)


def settles(plan: Plan, state: SagaState, now: float) -> bool:
    """Whether a saga that the deployed code does not fit still waits for a release (rule 18)."""
    return now < (state.settling_since or now) + plan.settle


def next_look(plan: Plan, state: SagaState, now: float) -> float:
    """Return when (epoch seconds) to check for a new release: soon at first, and once more at the end."""
    since = state.settling_since or now
    waited = now - since
    rare = _LOOKS[-1] + _LOOK_AGAIN * ((waited - _LOOKS[-1]) // _LOOK_AGAIN + 1)
    return since + min(next((look for look in _LOOKS if look > waited), rare), plan.settle)


def _fact_of_misfit(plan: Plan, state: SagaState, now: float) -> Fact | None:
    """Return the fact that the step or undo has failed because the deployed code does not fit it; ``None`` while the
    saga may wait for a release."""
    step = state.current
    failure = misfit(plan, state, now)
    if step is None or failure is None or settles(plan, state, now):
        return None
    if state.undoing:
        return CompensationFailed(state.cursor, step.undo_attempts.made, failure)
    return StepDeadLettered(state.cursor, DeadLetterCause.CODE_MISSING, failure=failure)


def owed_by_time(plan: Plan, state: SagaState, now: float) -> Fact | None:
    """Return the fact that a time has come: the deadline past the pivot, or the end of a wait; ``None`` before."""
    if state.past_pivot and state.out_of_time(now):
        return SagaTimedOut()
    step = state.current
    if not in_wait(state) or step is None or state.not_before > now or step.waits_for == "children":
        return None
    if step.waits_for == "time":
        return WaitEnded(state.cursor)
    return None if misfit(plan, state, now) else WaitTimedOut(state.cursor)


def out_of_budget(plan: Plan, state: SagaState) -> bool:
    """Whether the current step has used up its executions. If their maximum is unknown, it has not."""
    step = state.steps[state.cursor]
    own = plan.steps[state.cursor].forward
    return isinstance(own, ForwardPlan) and step.attempts.used >= own.executions


def undo_out_of_budget(plan: Plan, state: SagaState) -> bool:
    """Whether the current undo has used up its executions. If their maximum is unknown, it has not."""
    step = state.steps[state.cursor]
    own = plan.steps[state.cursor].undo
    return isinstance(own, UndoPlan) and step.undo_attempts.used >= own.executions


def next_fact(plan: Plan, state: SagaState, now: float) -> Fact | None:
    """Return the fact that the lease holder must journal next; ``None`` if user code runs next, or if the saga waits
    for a release (:func:`misfit`). ``now``: epoch seconds.

    An accepted signal comes before a cancel: its sender got a response, and its step may have to be undone. If its
    value could not be read, it is read again later, and a cancel or the deadline may come first.
    """
    if state.ended:
        return order_to_obey(state)
    if _has_signal(state, now):
        return SignalReceived(state.cursor)
    if state.status in (*_FORWARD, SagaStatus.DEAD_LETTERED) and state.cancel.at:
        return _fact_of_cancel(state)
    if state.out_of_time(now) and not state.past_pivot:  # rule 20; past the pivot, other facts come first
        return SagaTimedOut()
    fact = _fact_of_recovery(plan, state)
    if fact is not None:
        return fact
    if not state.undoing and not forward(state):
        return None
    fact = _fact_of_misfit(plan, state, now)
    if fact is None and forward(state):
        fact = _fact_without_code(plan, state, now) or _fact_after_exhaustion(plan, state)
    return fact


def _has_signal(state: SagaState, now: float) -> bool:
    """Whether the current wait has an accepted signal, whose value is to be read now."""
    step = state.current
    if not in_wait(state) or step is None or not step.signalled or state.cancel.journaled:
        return False
    return state.unread is None or not (state.not_before > now or state.cancel.at or state.out_of_time(now))


def _fact_of_recovery(plan: Plan, state: SagaState) -> Fact | None:
    """Return what follows if the saga stalled too often; ``None`` if it did not, or if that is recorded."""
    exhausted = state.recovery.attempts > plan.max_recovery_attempts
    if exhausted and (state.undoing or (forward(state) and not state.recovery.exhausted)):
        return SagaRecoveryExhausted()
    if forward(state) and state.recovery.exhausted and not state.past_pivot:
        return CompensationStarted("recovery")
    return None


def _fact_of_cancel(state: SagaState) -> Fact:
    """Return the next fact of a cancel or a deadline. Once it is journaled, undoing starts."""
    if not state.cancel.journaled:
        return CancelRequested()
    return CompensationStarted("timeout" if state.cancel.by == DEADLINE else "cancel")


def _fact_without_code(plan: Plan, state: SagaState, now: float) -> Fact | None:
    """Return the next fact if no code is to run: the saga has stalled too often, or its step is skipped or only
    waits."""
    step = state.current
    if step is None or (step.status not in _READY and state.waiting_for != "retry"):
        return None
    if state.recovery.exhausted:
        why = Failure("SagaRecoveryExhausted", "the saga stalled too often")
        return StepDeadLettered(state.cursor, DeadLetterCause.STALLED, failure=why)
    own = plan.steps[state.cursor].forward
    if isinstance(own, Failure):
        return None
    if own.skip and step.status is StepStatus.PENDING:
        return StepSkipped(state.cursor, 0, own.skip)
    if own.asks:
        return None
    return WaitStarted(state.cursor, 0, round(now + own.wait, 3))  # no execution of the step's code began the wait


def _fact_after_exhaustion(plan: Plan, state: SagaState) -> Fact | None:
    step = state.current
    if step is None or step.status is not StepStatus.FAILED:
        return None
    policy = exhausted_policy(plan, state, step, rejected=state.rejected)
    if isinstance(policy, Failure):  # the saga waits for a release
        return None
    if policy == "DEAD_LETTER":
        return _dead_lettered(plan, state, step)
    return SagaFailed() if policy == "FAIL" else CompensationStarted("failure")


def _dead_lettered(plan: Plan, state: SagaState, step: StepState) -> StepDeadLettered:
    """Return the fact that the current step waits for an operator."""
    if step.timed_out and step.waits_for == "children":
        why = Failure(TypeChanged.__name__, state.unreadable) if state.unreadable else Failure("ChildrenFailed")
        return StepDeadLettered(state.cursor, DeadLetterCause.CHILDREN_FAILED, failure=why)
    if step.timed_out and step.waits_for:
        return StepDeadLettered(state.cursor, DeadLetterCause.WAIT_TIMED_OUT, failure=WaitTimedOut.why)
    own = plan.steps[state.cursor].forward
    if isinstance(own, Failure) or own.policy(step) != "DEAD_LETTER" or state.recovery.exhausted:
        # The policy does not dead-letter the message, or the message is lost.
        why = Failure("PivotHolds", pivot_holds(state))
        return StepDeadLettered(state.cursor, DeadLetterCause.PIVOT_HOLDS, failure=why)
    return StepDeadLettered(state.cursor, DeadLetterCause.EXHAUSTED)


def pivot_holds(state: SagaState) -> str:
    """Return why a saga past its pivot is not undone."""
    completed = any(step.pivot and step.status is StepStatus.COMPLETED for step in state.steps)
    outcome = "has completed" if completed else "may have taken effect"
    return f"step {state.past_pivot}, the pivot of the saga, {outcome}: it only goes forward"


def exhausted_policy(plan: Plan, state: SagaState, step: StepState, *, rejected: bool) -> Policy | Failure:
    """Return the policy for the current step, which has failed for good; a failure if it is unknown. Past the pivot
    nothing is undone."""
    own = plan.steps[state.cursor].forward
    if state.unreadable and step.timed_out:  # the children have completed, so nothing has failed for good
        return "DEAD_LETTER"
    if rejected:
        policy = "COMPENSATE"
    elif isinstance(own, Failure):
        return own
    else:
        policy = own.policy(step)
    return "DEAD_LETTER" if policy in ("COMPENSATE", "FAIL") and state.past_pivot else policy


def waits(state: SagaState, fact: Fact | None, now: float) -> bool:
    """Whether a fact that ends the forward phase must wait because a lost execution may still act (rule 5)."""
    return isinstance(fact, CompensationStarted | SagaFailed) and state.lost_until > now


def takeover_fact(plan: Plan, state: SagaState, now: float) -> Fact:
    """Return the fact with which a takeover closes an execution that the predecessor may have left open (rule 4)."""
    step = state.current
    lost = HUNG if state.progress is not None and state.progress.late else LOST
    if step is not None and forward(state) and step.status is StepStatus.RUNNING:
        return StepLost(state.cursor, step.attempts.made, lost)
    if step is not None and state.undoing and step.status is StepStatus.COMPENSATING:
        if undo_out_of_budget(plan, state):
            return CompensationFailed(state.cursor, step.undo_attempts.made, lost)
        return CompensationAttemptFailed(state.cursor, step.undo_attempts.made, lost)
    fact = next_fact(plan, state, now) or owed_by_time(plan, state, now)
    if fact is None or waits(state, fact, now) or isinstance(fact, StepDeadLettered):
        return MessageResent()
    return fact


def undoable(plan: Plan, index: int, step: StepState) -> bool:
    """Whether undoing includes this step. If the undo is not deployed, that is unknown for a step that has begun and
    not completed. Undoing then includes the step, and waits there for a release."""
    if step.waits_for == "children":
        return step.fan_out.requests_seq > 0 and step.status in (
            StepStatus.COMPLETED,
            StepStatus.FAILED,
            StepStatus.WAITING,
        )
    if not plan.steps[index].owes_undo:
        return False
    began = step.attempts.made > 0 or step.timed_out or step.status is StepStatus.WAITING
    started = began and step.status in _STARTED
    return step.status is StepStatus.COMPLETED or (started and _undone_when_started(plan, index, step))


def undo_still_owed(plan: Plan, index: int, step: StepState) -> bool:
    """Whether the undo that is next still has to be called. While its code was not deployed, undoing may have included
    a step that has not completed, and needs no undo. An undo that was called before is called again."""
    called = step.undo_attempts.made > (1 if step.status is StepStatus.COMPENSATING else 0)
    return step.result_seq > 0 or called or _undone_when_started(plan, index, step)


def _undone_when_started(plan: Plan, index: int, step: StepState) -> bool:
    """Whether a step that has begun and not completed has to be undone, as far as is known."""
    own = plan.steps[index].undo
    if not isinstance(own, UndoPlan):
        return True
    return own.when_started or (step.postponed and not own.needs_result)


def job_in_doubt(plan: Plan, index: int, step: StepState) -> bool:
    """Whether a step that has failed for good may have begun something, by ``NotYet``, that nothing will stop: its undo
    needs the result that the step does not have, or is not deployed. A pivot that raised ``NotYet`` has not
    happened."""
    own = plan.steps[index]
    known = isinstance(own.undo, UndoPlan) and not own.undo.needs_result
    return step.postponed and not step.pivot and own.owes_undo and not known


def undo_pending(step: StepState) -> StepStatus:
    """Return the status of a step before its next undo: COMPLETED, or FAILED if it has never completed."""
    return StepStatus.COMPLETED if step.result_seq else StepStatus.FAILED


def next_undo(plan: Plan, state: SagaState, below: int) -> SagaState:
    """Point the cursor at the next step to undo, the last first. End the saga if there is none.

    Steps from ``below`` on are never undone: if a later release adds an undo to such a step, it would run out of order.
    A retry undoes only the steps whose undo has failed, and grants each a new budget.
    """
    state = replace(state, polling=None)
    for index in reversed(range(below)):
        step = state.steps[index]
        if state.retrying_undos:
            if step.status is not StepStatus.COMPENSATION_FAILED:
                continue
            step = replace(step, status=undo_pending(step), undo_attempts=step.undo_attempts.renewed())
        if state.retrying_undos or undoable(plan, index, step):
            if step.waits_for == "children":  # the saga waits until the children are undone
                step = replace(step, status=StepStatus.WAITING, undo_attempts=step.undo_attempts.claimed())
            return replace(
                state.with_step(index, step),
                status=SagaStatus.COMPENSATING,
                cursor=index,
                dispatch=state.dispatch + 1,
                not_before=0.0,
            )
        if step.status in _STARTED and job_in_doubt(plan, index, step):
            state = state.with_step(index, replace(step, outcome_unknown=True))
    state = replace(state, retrying_undos=False)
    if any(s.status is StepStatus.COMPENSATION_FAILED for s in state.steps):
        return replace(state, status=SagaStatus.COMPENSATION_FAILED)
    end = SagaStatus.CANCELLED if state.cause == "cancel" else SagaStatus.COMPENSATED
    return replace(state, status=end)


def has_failed(state: SagaState) -> bool:
    """Whether the saga counts as failed. Cancelled and rejected sagas only count if an undo has failed."""
    stuck = (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED)
    # A saga that had completed and is undone for its parent or by an operator has not failed.
    by_itself = state.cause != "parent" and bool(state.error_seq or state.cause != "operator")
    return state.status in stuck or (state.status is SagaStatus.COMPENSATED and not state.rejected and by_itself)


def step_in_trouble(state: SagaState) -> str:
    """Return the name of the step for which a saga is on the attention list."""
    if state.current and (unread_of(state) or awaits_release(state)):
        return state.current.name
    undone = (step.name for step in state.steps if step.status is StepStatus.COMPENSATION_FAILED)
    current = state.current.name if state.current else state.steps[-1].name
    in_doubt = state.in_doubt[:1] if state.ended and state.status is not SagaStatus.FAILED else ()
    return next(undone, None) or next(iter(in_doubt), current)


def unread_of(state: SagaState) -> Unread | None:
    """Return why a saga is on the attention list although it needs no operator: its inputs cannot be read, and it
    continues by itself once they can. ``None`` if it is not, or if it needs an operator, too."""
    return state.unread if state.unread is not None and state.unread.listed and not state.attention else None


def awaits_release(state: SagaState) -> bool:
    """Whether a saga is on the attention list although it needs no operator: the deployed code does not fit its step,
    and it waits for a release. It stays there until the commit that ends this wait.

    A saga whose wait for a signal or a time has not ended is not listed. It needs no release yet, and nothing would
    take it off the list once its code is back.
    """
    needy = bool(state.attention) or state.ended or unread_of(state) is not None
    early = in_wait(state) and state.settling_since < state.not_before
    return state.settling_since > 0 and not_called(state) and not (needy or early)


def error_in_trouble(state: SagaState) -> str:
    """Return by which error the attention list groups a saga. For a saga that waits for a release, it is the release
    that has its step."""
    return f"release {state.version}" if awaits_release(state) else state.error_type


def listed_since(state: SagaState) -> float:
    """Return since when (epoch seconds) a saga is on the attention list; 0 if it is not."""
    if unread := unread_of(state):
        return unread.since
    return state.settling_since if awaits_release(state) else state.attention


def attention_code(state: SagaState) -> AttentionCode:
    """Return why a saga is on the attention list."""
    if unread := unread_of(state):
        return AttentionCode(unread.code)
    if awaits_release(state):
        return AttentionCode.DOES_NOT_FIT
    failed = [step for step in state.steps if step.status is StepStatus.COMPENSATION_FAILED]
    if failed:
        # An undo that failed without an attempt has no code or no readable input.
        untried = any(not step.undo_attempts.used for step in failed) and not state.recovery.exhausted
        return AttentionCode.UNDO_NOT_CALLED if untried else AttentionCode.UNDO_FAILED
    if state.status is SagaStatus.DEAD_LETTERED:
        return _code_of_stop(state)
    if state.status is SagaStatus.FAILED:
        return AttentionCode.FAILED
    if state.overdue and forward(state):
        return AttentionCode.OVERDUE
    if state.recovery.exhausted:
        return AttentionCode.RECOVERY_EXHAUSTED
    return AttentionCode.NO_RESPONSE if state.unanswered else AttentionCode.IN_DOUBT


def _code_of_stop(state: SagaState) -> AttentionCode:
    step = state.current
    if state.recovery.exhausted:
        return AttentionCode.STALLED
    if state.unreadable:
        return AttentionCode.TYPE_CHANGED
    waited = step is not None and bool(step.waits_for) and step.timed_out
    if waited and state.error_type not in (CODE_GONE, TypeChanged.__name__):
        return AttentionCode.CHILDREN_FAILED if step and step.waits_for == "children" else AttentionCode.WAIT_TIMED_OUT
    if state.dead is not None:
        return AttentionCode.EXHAUSTED
    held = state.past_pivot and state.error_seq != state.seq
    return AttentionCode.PIVOT_HOLDS if held else AttentionCode.CODE_MISSING


def needs_attention(state: SagaState) -> bool:
    """Whether the saga belongs on the attention list."""
    stuck = (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED, SagaStatus.COMPENSATION_FAILED)
    # A FAILED child does not need an operator: its parent has failed, too, or tolerates the failure.
    if state.parent is not None and state.status is SagaStatus.FAILED:
        stuck = ()
    overdue = state.overdue and forward(state)
    unanswered = bool(state.unanswered and state.attention)
    in_doubt = state.ended and bool(state.in_doubt)
    needed = state.status in stuck or state.recovery.exhausted or overdue or unanswered or in_doubt
    return needed and not state.resolution_seq
