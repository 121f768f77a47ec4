"""What a newer version wrote is left to it: no claim takes it, and who reads it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.core.states import SagaState, SagaStatus
from sagas.errors import FORMAT, NewerFormat
from sagas.store.index.summaries import SagaSummaries
from sagas.store.journal.entries import Entry
from tests.store.conftest import STALE_AFTER, Store
from tests.store.states import NOW, lease, new_id, saga

NEWER = {"N": str(FORMAT + 1)}
Claim = Callable[[Store, SagaState], object]


def _set(store: Store, saga_id: str, path: str, value: dict[str, Any]) -> None:
    """Write an attribute behind the store's back."""
    *before, name = path.split(".")
    place = "".join(f"{part}." for part in before) + "#n"
    store.dynamodb.update_item(
        TableName=store.settings.sagas_table,
        Key={"saga_id": {"S": saga_id}},
        UpdateExpression=f"SET {place} = :v",
        ExpressionAttributeNames={"#n": name},
        ExpressionAttributeValues={":v": value},
    )


def _step(store: Store, state: SagaState) -> object:
    return store.control.claim_step(state.saga_id, 0, state.dispatch, lease(), NOW)


def _undo(store: Store, state: SagaState) -> object:
    return store.control.claim_undo(state.saga_id, 0, state.dispatch, lease(), NOW)


def _take(store: Store, state: SagaState) -> object:
    return store.control.claim(state, replace(state, token=1, lease=lease()), STALE_AFTER)


CLAIMS = pytest.mark.parametrize(
    ("status", "claim"),
    [(SagaStatus.PENDING, _step), (SagaStatus.COMPENSATING, _undo), (SagaStatus.DEAD_LETTERED, _take)],
)


def _created(store: Store, status: SagaStatus = SagaStatus.PENDING) -> SagaState:
    state = saga(status)
    assert store.control.create(state, STALE_AFTER)
    return state


def test_entries_say_their_format(store: Store) -> None:
    saga_id = new_id()
    store.journal.put(Entry(saga_id, 1, NOW, "trip", "SagaStarted", "PENDING", 0))
    item = store.entry(saga_id, 1)
    assert item is not None
    assert item["format"] == {"N": str(FORMAT)}


@CLAIMS
def test_a_control_item_says_its_format_once_it_is_not_the_first(
    store: Store, status: SagaStatus, claim: Claim
) -> None:
    state = _created(store, status)
    assert "format" not in (store.item(state.saga_id) or {})
    assert store.control.get(state.saga_id) == state
    assert claim(store, state)


@CLAIMS
def test_no_claim_takes_what_a_newer_version_wrote(store: Store, status: SagaStatus, claim: Claim) -> None:
    state = _created(store, status)
    _set(store, state.saga_id, "format", NEWER)
    before = store.item(state.saga_id)
    with pytest.raises(NewerFormat, match=state.saga_id):
        claim(store, state)
    assert store.item(state.saga_id) == before


@pytest.mark.parametrize("path", ["status", "steps[1].status"])
def test_a_status_that_nobody_knows_is_a_newer_versions(store: Store, path: str) -> None:
    state = _created(store)
    _set(store, state.saga_id, path, {"S": "HIBERNATING"})
    with pytest.raises(NewerFormat, match=state.saga_id):
        store.control.get(state.saga_id)


def test_what_a_newer_version_wrote_is_read_nowhere(store: Store) -> None:
    state = _created(store)
    _set(store, state.saga_id, "format", NEWER)
    with pytest.raises(NewerFormat):
        store.control.get(state.saga_id)
    with pytest.raises(NewerFormat):
        store.control.get_many([state.saga_id])
    with pytest.raises(NewerFormat):
        SagaSummaries(store.tables, store.settings, store.tombstones).of([state.saga_id])
    assert not store.control.create(state, STALE_AFTER)


@pytest.mark.parametrize("changed", [{"format": NEWER}, {"action": {"S": "StepDreamt"}}])
def test_nor_are_entries(store: Store, changed: dict[str, Any]) -> None:
    entry = Entry(new_id(), 2, NOW, "trip", "StepCompleted", "RUNNING", 1)
    item = store.journal.item(entry) | changed
    store.dynamodb.put_item(TableName=store.settings.audit_table, Item=item)
    for read in (
        lambda: store.journal.entries(entry.saga_id, [2]),
        lambda: store.journal.history(entry.saga_id, up_to=2),
        lambda: store.journal.put(entry),
    ):
        with pytest.raises(NewerFormat, match=f"entry 2 of saga {entry.saga_id}"):
            read()
