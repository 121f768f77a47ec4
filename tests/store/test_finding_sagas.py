"""Sagas by their values and by how they ended, counts, and paused sagas: on every engine."""

from __future__ import annotations

from msgspec.structs import replace

from sagas.core.states import Cancel, SagaState, SagaStatus
from sagas.store.control.mapping import ended_shard
from sagas.store.index.listing import IdPage, TimeRange
from sagas.store.index.search_keys import SearchKeys, find_key
from tests.store.conftest import SHARDS, STALE_AFTER, Store
from tests.store.states import NOW, lease, new_id, saga


def _ended(store: Store, name: str, at: float, status: SagaStatus = SagaStatus.COMPLETED) -> SagaState:
    state = saga(status, saga=name, created_at=NOW, updated_at=at, ended_at=at)
    assert store.control.create(state, STALE_AFTER)
    return state


def test_by_how_they_ended_the_last_first(store: Store) -> None:
    name = f"type-{new_id()}"
    states = [_ended(store, name, NOW + second) for second in (1, 3, 2)]
    other = _ended(store, name, NOW + 4, SagaStatus.FAILED)
    newest = [states[1].saga_id, states[2].saga_id, states[0].saga_id]
    first = store.listing.by_end([name], "COMPLETED", 2, None)
    assert first.saga_ids == newest[:2]
    assert store.listing.by_end([name], "COMPLETED", 2, first.cursor) == IdPage(newest[2:], None)
    assert store.listing.by_end([name], "FAILED", 9, None).saga_ids == [other.saga_id]
    within = TimeRange(NOW + 2, NOW + 3)  # its beginning counts, its end does not
    assert store.listing.by_end([name], "COMPLETED", 9, None, within).saga_ids == [states[2].saga_id]


def test_who_goes_on_again_has_not_ended(store: Store) -> None:
    name = f"type-{new_id()}"
    state = _ended(store, name, NOW, SagaStatus.COMPENSATION_FAILED)
    held = replace(state, token=1, lease=lease())
    assert store.control.claim(state, held, STALE_AFTER)
    again = replace(held, status=SagaStatus.COMPENSATING, seq=2, lease=None, ended_at=0.0)
    store.control.commit(held, again, STALE_AFTER)
    assert store.listing.by_end([name], "COMPENSATION_FAILED", 9, None).saga_ids == []
    assert "ended" not in (store.item(state.saga_id) or {})


def test_counts_go_no_further_than_asked(store: Store) -> None:
    name = f"type-{new_id()}"
    for second in range(7):
        _ended(store, name, NOW + second)

    def counted(within: TimeRange, most: int) -> int:
        keys = [ended_shard(name, "COMPLETED", shard) for shard in range(SHARDS)]
        return sum(store.listing.counted("ended", key, "ended_at", within, most) for key in keys)

    assert counted(TimeRange(), 100) == 7
    assert counted(TimeRange(NOW + 5), 100) == 2
    assert counted(TimeRange(NOW, NOW + 5), 100) == 5
    assert counted(TimeRange(), 1) <= SHARDS


def test_by_a_value_and_of_those_by_another(store: Store) -> None:
    name, search_keys = f"type-{new_id()}", SearchKeys(store.tables, store.settings)
    states = [saga(saga=name, created_at=NOW + second) for second in range(3)]
    for state, customer in zip(states, ("c#1", "c#1", "c"), strict=True):
        search_keys.put(state, {"customer": customer, "order": f"o={customer}"})
        search_keys.put(state, {"customer": customer})  # again does no harm
        assert store.control.create(state, STALE_AFTER)
    ids = [state.saga_id for state in states]
    assert store.listing.by_name([find_key(name, "customer", "c#1")], 9, None).saga_ids == [ids[1], ids[0]]
    assert store.listing.by_name([find_key(name, "customer", "c")], 9, None).saga_ids == [ids[2]]
    assert search_keys.having(name, ids, "order", "o=c#1") == {ids[0], ids[1]}
    search_keys.delete(ids[0], ["customer", "order"])
    assert store.listing.by_name([find_key(name, "customer", "c#1")], 9, None).saga_ids == [ids[1]]
    assert store.listing.by_name([name], 9, None).saga_ids == ids[::-1]


def test_parked_until_it_is_sent_on_its_way(store: Store) -> None:
    name = f"type-{new_id()}"
    state = saga(saga=name, deadline=NOW + 500)
    assert store.control.create(state, STALE_AFTER)
    assert store.control.mark_paused(state)
    assert store.control.get(state.saga_id) == replace(state, paused=True)
    assert [one.saga_id for one in store.listing.paused(name, 9)] == [state.saga_id]
    assert store.control.mark_resumed(state, NOW + 60)
    assert not store.control.mark_resumed(state, NOW + 60)
    assert store.listing.paused(name, 9) == []
    assert state.saga_id in [one.saga_id for one in store.listing.due(NOW + 60, 10_000)]


def test_what_ends_a_wait_for_a_release_takes_its_saga_off_the_list(store: Store) -> None:
    """Whether it knew of that wait or not."""
    name = f"type-{new_id()}"

    def listed() -> list[str]:
        return store.listing.attention(9, None, [name, "book", "does_not_fit", "release 7"]).saga_ids

    for stale in (False, True):
        state = saga(saga=name, status=SagaStatus.RUNNING, version="7")
        waiting = replace(state, settling_since=NOW)
        assert store.control.create(state, STALE_AFTER)
        assert store.control.mark_settling(waiting)
        assert listed() == [state.saga_id]
        assert store.control.get(state.saga_id) == waiting
        assert store.control.mark_paused(state if stale else waiting)
        assert listed() == ([state.saga_id] if stale else [])
        assert store.control.mark_resumed(state if stale else waiting, NOW + 60)
        assert listed() == []
        assert store.control.get(state.saga_id) == state
        assert store.control.mark_settling(waiting)
        assert store.control.request_cancel(waiting, replace(waiting, cancel=Cancel(NOW, "ada")))
        assert listed() == []
        assert store.control.get(state.saga_id) == replace(state, cancel=Cancel(NOW, "ada"))


def test_a_saga_that_needs_an_operator_stays_on_the_list_when_it_is_resumed(store: Store) -> None:
    name = f"type-{new_id()}"
    state = saga(saga=name, status=SagaStatus.RUNNING, attention=NOW, unanswered=3)
    assert store.control.create(state, STALE_AFTER)
    assert store.control.mark_paused(state)
    assert store.control.mark_settling(replace(state, settling_since=NOW))
    assert store.control.mark_resumed(replace(state, paused=True, settling_since=NOW), NOW + 60)
    assert store.listing.attention(9, None, [name, "book", "no_response"]).saga_ids == [state.saga_id]


def test_nobody_parks_what_is_held_or_has_changed(store: Store) -> None:
    state = saga()
    assert store.control.create(state, STALE_AFTER)
    held = replace(state, token=1, lease=lease())
    assert store.control.claim(state, held, STALE_AFTER)
    assert not store.control.mark_paused(state)
    assert not store.control.mark_paused(held)


def test_any_write_of_the_state_takes_a_parked_saga_out(store: Store) -> None:
    name = f"type-{new_id()}"
    state = saga(saga=name)
    assert store.control.create(state, STALE_AFTER)
    assert store.control.mark_paused(state)
    parked = store.control.get(state.saga_id)
    assert parked is not None
    assert store.control.claim(parked, replace(parked, token=1, lease=lease()), STALE_AFTER)
    assert store.listing.paused(name, 9) == []
