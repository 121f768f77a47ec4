"""Commits: what a result needs to find, what is claimed with it, and that the last one is entry and commit together."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from sagas.core.states import Attempts, Cancel, SagaState, SagaStatus, StepStatus
from sagas.store.connection import Fenced, FlagWon, Refused
from tests.store.conftest import STALE_AFTER, Store
from tests.store.moves import cancel, claimed, completed, ended, last
from tests.store.states import NOW, lease, saga


def test_a_commit_moves_the_pointer_once(store: Store) -> None:
    state = claimed(store)
    after = completed(state)
    store.control.commit(state, after, STALE_AFTER)
    assert store.control.get(state.saga_id) == after
    store.control.commit(state, after, STALE_AFTER)
    assert store.control.get(state.saga_id) == after


def test_a_late_commit_is_fenced(store: Store) -> None:
    state = claimed(store)
    taken = structs.replace(state, token=2, lease=lease())
    assert store.control.claim(state, taken, STALE_AFTER)
    with pytest.raises(Fenced):
        store.control.commit(state, completed(state), STALE_AFTER)
    assert store.control.get(state.saga_id) == taken


def test_a_cancel_stops_the_commit_that_ignores_it(store: Store) -> None:
    state = claimed(store)
    cancel(store, state)
    with pytest.raises(FlagWon, match="cancel") as caught:
        store.control.commit(state, completed(state), STALE_AFTER)
    assert caught.value.state == structs.replace(state, cancel=Cancel(NOW + 1, "ann"))
    store.control.commit(caught.value.state, completed(caught.value.state), STALE_AFTER)
    found = store.control.get(state.saga_id)
    assert found is not None
    assert (found.seq, found.cancel.at) == (state.seq + 1, NOW + 1)


def test_a_cancel_does_not_stop_undoing(store: Store) -> None:
    state = claimed(store)
    cancel(store, state)
    undoing = structs.replace(completed(state), status=SagaStatus.COMPENSATING, cause="failure")
    store.control.commit(state, undoing, STALE_AFTER)
    found = store.control.get(state.saga_id)
    assert found is not None
    assert found.status is SagaStatus.COMPENSATING


def test_a_commit_writes_only_what_changed(store: Store) -> None:
    """What others may set meanwhile, the cancel flag, is left as they set it."""
    state = claimed(store, saga())
    undoing = structs.replace(state, status=SagaStatus.COMPENSATING, seq=2, lease=None)
    cancel(store, state)
    store.control.commit(state, undoing, STALE_AFTER)
    assert (store.item(state.saga_id) or {})["cancel_requested_by"] == {"S": "ann"}


def test_a_commit_brings_the_due_time_up_to_date(store: Store) -> None:
    """Also when the lease that the commit releases was to end at about the time that comes next."""
    state = saga()
    store.control.create(state, STALE_AFTER)
    due = (store.item(state.saga_id) or {})["due"]["S"]
    now = NOW + 3 * STALE_AFTER - 20
    claimed = store.control.claim_step(state.saga_id, 0, 1, lease(now + 1, now + 1), NOW + 240)
    assert claimed is not None
    store.control.commit(claimed, structs.replace(completed(claimed), updated_at=now), STALE_AFTER)
    assert (store.item(state.saga_id) or {})["due"]["S"] > due


# Commit and claim.


def _went_on(state: SagaState) -> SagaState:
    """What committing the first step's completion leads to where the second is claimed with it."""
    after = completed(state)
    second = structs.replace(after.steps[1], status=StepStatus.RUNNING, attempts=Attempts(1))
    held = structs.replace(after.with_step(1, second), token=state.token + 1, lease=lease(), dispatch=state.dispatch)
    return structs.replace(held, status=SagaStatus.RUNNING)


def test_a_commit_claims_what_is_next(store: Store) -> None:
    state = claimed(store)
    after = _went_on(state)
    assert store.control.commit_and_claim(state, after, STALE_AFTER)
    assert store.control.get(state.saga_id) == after


def test_a_claim_with_a_commit_whose_answer_was_lost_is_recognised(store: Store) -> None:
    state = claimed(store)
    after = _went_on(state)
    assert store.control.commit_and_claim(state, after, STALE_AFTER)
    assert store.control.commit_and_claim(state, after, STALE_AFTER)
    assert store.control.get(state.saga_id) == after


def test_that_the_entry_is_committed_does_not_tell_that_the_claim_was_made(store: Store) -> None:
    """An earlier try met a cancel, and committed without."""
    state = claimed(store)
    cancel(store, state)
    with pytest.raises(FlagWon, match="cancel") as caught:
        store.control.commit_and_claim(state, _went_on(state), STALE_AFTER)
    held = structs.replace(completed(caught.value.state), lease=state.lease)
    store.control.commit(caught.value.state, held, STALE_AFTER)
    assert store.control.commit_and_claim(state, _went_on(state), STALE_AFTER) is False
    assert store.control.get(state.saga_id) == held


def test_a_cancel_stops_the_claim(store: Store) -> None:
    state = claimed(store)
    cancel(store, state)
    with pytest.raises(FlagWon, match="cancel"):
        store.control.commit_and_claim(state, _went_on(state), STALE_AFTER)
    found = store.control.get(state.saga_id)
    assert found is not None
    assert (found.seq, found.token, found.steps[1].attempts.made) == (state.seq, state.token, 0)


def test_who_lost_the_lease_claims_nothing(store: Store) -> None:
    state = claimed(store)
    taken = structs.replace(state, token=2, lease=lease())
    assert store.control.claim(state, taken, STALE_AFTER)
    with pytest.raises(Fenced):
        store.control.commit_and_claim(state, _went_on(state), STALE_AFTER)
    assert store.control.get(state.saga_id) == taken


def test_a_claim_with_a_commit_leaves_the_due_time_as_a_commit_does(store: Store) -> None:
    """A lease that ends later must not move the saga in the index, and back: that would be four writes a step."""
    state, other = claimed(store), claimed(store)
    far = structs.replace(_went_on(state), lease=lease(NOW + 10 * STALE_AFTER, NOW + 10 * STALE_AFTER))
    assert store.control.commit_and_claim(state, far, STALE_AFTER)
    store.control.commit(other, completed(other), STALE_AFTER)
    due = [(store.item(one.saga_id) or {})["due"] for one in (state, other)]
    assert due[0] == due[1]


# The end.


def test_the_end_is_entry_and_commit_together(store: Store) -> None:
    state = claimed(store)
    store.control.finish(last(state), state, ended(state), STALE_AFTER, store.journal)
    assert store.control.get(state.saga_id) == ended(state)
    assert store.journal.entries(state.saga_id, [2]) == {2: last(state)}
    store.control.finish(last(state), state, ended(state), STALE_AFTER, store.journal)
    assert store.control.get(state.saga_id) == ended(state)


def test_a_cancel_that_wins_leaves_no_entry_claiming_an_end(store: Store) -> None:
    state = claimed(store)
    cancel(store, state)
    with pytest.raises(FlagWon, match="cancel"):
        store.control.finish(last(state), state, ended(state), STALE_AFTER, store.journal)
    assert store.entry(state.saga_id, 2) is None
    assert (store.item(state.saga_id) or {})["seq"] == {"N": "1"}


def test_the_end_adopts_what_a_predecessor_journaled(store: Store) -> None:
    state = claimed(store)
    earlier = replace(last(state, token=0), payload='"theirs"')
    store.journal.put(earlier)
    with pytest.raises(Refused) as refused:
        store.control.finish(last(state), state, ended(state), STALE_AFTER, store.journal)
    assert store.journal.occupant(last(state), refused.value.items.get(0)) == earlier
    assert store.control.get(state.saga_id) == state


def test_the_end_is_fenced_by_a_takeover(store: Store) -> None:
    state = claimed(store)
    assert store.control.claim(state, structs.replace(state, token=2, lease=lease()), STALE_AFTER)
    with pytest.raises(Fenced):
        store.control.finish(last(state), state, ended(state), STALE_AFTER, store.journal)
    assert store.entry(state.saga_id, 2) is None
