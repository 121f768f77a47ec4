"""An entry's hashes: the same for the same, however DynamoDB gives it back, and for nothing else."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sagas.engine.clock import SystemClock
from sagas.store.journal.entries import Entry, canonical, chained, details_hash, payload_hash
from tests.store.conftest import Store
from tests.store.states import NOW, new_id
from tests.store.test_journal import documents

SALT, OTHER = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"


def _entry(**more: Any) -> Entry:
    return Entry(new_id(), 2, NOW, "trip", "StepCompleted", "RUNNING", 1, **more)


def test_what_is_hashed_stays_so() -> None:
    """Stored hashes must be found again by every later version."""
    assert payload_hash(SALT, '{"seat":7}') == "TawMH9DfPrVIlpYfKdyw6g"
    assert details_hash(SALT, {"error": {"type": "E", "message": "é"}, "n": 1.50}) == "Gp8M2f3RHKqcRlGNwqBLuQ"
    assert chained("", 2, payload_hash(SALT, "7")) == "8SVAVrHA0khJpNR5MtQdYA"
    assert chained(chained("", 2, "a"), 3, "b") == "AUeOfw0dephCHlArZPWIbg"


def test_a_hash_is_128_bits_without_padding() -> None:
    assert len(base64.urlsafe_b64decode(payload_hash(SALT, "1") + "==")) == 16


def test_each_part_counts() -> None:
    found = [
        payload_hash(SALT, "{}"),
        payload_hash(OTHER, "{}"),
        payload_hash(SALT, "[]"),
        payload_hash("", f"{SALT}{{}}"),
        details_hash(SALT, {}),
        details_hash(OTHER, {}),
        chained(SALT, 1, "{}"),
        chained(SALT, 11, "{}"),
        chained(f"{SALT}1", 1, "{}"),
        chained(SALT, 1, "1{}"),
    ]
    assert len(set(found)) == len(found)


def test_the_order_of_results_counts() -> None:
    one = chained(chained("", 2, "a"), 3, "b")
    assert one != chained(chained("", 3, "b"), 2, "a")
    assert one != chained("", 3, "b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, True, None], "a": {"d": "é", "c": ""}}, '{"a":{"c":"","d":"é"},"b":[1,true,null]}'),
        ([1.0, 100, 1e2, -0.0, 0.1, 10**23, 1e23, 1e-7], "[1,1E+2,1E+2,0,0.1,1E+23,1E+23,1E-7]"),
        (
            (2**53 + 1, 123456789012345678901234567890123456789),
            "[9007199254740993,123456789012345678901234567890123456789]",
        ),
        ("\udcff", '"\\\\udcff"'),
    ],
)
def test_canonical_json(value: Any, text: str) -> None:
    assert canonical(value) == text


@given(details=documents, payload=st.none() | st.text(max_size=30))
def test_what_comes_back_has_the_same_hashes(store: Store, details: dict[str, Any], payload: str | None) -> None:
    written = _entry(details=details, payload=payload, salt=SystemClock().new_salt())
    store.journal.put(written)
    found = store.journal.entries(written.saga_id, [2])[2]
    assert found == written
    assert found.payload_hash == written.payload_hash
    assert details_hash(found.salt, found.details) == details_hash(written.salt, details)


def test_an_entry_stores_its_salt_and_the_hash_of_its_payload(store: Store) -> None:
    bare = _entry(salt=SALT)
    small = _entry(salt=SALT, payload='"x"')
    large = _entry(salt=SALT, payload='"' + "x" * 20_000 + '"')
    for entry in (bare, small, large):
        store.journal.put(entry)
        item = store.entry(entry.saga_id, 2) or {}
        assert item["salt"]["S"] == SALT
        assert item.get("payload_hash", {}).get("S", "") == entry.payload_hash
    assert bare.payload_hash == ""
    assert small.payload_hash
    [told] = store.journal.history(large.saga_id, up_to=2)
    assert store.journal.load(told).payload_hash == large.payload_hash
    assert replace(large, payload=None).payload_hash == ""


def test_salts_are_fresh() -> None:
    salts = {SystemClock().new_salt() for _ in range(100)}
    assert len(salts) == 100
    assert {len(salt) for salt in salts} == {22}
