"""What a saga's key answers once the saga is purged, and that nothing runs again under it."""

from __future__ import annotations

from typing import Any

import pytest

from sagas import Saga, children
from sagas.core.states import SagaState, SagaStatus
from sagas.engine.start.starter import KeyReused
from sagas.errors import Conflict, NotFound, Rejected
from sagas.store.journal.journal import Journal
from tests.engine.purges import DAY, SECRET, ended, expire, item, purge, start, stored
from tests.support.bench import Make
from tests.support.sagas import FAIL, LOG, Idle, Order, Trip


class Child(Idle[Order], name="child"):
    """One of one."""


class Parent(Saga[Order], name="parent"):
    """It has a child."""

    @children(Child)
    def only(self, request: Order) -> list[Order]:
        return [request]


@pytest.mark.parametrize("trouble", [None, "pay"])
def test_a_key_answers_with_its_purged_saga_and_runs_nothing(keeping: Make, trouble: str | None) -> None:
    bench = keeping(Trip)
    FAIL.update({trouble: Rejected("no")} if trouble else {})
    saga_id = ended(bench)
    before, executed = bench.show(saga_id), list(LOG)
    bench.clock.advance(DAY)
    bench.engine.purger.run(60.0)
    FAIL.clear()
    for _ in range(2):
        again = start(bench)
        assert (again.created, again.state.saga_id, again.state.status.value) == (False, saga_id, before["status"])
        bench.run()
        bench.clock.advance(DAY)
        bench.recover()
    assert executed == LOG
    assert item(bench, saga_id) is None
    with pytest.raises(KeyReused):
        start(bench, request={"item": "another"})


def test_a_key_starts_anew_once_its_tombstone_is_gone(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(DAY)
    bench.engine.purger.run(60.0)
    expire(bench, saga_id, 1)
    with pytest.raises(NotFound):
        bench.engine.reader.show("trip", saga_id)
    assert start(bench).created
    bench.run()
    assert [line.split(":")[0] for line in LOG] == ["book", "pay", "tell"] * 2
    assert bench.actions(saga_id) == ["SagaStarted", "StepCompleted", "StepCompleted", "StepCompleted"]


def test_an_expired_tombstone_is_gone_whether_dynamodb_has_deleted_it_or_not(keeping: Make) -> None:
    """DynamoDB takes up to days, and begins with any item."""
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(DAY)
    bench.engine.purger.run(60.0)
    bench.clock.advance(30 * DAY - 1)
    assert not start(bench).created
    bench.clock.advance(1)
    assert start(bench, request={"item": "another"}).created
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.COMPLETED
    assert not start(bench, request={"item": "another"}).created


def test_of_two_starts_over_an_expired_tombstone_one_begins(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Trip)
    ended(bench)
    bench.clock.advance(DAY)
    bench.engine.purger.run(60.0)
    bench.clock.advance(30 * DAY)
    replaced = Journal._replaced  # pyright: ignore[reportPrivateUsage]

    def overtaken(journal: Journal, *given: Any) -> bool:
        monkeypatch.undo()
        assert start(bench).created
        return replaced(journal, *given)

    monkeypatch.setattr(Journal, "_replaced", overtaken)
    assert not start(bench).created
    bench.run()
    assert [line.split(":")[0] for line in LOG] == ["book", "pay", "tell"] * 2


def test_children_begin_whose_tombstones_are_still_there(keeping: Make) -> None:
    """The key of their parent is free, and the ids of its children are the same."""
    bench = keeping(Parent, Child)
    saga_id = start(bench, "parent", {"item": "train"}).state.saga_id
    bench.run()
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    bench.clock.advance(30 * DAY)
    expire(bench, saga_id, 1)
    assert start(bench, "parent", {"item": "train"}).created
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.COMPLETED


@pytest.mark.parametrize("trouble", [None, "pay"])
def test_a_saga_whose_control_item_is_missing_never_runs_again(bench: Make, trouble: str | None) -> None:
    made = bench(Trip)
    FAIL.update({trouble: Rejected("no")} if trouble else {})
    saga_id = ended(made)
    before, trail, executed = made.show(saga_id), made.engine.reader.audit("trip", saga_id, 100, 0), list(LOG)
    expire(made, saga_id)
    FAIL.clear()
    again = start(made)
    assert (again.created, again.state.status.value) == (False, before["status"])
    made.run()
    assert executed == LOG
    assert item(made, saga_id) is None
    assert made.engine.reader.audit("trip", saga_id, 100, 0) == trail
    left = {**made.engine.reader.show("trip", saga_id)}
    assert {name: left[name] for name in before if name != "updated_at"} == {
        name: before[name] for name in before if name != "updated_at"
    }
    with pytest.raises(Conflict, match="is missing"):
        made.engine.operations.compensate("trip", saga_id, "", "ann")


def test_a_saga_whose_control_item_is_missing_can_be_purged(bench: Make) -> None:
    made = bench(Trip)
    saga_id = ended(made)
    expire(made, saga_id)
    assert purge(made, saga_id).purge.by == "bob"
    assert made.engine.verifier.verify("trip", saga_id).finding.bad is None
    assert SECRET not in stored(made)
    assert not start(made).created
    assert item(made, saga_id) is None


def test_a_start_that_was_left_half_done_is_finished(bench: Make) -> None:
    made = bench(Trip)
    saga_id = start(made).state.saga_id
    made.lose_messages()
    expire(made, saga_id)  # it was never created
    again = start(made)
    assert not again.created
    made.run()
    assert made.state(saga_id).status is SagaStatus.COMPLETED


def test_a_start_that_is_overtaken_by_a_purge_creates_nothing(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had seen the first entry unmarked and no control item; all else happens before it creates one."""
    bench = keeping(Trip)
    saga_id = start(bench).state.saga_id
    bench.lose_messages()
    expire(bench, saga_id)
    control = bench.engine.control
    again = control.create_again

    def overtaken(state: SagaState, stale_after: float, journal: Any, found_by: Any) -> bool:
        monkeypatch.undo()
        assert start(bench).state.saga_id == saga_id
        bench.run()
        bench.clock.advance(DAY)
        assert bench.engine.purger.run(60.0).purged == [saga_id]
        return again(state, stale_after, journal, found_by)

    monkeypatch.setattr(control, "create_again", overtaken)
    answer = start(bench)
    assert (answer.created, answer.state.status) == (False, SagaStatus.COMPLETED)
    assert item(bench, saga_id) is None
    bench.run()
    assert len(LOG) == 3
