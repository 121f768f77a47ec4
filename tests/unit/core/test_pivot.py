"""Past its pivot a saga only goes forward, whatever comes: each row of the table by an example, and from any state."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.commands import (
    CancelArrived,
    ChildrenSeen,
    CompensateArrived,
    Decision,
    Event,
    Refuse,
    RetryArrived,
    Run,
    Send,
    Then,
    Visited,
    Write,
)
from sagas.core.events import DeadLetterCause as Cause
from sagas.core.rules import Plan, next_fact
from sagas.core.states import FanOut, Order, Recovery, SagaState, SagaStatus
from tests.unit.core.making import BOOM, HELD, MINE, NOW, S, T, after, apply, commands, message, plan, saga, step
from tests.unit.core.test_properties import sagas, sequences

PIVOT = step(T.COMPLETED, pivot=True)
BEHIND = saga(S.RUNNING, T.COMPLETED, PIVOT, T.PENDING, cursor=2)
BUSY = saga(S.RUNNING, T.COMPLETED, PIVOT, step(T.RUNNING, attempts=2), cursor=2, lease=HELD)
AT_IT = saga(S.RUNNING, T.COMPLETED, step(T.RUNNING, pivot=True), T.PENDING, cursor=1, lease=HELD)
DOUBT = saga(S.RUNNING, T.COMPLETED, step(T.RETRYING, pivot=True, outcome_unknown=True), T.PENDING, cursor=1)
ENDED = saga(S.COMPLETED, T.COMPLETED, PIVOT, T.COMPLETED, cursor=3)
FORWARD = (S.PENDING, S.RUNNING, S.WAITING, S.DEAD_LETTERED, S.COMPLETED)


def test_until_it_has_completed_nothing_changes() -> None:
    assert (AT_IT.past_pivot, BEHIND.past_pivot) == ("", "step1")
    turned = after(AT_IT, ev.StepFailed(1, 1, BOOM, permanent=True), ev.CompensationStarted("failure"))
    assert (turned.status, turned.cursor) == (S.COMPENSATING, 0)
    assert kind_of(apply(replace(BEHIND, steps=(BEHIND.steps[0], step(pivot=True), step())), cancel())) is Send


def cancel(actor: str = "ann") -> CancelArrived:
    return CancelArrived(actor)


def kind_of(decision: Decision) -> type[Then | Send] | None:
    found = commands(decision)
    return type(found[0]) if found else None


@pytest.mark.parametrize("state", [BEHIND, DOUBT, replace(BEHIND, status=S.DEAD_LETTERED)])
def test_a_cancel_is_refused_and_says_why(state: SagaState) -> None:
    decision = apply(state, cancel())
    assert decision.state is state
    assert isinstance(decision.then, Refuse)
    assert "step1, the pivot of the saga" in decision.then.reason


def test_a_cancel_that_came_while_it_ran_comes_to_nothing() -> None:
    flagged = after(AT_IT, cancel("ann"), ev.StepCompleted(1, 1))
    assert next_fact(plan(*["COMPENSATE"] * 3), flagged, NOW) == ev.CancelRequested()
    on = after(flagged, ev.CancelRequested())
    assert (on.status, on.cursor, on.cancel.at, on.cancel.journaled) == (S.RUNNING, 2, 0, False)
    last = replace(AT_IT, steps=AT_IT.steps[:2])
    assert after(last, cancel("ann"), ev.StepCompleted(1, 1), ev.CancelRequested()).status is S.COMPLETED
    lost = after(AT_IT, cancel("ann"), ev.StepLost(1, 1), ev.CancelRequested())
    assert (lost.status, lost.steps[1].status, lost.cancel.at) == (S.RUNNING, T.RETRYING, 0)


def test_its_deadline_puts_it_on_the_list_and_it_goes_on() -> None:
    late = replace(BEHIND, deadline=NOW - 1)
    noticed = apply(late, Visited(MINE))
    assert commands(noticed) == (Write(ev.SagaTimedOut()),)
    noted = after(noticed.state, ev.SagaTimedOut())
    assert (noted.status, noted.overdue, noted.attention, noted.ends_at, noted.error_seq) == (
        S.RUNNING,
        True,
        NOW,
        0,
        0,
    )
    assert commands(apply(noted, message(noted))) == (Run(2, False, 1),)
    done = after(noted, message(noted), ev.StepCompleted(2, 1))
    assert (done.status, done.attention) == (S.COMPLETED, 0)
    busy = replace(BUSY, deadline=NOW - 1)
    assert commands(apply(busy, ev.StepCompleted(2, 2))) == ()  # it is over
    assert apply(busy, ev.StepFailed(2, 2, BOOM, retry_at=NOW + 9), by=plan(*["DEAD_LETTER"] * 3)).then == Write(
        ev.StepDeadLettered(2, Cause.EXHAUSTED)
    )
    stopped = replace(late, status=S.DEAD_LETTERED)
    assert (stopped.ends_at, apply(stopped, Visited(MINE)).state) == (0, stopped)


@pytest.mark.parametrize("policy", ["COMPENSATE", "FAIL", "DEAD_LETTER"])
@pytest.mark.parametrize("rejected", [False, True])
def test_a_step_behind_it_that_failed_waits_for_an_operator(policy: str, rejected: bool) -> None:
    """Also where the code that is deployed now knows of no pivot."""
    by = plan("COMPENSATE", "COMPENSATE", policy)
    decision = apply(BUSY, ev.StepFailed(2, 2, BOOM, permanent=True, rejected=rejected), by=by)
    assert isinstance(decision.then, Write)
    assert isinstance(decision.then.fact, ev.StepDeadLettered)
    fact, failure = decision.then.fact, decision.then.fact.failure
    assert fact.cause is (Cause.EXHAUSTED if policy == "DEAD_LETTER" else Cause.PIVOT_HOLDS)
    assert (failure is None) is (policy == "DEAD_LETTER")  # then its message dies, as ever
    if failure is not None:
        stopped = after(decision.state, decision.then.fact, by=by)
        assert (stopped.status, stopped.attention, failure.type) == (S.DEAD_LETTERED, NOW, "PivotHolds")
        again = after(stopped, RetryArrived(MINE), ev.SagaRetried(), by=by)
        assert (again.status, again.rejected) == (S.RUNNING, False)


def test_a_step_that_may_be_passed_is_not_passed_if_it_says_no() -> None:
    by = plan("COMPENSATE", "COMPENSATE", "CONTINUE")
    assert after(BUSY, ev.StepFailed(2, 2, BOOM, permanent=True), by=by).status is S.COMPLETED
    refused = apply(BUSY, ev.StepFailed(2, 2, BOOM, permanent=True, rejected=True), by=by)
    assert isinstance(refused.then, Write)
    assert isinstance(refused.then.fact, ev.StepDeadLettered)


def test_a_pivot_in_doubt_counts_as_completed() -> None:
    lost = saga(S.RUNNING, T.COMPLETED, step(T.RUNNING, pivot=True, attempts=2), cursor=1, lease=HELD)
    decision = apply(lost, ev.StepLost(1, 2))
    assert isinstance(decision.then, Write)
    assert isinstance(decision.then.fact, ev.StepDeadLettered)
    stopped = after(decision.state, decision.then.fact)
    assert (stopped.status, stopped.past_pivot) == (S.DEAD_LETTERED, "step1")
    assert kind_of(apply(stopped, CompensateArrived(MINE))) is Refuse
    undone = after(
        stopped, CompensateArrived(MINE, force=True, reason="it was not"), ev.CompensationStarted("operator")
    )
    assert (undone.status, undone.cursor, undone.past_pivot) == (S.COMPENSATING, 0, "step1")


def test_one_that_stalls_too_often_waits_for_an_operator() -> None:
    tired = replace(BEHIND, recovery=Recovery(6), lease=MINE)
    given_up = after(tired, ev.SagaRecoveryExhausted())
    owed = next_fact(plan(*["COMPENSATE"] * 3), given_up, NOW)
    assert isinstance(owed, ev.StepDeadLettered)
    assert (owed.cause, owed.failure) == (
        Cause.STALLED,
        ev.Failure("SagaRecoveryExhausted", "the saga stalled too often"),
    )
    stopped = after(given_up, owed)
    assert (stopped.status, stopped.steps[2].status, stopped.steps[0].status) == (
        S.DEAD_LETTERED,
        T.FAILED,
        T.COMPLETED,
    )
    again = after(stopped, RetryArrived(MINE), ev.SagaRetried())
    assert (again.recovery.exhausted, kind_of(apply(again, message(again)))) == (False, Run)


def test_one_that_nothing_answers_needs_a_person_and_goes_on() -> None:
    joining = step(T.WAITING, waits_for="children", fan_out=FanOut(2, 2, requests_seq=2))
    waiting = saga(S.WAITING, T.COMPLETED, PIVOT, joining, cursor=2)
    silence = ev.MessageResent(unanswered=3, attention=True)
    for state, noticed in ((BEHIND, Visited(MINE)), (waiting, ChildrenSeen(MINE, silence))):
        claimed = apply(
            replace(state, unanswered=2, updated_at=NOW - 9_000),
            noticed,
            by=plan(*["COMPENSATE"] * 3, max_recovery_attempts=2),
        )
        assert claimed.then == Write(silence)
        listed = after(claimed.state, silence)
        assert (listed.status, listed.unanswered, listed.attention) == (state.status, 3, NOW)
        late = after(replace(listed, deadline=NOW - 1, lease=MINE), ev.SagaTimedOut())
        assert (late.status, late.overdue, late.unanswered, late.attention) == (state.status, True, 0, NOW)


def test_its_parents_order_does_not_undo_it() -> None:
    ordered = replace(ENDED, order=Order(1))
    assert apply(ordered, Visited(MINE)).state is ordered


@pytest.mark.parametrize("status", FORWARD[1:])
def test_an_operator_may_still_have_it_undone(status: SagaStatus) -> None:
    state = ENDED if status is S.COMPLETED else replace(BEHIND, status=status)
    for force, reason in ((False, ""), (True, ""), (False, "it was not paid")):
        assert kind_of(apply(state, CompensateArrived(MINE, force, reason))) is Refuse
    asked = CompensateArrived(MINE, force=True, reason="the money went back by hand")
    turned = after(state, asked, ev.CompensationStarted("operator"))
    assert (turned.status, turned.cause) == (S.COMPENSATING, "operator")
    assert kind_of(apply(replace(state, lease=HELD), asked)) is Refuse
    assert kind_of(apply(replace(BUSY, lease=replace(HELD, expires_at=NOW - 1)), asked)) is Refuse  # it may be at work


def _with_pivot(state: SagaState) -> SagaState:
    """The saga with a pivot that is done: before the step under the cursor, or the last of one that is over."""
    index = len(state.steps) - 1 if state.ended else state.cursor - 1
    pivot = replace(state.steps[index], status=T.COMPLETED, waits_for="", pivot=True)
    return state.with_step(index, pivot)


@given(sagas(), sequences)
def test_nobody_but_an_operator_turns_it_round(
    drawn: tuple[Plan, SagaState], sequence: list[tuple[Event, float]]
) -> None:
    by, state = drawn
    assume(state.status in FORWARD and not state.cancel.journaled and (state.cursor or state.ended))
    now, state = NOW, _with_pivot(state)
    for event, later in sequence:
        now += later
        if isinstance(event, CompensateArrived):
            continue
        decision = decide(by, state, event, now)
        turns = isinstance(event, ev.CompensationStarted)
        state = state if turns else decision.state
        assert state.status in FORWARD, event
        owed = decision.then.fact if isinstance(decision.then, Write) else None
        assert turns or not isinstance(owed, ev.CompensationStarted | ev.SagaFailed), event


def test_what_is_not_behind_it_is_as_it_was() -> None:
    """A pivot that is still to come changes nothing: the same decisions, but for the mark itself."""
    for state in (BEHIND, BUSY):
        plain = tuple(replace(one, pivot=False) for one in state.steps)
        marked = (*plain[:2], replace(plain[2], pivot=True))
        for event in (cancel(), Visited(MINE), ev.StepFailed(2, 2, BOOM, permanent=True)):
            was, is_ = apply(replace(state, steps=plain), event), apply(replace(state, steps=marked), event)
            assert (was.then, was.send, was.state.status) == (is_.then, is_.send, is_.state.status)
