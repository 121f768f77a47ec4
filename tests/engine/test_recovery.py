"""Processes die, messages vanish: every saga still ends, and nothing that is known is done twice."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, cast

import pytest

from sagas.client.read.advice import advice
from sagas.core.commands import Postpone
from sagas.core.text import iso
from sagas.engine.supervise.recovery import RecoveryFilter
from sagas.errors import NotFound
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import FAIL, LOG, Stubborn, Trip

if TYPE_CHECKING:
    from sagas.client import SagaView

REQUEST = {"item": "train"}


def killed_at(bench: Bench, step: str) -> str:
    """Start a trip whose worker dies in the middle of a step."""
    FAIL[step] = Death()
    saga_id = bench.start("trip", REQUEST)
    with pytest.raises(Death):
        bench.run()
    FAIL.pop(step)
    return saga_id


def test_redelivery_after_a_death_waits_for_the_lease_and_then_tries_again(bench: Make) -> None:
    b = bench(Trip)
    saga_id = killed_at(b, "pay")
    outcome = b.deliver("trip", "pay")
    lease = b.state(saga_id).lease
    assert lease is not None
    assert outcome == Postpone(lease.expires_at, itself=True)
    assert LOG == ["book:1", "pay:1"]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "pay:1", "pay:2", "tell:1"]
    assert "StepLost" in b.actions(saga_id)


def test_the_supervisor_recovers_a_dead_worker_without_its_message(bench: Make) -> None:
    b = bench(Trip)
    saga_id = killed_at(b, "pay")
    assert b.recover(stale_after=0) == []
    b.clock.advance(b.lifetime + 2)
    assert b.recover(stale_after=0) == [saga_id]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG.count("pay:2") == 1


def test_deaths_use_up_the_attempts_and_then_it_is_undone(bench: Make) -> None:
    b = bench(Trip)
    FAIL["pay"] = Death()
    saga_id = b.start("trip", REQUEST)
    for _ in range(3):
        with pytest.raises(Death):
            b.run()
    b.run()
    saga = b.show(saga_id)
    assert saga["status"] == "COMPENSATED"
    assert LOG == ["book:1", "pay:1", "pay:2", "pay:3", "unbook:1"]
    assert saga["error"]["type"] == "Lost"
    assert saga["in_doubt"] == ["pay"]
    assert b.engine.reader.attention(None, 10, None)["sagas"][0]["attention"]


def test_undoing_waits_until_the_lost_attempt_cannot_act(bench: Make) -> None:
    b = bench(Trip)
    FAIL["pay"] = Death()
    saga_id = b.start("trip", REQUEST)
    for _ in range(2):
        with pytest.raises(Death):
            b.run()
    with pytest.raises(Death):
        b.run()
    held = b.state(saga_id).lease
    assert held is not None
    b.run()
    assert b.at(saga_id, "CompensationStarted") >= held.act_until


@pytest.mark.parametrize("before", [True, False])
def test_a_journaled_result_is_adopted_not_repeated(bench: Make, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    once(monkeypatch, b.engine.control, "commit", before=before)
    with pytest.raises(Death):
        b.run()
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "pay:1", "tell:1"]
    assert b.actions(saga_id).count("StepCompleted") == 3


@pytest.mark.parametrize("before", [True, False])
def test_a_death_around_the_end_of_the_saga(bench: Make, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    once(monkeypatch, b.engine.control, "finish", before=before)
    with pytest.raises(Death):
        b.run()
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG.count("tell:2") == (1 if before else 0)


def test_a_message_that_was_never_sent_is_sent_by_its_predecessor(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    once(monkeypatch, b.engine.queues, "send")
    with pytest.raises(Death):
        b.run()
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert LOG == ["book:1", "pay:1", "tell:1"]


def test_a_lost_message_is_sent_again_once_it_is_stale(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    b.lose_messages()
    assert b.recover() == []
    b.clock.advance(300)
    assert b.recover() == [saga_id]
    assert (b.state(saga_id).unanswered, b.state(saga_id).recovery.attempts) == (1, 0)
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
    assert b.state(saga_id).unanswered == 0
    assert LOG == ["book:1", "pay:1", "tell:1"]


def test_a_start_that_was_stored_but_not_sent_is_sent(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    once(monkeypatch, b.engine.queues, "send")
    with pytest.raises(Death):
        b.start("trip", REQUEST)
    b.clock.advance(300)
    (saga_id,) = b.recover()
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"


def test_patience_doubles_and_ends(bench: Make) -> None:
    """Where the queue shows each time that the message was lost: it has handled what was sent later."""
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.deliver("trip", "book")
    waits: list[int] = []
    while b.state(saga_id).cause != "recovery":
        b.lose_messages()
        waited = 0
        while not b.recover():
            b.engine.recovery.watermarks.note("trip", "pay", b.clock.now() + 3_600, b.clock.now())
            b.clock.advance(30)
            waited += 30
        waits.append(waited)
        assert len(waits) < 10
    assert all(later >= 1.5 * earlier for earlier, later in pairwise(waits[1:]))
    b.run()
    saga = b.show(saga_id)
    assert saga["status"] == "COMPENSATED"
    assert LOG == ["book:1", "unbook:1"]
    assert "SagaRecoveryExhausted" in b.actions(saga_id)
    (_, settle) = advice(cast("SagaView", saga), b.clock.now())
    assert f"`sagas resolve trip {saga_id} --seq {saga['seq']} --reason ...`, or `sagas rerun trip {saga_id}`" in settle


def test_a_saga_that_is_given_up_is_not_counted_as_recovered(bench: Make) -> None:
    b = bench(Trip)
    saga_id = killed_at(b, "pay")
    b.engine.recovery.set_recovery_attempts(saga_id, 1_000)
    b.clock.advance(b.lifetime + 60)
    report = b.engine.recovery.run(60.0, 0.0)
    assert (report.recovered, report.given_up) == ([], [saga_id])


def test_a_message_that_comes_back_says_why_and_until_when(bench: Make, caplog: pytest.LogCaptureFixture) -> None:
    b = bench(Trip)
    saga_id = killed_at(b, "pay")
    with caplog.at_level("INFO"):
        b.deliver("trip", "pay")
    (postponed,) = [vars(record) for record in caplog.records if record.message == "message postponed"]
    lease = b.state(saga_id).lease
    assert (postponed["reason"], postponed["step"]) == ("lease", "pay")
    assert lease is not None
    assert postponed["until"] == iso(lease.expires_at)


def test_a_step_that_begins_says_so(bench: Make, caplog: pytest.LogCaptureFixture) -> None:
    b = bench(Trip)
    FAIL.update(tell=RuntimeError("no"))
    with caplog.at_level("INFO"):
        saga_id = b.start("trip", REQUEST)
        b.run()
    began = [(vars(record)["step"], record.message) for record in caplog.records if record.message.endswith(" started")]
    assert began[:2] == [("book", "step started"), ("pay", "step started")]
    assert ("book", "undo started") in began
    assert b.status(saga_id) == "COMPENSATED"


def test_a_live_lease_and_a_wait_are_no_stall(bench: Make) -> None:
    b = bench(Trip)
    saga_id = killed_at(b, "pay")
    b.clock.advance(b.lifetime - 1)
    assert b.recover(stale_after=0) == []
    assert b.state(saga_id).lease is not None


def test_two_supervisors_at_once_do_no_harm(bench: Make) -> None:
    b = bench(Trip)
    saga_id = killed_at(b, "pay")
    b.clock.advance(b.lifetime + 2)
    second = b.deploy()
    assert b.recover(stale_after=10) == [saga_id]
    assert second.recovery.run(60.0, 10).recovered == []
    b.run()
    assert LOG.count("pay:2") == 1


def test_one_bad_saga_stops_no_other(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Trip)
    bad, good = b.start("trip", REQUEST), b.start("trip", REQUEST)
    b.lose_messages()
    b.clock.advance(600)
    get = b.engine.control.get

    def failing(saga_id: str) -> object:
        if saga_id == bad:
            raise ValueError("unreadable")
        return get(saga_id)

    monkeypatch.setattr(b.engine.control, "get", failing)
    report = b.engine.recovery.run(60.0)
    assert (report.recovered, report.failed) == ([good], [bad])


def test_a_run_stops_at_its_budget(bench: Make) -> None:
    b = bench(Trip)
    for _ in range(3):
        b.start("trip", REQUEST)
    b.clock.advance(600)
    report = b.engine.recovery.run(0.0)
    assert (report.recovered, report.remaining) == ([], 3)


def test_due_sagas_are_listed_for_whoever_asks(bench: Make) -> None:
    b = bench(Trip, Stubborn)
    trip = b.start("trip", REQUEST)
    stubborn = b.start("stubborn", REQUEST)
    recovery = b.engine.recovery
    assert recovery.get_sagas_for_recovery() == []
    b.clock.advance(600)
    assert {state.saga_id for state in recovery.get_sagas_for_recovery()} == {trip, stubborn}
    assert [state.saga_id for state in recovery.get_sagas_for_recovery(name="trip")] == [trip]
    recovery.set_recovery_attempts(trip, 4)
    assert b.state(trip).recovery.attempts == 4
    found = recovery.get_sagas_for_recovery(max_recovery_attempts=4)
    assert [state.saga_id for state in found] == [stubborn]
    assert len(recovery.get_sagas_for_recovery(limit=1)) == 1


def test_an_operator_recovers_a_type_or_one_or_a_few(bench: Make) -> None:
    b = bench(Trip, Stubborn)
    trips = [b.start("trip", REQUEST) for _ in range(3)]
    b.start("stubborn", REQUEST)
    b.lose_messages()
    b.clock.advance(600)
    run = b.engine.recovery.run
    assert run(60.0, requested=RecoveryFilter(name="stubborn", saga_id=b.start("stubborn", REQUEST))).recovered == []
    with pytest.raises(NotFound):
        run(60.0, requested=RecoveryFilter(name="stubborn", saga_id=trips[0]))
    assert run(60.0, requested=RecoveryFilter(saga_id=trips[0])).recovered == [trips[0]]
    b.engine.recovery.set_recovery_attempts(trips[1], 1)
    b.lose_messages()  # a saga behind a message that waits is none that stalls
    assert run(60.0, None, 1, RecoveryFilter(name="trip", max_attempts=1)).recovered == [trips[2]]
    b.lose_messages()
    assert run(60.0, None, 1, RecoveryFilter(name="trip")).recovered == [trips[1]]
    assert len(run(60.0).recovered) == 1


def test_one_saga_is_recovered_before_its_time_by_an_impatient_operator(bench: Make) -> None:
    b = bench(Trip)
    saga_id = b.start("trip", REQUEST)
    b.lose_messages()
    b.clock.advance(30)
    run = b.engine.recovery.run
    assert run(60.0, requested=RecoveryFilter(saga_id=saga_id)).recovered == []
    assert run(60.0, 10.0, requested=RecoveryFilter(saga_id=saga_id)).recovered == [saga_id]
    b.run()
    assert b.show(saga_id)["status"] == "COMPLETED"
