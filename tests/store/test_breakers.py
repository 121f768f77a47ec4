"""Stored circuit breakers, over every engine there is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from msgspec.structs import replace

from sagas.core.gates import BreakerState, CountedError
from sagas.store.types.breakers import BreakerItems
from tests.store.conftest import CONCURRENT, Store

NOW = 1_800_000_000.25
ERROR = CountedError("ProviderDown", NOW - 1, "saga", 7)
STATE = BreakerState(4, 1_800_000_030.125, "saga", 1_800_000_090.5, 1_799_999_999.001, 1_799_999_999.5, "one", ERROR)
OPENED = BreakerState(open_until=NOW + 30, opened_at=NOW, revision="opened")


@pytest.fixture
def items(store: Store) -> BreakerItems:
    return BreakerItems(store.tables, store.settings)


@pytest.fixture
def step() -> str:
    return f"step{uuid4().hex}"


def test_is_closed_before_it_was_written(items: BreakerItems, step: str) -> None:
    assert items.get("trip", step) == BreakerState()


def test_comes_back_as_it_was_written(items: BreakerItems, step: str) -> None:
    assert items.swap("trip", step, BreakerState(), STATE) is STATE
    assert items.get("trip", step) == STATE
    closed = BreakerState(closed_at=STATE.closed_at, revision="two")
    assert items.swap("trip", step, STATE, closed) is closed
    assert items.get("trip", step) == closed


def test_breakers_are_apart(items: BreakerItems, step: str) -> None:
    items.swap("trip", step, BreakerState(), STATE)
    assert items.get("other", step) == BreakerState()
    assert items.get("trip", f"{step}x") == BreakerState()


def test_many_are_read_together(items: BreakerItems, step: str) -> None:
    items.swap("trip", step, BreakerState(), STATE)
    places = [("trip", step), ("trip", f"{step}x"), ("other", step)]
    assert items.get_many(places) == dict.fromkeys(places, BreakerState()) | {("trip", step): STATE}
    assert items.get_many([]) == {}


def test_is_under_a_key_of_its_own_and_in_an_index_only_while_it_is_not_closed(
    store: Store, items: BreakerItems, step: str
) -> None:
    items.swap("trip", step, BreakerState(), STATE)
    item = store.item(f"breaker#trip#{step}")
    assert item is not None
    assert (item["open_shard"], item["due"]) == ({"S": "stopped"}, item["open_until"])
    assert not {"name_shard", "incident_shard", "expires_at"} & item.keys()
    items.close("trip", step, NOW, "r2")
    item = store.item(f"breaker#trip#{step}")
    assert item is not None
    assert not {"open_shard", "due"} & item.keys()


def test_refuses_what_was_changed_meanwhile(items: BreakerItems, step: str) -> None:
    first = replace(STATE, revision="one")
    items.swap("trip", step, BreakerState(), first)
    assert items.swap("trip", step, BreakerState(), replace(STATE, revision="late")) == first
    opened = replace(first, open_until=1_800_000_500.0, revision="two")
    items.swap("trip", step, first, opened)
    assert items.swap("trip", step, first, replace(first, open_until=0.0, revision="three")) == opened
    assert items.get("trip", step) == opened, "an opening is never lost"


def test_failures_are_added_while_it_is_closed(items: BreakerItems, step: str) -> None:
    assert items.count("trip", step, 2, ERROR, "a") == BreakerState(failures=2, revision="a", last_error=ERROR)
    assert (
        items.count("trip", step, 1, ERROR, "b")
        == items.get("trip", step)
        == BreakerState(failures=3, revision="b", last_error=ERROR)
    )
    assert items.count("trip", step, 1, ERROR, "b").failures == 3, "the same request once more"
    assert items.forget("trip", step, "c") == BreakerState(revision="c", last_error=ERROR)
    later = replace(ERROR, at=NOW, seq=9)
    assert items.count("trip", step, 1, later, "d") == BreakerState(failures=1, revision="d", last_error=later)


def test_nothing_is_counted_or_forgotten_while_it_is_open(items: BreakerItems, step: str) -> None:
    items.swap("trip", step, BreakerState(), STATE)
    assert items.count("trip", step, 1, replace(ERROR, seq=9), "a") == STATE
    assert items.forget("trip", step, "b") is None
    assert items.get("trip", step) == STATE


def test_is_opened_once_and_by_enough_failures_only(items: BreakerItems, step: str) -> None:
    assert items.open("trip", step, 3, OPENED) is None
    items.count("trip", step, 2, ERROR, "a")
    assert items.open("trip", step, 3, OPENED) is None
    items.count("trip", step, 2, ERROR, "b")
    assert (
        items.open("trip", step, 3, OPENED) == replace(OPENED, failures=4, last_error=ERROR) == items.get("trip", step)
    )
    assert items.open("trip", step, 3, replace(OPENED, open_until=NOW + 60, revision="late")) is None
    assert items.get("trip", step).open_until == NOW + 30


@pytest.mark.parametrize("state", [None, STATE, replace(OPENED, failures=4), BreakerState(failures=2, revision="x")])
def test_is_closed_by_hand_whatever_it_is(items: BreakerItems, step: str, state: BreakerState | None) -> None:
    if state is not None:
        items.swap("trip", step, BreakerState(), state)
    items.close("trip", step, NOW, "closed")
    before = state or BreakerState()
    closed = BreakerState(closed_at=NOW, opened_at=before.opened_at, revision="closed", last_error=before.last_error)
    assert items.get("trip", step) == closed
    assert items.count("trip", step, 1, ERROR, "a").failures == 1


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_has_one_winner(items: BreakerItems, step: str) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> bool:
        barrier.wait(10)
        mine = replace(STATE, revision=f"r{number}")
        return items.swap("trip", step, BreakerState(), mine) is mine

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert won.count(True) == 1
    assert items.get("trip", step).revision == f"r{won.index(True)}"


@pytest.mark.parametrize("where", CONCURRENT, indirect=True)
def test_counts_of_many_at_once_add_up_and_one_opens_it(items: BreakerItems, step: str) -> None:
    barrier = threading.Barrier(8)

    def count(number: int) -> bool:
        barrier.wait(10)
        after = items.count("trip", step, 1, ERROR, f"r{number}")
        return (
            after.closed
            and after.failures >= 5
            and items.open("trip", step, 5, replace(OPENED, revision=f"o{number}")) is not None
        )

    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(count, range(8)))
    assert opened.count(True) == 1
    assert items.get("trip", step).failures >= 5
