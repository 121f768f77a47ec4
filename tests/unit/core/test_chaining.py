"""What the holder of a lease goes on with, and what is left to a message."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.arrivals import claimed_next, next_work, renumbered
from sagas.core.automaton import decide
from sagas.core.commands import Decision, Run
from sagas.core.rules import ForwardPlan, Plan, StepPlan
from sagas.core.states import Attempts, Cancel, Lease, SagaState, SagaStatus, StepState, StepStatus

NOW = 1_000.0
TWICE = StepPlan(ForwardPlan(executions=2), owes_undo=True)
PLAN = Plan((TWICE, TWICE, StepPlan()))
HELD, NEXT = Lease("held", NOW + 10, NOW + 20), Lease("next", NOW + 12, NOW + 20)


def running(index: int = 0, **changes: object) -> SagaState:
    """A saga whose step at ``index`` is running, those before it being done."""
    done = [StepState(name, StepStatus.COMPLETED, Attempts(1), result_seq=at + 2) for at, name in enumerate("abc")]
    step = StepState("abc"[index], StepStatus.RUNNING, Attempts(1))
    steps = (*done[:index], step, *(StepState(name) for name in "abc"[index + 1 :]))
    state = SagaState("id", "trip", "1", steps, status=SagaStatus.RUNNING, cursor=index, seq=index + 1, token=3)
    return replace(state, lease=HELD, dispatch=7, **changes)  # pyright: ignore[reportArgumentType]


def committed(state: SagaState, fact: ev.Fact) -> tuple[Decision, bool]:
    decision = decide(PLAN, state, fact, NOW)
    return decision, next_work(state, fact, decision, NOW) is not None


def test_the_next_step_is_claimed_under_the_number_of_the_message_at_hand() -> None:
    state = running()
    decision, goes_on = committed(state, ev.StepCompleted(0, 1))
    assert goes_on
    assert decision.state.dispatch == 8
    claimed = claimed_next(state, decision, NEXT)
    assert claimed.then == Run(1, False, 1)
    after = claimed.state
    assert (after.dispatch, after.token, after.lease, after.seq, after.cursor) == (7, 4, NEXT, 2, 1)
    assert (after.steps[1].status, after.steps[1].attempts.made) == (StepStatus.RUNNING, 1)
    assert decide(PLAN, after, ev.StepCompleted(1, 1), NOW).state.cursor == 2


def test_the_last_step_is_followed_by_nothing() -> None:
    assert not committed(running(2), ev.StepCompleted(2, 1))[1]


def test_the_undos_follow_a_failure_and_each_other() -> None:
    failed = decide(PLAN, running(1), ev.StepFailed(1, 1, ev.Failure("E"), permanent=True), NOW)
    assert failed.then is not None, "CompensationStarted comes first"
    turned = ev.CompensationStarted("failure")
    decision, goes_on = committed(failed.state, turned)
    assert goes_on
    undoing = claimed_next(failed.state, decision, NEXT)
    assert undoing.then == Run(0, True, 1)
    assert undoing.state.dispatch == 7
    _, further = committed(undoing.state, ev.StepCompensated(0, 1))
    assert not further


def test_a_cancel_is_not_followed_at_once() -> None:
    asked = running(1, cancel=Cancel(NOW, "ann"))
    decision = decide(PLAN, asked, ev.StepCompleted(1, 1), NOW)
    assert next_work(asked, ev.StepCompleted(1, 1), decision, NOW) is None
    requested = decide(PLAN, decision.state, ev.CancelRequested(), NOW)
    assert not committed(requested.state, ev.CompensationStarted("cancel"))[1]


@pytest.mark.parametrize("retry_at", [0.0, NOW + 0.5, NOW + 3, NOW + 60])
def test_another_attempt_is_not_claimed_with_a_failure(retry_at: float) -> None:
    """Its circuit breaker has to hear of the one before."""
    assert not committed(running(), ev.StepFailed(0, 1, ev.Failure("E"), retry_at=retry_at))[1]


def test_undoing_waits_for_what_may_still_act() -> None:
    state = running(1, lost_until=NOW + 30)
    failed = decide(PLAN, state, ev.StepFailed(1, 1, ev.Failure("E"), permanent=True), NOW)
    assert failed.then is None
    assert next_work(state, ev.StepFailed(1, 1, ev.Failure("E"), permanent=True), failed, NOW) is None


@pytest.mark.parametrize(("wait", "number"), [(0.0, 7), (0.9, 7), (1.0, 7), (1.1, 8), (4.0, 8), (60.0, 8)])
def test_a_retry_leaves_a_chain_by_a_new_message_after_a_second(wait: float, number: int) -> None:
    state, fact = running(1), ev.StepFailed(1, 1, ev.Failure("E"), retry_at=NOW + wait)
    decision = renumbered(state, decide(PLAN, state, fact, NOW), NOW)
    assert decision.send is not None
    assert decision.state.dispatch == decision.send.dispatch == number
    assert decision.state.not_before == NOW + wait


def test_what_leaves_by_a_new_message_anyway_keeps_its_number() -> None:
    state, fact = running(1), ev.StepCompleted(1, 1)
    decision = decide(PLAN, state, fact, NOW)
    assert renumbered(state, decision, NOW) is decision
