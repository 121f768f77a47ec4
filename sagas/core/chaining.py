"""Going on with a saga in the same invocation: the write that commits a step claims the next one (rule 16).

The message at hand stays the saga's current one for as long as its invocation goes on with it: the dispatch number
stays as it is, so that a delivery of that message finds the saga, whatever step it was sent for. What leaves the
invocation is a new message under a new number, as ever.
"""

from __future__ import annotations

from sagas.core import events as ev
from sagas.core.arrivals import claimed_work
from sagas.core.effects import Decision, Send
from sagas.core.replacing import replace
from sagas.core.rules import forward, ready
from sagas.core.states import Lease, SagaState

SHORTEST_WAIT = 1.0
"""Seconds from which on a retry leaves the invocation that went on to its step."""


def next_work(before: SagaState, fact: ev.Fact, decision: Decision, now: float) -> Send | None:
    """Return what the holder may go on with once a fact is committed; ``None`` where that is for another invocation.

    Not after a cancel, and not with another attempt at the same step or undo, for its circuit breaker has to hear of
    the one before. ``now``: epoch seconds.
    """
    after, send = decision.state, decision.send
    if send is None or decision.then is not None or after.lease is not None or send.not_before > now:
        return None
    goes_on = isinstance(fact, ev.StepCompleted | ev.StepCompensated | ev.CompensationFailed)
    if not goes_on and not (isinstance(fact, ev.CompensationStarted) and fact.cause == "failure"):
        return None
    if forward(after) and (after.cancel.at or not ready(after)):
        return None
    return send


def claimed_next(before: SagaState, decision: Decision, lease: Lease) -> Decision:
    """Return the decision to run what :func:`next_work` returned, under the number of the message at hand."""
    run = claimed_work(decision.state, lease)
    return replace(run, state=replace(run.state, dispatch=before.dispatch))


def renumbered(before: SagaState, decision: Decision, now: float) -> Decision:
    """Have a retry that is not due soon be a new message, where the one at hand was sent for another step.

    That has been received for all steps of its chain, and SQS counts each receive.
    """
    send = decision.send
    if send is None or send.dispatch != before.dispatch or send.not_before - now <= SHORTEST_WAIT:
        return decision
    number = before.dispatch + 1
    state = replace(decision.state, dispatch=number)
    return replace(decision, state=state, send=replace(send, dispatch=number))
