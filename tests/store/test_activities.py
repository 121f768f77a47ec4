"""What is stored of a saga type, over every engine there is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from sagas.store.activities import Activities, Activity, FailedSaga
from tests.store.conftest import CONCURRENT, Store
from tests.store.states import NOW, new_id


@pytest.fixture
def activities(store: Store) -> Activities:
    return store.activities


@pytest.fixture
def name() -> str:
    return f"saga{uuid4().hex}"


def failed(at: float = NOW) -> FailedSaga:
    return FailedSaga(at, new_id())


def stored(activities: Activities, name: str) -> Activity:
    return activities.get(name, fresh=True)


def test_a_type_of_which_nothing_is_stored_is_active(activities: Activities, name: str) -> None:
    assert stored(activities, name) == Activity()


def test_what_an_operator_decided_comes_back(activities: Activities, name: str) -> None:
    decided = Activity(False, "closed", "ann", NOW)
    activities.put(name, decided)
    assert stored(activities, name) == decided


def test_failures_are_kept_in_order_of_time(activities: Activities, name: str) -> None:
    late, early = failed(NOW + 1.5), failed(NOW)
    activities.count_failure(name, late)
    counted = activities.count_failure(name, early)
    assert counted == stored(activities, name) == Activity(failures=(early, late))


def test_a_failure_counts_once(activities: Activities, name: str) -> None:
    one = failed()
    activities.count_failure(name, one)
    assert activities.count_failure(name, one) == Activity(failures=(one,))


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_failures_counted_at_once_all_count(store: Store, name: str) -> None:
    count = 8
    start = threading.Barrier(count)

    def add(one: FailedSaga) -> Activity | None:
        start.wait()
        return store.activities.count_failure(name, one)

    failures = [failed(NOW + number) for number in range(count)]
    with ThreadPoolExecutor(count) as threads:
        found = list(threads.map(add, failures))
    assert stored(store.activities, name).failures == tuple(failures)
    assert sorted(len(activity.failures) for activity in found if activity) == list(range(1, count + 1))


def test_failures_can_be_forgotten(activities: Activities, name: str) -> None:
    one, other = failed(), failed(NOW + 1)
    activities.count_failure(name, one)
    activities.count_failure(name, other)
    activities.forget_failures(name, [one])
    assert stored(activities, name).failures == (other,)
    activities.forget_failures(name, [other])
    assert stored(activities, name) == Activity()


def test_forgetting_creates_nothing(store: Store, name: str) -> None:
    store.activities.forget_failures(name, [failed()])
    store.activities.forget_failures(name, [])
    assert store.item(f"definition#{name}") is None


def test_is_disabled_once(activities: Activities, name: str) -> None:
    one, other = failed(), failed(NOW + 1)
    activities.count_failure(name, one)
    activities.count_failure(name, other)
    assert activities.disable(name, NOW + 60, one)
    assert not activities.disable(name, NOW + 61, other)
    assert stored(activities, name) == Activity(disabled_until=NOW + 60, failures=(one, other))


def test_a_repeated_write_that_meets_itself_counts(activities: Activities, name: str) -> None:
    one = failed()
    activities.count_failure(name, one)
    assert activities.disable(name, NOW + 60.125, one)
    assert activities.disable(name, NOW + 60.125, one)


def test_nothing_counts_while_it_is_disabled(activities: Activities, name: str) -> None:
    one = failed()
    activities.count_failure(name, one)
    activities.disable(name, NOW + 60, one)
    assert activities.count_failure(name, failed(NOW + 59)) is None
    assert activities.count_failure(name, failed(NOW + 60)) is not None
    activities.put(name, Activity(False))
    assert activities.count_failure(name, failed(NOW + 120)) is None


def test_a_failure_that_counts_no_more_disables_nothing(activities: Activities, name: str) -> None:
    one = failed()
    activities.count_failure(name, one)
    activities.put(name, Activity(True, "mended", "ann", NOW))
    assert not activities.disable(name, NOW + 60, one)
    assert stored(activities, name) == Activity(True, "mended", "ann", NOW)


def test_is_under_a_key_of_its_own_and_in_no_index(store: Store, name: str) -> None:
    store.activities.count_failure(name, failed())
    item = store.item(f"definition#{name}")
    assert item is not None
    assert item.keys() == {"saga_id", "failures"}
