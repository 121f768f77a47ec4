"""What is stored of a saga type, over every engine there is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from sagas.store.types.streaks import FailedSaga, Streak, Streaks
from tests.store.conftest import CONCURRENT, Store
from tests.store.states import NOW, new_id


@pytest.fixture
def streaks(store: Store) -> Streaks:
    return store.streaks


@pytest.fixture
def name() -> str:
    return f"saga{uuid4().hex}"


def failed(at: float = NOW) -> FailedSaga:
    return FailedSaga(at, new_id())


def stored(streaks: Streaks, name: str) -> Streak:
    return streaks.get(name)


def test_a_type_of_which_nothing_is_stored_has_no_streak(streaks: Streaks, name: str) -> None:
    assert stored(streaks, name) == Streak()


def test_failures_are_kept_in_order_of_time(streaks: Streaks, name: str) -> None:
    late, early = failed(NOW + 1.5), failed(NOW)
    streaks.count(name, late)
    counted = streaks.count(name, early)
    assert counted == stored(streaks, name) == Streak(failures=(early, late))


def test_a_failure_counts_once(streaks: Streaks, name: str) -> None:
    one = failed()
    streaks.count(name, one)
    assert streaks.count(name, one) == Streak(failures=(one,))


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_failures_counted_at_once_all_count(store: Store, name: str) -> None:
    count = 8
    start = threading.Barrier(count)

    def add(one: FailedSaga) -> Streak | None:
        start.wait()
        return store.streaks.count(name, one)

    failures = [failed(NOW + number) for number in range(count)]
    with ThreadPoolExecutor(count) as threads:
        found = list(threads.map(add, failures))
    assert stored(store.streaks, name).failures == tuple(failures)
    assert sorted(len(activity.failures) for activity in found if activity) == list(range(1, count + 1))


def test_failures_can_be_forgotten(streaks: Streaks, name: str) -> None:
    one, other = failed(), failed(NOW + 1)
    streaks.count(name, one)
    streaks.count(name, other)
    streaks.forget_failures(name, [one])
    assert stored(streaks, name).failures == (other,)
    streaks.forget_failures(name, [other])
    assert stored(streaks, name) == Streak()


def test_forgetting_creates_nothing(store: Store, name: str) -> None:
    store.streaks.forget(name)
    store.streaks.forget_failures(name, [failed()])
    store.streaks.forget_failures(name, [])
    assert store.item(f"streak#{name}") is None


def test_starts_are_paused_once(streaks: Streaks, name: str) -> None:
    one, other = failed(), failed(NOW + 1)
    streaks.count(name, one)
    streaks.count(name, other)
    assert streaks.pause(name, NOW + 60, one)
    assert not streaks.pause(name, NOW + 61, other)
    assert stored(streaks, name) == Streak(paused_until=NOW + 60, failures=(one, other))


def test_a_repeated_write_that_meets_itself_counts(streaks: Streaks, name: str) -> None:
    one = failed()
    streaks.count(name, one)
    assert streaks.pause(name, NOW + 60.125, one)
    assert streaks.pause(name, NOW + 60.125, one)


def test_nothing_counts_while_starts_are_paused(streaks: Streaks, name: str) -> None:
    one = failed()
    streaks.count(name, one)
    streaks.pause(name, NOW + 60, one)
    assert streaks.count(name, failed(NOW + 59)) is None
    assert streaks.count(name, failed(NOW + 60)) is not None


def test_a_failure_that_no_longer_counts_pauses_nothing(streaks: Streaks, name: str) -> None:
    one = failed()
    streaks.count(name, one)
    streaks.forget(name)
    assert not streaks.pause(name, NOW + 60, one)
    assert stored(streaks, name) == Streak()


def test_is_under_a_key_of_its_own_and_in_no_index(store: Store, name: str) -> None:
    store.streaks.count(name, failed())
    item = store.item(f"streak#{name}")
    assert item is not None
    assert item.keys() == {"saga_id", "failures"}
