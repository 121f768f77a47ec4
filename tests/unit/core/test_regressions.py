"""Scenarios in which the automaton once went wrong."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.commands import FailDelivery, Postpone, Refuse, ResolveArrived, Write
from sagas.core.rules import Plan
from sagas.core.states import DeadMessage, Recovery, SagaState
from tests.unit.core.making import HELD, LAPSED, MINE, NOW, S, T, after, apply, commands, message, plan, saga


def given_up() -> SagaState:
    """A saga that stalled too often going forward, and is being undone."""
    tired = saga(S.RUNNING, T.COMPLETED, T.RETRYING, cursor=1, lease=HELD, recovery=Recovery(6))
    return after(tired, ev.SagaRecoveryExhausted(), ev.CompensationStarted("recovery"))


def test_given_up_going_forward_and_undone_without_trouble_is_compensated() -> None:
    claimed = after(given_up(), message(given_up()))
    undone = after(claimed, ev.StepCompensated(0, 1))
    assert undone.status is S.COMPENSATED
    assert undone.attention == NOW, "it was given up: a person should know"


def test_given_up_going_forward_it_may_be_given_up_undoing_too() -> None:
    stalled = replace(given_up(), recovery=Recovery(5), lease=HELD)
    decision = apply(stalled, ev.SagaRecovered())
    assert commands(decision) == (Write(ev.SagaRecoveryExhausted()),)
    assert after(decision.state, ev.SagaRecoveryExhausted()).status is S.COMPENSATION_FAILED


def test_a_journaled_giving_up_stays_valid_when_a_deployment_grants_more_patience() -> None:
    impatient, patient = plan(max_recovery_attempts=1), plan(max_recovery_attempts=9)
    stalled = saga(S.RUNNING, T.COMPLETED, T.RETRYING, cursor=1, lease=HELD, recovery=Recovery(1))
    decision = apply(stalled, ev.SagaRecovered(), by=impatient)
    assert commands(decision) == (Write(ev.SagaRecoveryExhausted()),)
    assert after(decision.state, ev.SagaRecoveryExhausted(), by=patient).recovery.exhausted


@pytest.mark.parametrize("lease", [None, LAPSED])
@pytest.mark.parametrize(("status", "first"), [(S.RUNNING, T.RETRYING), (S.COMPENSATING, T.COMPLETED)])
def test_a_saga_on_its_way_cannot_be_settled_by_hand(status: S, first: T, lease: object) -> None:
    """It was claimed, without a fence and for an entry that then did not fit."""
    busy = saga(status, first, T.FAILED, lease=lease, recovery=Recovery(exhausted=True), attention=NOW)
    decision = apply(busy, ResolveArrived(MINE, "I saw to it", "refunded"))
    assert decision.state is busy
    assert isinstance(commands(decision)[0], Refuse)


def test_a_step_that_never_ran_cannot_have_been_undone_by_hand() -> None:
    """It was marked so; once the saga was retried, nobody could claim that step."""
    waiting = saga(S.DEAD_LETTERED, T.FAILED, T.PENDING, lease=HELD, attention=NOW)
    settled = after(waiting, ev.SagaResolved("seen", "none", tuple(step.name for step in waiting.steps[:2])))
    assert [s.status for s in settled.steps] == [T.COMPENSATED, T.PENDING]


@pytest.mark.parametrize("status", [S.RUNNING, S.COMPENSATING])
def test_giving_up_does_not_interrupt_an_execution(status: S) -> None:
    busy = T.RUNNING if status is S.RUNNING else T.COMPENSATING
    tired = saga(status, busy, T.PENDING, lease=HELD, recovery=Recovery(9))
    assert apply(tired, ev.SagaRecoveryExhausted()).state is tired


def test_an_undo_whose_code_is_gone_cannot_be_retried_into_success() -> None:
    """A deployment removed it after it had failed; the retry then found nothing to undo and said COMPENSATED."""
    failed = saga(S.COMPENSATION_FAILED, T.COMPENSATION_FAILED, T.FAILED, lease=HELD, attention=NOW)
    gone = ev.Failure(ev.CODE_GONE, "the undo is gone")
    by = Plan(tuple(replace(own, undo=gone) for own in plan(undo=False).steps))
    retried = apply(failed, ev.SagaRetried(), by=by)
    assert commands(retried) == (Write(ev.CompensationFailed(0, 2, gone)),)
    ended = after(retried.state, ev.CompensationFailed(0, 2, gone), by=by)
    assert ended.status is S.COMPENSATION_FAILED
    assert ended.attention


def test_a_dying_message_dies_while_an_operator_holds_the_lease() -> None:
    """It was postponed, wore out and was copied; the operator's process died, and no dead letter was left."""
    dying = DeadMessage(1, 0, "m")
    held = saga(S.DEAD_LETTERED, T.COMPLETED, T.FAILED, cursor=1, lease=HELD, dead=dying, attention=NOW)
    assert commands(apply(held, message(held))) == (FailDelivery(),)
    assert isinstance(commands(apply(held, message(held, message_id="another")))[0], Postpone)
