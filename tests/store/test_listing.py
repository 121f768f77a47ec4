"""Lists: by name newest first, and those that need a person, longest waiting first."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sagas.core.states import SagaState, SagaStatus
from sagas.core.text import iso
from sagas.errors import InvalidRequest, Unavailable
from sagas.store.connection import SharedConnection
from sagas.store.index import listing
from sagas.store.index.listing import Alike, IdPage, IndexPosition
from sagas.store.tables import Incident
from tests.store.conftest import SHARDS, STALE_AFTER, Store
from tests.store.states import NOW, new_id, saga


def _started(store: Store, name: str, moments: list[int]) -> list[SagaState]:
    """Sagas of a type, some started in the same millisecond; newest first, as they are to be listed."""
    states = [saga(saga=name, created_at=NOW + moment) for moment in moments]
    for state in states:
        assert store.control.create(state, STALE_AFTER)
    return sorted(states, key=lambda state: (state.created_at, state.saga_id), reverse=True)


def _pages(store: Store, names: list[str], limit: int) -> list[IdPage]:
    pages = [store.listing.by_name(names, limit, None)]
    while pages[-1].cursor:
        pages.append(store.listing.by_name(names, limit, pages[-1].cursor))
        assert len(pages) < 100
    return pages


def _ids(pages: list[IdPage]) -> list[str]:
    return [saga_id for page in pages for saga_id in page.saga_ids]


@given(moments=st.lists(st.integers(0, 2), max_size=14), limit=st.integers(1, 5))
def test_every_saga_is_listed_once_newest_first(store: Store, moments: list[int], limit: int) -> None:
    name = f"type-{new_id()}"
    states = _started(store, name, moments)
    pages = _pages(store, [name], limit)
    assert _ids(pages) == [state.saga_id for state in states]
    assert all(len(page.saga_ids) == limit for page in pages[:-1])


def test_several_types_are_merged(store: Store) -> None:
    one, two = f"one-{new_id()}", f"two-{new_id()}"
    states = _started(store, one, [0, 2, 4]) + _started(store, two, [1, 2, 3])
    expected = sorted(states, key=lambda state: (state.created_at, state.saga_id), reverse=True)
    assert _ids(_pages(store, [one, two], 4)) == [state.saga_id for state in expected]
    assert store.listing.by_name([f"none-{new_id()}"], 5, None) == IdPage([], None)


def test_started_meanwhile_does_not_shift_the_next_page(store: Store) -> None:
    name = f"type-{new_id()}"
    states = _started(store, name, [1, 2, 3, 4])
    first = store.listing.by_name([name], 2, None)
    _started(store, name, [9])
    second = store.listing.by_name([name], 2, first.cursor)
    assert first.saga_ids + second.saga_ids == [state.saga_id for state in states]


ERRORS = (
    "",
    "Declined",
    "Declined#",
    "Declined%23",
    "De",
    "Declined" * 100,
    "Declined" * 101,
    "Über\n",
    "\x7f",
    "\u3042" * 300,
)
"""Types of errors: none, hostile ones, too long ones, and one that another begins with."""


def _wrong(name: str, error: str, moment: int) -> SagaState:
    return saga(SagaStatus.FAILED, saga=name, error_type=error, attention=NOW + moment / 1000)


def _all_of(store: Store, limit: int, kind: Sequence[str]) -> list[str]:
    pages = [store.listing.attention(limit, None, kind)]
    while pages[-1].cursor:
        assert len(pages[-1].cursor) <= listing.LONGEST_CURSOR
        pages.append(store.listing.attention(limit, pages[-1].cursor, kind))
        assert len(pages) < 100
    return _ids(pages)


@given(
    listed=st.lists(st.tuples(st.booleans(), st.sampled_from(ERRORS), st.integers(0, 3)), max_size=12),
    limit=st.integers(1, 5),
    keys=st.integers(1, 3),
    most=st.integers(3, 20),  # no request reads more keys than are counted
)
def test_sagas_are_listed_and_counted_by_what_is_wrong(
    store: Store, listed: list[tuple[bool, str, int]], limit: int, keys: int, most: int
) -> None:
    """Whatever the errors are called, however few keys a request reads, and whichever shards the sagas are in."""
    name = f"trip-{new_id()}"
    states = [_wrong(f"{name}-2" if other else name, error, moment) for other, error, moment in listed]
    for state in [*states, saga(SagaStatus.RUNNING, saga=name), saga(SagaStatus.COMPLETED, saga=name)]:
        assert store.control.create(state, STALE_AFTER)
    ordered = sorted(states, key=lambda state: (Incident.of(state).key, state.saga_id))
    counted = list[Alike]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "_KEYS", keys)
        for one in (name, f"{name}-2"):
            of_type = [state for state in ordered if state.saga == one]
            assert _all_of(store, limit, [one]) == [state.saga_id for state in of_type]
            counted += store.listing.incidents(100, most, [one])
    for kind in {Incident.of(state).kind for state in states}:
        alike = [state for state in ordered if Incident.of(state).kind == kind]
        assert _all_of(store, limit, kind) == [state.saga_id for state in alike]
        first, last = iso(alike[0].attention), iso(alike[-1].attention)
        counted.remove(Alike(kind, first, last, min(len(alike), most)))
    assert counted == []


def test_thousands_alike_are_not_read_to_find_another(fresh: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_KEYS", 10)
    for number in range(120):
        assert fresh.control.create(_wrong("trip", "Declined", number), STALE_AFTER)
    other = _wrong("trip", "Undone", 500)
    assert fresh.control.create(other, STALE_AFTER)
    asked = Requests(monkeypatch)
    many, one = fresh.listing.incidents(10, 20)
    assert (many.kind[3], many.first, many.last, many.count) == ("Declined", iso(NOW), iso(NOW + 0.119), 20)
    assert (one.kind[3], one.first, one.last, one.count) == ("Undone", iso(NOW + 0.5), iso(NOW + 0.5), 1)
    # Of each shard: the first keys, the number, the last key, and the keys after them.
    assert asked.count <= 1 + 4 * SHARDS
    assert _all_of(fresh, 10, one.kind) == [other.saga_id]


def test_no_key_of_the_index_takes_all_that_need_a_person(store: Store) -> None:
    keys = set[str]()
    for _ in range(30):
        state = saga(SagaStatus.FAILED, attention=NOW)
        store.control.create(state, STALE_AFTER)
        keys.add((store.item(state.saga_id) or {})["incident_shard"]["S"])
    assert keys == {str(shard) for shard in range(SHARDS)}


def test_resolved_leaves_the_attention_list(fresh: Store) -> None:
    state = saga(SagaStatus.FAILED, attention=NOW, token=1)
    fresh.control.create(state, STALE_AFTER)
    assert fresh.listing.attention(10, None).saga_ids == [state.saga_id]
    settled = replace(state, attention=0.0, resolution_seq=2, token=2)
    assert fresh.control.claim(state, settled, STALE_AFTER)
    assert fresh.listing.attention(10, None) == IdPage([], None)


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "nonsense",
        "é",
        "!!!!",
        _encoded("{}"),
        _encoded('{"sort":1,"saga_id":""}'),
        _encoded("[1]"),
        _encoded('{"sort":"","saga_id":""}'),
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        IndexPosition.parse(cursor)
    assert [problem.path for problem in caught.value.problems] == ["query.cursor"]


def test_a_cursor_reads_back() -> None:
    place = IndexPosition("2026-11-21T08:44:42.123Z", new_id())
    assert IndexPosition.parse(place.cursor) == place


# Several requests at a time.

_MOMENT = 10.0
"""Seconds that a request waits for the others that are to be under way with it."""


class Requests:
    """The queries that are made: how many, and how many of the first of them meet under way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meeting: int = 0) -> None:
        self.count, self._meeting, self._lock = 0, threading.Barrier(meeting or 1), threading.Lock()
        dispatch: Any = SharedConnection.dispatch

        def counting(connection: SharedConnection, operation: str, request: dict[str, Any]) -> Any:
            if operation == "Query":
                with self._lock:
                    self.count += 1
                    meets = self.count <= meeting
                if meets:
                    self._meeting.wait(_MOMENT)  # raises what breaks the test if they come one after the other
            return dispatch(connection, operation, request)

        monkeypatch.setattr(SharedConnection, "dispatch", counting)


_LISTS: dict[str, tuple[Callable[[Store, str], Any], int]] = {
    "by name": (lambda store, name: store.listing.by_name([name, f"{name}-b", f"{name}-c"], 5, None), 3 * SHARDS),
    "attention": (lambda store, _: store.listing.attention(5, None), SHARDS),
    "due": (lambda store, _: store.listing.due(NOW + 10_000, 5), SHARDS),
    "first due": (lambda store, _: store.listing.first_due(store.listing.due_shards, NOW + 10_000), SHARDS),
}


@pytest.mark.parametrize("of", _LISTS)
def test_shards_are_asked_at_the_same_time(fresh: Store, monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    ask, queries = _LISTS[of]
    name = f"type-{new_id()}"
    for state in _started(fresh, name, [0, 1, 1, 2]) + _started(fresh, f"{name}-c", [0, 1]):
        if state.created_at == NOW:
            assert fresh.control.claim(
                state, replace(state, status=SagaStatus.FAILED, attention=NOW, token=1), STALE_AFTER
            )
    monkeypatch.setattr(listing, "AT_ONCE", 1)
    alone = Requests(monkeypatch)
    expected = ask(fresh, name)
    monkeypatch.undo()
    together = Requests(monkeypatch, meeting=queries)
    assert ask(fresh, name) == expected
    assert together.count == alone.count == queries


def test_a_page_of_many_types_asks_each_shard_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"type-{new_id()}" for _ in range(8)]
    states = _started(store, names[3], [moment % 7 for moment in range(30)])
    seen = Requests(monkeypatch)
    page = store.listing.by_name(names, 20, None)
    assert seen.count == len(names) * SHARDS
    assert page.saga_ids == [state.saga_id for state in states[:20]]


def test_a_list_that_cannot_be_read_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch: Any = SharedConnection.dispatch

    def away(connection: SharedConnection, operation: str, request: dict[str, Any]) -> Any:
        if operation == "Query":
            raise Unavailable("DynamoDB Query: ThrottlingException")
        return dispatch(connection, operation, request)

    monkeypatch.setattr(SharedConnection, "dispatch", away)
    with pytest.raises(Unavailable, match="ThrottlingException"):
        store.listing.by_name(["trip"], 5, None)
