"""Tombstones: what a purge leaves of a saga, and that all else goes."""

from __future__ import annotations

from msgspec import structs
from msgspec.structs import replace

from sagas.core.states import Attempts, Purge, SagaState, SagaStatus, StepState, StepStatus
from sagas.store.index.summaries import SagaSummaries, SagaSummary
from sagas.store.journal.entries import Action, Entry, Tombstone
from tests.store.conftest import STALE_AFTER, Store
from tests.store.states import NOW, lease, new_id, saga
from tests.store.test_journal import entry

_LARGE = '"' + "x" * 20_000 + '"'
_PURGE = Purge(NOW + 100, "arn:user/ann", "asked for")
_DAY = 86_400
SEAL = "s" * 21 + "A"


def _ended(store: Store, *, aside: bool = False) -> SagaState:
    """A saga whose journal has three entries."""
    steps = (
        StepState("book", StepStatus.COMPLETED, Attempts(2), result_seq=2),
        StepState("pay", StepStatus.COMPENSATED, Attempts(1), Attempts(1)),
    )
    state = structs.replace(saga(SagaStatus.COMPENSATED, seq=3, head=b"h" * 32), steps=steps)
    started = {"request_hash": "hash", "version": "1", "steps": [{"name": "book", "undo": False}]}
    first = Entry(state.saga_id, 1, NOW, "trip", "SagaStarted", "PENDING", 0, correlation_id=state.saga_id)
    first = replace(first, details=started, payload=_LARGE if aside else '{"item":"x"}', salt="s" * 22, trace_id="1-2")
    store.journal.put(first)
    store.journal.put(entry(state.saga_id, 2, payload=_LARGE if aside else '"kept"'))
    store.journal.put(entry(state.saga_id, 3, details={"error": {"type": "E", "message": "of ann"}}))
    return state


def _tombstone(state: SagaState, *, aside: bool = False) -> Tombstone:
    actions = (
        Action(1, "SagaStarted", "PENDING", None, None, NOW, "ann", SEAL),
        Action(2, "StepCompleted", "RUNNING", "book", 2, NOW + 1, "worker", SEAL),
    )
    return Tombstone(_PURGE, "hash", state, actions, aside)


def test_a_tombstone_comes_back_equal_in_the_place_of_the_first_entry(store: Store) -> None:
    state = _ended(store)
    store.tombstones.put(state.saga_id, _tombstone(state))
    [found] = store.journal.history(state.saga_id, up_to=1)
    assert found.tombstone == _tombstone(state)
    assert (found.action, found.payload, found.details, found.salt, found.trace_id) == ("SagaStarted", None, {}, "", "")
    assert store.tombstones.get_many([state.saga_id, new_id()]) == {state.saga_id: _tombstone(state)}


def test_the_names_of_objects_come_back_and_none_take_no_room(store: Store) -> None:
    state, plain = _ended(store), _ended(store)
    tombstone = replace(_tombstone(state), objects=(("zips", "a b/é.zip"), ("other", "k")), more_objects=7)
    store.tombstones.put(state.saga_id, tombstone)
    assert store.tombstones.get_many([state.saga_id]) == {state.saga_id: tombstone}
    store.tombstones.put(plain.saga_id, _tombstone(plain))
    item = store.entry(plain.saga_id, 1) or {}
    assert not {"objects", "more_objects"} & item["purge"]["M"].keys()


def test_it_holds_no_lease_and_no_purge_of_its_own(store: Store) -> None:
    state = _ended(store)
    purging = structs.replace(state, lease=lease(), purge=_PURGE)
    store.tombstones.put(state.saga_id, _tombstone(purging))
    assert store.tombstones.get_many([state.saga_id])[state.saga_id].state == state


def test_it_expires_and_nothing_else_does(store: Store) -> None:
    state = _ended(store)
    store.tombstones.put(state.saga_id, _tombstone(state))
    item = store.entry(state.saga_id, 1) or {}
    assert item["expires_at"] == {"N": str(int(NOW) + 100 + 30 * _DAY)}
    assert not {"payload", "payload_ref", "payload_hash", "salt", "trace_id"} & item.keys()
    assert all("expires_at" not in (store.entry(state.saga_id, seq) or {}) for seq in (2, 3))
    shorter = type(store.tombstones)(store.tables, replace(store.settings, key_retention=2.0 * _DAY), store.payloads)
    other = _ended(store)
    shorter.put(other.saga_id, _tombstone(other))
    assert (store.entry(other.saga_id, 1) or {})["expires_at"] == {"N": str(int(NOW) + 100 + 2 * _DAY)}


def test_the_first_tombstone_stays(store: Store) -> None:
    state = _ended(store)
    store.tombstones.put(state.saga_id, _tombstone(state))
    store.tombstones.put(state.saga_id, replace(_tombstone(state), purge=Purge(NOW, "bob", "later"), actions=()))
    assert store.tombstones.get_many([state.saga_id])[state.saga_id] == _tombstone(state)


def test_none_is_made_for_a_saga_that_was_never_started(store: Store) -> None:
    state = saga(SagaStatus.COMPLETED)
    store.tombstones.put(state.saga_id, _tombstone(state))
    assert store.entry(state.saga_id, 1) is None


def test_entries_and_payloads_are_cleared_away_as_often_as_asked(store: Store) -> None:
    state, other = _ended(store, aside=True), _ended(store, aside=True)
    store.payloads.put(state.saga_id, 3, 1, _LARGE)  # its entry was refused
    store.tombstones.put(state.saga_id, _tombstone(state, aside=True))
    for _ in range(2):
        store.tombstones.clear(state.saga_id, [2, 3], aside=True)
        assert store.payload_keys(state.saga_id) == []
        assert [one.seq for one in store.journal.history(state.saga_id)] == [1]
    assert len(store.payload_keys(other.saga_id)) == 2
    assert [one.seq for one in store.journal.history(other.saga_id)] == [1, 2, 3]


def test_more_entries_than_one_request_takes_are_cleared_away(store: Store) -> None:
    saga_id = new_id()
    for seq in range(1, 62):
        store.journal.put(entry(saga_id, seq))
    store.tombstones.clear(saga_id, range(2, 62), aside=False)
    assert [one.seq for one in store.journal.history(saga_id)] == [1]


def test_a_long_audit_trail_keeps_its_end(store: Store) -> None:
    state = _ended(store)
    actions = tuple(Action(seq, "StepFailed", "RUNNING", "book", seq, NOW, "worker", SEAL) for seq in range(1, 1_500))
    store.tombstones.put(state.saga_id, replace(_tombstone(state), actions=actions))
    assert store.tombstones.get_many([state.saga_id])[state.saga_id].actions == actions[-1_000:]


def test_a_sweep_knows_how_a_purged_saga_ended(store: Store) -> None:
    there, purged, nowhere = saga(SagaStatus.COMPLETED), _ended(store), new_id()
    store.control.create(there, STALE_AFTER)
    store.tombstones.put(purged.saga_id, _tombstone(purged))
    found = SagaSummaries(store.tables, store.settings, store.tombstones).of([there.saga_id, purged.saga_id, nowhere])
    assert found == {
        there.saga_id: SagaSummary("trip", SagaStatus.COMPLETED, attention=False, settled_at=NOW, results=(1,)),
        purged.saga_id: SagaSummary("trip", SagaStatus.COMPENSATED, attention=False, settled_at=NOW),
    }
