"""Decide what to do on an arrival: a message, or a request of the supervisor, an operator or a caller.

An invocation that continues its saga needs no arrival: the write that commits a step claims the next step (rule 16).
Until the invocation ends, its message stays the saga's current one, under the same dispatch number. So a further
delivery of the message finds the saga, whatever step it was sent for. Messages that it sends get a new number.
"""

from __future__ import annotations

from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.commands import (
    Backlog,
    CancelArrived,
    ChildrenSeen,
    CompensateArrived,
    Decision,
    Discard,
    FailDelivery,
    MessageArrived,
    Postpone,
    Refuse,
    ResolveArrived,
    RetryArrived,
    Run,
    Send,
    SignalArrived,
    Visited,
    Write,
)
from sagas.core.rules import (
    LONG_WAIT,
    Plan,
    exhausted_policy,
    forward,
    in_wait,
    misfit,
    next_fact,
    next_look,
    not_called,
    owed_by_time,
    pivot_holds,
    quiet_until,
    ready,
    settles,
    takeover_fact,
    waits,
)
from sagas.core.states import Cancel, DeadMessage, Lease, SagaState, SagaStatus, StepStatus
from sagas.core.transitions import resolvable, send_current, unreadable_part

SHORTEST_WAIT = 1.0
"""An invocation that has run several steps keeps its message for a retry that is due within these seconds."""


def _claimed(state: SagaState, lease: Lease) -> SagaState:
    return replace(state, lease=lease, token=state.token + 1)


def _taken_over(plan: Plan, state: SagaState, lease: Lease, now: float) -> Decision:
    """Take over an expired lease (rule 4). The former holder can no longer commit, and its messages are stale.

    What the former holder has journaled is committed, or its execution is closed. Both need the policies of the step,
    so a saga that the deployed code does not fit waits for a release first.
    """
    if misfit(plan, state, now) and settles(plan, state, now):
        return settling(plan, state, now)
    predecessor = state.lease.act_until if state.lease else 0.0
    after = _claimed(state, lease)
    after = replace(after, lost_until=max(state.lost_until, predecessor), dispatch=state.dispatch + 1)
    return Decision(after, Write(takeover_fact(plan, after, now)))


def _interrupted(state: SagaState) -> bool:
    """Whether a takeover must first close an execution that the holder of the expired lease may have left open (rule
    4).

    If the saga waits for an operator or has ended, no user code runs, so a plain claim is enough. If the holder has
    journaled an entry, the entry is adopted in any case.
    """
    return state.lease is not None and not state.ended and state.status is not SagaStatus.DEAD_LETTERED


def _held(state: SagaState, now: float) -> bool:
    return state.lease is not None and state.lease.expires_at > now


def message_arrived_late(plan: Plan, state: SagaState, event: MessageArrived, now: float) -> Decision:
    """Discard a message of a saga that has ended."""
    return Decision(state, Discard(f"the saga is {state.status}"))


def message_arrived(plan: Plan, state: SagaState, event: MessageArrived, now: float) -> Decision:
    """Claim or take over the saga, or postpone or discard the message."""
    stopped = state.status is SagaStatus.DEAD_LETTERED and not state.cancel.at
    if stopped and state.dead == DeadMessage(event.dispatch, event.hops, event.message_id):
        # Even while an operator holds the lease, this message moves to the dead letters. If it were postponed, it would
        # use up its receives and be copied, but the saga has recorded this one as dead.
        return Decision(state, FailDelivery())
    if state.lease is not None and _held(state, now):
        # No copy: the holder may be handling another delivery of this message, and dead-letter it. Or this is a
        # redriven dead letter, which only its id identifies.
        return Decision(state, Postpone(state.lease.expires_at, itself=True))
    if _interrupted(state):
        return _taken_over(plan, state, event.lease, now)
    if stopped:
        return _dead_arrived(state, event)
    fact = next_fact(plan, state, now) or owed_by_time(plan, state, now)
    if waits(state, fact, now):
        return Decision(state, Postpone(state.lost_until))
    if isinstance(fact, ev.StepDeadLettered):
        # The current message is dead-lettered if the step is exhausted, but not if only its code is missing.
        if event.dispatch != state.dispatch:
            return Decision(state, Discard("a newer message is the saga's current one"))
        dying = DeadMessage(event.dispatch, event.hops, event.message_id)
        fact = replace(fact, message=dying) if fact.cause.message_dies else fact
    if fact is not None:
        return Decision(_claimed(state, event.lease), Write(fact))
    return _work_arrived(plan, state, event, now)


def _dead_arrived(state: SagaState, event: MessageArrived) -> Decision:
    """Retry the saga if this is its redriven dead letter.

    Discard any other message. A redriven message has a new id and a new time of sending. A retry by the sender can
    cause a duplicate. That has another id, too, but entered the queue before the saga stopped.
    """
    dead = state.dead
    if dead is None or (event.dispatch, event.hops) != (dead.dispatch, dead.hops):
        return Decision(state, Discard("a newer message is the saga's current one"))
    if 0 < event.sent_at <= state.updated_at:
        return Decision(state, Discard("a duplicate of the dead letter"))
    return Decision(_claimed(state, event.lease), Write(ev.SagaRetried()))


def _work_arrived(plan: Plan, state: SagaState, event: MessageArrived, now: float) -> Decision:
    current = send_current(state)
    step = state.current
    if state.joins:
        return Decision(state, Discard("the saga waits for its children, which needs no message"))
    if event.dispatch != state.dispatch:
        claimed = step is None or (step.undo_attempts if state.undoing else step.attempts).used > 0
        if not claimed and state.status is not SagaStatus.WAITING:  # the current message may be missing
            return Decision(state, Discard("the step is done; its successor was sent again"), current)
        return Decision(state, Discard("a newer message is the saga's current one"))
    if in_wait(state) and current.not_before - now > LONG_WAIT:
        return Decision(state, Discard("the saga waits for longer than a message is kept"))
    if current.not_before > now:
        return Decision(state, Postpone(current.not_before))
    if (event.index, event.undo) != (state.cursor, state.undoing):
        # Since a deployment, functions no longer run several steps in one invocation.
        return Decision(state, Discard("its saga is at another step, whose message was sent"), current)
    if misfit(plan, state, now):
        return settling(plan, state, now)
    return claimed_work(state, event.lease)


def settling(plan: Plan, state: SagaState, now: float) -> Decision:
    """Mark the saga as waiting for a release whose code fits its next step, and look again later."""
    marked = state if state.settling_since else replace(state, settling_since=float(int(now)))
    return Decision(marked, Postpone(next_look(plan, marked, now)))


def claimed_work(state: SagaState, lease: Lease) -> Decision:
    """Take the lease for the step under the cursor or for its undo, and count the attempt (rule 6)."""
    held = replace(_claimed(state, lease), not_before=0.0)
    index = state.cursor
    step = held.steps[index]
    if state.undoing:
        busy = replace(step, status=StepStatus.COMPENSATING, undo_attempts=step.undo_attempts.claimed())
        return Decision(held.with_step(index, busy), Run(index, True, busy.undo_attempts.made))
    busy = replace(step, status=StepStatus.RUNNING, attempts=step.attempts.claimed())
    running = replace(held.with_step(index, busy), status=SagaStatus.RUNNING)
    return Decision(running, Run(index, False, busy.attempts.made))


def next_work(before: SagaState, fact: ev.Fact, decision: Decision, now: float) -> Send | None:
    """Return the work with which the lease holder may continue after a commit; ``None`` if a new message must do it.

    The holder does not continue after a cancel. It does not retry a step or undo, either, because the circuit breaker
    must count the last attempt first. ``now``: epoch seconds.
    """
    after = decision.state
    send = decision.send
    if send is None or decision.then is not None or after.lease is not None or send.not_before > now:
        return None
    continues = isinstance(fact, ev.StepCompleted | ev.StepSkipped | ev.StepCompensated | ev.CompensationFailed)
    if not continues and not (isinstance(fact, ev.CompensationStarted) and fact.cause == "failure"):
        return None
    if forward(after) and (after.cancel.at or not ready(after)):
        return None
    return send


def claimed_next(before: SagaState, decision: Decision, lease: Lease) -> Decision:
    """Return the decision to run the work of :func:`next_work` under the number of the current message."""
    run = claimed_work(decision.state, lease)
    return replace(run, state=replace(run.state, dispatch=before.dispatch))


def renumbered(before: SagaState, decision: Decision, now: float) -> Decision:
    """If the current message was sent for an earlier step, give a retry that is not due soon a new message.

    SQS counts all receives of the current message, and those of earlier steps must not count against this one.
    """
    send = decision.send
    if send is None or send.dispatch != before.dispatch or send.not_before - now <= SHORTEST_WAIT:
        return decision
    number = before.dispatch + 1
    state = replace(decision.state, dispatch=number)
    return replace(decision, state=state, send=replace(send, dispatch=number))


def stall_noticed(plan: Plan, state: SagaState, event: Visited, now: float) -> Decision:
    """Take over an expired lease, journal the next fact, or send a lost message again. A lease that has not expired
    stays."""
    if _held(state, now):
        return Decision(state)
    if _interrupted(state):
        return _taken_over(plan, state, event.lease, now)
    fact = next_fact(plan, state, now) or owed_by_time(plan, state, now)
    if event.asked and not_called(state) and fact is None:
        return Decision(_claimed(state, event.lease), Write(ev.MessageResent()))
    if fact is None and misfit(plan, state, now):
        return settling(plan, state, now)
    at_rest = state.status is SagaStatus.DEAD_LETTERED or in_wait(state) or state.joins
    if waits(state, fact, now) or (at_rest and fact is None):
        return Decision(state)
    if fact is not None and not isinstance(fact, ev.StepDeadLettered):
        return Decision(_claimed(state, event.lease), Write(fact))
    return _after_silence(plan, state, event, fact, now)


def _after_silence(
    plan: Plan, state: SagaState, event: Visited, fact: ev.StepDeadLettered | None, now: float
) -> Decision:
    """If nothing has happened for too long, send the message again, or dead-letter a step if that needs no message."""
    stale_after = plan.stale_after if event.stale_after is None else event.stale_after
    postponed = event.postponed_until + stale_after if event.postponed_until else 0.0
    if max(quiet_until(state, stale_after), postponed) > now or event.backlog is Backlog.WAITING:
        return Decision(state)
    lost = event.backlog is Backlog.LOST and not not_called(state)
    sent_again = ev.SagaRecovered() if lost else _unanswered(plan, state)
    following = sent_again if fact is None or fact.cause.message_dies else fact
    return Decision(_claimed(state, event.lease), Write(following))


def _unanswered(plan: Plan, state: SagaState) -> ev.MessageResent:
    """Send a message again that may not be lost. If its function cannot run, that costs the saga no attempt (rule
    9)."""
    count = state.unanswered + 1
    listed = bool(state.attention) or not_called(state)
    return ev.MessageResent(unanswered=count, attention=count > plan.max_recovery_attempts and not listed)


def order_noticed(plan: Plan, state: SagaState, event: Visited, now: float) -> Decision:
    """At the parent's request, begin to undo a saga that has ended."""
    fact = next_fact(plan, state, now)
    if fact is None or _held(state, now):
        return Decision(state)
    if waits(state, fact, now):
        return Decision(state)
    return Decision(_claimed(state, event.lease), Write(fact))


def children_seen(plan: Plan, state: SagaState, event: ChildrenSeen, now: float) -> Decision:
    """Journal the outcome of the children, unless another fact comes first."""
    step = state.current
    if _held(state, now) or step is None or not state.joins or step.round != event.round:
        return Decision(state)
    if state.lease is not None:
        return _taken_over(plan, state, event.lease, now)
    fact = next_fact(plan, state, now)
    if fact is not None and waits(state, fact, now):
        return Decision(state)
    other_way = ev.ChildrenEnded if state.undoing else (ev.StepCompensated, ev.CompensationFailed)
    if fact is None and isinstance(event.fact, other_way):
        return Decision(state)
    if fact is None and isinstance(event.fact, ev.ChildrenEnded) and event.fact.failure is not None:
        # The policy says what follows. Here it is asked for ahead, for the step as it would be.
        failed = replace(step, status=StepStatus.FAILED, timed_out=True)
        unreadable = unreadable_part(event.fact.failure)
        policy = exhausted_policy(plan, replace(state, unreadable=unreadable), failed, rejected=False)
        if isinstance(policy, ev.Failure):
            fact = ev.StepDeadLettered(state.cursor, ev.DeadLetterCause.CODE_MISSING, failure=policy)
    following = fact or event.fact
    if isinstance(following, ev.StepDeadLettered) and settles(plan, state, now):
        return settling(plan, state, now)
    return Decision(_claimed(state, event.lease), Write(following))


def cancel_arrived(plan: Plan, state: SagaState, event: CancelArrived, now: float) -> Decision:
    """Set the cancel flag. The current or next holder of the lease acts on it."""
    if state.status is SagaStatus.CANCELLED or state.undoing:
        return Decision(state)
    if state.ended:
        return Decision(state, Refuse(f"the saga is {state.status}"))
    if state.cancel.at:
        return Decision(state)
    if state.past_pivot:
        return Decision(state, Refuse(pivot_holds(state)))
    after = replace(state, cancel=Cancel(now, event.actor, event.reason))
    return Decision(after, send=None if state.lease else send_current(after))


def signal_arrived(plan: Plan, state: SagaState, event: SignalArrived, now: float) -> Decision:
    """Set the step's signal flag. The current or next holder of the lease reads the value."""
    step = state.steps[event.index]
    early = (StepStatus.PENDING, StepStatus.RUNNING, StepStatus.RETRYING, StepStatus.WAITING)
    open_ = forward(state) or state.status is SagaStatus.DEAD_LETTERED
    if step.waits_for != "signal" or not open_ or (state.recovery.exhausted and not state.past_pivot):
        return Decision(state, Refuse(f"the saga is {state.status}; step {step.name} no longer accepts a signal"))
    if state.cancel.at:
        return Decision(state, Refuse(f"the saga is cancelled; step {step.name} no longer accepts a signal"))
    if step.timed_out:
        return Decision(state, Refuse(f"step {step.name} has timed out: no signal arrived in time"))
    if step.signalled or step.status not in early:
        return Decision(state, Refuse(f"step {step.name} is {step.status}; it no longer accepts a signal"))
    return Decision(state.with_step(event.index, replace(step, signalled=True)))


def retry_arrived(plan: Plan, state: SagaState, event: RetryArrived, now: float) -> Decision:
    """Grant a failed step or undo a new budget of attempts, or send an unanswered message again at once."""
    if not_called(state):
        awaited = "for a release" if state.settling_since else "until its inputs can be read"
        return Decision(state, Refuse(f"the saga is waiting {awaited}; `sagas recover ID` sends its message now"))
    if state.status not in (SagaStatus.DEAD_LETTERED, SagaStatus.COMPENSATION_FAILED):
        if state.unanswered and not state.ended and state.lease is None:
            return Decision(_claimed(state, event.lease), Write(ev.MessageResent()))
        text = f"the saga is {state.status}; only DEAD_LETTERED and COMPENSATION_FAILED can be retried"
        return Decision(state, Refuse(text))
    if state.cancel.at and state.status is SagaStatus.DEAD_LETTERED:
        return Decision(state, Refuse("a cancel was accepted; the saga is about to be undone"))
    if _held(state, now):
        return Decision(state, Refuse("a worker, the supervisor or another operator is changing this saga; try again"))
    return Decision(_claimed(state, event.lease), Write(ev.SagaRetried(event.reason)))


def compensate_arrived(plan: Plan, state: SagaState, event: CompensateArrived, now: float) -> Decision:
    """Undo a saga that is dead-lettered or has failed. Past its pivot, this takes ``force`` and a reason."""
    stopped = state.status in (SagaStatus.DEAD_LETTERED, SagaStatus.FAILED)
    held = bool(state.past_pivot) and (forward(state) or stopped or state.status is SagaStatus.COMPLETED)
    if held and not (event.force and event.reason):
        return Decision(state, Refuse(f"{pivot_holds(state)}; to undo it, pass force and a reason"))
    forced = held or (event.force and state.status is SagaStatus.COMPLETED)
    if not stopped and not forced:
        more = "; one that is COMPLETED only with force" if state.status is SagaStatus.COMPLETED else ""
        text = f"the saga is {state.status}; only DEAD_LETTERED and FAILED can be undone{more}"
        return Decision(state, Refuse(text))
    running = state.current is not None and state.current.status is StepStatus.RUNNING
    if _held(state, now) or (running and forward(state)) or state.lost_until > now:
        return Decision(state, Refuse("an execution of this saga may still be running; try again later"))
    return Decision(_claimed(state, event.lease), Write(ev.CompensationStarted("operator")))


def resolve_arrived(plan: Plan, state: SagaState, event: ResolveArrived, now: float) -> Decision:
    """Take the saga off the attention list, or correct the reason why it is off the list."""
    at_rest = state.ended or state.status is SagaStatus.DEAD_LETTERED
    if not resolvable(state) or not at_rest:
        return Decision(state, Refuse(f"the saga is {state.status}; it has nothing to resolve"))
    if _held(state, now):
        return Decision(state, Refuse("a worker, the supervisor or another operator is changing this saga; try again"))
    if event.steps and not state.ended:
        return Decision(state, Refuse(f"the saga is {state.status}; none of its steps was to be undone yet"))
    fact = ev.SagaResolved(event.reason, event.taken, event.steps)
    return Decision(_claimed(state, event.lease), Write(fact))
