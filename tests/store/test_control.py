"""Control items: what each write needs to find, what it leaves behind, and that none but ``create`` creates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from sagas.core.automaton import decide
from sagas.core.states import (
    Attempts,
    Cancel,
    DeadMessage,
    Progress,
    Purge,
    Recovery,
    SagaState,
    SagaStatus,
    StepState,
    StepStatus,
)
from sagas.errors import SagaError
from sagas.store.connection import Fenced
from sagas.store.control.mapping import purge_at, shard_of
from sagas.store.journal.entries import Entry, Tombstone
from tests.store.conftest import SHARDS, STALE_AFTER, Store
from tests.store.moves import claimed, completed, ended, last
from tests.store.states import NOW, PLAN, Walk, contents, lease, new_id, runs, saga, walks


def test_created_once(store: Store) -> None:
    state = saga()
    assert store.control.get(state.saga_id) is None
    assert store.control.create(state, STALE_AFTER)
    assert not store.control.create(structs.replace(state, version="2"), STALE_AFTER)
    assert store.control.get(state.saga_id) == state


@given(first=contents(families=True), second=contents(families=True))
def test_every_state_comes_back_equal(
    store: Store, first: Callable[[str], SagaState], second: Callable[[str], SagaState]
) -> None:
    saga_id = new_id()
    before, after = first(saga_id), second(saga_id)
    assert store.control.create(before, STALE_AFTER)
    assert store.control.get(saga_id) == before
    assert store.control.claim(before, after, STALE_AFTER)
    assert store.control.get(saga_id) == after


def test_what_is_at_its_default_is_not_stored(store: Store) -> None:
    state = saga()
    store.control.create(state, STALE_AFTER)
    item = store.item(state.saga_id) or {}
    assert not {"lease_owner", "not_before", "cancel_requested_at", "correlation_id", "attention", "dead"} & set(item)


def _item_names(store: Store, saga_id: str) -> set[str]:
    return set(store.item(saga_id) or {})


def test_over_leaves_the_index_and_attention_enters_it(store: Store) -> None:
    state = claimed(store)
    assert {"open_shard", "due"} <= _item_names(store, state.saga_id)
    store.control.commit(state, ended(state), STALE_AFTER)
    assert not {"open_shard", "due", "lease_owner", "act_until"} & _item_names(store, state.saga_id)
    other = claimed(store)
    failed = structs.replace(ended(other), status=SagaStatus.FAILED, attention=NOW)
    store.control.commit(other, failed, STALE_AFTER)
    assert (store.item(other.saga_id) or {})["incident_shard"] == {"S": str(shard_of(other.saga_id, SHARDS))}
    assert not {"open_shard", "due"} & _item_names(store, other.saga_id)


def test_finished_sagas_are_to_be_purged_only_if_told_and_settled(store: Store) -> None:
    keeping = replace(store.settings, retention=3600.0, never_expiring=frozenset({"owner"}))
    retaining = type(store.control)(store.tables, keeping)
    listing = type(store.listing)(store.tables, keeping)

    def found(state: SagaState, until: float) -> bool:
        return state.saga_id in [one.saga_id for one in listing.to_purge(until, 10_000)]

    state = saga(SagaStatus.COMPLETED)
    assert retaining.create(state, STALE_AFTER)
    assert not found(state, NOW + 3599.9)
    assert found(state, NOW + 3600)
    waiting, running, kept = (
        saga(SagaStatus.FAILED, attention=NOW),
        saga(SagaStatus.RUNNING),
        saga(SagaStatus.COMPLETED),
    )
    owning = structs.replace(saga(SagaStatus.COMPLETED), saga="owner")
    for one in (waiting, running, owning):
        assert retaining.create(one, STALE_AFTER)
    assert store.control.create(kept, STALE_AFTER)
    assert not any(found(one, NOW + 10**8) for one in (waiting, owning, running, kept))
    for one in (state, waiting, owning, running, kept):
        assert "expires_at" not in _item_names(store, one.saga_id)
    settled = structs.replace(waiting, token=1, lease=lease())
    assert retaining.claim(waiting, settled, STALE_AFTER)
    resolved = structs.replace(settled, lease=None, attention=0.0, seq=2, resolution_seq=2, updated_at=NOW + 500)
    retaining.commit(settled, resolved, STALE_AFTER)
    assert not found(resolved, NOW + 4099)
    assert found(resolved, NOW + 4100)


# Purges.


def _purging(state: SagaState) -> SagaState:
    return structs.replace(state, token=state.token + 1, lease=lease(), purge=Purge(NOW, "ann", "asked for"))


def test_the_item_is_deleted_by_its_purge_only(store: Store) -> None:
    state = saga(SagaStatus.COMPLETED)
    store.control.create(state, STALE_AFTER)
    purging = _purging(state)
    assert not store.control.delete(state)
    assert not store.control.delete(purging)
    assert store.control.claim(state, purging, STALE_AFTER)
    assert store.control.get(state.saga_id) == purging
    due = purge_at(purging, store.settings)
    assert state.saga_id not in [one.saga_id for one in store.listing.to_purge(due - 1, 10_000)]
    assert state.saga_id in [one.saga_id for one in store.listing.to_purge(due, 10_000)]
    assert not store.control.delete(structs.replace(purging, token=7))
    assert store.control.delete(purging)
    assert store.item(state.saga_id) is None
    assert not store.control.delete(purging)


def test_a_start_creates_again_only_what_is_not_there_and_was_not_purged(store: Store) -> None:
    started = saga()
    first = Entry(started.saga_id, 1, NOW, "trip", "SagaStarted", "PENDING", 0)
    assert not store.control.create_again(started, STALE_AFTER, store.journal)  # nobody started it
    store.journal.put(first)
    assert store.control.create_again(started, STALE_AFTER, store.journal)
    assert store.control.get(started.saga_id) == started
    assert not store.control.create_again(structs.replace(started, version="2"), STALE_AFTER, store.journal)
    purged = saga(SagaStatus.COMPLETED)
    store.journal.put(replace(first, saga_id=purged.saga_id))
    store.tombstones.put(purged.saga_id, Tombstone(Purge(NOW, "ann", ""), "hash", purged, (), aside=False))
    assert not store.control.create_again(purged, STALE_AFTER, store.journal)
    assert store.item(purged.saga_id) is None


# Claims.


def test_a_claim_locks_and_counts(store: Store) -> None:
    state = saga()
    store.control.create(state, STALE_AFTER)
    taken = lease()
    claimed = store.control.claim_step(state.saga_id, 0, 1, taken, NOW)
    assert claimed is not None
    assert (claimed.status, claimed.token, claimed.lease) == (SagaStatus.RUNNING, 1, taken)
    assert claimed.steps[0] == StepState("book", StepStatus.RUNNING, attempts=Attempts(1))
    assert store.control.get(state.saga_id) == claimed


def test_a_claim_whose_answer_was_lost_is_recognised(store: Store) -> None:
    state = saga()
    store.control.create(state, STALE_AFTER)
    taken = lease()
    first = store.control.claim_step(state.saga_id, 0, 1, taken, NOW)
    assert store.control.claim_step(state.saga_id, 0, 1, taken, NOW) == first
    undoing = saga(SagaStatus.COMPENSATING)
    store.control.create(undoing, STALE_AFTER)
    first = store.control.claim_undo(undoing.saga_id, 0, 1, taken, NOW)
    assert first is not None
    assert store.control.claim_undo(undoing.saga_id, 0, 1, taken, NOW) == first
    assert first.steps[0].undo_attempts.made == 1


def test_a_second_claim_fails_even_when_the_lease_expired(store: Store) -> None:
    state = claimed(store)
    assert store.control.claim_step(state.saga_id, 0, 1, lease(), NOW + 10_000) is None
    assert store.control.get(state.saga_id) == state


@pytest.mark.parametrize("index", [0, 1, 7])
def test_claims_create_nothing(store: Store, index: int) -> None:
    missing = new_id()
    assert store.control.claim_step(missing, index, 1, lease(), NOW) is None
    assert store.control.claim_undo(missing, index, 1, lease(), NOW) is None
    assert store.item(missing) is None


def test_no_other_write_creates_either(store: Store) -> None:
    before = saga(SagaStatus.RUNNING, lease=lease(), token=3)
    after = structs.replace(completed(before))
    assert not store.control.claim(before, structs.replace(before, lease=lease(), token=4), STALE_AFTER)
    assert not store.control.extend(before, NOW + 99)
    assert not store.control.request_cancel(before, structs.replace(before, cancel=Cancel(NOW)))
    with pytest.raises(Fenced):
        store.control.commit(before, after, STALE_AFTER)
    with pytest.raises(Fenced):
        store.control.finish(last(before), before, ended(before), STALE_AFTER, store.journal)
    free = structs.replace(before, lease=None)
    assert not store.control.claim(free, structs.replace(free, lease=lease(), token=4), STALE_AFTER)
    assert store.item(before.saga_id) is None
    assert store.entry(before.saga_id, before.seq + 1) is None


@pytest.mark.parametrize(("index", "dispatch"), [(1, 1), (7, 1), (0, 0), (0, 2)])
def test_stale_and_foreign_messages_claim_nothing(store: Store, index: int, dispatch: int) -> None:
    state = saga()
    store.control.create(state, STALE_AFTER)
    assert store.control.claim_step(state.saga_id, index, dispatch, lease(), NOW) is None
    assert store.control.claim_undo(state.saga_id, 0, 1, lease(), NOW) is None
    assert store.control.get(state.saga_id) == state


FREE: dict[str, dict[str, Any]] = {
    "step": {"status": SagaStatus.RUNNING},
    "undo": {"status": SagaStatus.COMPENSATING},
}
"""Sagas whose step, or whose undo, is claimed."""
NOT_CLAIMED: tuple[dict[str, Any], ...] = (
    {"status": SagaStatus.COMPLETED},
    {"lease": lease()},
    {"not_before": NOW + 1},
    {"cursor": 1},
)
NO_STEP = (
    *NOT_CLAIMED,
    {"cancel": Cancel(NOW)},
    {"recovery": Recovery(9, exhausted=True)},
    {"steps": (StepState("book", StepStatus.COMPLETED),)},
    {"status": SagaStatus.WAITING, "steps": (StepState("book", StepStatus.WAITING),)},  # it does not poll
)
NO_UNDO = (*NOT_CLAIMED, {"lost_until": NOW + 1})


@pytest.mark.parametrize(
    ("kind", "changes"),
    [*(("step", changes) for changes in NO_STEP), *(("undo", changes) for changes in NO_UNDO)],
)
def test_each_condition_of_a_claim_refuses_it(store: Store, kind: str, changes: dict[str, Any]) -> None:
    free = saga(**FREE[kind])
    state = saga(**FREE[kind] | changes)
    for one in (free, state):
        store.control.create(one, STALE_AFTER)
    claim = store.control.claim_step if kind == "step" else store.control.claim_undo
    assert claim(state.saga_id, 0, 1, lease(), NOW, "book") is None
    assert store.control.get(state.saga_id) == state
    assert claim(free.saga_id, 0, 1, lease(), NOW, "pay") is None, "the step has another name"
    assert claim(free.saga_id, 0, 1, lease(), NOW, "book") is not None


@given(walk=walks(), off=st.sampled_from([0, 0, 0, -1, 1]), undo=st.booleans())
def test_claims_succeed_exactly_when_the_automaton_says_run(store: Store, walk: Walk, off: int, undo: bool) -> None:
    state = walk.state
    arrived = walk.message(state.dispatch + off)
    undo = arrived.undo if off == 0 else undo
    decision = decide(PLAN, state, arrived, walk.now)
    store.control.create(state, STALE_AFTER)
    claim = store.control.claim_undo if undo else store.control.claim_step
    claimed = claim(state.saga_id, arrived.index, arrived.dispatch, arrived.lease, walk.now)
    assert claimed == (decision.state if runs(decision) else None)
    assert store.control.get(state.saga_id) == (claimed or state)


# Takeover.


def test_a_takeover_needs_token_owner_and_expiry_as_seen(store: Store) -> None:
    seen = claimed(store)
    assert seen.lease is not None
    later = structs.replace(seen, token=seen.token + 1, lease=lease(NOW + 300), lost_until=seen.lease.act_until)
    wrong_token = structs.replace(seen, token=seen.token - 1)
    wrong_owner = structs.replace(seen, lease=lease())
    extended = structs.replace(seen, lease=structs.replace(seen.lease, expires_at=NOW + 1))
    released = structs.replace(seen, lease=None)
    wrong_seq = structs.replace(seen, seq=seen.seq + 1)
    for wrong in (wrong_token, wrong_owner, extended, released, wrong_seq):
        assert not store.control.claim(wrong, later, STALE_AFTER)
        assert store.control.get(seen.saga_id) == seen
    assert store.control.claim(seen, later, STALE_AFTER)
    assert store.control.get(seen.saga_id) == later


def test_a_takeover_loses_against_a_heartbeat(store: Store) -> None:
    seen = claimed(store)
    assert store.control.extend(seen, NOW + 100)
    assert not store.control.claim(seen, structs.replace(seen, token=2, lease=lease()), STALE_AFTER)


def test_a_takeover_whose_answer_was_lost_is_recognised(store: Store) -> None:
    seen = claimed(store)
    mine, theirs = structs.replace(seen, token=2, lease=lease()), structs.replace(seen, token=2, lease=lease())
    assert store.control.claim(seen, mine, STALE_AFTER)
    assert store.control.claim(seen, mine, STALE_AFTER)
    assert not store.control.claim(seen, theirs, STALE_AFTER)


# Cancel and heartbeat.


@pytest.mark.parametrize("status", SagaStatus)
def test_cancel_sets_its_flag_while_it_can_matter(store: Store, status: SagaStatus) -> None:
    state = saga(status)
    store.control.create(state, STALE_AFTER)
    asked = structs.replace(state, cancel=Cancel(NOW, "ann"))
    able = status in (SagaStatus.PENDING, SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.DEAD_LETTERED)
    assert store.control.request_cancel(state, asked) is able
    assert store.control.get(state.saga_id) == (asked if able else state)
    again = structs.replace(asked, cancel=Cancel(NOW, "bob"))
    assert not store.control.request_cancel(state, again)
    assert store.control.get(state.saga_id) == (asked if able else state)


def test_a_heartbeat_extends_its_own_lease_only(store: Store) -> None:
    state = claimed(store)
    assert state.lease is not None
    assert store.control.extend(state, NOW + 100)
    assert store.control.extend(state, NOW + 100)
    extended = structs.replace(state, lease=structs.replace(state.lease, expires_at=NOW + 100))
    assert store.control.get(state.saga_id) == extended
    assert store.control.claim(extended, taken := structs.replace(extended, token=2, lease=lease()), STALE_AFTER)
    assert not store.control.extend(extended, NOW + 200)
    assert store.control.get(state.saga_id) == taken
    with pytest.raises(SagaError, match="held"):
        store.control.extend(structs.replace(state, lease=None), NOW)


def test_progress_is_noted_by_its_lease_holder_until_the_next_commit(store: Store) -> None:
    state = claimed(store)
    assert state.lease is not None
    told = Progress(0.25, "half \u00e9", NOW)
    assert store.control.note_progress(state, told)
    assert store.control.get(state.saga_id) == structs.replace(state, progress=told)
    assert store.control.extend(state, state.lease.expires_at, structs.replace(told, fraction=1.0))
    assert store.control.get(state.saga_id) == structs.replace(state, progress=structs.replace(told, fraction=1.0))
    after = structs.replace(state, seq=state.seq + 1)
    store.control.commit(state, after, STALE_AFTER)
    assert not store.control.note_progress(state, told)
    assert store.control.get(state.saga_id) == after


def test_get_many_returns_those_that_exist(store: Store) -> None:
    states = [saga() for _ in range(103)]
    for state in states:
        store.control.create(state, STALE_AFTER)
    ids = [state.saga_id for state in states]
    assert store.control.get_many([*ids, new_id()]) == dict(zip(ids, states, strict=True))
    assert store.control.get_many([]) == {}


def test_the_dying_message_is_kept(store: Store) -> None:
    state = claimed(store)
    dead = structs.replace(ended(state), status=SagaStatus.DEAD_LETTERED, dead=DeadMessage(1, 2, "id"), attention=NOW)
    store.control.finish(last(state), state, dead, STALE_AFTER, store.journal)
    assert store.control.get(state.saga_id) == dead
