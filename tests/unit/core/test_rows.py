"""Each row of the table by an example."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from sagas.core import events as ev
from sagas.core.commands import (
    Backlog,
    CancelArrived,
    CompensateArrived,
    Decision,
    Discard,
    Event,
    FailDelivery,
    Postpone,
    Refuse,
    ResolveArrived,
    RetryArrived,
    Run,
    Send,
    Then,
    Visited,
    Write,
)
from sagas.core.rules import Plan, UndoPlan, quiet_until
from sagas.core.states import Cancel, DeadMessage, Polling, SagaState, SagaStatus
from tests.unit.core.making import (
    BOOM,
    HELD,
    LAPSED,
    MINE,
    NOW,
    S,
    T,
    after,
    apply,
    commands,
    message,
    plan,
    saga,
    step,
)

RUNNING = saga(S.RUNNING, T.RUNNING, T.PENDING, lease=HELD)
LAST = saga(S.RUNNING, T.COMPLETED, T.RUNNING, cursor=1, lease=HELD)
DYING = DeadMessage(1, 0, "m")
WAITING = saga(S.DEAD_LETTERED, T.COMPLETED, T.FAILED, cursor=1, dead=DYING, updated_at=NOW - 60)
UNDOING = saga(S.COMPENSATING, T.COMPLETED, T.COMPENSATING, cursor=1, lease=HELD, cause="failure")
DEADLY, FATAL = plan("COMPENSATE", "DEAD_LETTER"), plan("COMPENSATE", "FAIL")


def kinds(decision: Decision) -> list[type[Then | Send]]:
    return [type(command) for command in commands(decision)]


def writes(decision: Decision) -> list[ev.Fact]:
    return [command.fact for command in commands(decision) if isinstance(command, Write)]


# ---- facts


def test_a_completed_step_is_followed_by_the_next() -> None:
    decision = apply(RUNNING, ev.StepCompleted(0, 1))
    assert (decision.state.cursor, decision.state.steps[0].status) == (1, T.COMPLETED)
    assert decision.state.steps[0].result_seq == decision.state.seq == 2
    assert commands(decision) == (Send(1, False, 2),)


def test_the_last_completed_step_completes_the_saga() -> None:
    decision = apply(LAST, ev.StepCompleted(1, 1))
    assert (decision.state.status, decision.state.lease, commands(decision)) == (S.COMPLETED, None, ())


def test_a_cancel_before_the_last_step_completed_wins() -> None:
    decision = apply(structs.replace(LAST, cancel=Cancel(NOW)), ev.StepCompleted(1, 1))
    assert decision.state.status is S.RUNNING
    assert writes(decision) == [ev.CancelRequested()]
    over = after(decision.state, ev.CancelRequested(), ev.CompensationStarted("cancel"))
    assert (over.status, over.cursor) == (S.COMPENSATING, 1)


NO = "large() is false"


def test_a_step_is_skipped_by_its_own_attempt_which_is_given_back() -> None:
    decision = apply(RUNNING, ev.StepSkipped(0, 1, NO))
    skipped = decision.state.steps[0]
    assert (decision.state.cursor, skipped.status, skipped.attempts.made, skipped.result_seq) == (1, T.SKIPPED, 0, 0)
    assert commands(decision) == (Send(1, False, 2),)


def test_a_step_is_skipped_before_it_is_claimed() -> None:
    ahead = saga(S.RUNNING, T.COMPLETED, T.PENDING, T.PENDING, cursor=1, lease=HELD)
    decision = apply(ahead, ev.StepSkipped(1, 0, NO))
    assert (decision.state.cursor, decision.state.steps[1].status) == (2, T.SKIPPED)
    assert apply(ahead, ev.StepSkipped(1, 1, NO)).state is ahead


def test_the_plan_of_one_commit_says_that_the_next_step_is_skipped() -> None:
    by = plan("COMPENSATE", "COMPENSATE")
    skipping = replace(by.steps[1], forward=replace(by.steps[1].forward, skip=NO))
    decision = apply(RUNNING, ev.StepCompleted(0, 1), by=replace(by, steps=(by.steps[0], skipping)))
    assert (writes(decision), decision.send, decision.state.lease) == ([ev.StepSkipped(1, 0, NO)], None, HELD)
    assert decision.state.dispatch == RUNNING.dispatch, "no message is sent, so the one at hand stays current"


def test_the_last_skipped_step_completes_the_saga() -> None:
    decision = apply(LAST, ev.StepSkipped(1, 1, NO))
    assert (decision.state.status, decision.state.steps[1].status, commands(decision)) == (S.COMPLETED, T.SKIPPED, ())


def test_a_cancel_before_the_last_step_is_skipped_wins() -> None:
    decision = apply(structs.replace(LAST, cancel=Cancel(NOW)), ev.StepSkipped(1, 1, NO))
    assert (decision.state.status, writes(decision)) == (S.RUNNING, [ev.CancelRequested()])


@pytest.mark.parametrize("unknown", [True, False])
def test_a_step_that_has_begun_is_passed_over_and_not_skipped(unknown: bool) -> None:
    """As by CONTINUE: it is in doubt if the outcome of an attempt is unknown, however that came."""
    begun = saga(S.RUNNING, step(T.RUNNING, attempts=2, outcome_unknown=unknown), T.PENDING, lease=HELD)
    passed = apply(begun, ev.StepSkipped(0, 2, NO)).state
    assert (passed.steps[0].status, passed.steps[0].attempts.made, passed.cursor) == (T.FAILED, 1, 1)
    over = after(replace(passed, lease=HELD, cancel=Cancel(NOW, journaled=True)), ev.CompensationStarted("cancel"))
    assert over.in_doubt == (("step0",) if unknown else ())


@pytest.mark.parametrize(("started", "undone"), [(True, True), (False, False)])
def test_a_step_that_was_passed_over_is_undone_by_its_undo_when(started: bool, undone: bool) -> None:
    by = plan("COMPENSATE", "COMPENSATE", started=started)
    begun = saga(S.RUNNING, step(T.RUNNING, attempts=2), T.PENDING, lease=HELD)
    passed = after(begun, ev.StepSkipped(0, 2, NO), by=by)
    over = after(
        replace(passed, lease=HELD, cancel=Cancel(NOW, journaled=True)), ev.CompensationStarted("cancel"), by=by
    )
    assert over.undoing is undone


def test_a_skipped_step_owes_no_undo_and_cannot_be_resolved() -> None:
    by = plan("COMPENSATE", "COMPENSATE", started=True)
    behind = saga(S.RUNNING, T.SKIPPED, T.FAILED, cursor=1, lease=HELD, error_seq=3)
    over = after(behind, ev.CompensationStarted("failure"), by=by)
    assert (over.status, over.cursor) == (S.COMPENSATING, 1)
    stopped = saga(S.DEAD_LETTERED, T.SKIPPED, T.FAILED, cursor=1, lease=HELD, attention=NOW)
    assert after(stopped, ev.SagaResolved("seen", "none", ("step0",))).steps[0].status is T.SKIPPED


@pytest.mark.parametrize(("seconds", "dispatch"), [(0.2, 1), (5, 1), (5.1, 2), (7, 2)])
def test_a_failed_step_is_tried_again_at_its_time(seconds: float, dispatch: int) -> None:
    """Soon by the message at hand, later by a new one."""
    decision = apply(RUNNING, ev.StepFailed(0, 1, BOOM, retry_at=NOW + seconds))
    assert decision.state.steps[0].status is T.RETRYING
    assert decision.state.dispatch == dispatch
    assert commands(decision) == (Send(0, False, dispatch, NOW + seconds),)


@pytest.mark.parametrize(
    ("fact", "by", "owed"),
    [
        (ev.StepFailed(1, 2, BOOM), plan(), ev.CompensationStarted("failure")),
        (ev.StepFailed(1, 2, BOOM), FATAL, ev.SagaFailed()),
        (ev.StepFailed(1, 2, BOOM), DEADLY, ev.StepDeadLettered(1, ev.DeadLetterCause.EXHAUSTED)),
        (ev.StepFailed(1, 2, BOOM, permanent=True), DEADLY, ev.StepDeadLettered(1, ev.DeadLetterCause.EXHAUSTED)),
        (ev.StepFailed(1, 2, BOOM, permanent=True, rejected=True), DEADLY, ev.CompensationStarted("failure")),
        (ev.StepFailed(1, 2, BOOM, permanent=True, rejected=True), FATAL, ev.CompensationStarted("failure")),
    ],
)
def test_an_exhausted_step_is_dealt_with_by_its_policy(fact: ev.Fact, by: Plan, owed: ev.Fact) -> None:
    exhausted = saga(S.RUNNING, T.COMPLETED, step(T.RUNNING, attempts=2), cursor=1, lease=HELD)
    decision = apply(exhausted, fact, by=by)
    assert decision.state.steps[1].status is T.FAILED
    assert decision.state.error_seq == decision.state.seq
    assert writes(decision) == [owed]


def test_a_lost_attempt_counts_and_is_remembered() -> None:
    decision = apply(RUNNING, ev.StepLost(0, 1))
    assert (decision.state.steps[0].status, decision.state.steps[0].outcome_unknown) == (T.RETRYING, True)
    again = after(decision.state, message(decision.state))
    assert not after(again, ev.StepCompleted(0, 2)).steps[0].outcome_unknown


def test_a_failed_attempt_that_may_have_taken_effect_is_remembered() -> None:
    late = ev.StepFailed(0, 1, ev.Failure("TimedOut"), retry_at=NOW, outcome_unknown=True)
    again = after(RUNNING, late)
    assert (again.steps[0].status, again.steps[0].outcome_unknown) == (T.RETRYING, True)
    claimed = after(again, message(again))
    assert after(claimed, ev.StepFailed(0, 2, BOOM, retry_at=NOW)).steps[0].outcome_unknown
    assert not after(claimed, ev.StepCompleted(0, 2)).steps[0].outcome_unknown


def test_a_failed_attempt_that_also_raised_not_yet_is_remembered() -> None:
    begun = ev.StepFailed(0, 1, BOOM, retry_at=NOW, postponed=True)
    again = after(RUNNING, begun)
    assert (again.steps[0].status, again.steps[0].postponed) == (T.RETRYING, True)
    claimed = after(again, message(again))
    assert after(claimed, ev.StepFailed(0, 2, BOOM, retry_at=NOW)).steps[0].postponed
    assert not after(claimed, ev.StepCompleted(0, 2)).steps[0].postponed


def test_undoing_waits_for_a_lost_attempt_and_leaves_it_in_doubt() -> None:
    lost = saga(S.RUNNING, step(T.RUNNING, attempts=2), lease=HELD, lost_until=NOW + 20)
    decision = apply(lost, ev.StepLost(0, 2))
    assert commands(decision) == (Send(0, False, 2, NOW + 20),)
    waiting = decision.state
    assert commands(apply(waiting, message(waiting))) == (Postpone(NOW + 20),)
    claimed = after(waiting, message(waiting), now=NOW + 20)
    over = after(claimed, ev.CompensationStarted("failure"), now=NOW + 20)
    assert (over.status, over.in_doubt, over.attention) == (S.COMPENSATED, ("step0",), NOW + 20)


def test_the_message_of_an_exhausted_step_dies() -> None:
    exhausted = saga(S.RUNNING, T.COMPLETED, T.FAILED, cursor=1, lease=HELD)
    dead = after(exhausted, ev.StepDeadLettered(1, ev.DeadLetterCause.EXHAUSTED, DYING), by=DEADLY)
    assert (dead.status, dead.dead, dead.lease, dead.attention) == (S.DEAD_LETTERED, DYING, None, NOW)


def test_a_saga_that_fails_undoes_nothing() -> None:
    failed = after(saga(S.RUNNING, T.COMPLETED, T.FAILED, cursor=1, lease=HELD), ev.SagaFailed(), by=FATAL)
    assert (failed.status, failed.steps[0].status, failed.attention) == (S.FAILED, T.COMPLETED, NOW)


def test_undoing_goes_backward_one_step_at_a_time() -> None:
    decision = apply(UNDOING, ev.StepCompensated(1, 1))
    assert (decision.state.status, decision.state.cursor) == (S.COMPENSATING, 0)
    assert commands(decision) == (Send(0, True, 2),)
    over = after(decision.state, message(decision.state), ev.StepCompensated(0, 1))
    assert (over.status, over.attention) == (S.COMPENSATED, 0)
    assert after(structs.replace(UNDOING, cause="cancel", cursor=1), ev.StepCompensated(1, 1)).cause == "cancel"


def test_a_failed_undo_is_tried_again_then_left_and_stops_no_other() -> None:
    retried = after(UNDOING, ev.CompensationAttemptFailed(1, 1, BOOM, NOW + 3))
    assert (retried.steps[1].status, retried.not_before) == (T.COMPLETED, NOW + 3)
    claimed = after(retried, message(retried), now=NOW + 3)
    failed = after(claimed, ev.CompensationFailed(1, 2, BOOM), now=NOW + 3)
    assert (failed.steps[1].status, failed.status, failed.cursor) == (T.COMPENSATION_FAILED, S.COMPENSATING, 0)
    over = after(failed, message(failed), ev.StepCompensated(0, 1), now=NOW + 3)
    assert over.status is S.COMPENSATION_FAILED


def test_a_postponed_undo_uses_up_none_of_its_budget() -> None:
    again = after(UNDOING, ev.CompensationPostponed(1, 1, "the bank", 60.0, NOW + 60, NOW))
    assert (again.status, again.steps[1].status, again.not_before) == (S.COMPENSATING, T.COMPLETED, NOW + 60)
    assert (again.lease, again.dispatch, again.polling) == (None, 2, Polling(NOW, 1, "the bank", 60.0, NOW + 60))
    called = after(again, message(again), now=NOW + 60)
    assert called.steps[1].undo_attempts.used == 1
    undone = after(called, ev.StepCompensated(1, 2), now=NOW + 61)
    assert (undone.cursor, undone.polling) == (0, None)


def test_failed_undos_alone_are_retried() -> None:
    failed = saga(S.COMPENSATION_FAILED, T.COMPENSATION_FAILED, T.COMPENSATED, attention=NOW, cause="cancel")
    again = after(failed, RetryArrived(MINE), ev.SagaRetried())
    assert (again.status, again.cursor, again.attention) == (S.COMPENSATING, 0, 0)
    assert after(again, message(again), ev.StepCompensated(0, 3)).status is S.CANCELLED


def test_a_step_that_was_only_started_is_undone_if_it_says_so() -> None:
    by = plan(started=True)
    turned = after(
        saga(S.RUNNING, T.COMPLETED, T.FAILED, cursor=1, lease=HELD), ev.CompensationStarted("failure"), by=by
    )
    assert (turned.status, turned.cursor) == (S.COMPENSATING, 1)


@pytest.mark.parametrize(("needs_result", "ends"), [(False, S.COMPENSATING), (True, S.COMPENSATED)])
def test_a_step_that_was_postponed_and_fails_is_undone_or_in_doubt(needs_result: bool, ends: SagaStatus) -> None:
    undo = UndoPlan(needs_result=needs_result)
    by = Plan(tuple(replace(own, undo=undo) for own in plan().steps))
    postponed = after(RUNNING, ev.StepPostponed(0, 1, "the job", 5.0, NOW + 5, NOW), by=by)
    looked = after(postponed, message(postponed), by=by, now=NOW + 5)
    failed = after(looked, ev.StepFailed(0, 2, BOOM, permanent=True), by=by, now=NOW + 5)
    turned = after(failed, ev.CompensationStarted("failure"), by=by, now=NOW + 5)
    assert (turned.status, turned.in_doubt) == (ends, ("step0",) if needs_result else ())


def test_a_step_that_completes_after_all_was_not_postponed() -> None:
    postponed = after(RUNNING, ev.StepPostponed(0, 1, "the job", 5.0, NOW + 5, NOW))
    done = after(postponed, message(postponed), ev.StepCompleted(0, 2), now=NOW + 5)
    assert not done.steps[0].postponed


def test_a_redriven_step_gets_a_new_budget_and_keeps_its_numbers() -> None:
    again = after(WAITING, RetryArrived(MINE, "fixed"), ev.SagaRetried("fixed"))
    assert (again.status, again.steps[1].status, again.steps[1].attempts.made) == (S.RUNNING, T.RETRYING, 2)
    decision = apply(again, message(again))
    assert commands(decision) == (Run(1, False, 3),)


def test_an_end_stays_where_it_was_until_a_saga_goes_on() -> None:
    failed = saga(S.FAILED, T.COMPLETED, T.FAILED, attention=NOW, ended_at=NOW, lease=HELD)
    settled = after(failed, ev.SagaResolved("seen", "none", ()), now=NOW + 3_600)
    assert (settled.updated_at, settled.ended_at) == (NOW + 3_600, NOW)
    undone = after(failed, ev.CompensationStarted("operator"), now=NOW + 3_600)
    assert (undone.status, undone.ended_at) == (S.COMPENSATING, 0.0)


def test_what_is_settled_leaves_the_list_and_is_not_undone_again() -> None:
    failed = saga(S.COMPENSATION_FAILED, T.COMPENSATION_FAILED, T.COMPENSATION_FAILED, attention=NOW)
    by_hand = (failed.steps[0].name,)
    asked, fact = ResolveArrived(MINE, "paid back", "refund", by_hand), ev.SagaResolved("paid back", "refund", by_hand)
    settled = after(failed, asked, fact)
    assert (settled.attention, settled.resolution_seq) == (0, settled.seq)
    corrected = after(settled, ResolveArrived(MINE, "not paid", ""), ev.SagaResolved("not paid", ""))
    assert (corrected.attention, corrected.resolution_seq) == (0, settled.seq + 1)
    again = after(settled, RetryArrived(MINE), ev.SagaRetried())
    assert (again.cursor, again.steps[0].status) == (1, T.COMPENSATED)


# ---- arrivals


def test_a_first_message_is_claimed() -> None:
    started = saga(S.PENDING, T.PENDING)
    decision = apply(started, message(started))
    assert commands(decision) == (Run(0, False, 1),)
    assert (decision.state.status, decision.state.lease, decision.state.token) == (S.RUNNING, MINE, 1)


@pytest.mark.parametrize(
    ("state", "given", "expected"),
    [
        (RUNNING, {}, (Postpone(HELD.expires_at, itself=True),)),
        (saga(S.RUNNING, T.RETRYING, not_before=NOW + 5), {}, (Postpone(NOW + 5),)),
        (
            saga(S.RUNNING, T.RETRYING, dispatch=3),
            {"dispatch": 2},
            (Discard("a newer message is the saga's current one"),),
        ),
        (saga(S.COMPENSATING, T.COMPLETED, lost_until=NOW + 5), {}, (Postpone(NOW + 5),)),
        (saga(S.COMPLETED, T.COMPLETED), {}, (Discard("the saga is COMPLETED"),)),
        (WAITING, {}, (FailDelivery(),)),
        (WAITING, {"message_id": "n", "sent_at": NOW - 90}, (Discard("a duplicate of the dead letter"),)),
        (WAITING, {"message_id": "n", "hops": 1}, (Discard("a newer message is the saga's current one"),)),
        (WAITING, {"message_id": "n", "sent_at": NOW}, (Write(ev.SagaRetried()),)),
    ],
)
def test_a_message_is_answered(state: SagaState, given: dict[str, object], expected: tuple[Then | Send, ...]) -> None:
    assert commands(apply(state, message(state, **given))) == expected


def test_the_message_of_a_step_that_is_done_makes_sure_of_its_successor() -> None:
    moved = saga(S.RUNNING, T.COMPLETED, T.PENDING, cursor=1, dispatch=2)
    assert kinds(apply(moved, message(moved, dispatch=1))) == [Send, Discard]


@pytest.mark.parametrize("event", [message(RUNNING), Visited(MINE)])
def test_an_expired_lease_is_taken_over_with_a_fence(event: Event) -> None:
    decision = apply(structs.replace(RUNNING, lease=LAPSED), event)
    assert commands(decision) == (Write(ev.StepLost(0, 1)),)
    assert (decision.state.lease, decision.state.lost_until, decision.state.dispatch) == (MINE, LAPSED.act_until, 2)
    undone = apply(structs.replace(UNDOING, lease=LAPSED), event)
    assert writes(undone) == [ev.CompensationAttemptFailed(1, 1, ev.LOST)]


def test_silence_is_a_stall_and_patience_ends() -> None:
    silent, by = saga(S.RUNNING, T.RETRYING, updated_at=NOW - 500), plan(stale_after=60.0, max_recovery_attempts=0)
    lost = Visited(MINE, backlog=Backlog.LOST)
    assert commands(apply(structs.replace(silent, updated_at=NOW - 59), lost, by=by)) == ()
    noticed = apply(silent, lost, by=by)
    assert writes(noticed) == [ev.SagaRecovered()]
    assert writes(apply(noticed.state, ev.SagaRecovered(), by=by)) == [ev.SagaRecoveryExhausted()]


def test_what_no_queue_shows_to_be_lost_is_sent_anew_and_then_needs_a_person() -> None:
    silent, by = saga(S.RUNNING, T.RETRYING, updated_at=NOW - 9_000), plan(stale_after=60.0, max_recovery_attempts=1)
    for sent in (1, 2, 3):
        noticed = apply(silent, Visited(MINE), by=by)
        assert writes(noticed) == [ev.MessageResent(unanswered=sent, attention=sent == 2)]
        resent = apply(noticed.state, writes(noticed)[0], by=by)
        assert kinds(resent) == [Send]
        assert (resent.state.recovery.attempts, resent.state.unanswered) == (0, sent)
        assert bool(resent.state.attention) == (sent >= 2)
        assert commands(apply(resent.state, Visited(MINE), by=by)) == (), "patience begins again, and has grown"
        silent = structs.replace(resent.state, updated_at=NOW - 9_000)
    known = after(structs.replace(silent, lease=MINE), ev.SagaRecovered(), by=by)
    assert (known.recovery.attempts, known.unanswered, bool(known.attention)) == (1, 3, True), "no progress yet"
    answered = after(
        structs.replace(silent.with_step(0, step(T.RUNNING, attempts=1)), lease=MINE), ev.StepCompleted(0, 1)
    )
    assert (answered.unanswered, answered.attention) == (0, 0.0)


def test_the_patience_with_what_nothing_answers_grows_to_an_hour() -> None:
    quiet = saga(S.RUNNING, T.PENDING, updated_at=NOW)
    waits = [quiet_until(structs.replace(quiet, unanswered=sent), 120.0) - NOW for sent in (0, 1, 4, 5, 99)]
    assert waits == [120.0, 240.0, 1_920.0, 3_600.0, 3_600.0]
    assert quiet_until(structs.replace(quiet, unanswered=1), 7_200.0) - NOW == 7_200.0


def test_a_retry_sends_anew_what_nothing_answers() -> None:
    silent = saga(S.RUNNING, T.PENDING, unanswered=3, attention=NOW - 10)
    decision = apply(silent, RetryArrived(MINE, "fixed"))
    assert writes(decision) == [ev.MessageResent()]
    sent = apply(decision.state, ev.MessageResent())
    assert (kinds(sent), sent.state.unanswered, sent.state.attention) == ([Send], 0, 0.0)
    assert kinds(apply(structs.replace(silent, lease=HELD), RetryArrived(MINE))) == [Refuse]


def test_nobody_interferes_with_a_live_lease() -> None:
    for event in (Visited(MINE), RetryArrived(MINE), CompensateArrived(MINE)):
        assert apply(RUNNING, event).state is RUNNING


@pytest.mark.parametrize("status", [S.COMPLETED, S.FAILED, S.COMPENSATED, S.COMPENSATION_FAILED])
def test_what_is_over_cannot_be_cancelled(status: SagaStatus) -> None:
    assert kinds(apply(saga(status, T.COMPLETED), CancelArrived("me"))) == [Refuse]


def test_a_cancel_is_a_flag_until_a_worker_holds_the_saga() -> None:
    flagged = after(RUNNING, CancelArrived("me"))
    assert (flagged.seq, flagged.lease, flagged.cancel.by) == (RUNNING.seq, HELD, "me")
    assert kinds(apply(saga(S.RUNNING, T.RETRYING), CancelArrived("me"))) == [Send]
    assert apply(flagged, CancelArrived("you")).state is flagged
    assert apply(UNDOING, CancelArrived("me")) == Decision(UNDOING)


def test_an_operator_may_give_up() -> None:
    for given_up in (WAITING, saga(S.FAILED, T.COMPLETED, T.FAILED, cursor=1)):
        turned = after(given_up, CompensateArrived(MINE), ev.CompensationStarted("operator"))
        assert (turned.status, turned.cursor, turned.cause) == (S.COMPENSATING, 0, "operator")
    assert kinds(apply(structs.replace(WAITING, lost_until=NOW + 1), CompensateArrived(MINE))) == [Refuse]
    assert kinds(apply(saga(S.COMPLETED, T.COMPLETED), CompensateArrived(MINE))) == [Refuse]


@pytest.mark.parametrize("state", [RUNNING, UNDOING, saga(S.COMPLETED, T.COMPLETED), saga(S.FAILED, T.FAILED)])
def test_only_what_waits_or_failed_undoing_can_be_retried(state: SagaState) -> None:
    told = f"the saga is {state.status}; only DEAD_LETTERED and COMPENSATION_FAILED can be retried"
    assert apply(state, RetryArrived(MINE)).then == Refuse(told)
