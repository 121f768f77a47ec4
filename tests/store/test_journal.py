"""The journal: write-once slots, entries that come back equal, and large payloads beside it in S3."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sagas.errors import SagaError
from sagas.store.connection import Fenced
from sagas.store.journal.entries import Entry
from sagas.store.journal.journal import Journal, Payloads, prefix_of
from tests.store.conftest import Store
from tests.store.states import NOW, new_id

_LARGE = '"' + "x" * 20_000 + '"'

_fractions = st.floats(1e-100, 1e15)
_numbers = st.integers(-(10**37), 10**37) | _fractions | _fractions.map(lambda number: -number) | st.just(0.0)
_values = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1), inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(st.text(min_size=1), _values, max_size=4)


def entry(saga_id: str | None = None, seq: int = 2, token: int = 1, **more: Any) -> Entry:
    """An entry."""
    saga_id = saga_id or new_id()
    values: dict[str, Any] = {"step": "book", "attempt": 1, "correlation_id": saga_id} | more
    return Entry(saga_id, seq, NOW, "trip", "StepCompleted", "RUNNING", token, **values)


def _stored(store: Store, written: Entry) -> Entry | None:
    return store.journal.entries(written.saga_id, [written.seq]).get(written.seq)


def test_an_entry_comes_back_equal(store: Store) -> None:
    full = entry(trace_id="1-2-3", actor="arn:user/ann", payload='{"number":2}', details={"error": {"type": "E"}})
    bare = Entry(new_id(), 1, NOW, "trip", "SagaStarted", "PENDING", 0)
    for written in (full, bare):
        assert store.journal.put(written) is written
        assert _stored(store, written) == written


@given(details=documents, payload=st.none() | st.text())
def test_details_and_payload_come_back_equal(store: Store, details: dict[str, Any], payload: str | None) -> None:
    written = entry(details=details, payload=payload)
    store.journal.put(written)
    assert _stored(store, written) == written
    assert store.journal.history(written.saga_id, up_to=2) == [written]


@pytest.mark.parametrize(
    "value",
    ["", [], {}, [[]], {"a b": ""}, {"a": {"b": [{"c": None}]}}, 2**53 + 1, 10**30, -0.1, 1e-7, "zürich ✓ \x00"],
)
def test_odd_details_come_back_equal(store: Store, value: Any) -> None:
    written = entry(details={"value": value})
    store.journal.put(written)
    assert _stored(store, written) == written


def test_half_a_character_does_not_keep_an_error_from_being_recorded(store: Store) -> None:
    """A file name that is not UTF-8, quoted in the text of an exception."""
    written = entry(details={"error": {"type": "OSError", "message": "no such file: \udcff"}})
    store.journal.put(written)
    found = _stored(store, written)
    assert found is not None
    assert found.details == {"error": {"type": "OSError", "message": "no such file: \\udcff"}}


def test_a_slot_is_written_once(store: Store) -> None:
    first = entry(payload='"mine"')
    assert store.journal.put(first) is first
    lost_answer = replace(first, payload='"mine"')
    assert store.journal.put(lost_answer) == first
    assert _stored(store, first) == first


def test_a_predecessors_entry_is_adopted(store: Store) -> None:
    earlier = entry(token=1, payload='"theirs"')
    store.journal.put(earlier)
    assert store.journal.put(replace(earlier, token=2, payload='"mine"')) == earlier
    assert _stored(store, earlier) == earlier


def test_a_successors_entry_fences(store: Store) -> None:
    later = entry(token=3, payload='"theirs"')
    store.journal.put(later)
    with pytest.raises(Fenced):
        store.journal.put(replace(later, token=2, payload='"mine"'))
    assert _stored(store, later) == later


def test_an_empty_slot_has_no_occupant(store: Store) -> None:
    with pytest.raises(Fenced):
        store.journal.occupant(entry(), None)


def test_only_the_entries_asked_for_are_read(store: Store) -> None:
    saga_id = new_id()
    written = {seq: entry(saga_id, seq, payload=str(seq)) for seq in range(1, 6)}
    for one in written.values():
        store.journal.put(one)
    assert store.journal.entries(saga_id, [4, 2, 4, 9]) == {2: written[2], 4: written[4]}
    assert store.journal.entries(saga_id, []) == {}


def test_history_ends_with_the_last_committed_entry(store: Store) -> None:
    saga_id = new_id()
    written = [entry(saga_id, seq) for seq in range(1, 12)]
    for one in written:
        store.journal.put(one)
    assert store.journal.history(saga_id, up_to=10) == written[:10]
    assert store.journal.history(saga_id, after=3, up_to=10, limit=2) == written[3:5]
    assert store.journal.history(saga_id, after=9, up_to=10, limit=5) == written[9:10]
    assert store.journal.history(saga_id, after=10, up_to=10) == []
    assert store.journal.history(new_id(), up_to=10) == []


# Large payloads.


def test_the_keys_of_sagas_of_one_moment_begin_in_many_ways() -> None:
    assert len({prefix_of(new_id())[:13] for _ in range(200)}) > 190


def test_a_payload_of_the_last_release_is_read_by_its_entry(store: Store) -> None:
    written = entry(token=7, payload=_LARGE)
    store.journal.put(written)
    [key] = store.payload_keys(written.saga_id)
    old = f"payloads/{written.saga_id}/2/7/abcdef"
    store.s3.copy_object(
        Bucket=store.settings.payload_bucket, Key=old, CopySource=f"{store.settings.payload_bucket}/{key}"
    )
    store.s3.delete_object(Bucket=store.settings.payload_bucket, Key=key)
    store.dynamodb.update_item(
        TableName=store.settings.audit_table,
        Key={"saga_id": {"S": written.saga_id}, "seq": {"N": "2"}},
        UpdateExpression="SET payload_ref = :old",
        ExpressionAttributeValues={":old": {"S": old}},
    )
    [found] = store.journal.history(written.saga_id)
    assert store.journal.load(found).payload == _LARGE


def test_a_large_payload_travels_through_s3(store: Store) -> None:
    written = entry(token=7, payload=_LARGE)
    store.journal.put(written)
    [key] = store.payload_keys(written.saga_id)
    assert re.fullmatch(rf"payloads/[0-9a-f]{{4}}/{written.saga_id}/2/7/[0-9a-f]{{32}}", key)
    item = store.entry(written.saga_id, 2)
    assert item is not None
    assert "payload" not in item
    assert item["payload_ref"] == {"S": key}
    found = _stored(store, written)
    assert found == replace(written, details={"payload_ref": key})
    [told] = store.journal.history(written.saga_id, up_to=2)
    assert told.payload is None
    assert store.journal.load(told).payload == _LARGE


@pytest.mark.parametrize(("letter", "count", "aside"), [("x", 16_382, False), ("x", 16_383, True), ("é", 8_192, True)])
def test_the_limit_counts_bytes(store: Store, letter: str, count: int, aside: bool) -> None:
    written = entry(payload=f'"{letter * count}"')
    store.journal.put(written)
    assert bool(store.payload_keys(written.saga_id)) is aside
    found = _stored(store, written)
    assert found is not None
    assert found.payload == written.payload


def test_a_late_writer_cannot_touch_what_a_newer_entry_points_to(store: Store) -> None:
    newer = entry(token=2, payload=_LARGE)
    store.journal.put(newer)
    with pytest.raises(Fenced):
        store.journal.put(replace(newer, token=1, payload=_LARGE.replace("x", "y")))
    found = _stored(store, newer)
    assert found is not None
    assert found.payload == _LARGE


def test_a_refused_entry_with_the_same_token_leaves_the_payload_alone(store: Store) -> None:
    """Two starts with one idempotency key both write with token 0."""
    first = entry(seq=1, token=0, payload=_LARGE)
    store.journal.put(first)
    landed = store.journal.put(replace(first, payload=_LARGE.replace("x", "y")))
    assert landed.payload == _LARGE
    found = _stored(store, first)
    assert found is not None
    assert found.payload == _LARGE


def test_without_a_bucket_a_large_payload_is_refused(store: Store) -> None:
    journal = Journal(store.tables, Payloads(replace(store.settings, payload_bucket="")))
    small, large = entry(payload='"x"'), entry(payload=_LARGE)
    assert journal.put(small) is small
    with pytest.raises(SagaError, match="bucket"):
        journal.put(large)
    assert store.entry(large.saga_id, 2) is None
