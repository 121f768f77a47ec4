"""The number of shards is raised, and lowering it loses nothing."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from sagas.core.states import SagaStatus
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import shard_of
from sagas.store.index.listing import Listing
from sagas.store.index.shards import Shards
from tests.store.conftest import STALE_AFTER, Store
from tests.store.states import NOW, saga

LATER = NOW + 100_000


def _deployed(store: Store, shards: int) -> tuple[Listing, ControlItems]:
    """What a function has of a deployment with that many shards."""
    settings = replace(store.settings, shards=shards)
    return Listing(store.tables, settings), ControlItems(store.tables, settings)


def _due(listing: Listing) -> set[str]:
    return {one.saga_id for one in listing.due(LATER, 1_000)}


@pytest.mark.parametrize(("first", "then"), [(8, 2), (2, 8)])
def test_every_saga_is_found_under_another_number_of_shards(fresh: Store, first: int, then: int) -> None:
    before, control = _deployed(fresh, first)
    assert before.shards.note() == first
    running = [saga() for _ in range(40)]
    waiting = [saga(SagaStatus.FAILED, attention=NOW) for _ in range(20)]
    for state in running + waiting:
        assert control.create(state, STALE_AFTER)

    after, control = _deployed(fresh, then)
    assert after.shards.note() == 8
    assert _due(after) == {state.saga_id for state in running}
    used = {str(shard_of(state.saga_id, first)) for state in running}
    firsts = zip(after.due_shards, after.first_due(after.due_shards, LATER), strict=True)
    assert {shard for shard, one in firsts if one is not None} == used
    assert set(after.by_name(["trip"], 100, None).saga_ids) == {state.saga_id for state in running + waiting}
    assert set(after.attention(100, None).saga_ids) == {state.saga_id for state in waiting}

    for state in running:
        ended = structs.replace(state, status=SagaStatus.COMPLETED, token=1)
        assert control.claim(state, ended, STALE_AFTER)
    assert _due(after) == set()


def test_the_highest_number_is_kept(fresh: Store) -> None:
    assert [_deployed(fresh, shards)[0].shards.note() for shards in (4, 2, 6, 3, 6)] == [4, 4, 6, 6, 6]


def test_two_deployments_that_note_at_once_keep_the_higher(fresh: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is beaten to it between its look and its note."""
    slow, fast = _deployed(fresh, 4)[0].shards, _deployed(fresh, 9)[0].shards
    stored = slow._stored  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(slow, "_stored", lambda: (stored(), fast.note())[0])
    slow.note()
    monkeypatch.undo()
    assert slow.note() == 9


def test_a_list_asks_for_the_number_once_a_minute(fresh: Store) -> None:
    now = [0.0]
    here = Shards(fresh.tables, replace(fresh.settings, shards=2), lambda: now[0])
    assert here.number() == 2
    assert _deployed(fresh, 5)[0].shards.note() == 5
    assert here.number() == 2
    now[0] += 60
    assert here.number() == 5
