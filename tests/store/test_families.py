"""Parents and children in the store: hand-outs, orders, ends that join, and what is counted of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from sagas.core.states import Attempts, Cancel, FanOut, Order, Parent, SagaState, SagaStatus, StepState, StepStatus
from sagas.store.connection import Fenced
from sagas.store.joins import COMPLETED, FORWARD, NEVER, UNDONE, ChildOutcome, Joins, undoing
from tests.store.conftest import STALE_AFTER, Store
from tests.store.states import NOW, lease, new_id, saga

Change = Callable[[Store, SagaState], object]


def _of(parent: str, round_: int = 0) -> Parent:
    return Parent(parent, "family", "born", 0, round_)


def _waiting(store: Store) -> SagaState:
    """A parent of five, none of which was handed out."""
    born = StepState(
        "born", StepStatus.WAITING, attempts=Attempts(1), waits_for="children", fan_out=FanOut(5, requests_seq=2)
    )
    state = saga(SagaStatus.WAITING, steps=(born,), seq=2, token=3)
    assert store.control.create(state, STALE_AFTER)
    return state


def _child(store: Store, parent: str, position: int = 0) -> SagaState:
    """A child whose last step is being run."""
    own = {"parent": Parent(parent, "family", "born", position), "lease": lease(), "seq": 4, "token": 2}
    state = saga(SagaStatus.RUNNING, **own)
    assert store.control.create(state, STALE_AFTER)
    return state


def _over(state: SagaState, status: SagaStatus = SagaStatus.COMPLETED) -> SagaState:
    return replace(state, status=status, lease=None, seq=state.seq + 1)


def _joins(store: Store) -> Joins:
    return Joins(store.tables, store.settings)


def test_a_hand_out_is_made_once_and_known_again(store: Store) -> None:
    state = _waiting(store)
    assert store.control.mark_started(state, 0, 3, 77)
    found = replace(state.with_step(0, replace(state.steps[0], fan_out=FanOut(5, 3, requests_seq=2))), token=77)
    assert store.control.get(state.saga_id) == found
    assert store.control.mark_started(state, 0, 3, 77), "its own, whose answer was lost"
    assert not store.control.mark_started(state, 0, 3, 78), "another's"
    assert store.control.mark_started(found, 0, 2, 80)
    assert store.control.get(state.saga_id) == replace(
        found.with_step(0, replace(found.steps[0], fan_out=FanOut(5, 5, requests_seq=2))), token=80
    )


def _cancelled(store: Store, state: SagaState) -> object:
    return store.control.request_cancel(state, replace(state, cancel=Cancel(NOW, "ann")))


def _claimed(store: Store, state: SagaState) -> object:
    return store.control.claim(state, replace(state, lease=lease(), token=state.token + 1), STALE_AFTER)


@pytest.mark.parametrize("change", [_cancelled, _claimed])
def test_nothing_is_handed_out_of_what_was_cancelled_or_is_held(store: Store, change: Change) -> None:
    state = _waiting(store)
    assert change(store, state)
    assert not store.control.mark_started(state, 0, 5, 50)


def test_an_order_puts_a_child_that_is_over_into_the_index(store: Store) -> None:
    state = _over(_child(store, new_id()))
    done = replace(state, saga_id=new_id())
    assert store.control.create(done, STALE_AFTER)
    assert "open_shard" not in (store.item(done.saga_id) or {})
    assert store.control.order(done, 1, NOW)
    assert store.control.get(done.saga_id) == replace(done, order=Order(1), token=done.token + 1)
    assert "open_shard" in (store.item(done.saga_id) or {})
    assert not store.control.order(done, 1, NOW), "it is not as it was seen"


def test_a_commit_that_ends_a_child_joins_and_is_known_again(store: Store) -> None:
    parent, joins = new_id(), _joins(store)
    before = _child(store, parent, 3)
    after = _over(before)
    store.control.commit(before, after, STALE_AFTER)
    store.control.commit(before, after, STALE_AFTER)
    assert joins.tally(parent, "born", [0], 5)[FORWARD, COMPLETED] == 1
    assert joins.outcomes(parent, "born", 0, FORWARD) == {3: ChildOutcome(3, COMPLETED, at=after.updated_at)}


def test_what_lost_its_lease_does_not_join(store: Store) -> None:
    parent = new_id()
    before = _child(store, parent)
    with pytest.raises(Fenced):
        store.control.commit(replace(before, token=1), _over(replace(before, token=1)), STALE_AFTER)
    assert _joins(store).tally(parent, "born", [0], 5).ended == 0


def test_an_end_whose_outcome_is_there_is_written_without_it(store: Store) -> None:
    parent, joins = new_id(), _joins(store)
    before = _child(store, parent)
    assert joins.record(_of(parent), FORWARD, ChildOutcome(0, NEVER, at=NOW))
    store.control.commit(before, _over(before), STALE_AFTER)
    found = store.control.get(before.saga_id)
    assert found is not None
    assert found.status is SagaStatus.COMPLETED
    assert joins.tally(parent, "born", [0], 5).ended == 1


def test_outcomes_are_written_once_by_phase_and_counted(store: Store) -> None:
    parent, joins = new_id(), _joins(store)
    for position in range(20):
        assert joins.record(_of(parent), FORWARD, ChildOutcome(position, COMPLETED, seq=position, at=NOW))
        assert not joins.record(_of(parent), FORWARD, ChildOutcome(position, UNDONE, at=NOW))
    assert joins.record(_of(parent), undoing(1), ChildOutcome(7, UNDONE, at=NOW))
    assert joins.record(_of(parent, round_=1), FORWARD, ChildOutcome(7, COMPLETED, round=1, at=NOW))
    tally = joins.tally(parent, "born", [0], 20)
    assert (tally.ended, tally.completed, tally.standing, tally.undone(1), tally.undone(2)) == (20, 20, 20, 1, 0)
    assert joins.tally(parent, "born", [0, 1], 20).ended == 21
    assert list(joins.outcomes(parent, "born", 0, FORWARD)) == list(range(20))
    assert joins.outcomes(parent, "born", 1, FORWARD) == {7: ChildOutcome(7, COMPLETED, round=1, at=NOW)}
    joins.delete(parent, "born", 0)
    assert joins.tally(parent, "born", [0], 20).ended == 0
    assert joins.outcomes(parent, "born", 0, undoing(1)) == {}
    assert joins.tally(parent, "born", [1], 20).ended == 1


@pytest.mark.parametrize("few", [1, 3])
def test_first_ends_are_counted_in_as_few_items_as_there_are_to_be_read(store: Store, few: int) -> None:
    parent, joins = new_id(), _joins(store)
    own = replace(_of(parent), counters=few)
    before = replace(_child(store, parent, 5), parent=replace(own, position=5))
    store.control.commit(before, _over(before), STALE_AFTER)
    for position in range(20):
        assert joins.record(own, FORWARD, ChildOutcome(position, COMPLETED, at=NOW)) == (position != 5)
        assert joins.record(own, undoing(1), ChildOutcome(position, UNDONE, at=NOW))
    assert joins.tally(parent, "born", [0], 20, few).completed == 20
    assert joins.tally(parent, "born", [0], 20).undone(1) == 20
