"""Stored circuit breakers, over every engine there is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from sagas.core.breaker import BreakerState
from sagas.store.breakers import BreakerItems
from tests.store.conftest import Store

STATE = BreakerState(4, 1_800_000_030.125, "saga", 1_800_000_090.5, 1_799_999_999.001, "one")


@pytest.fixture
def items(store: Store) -> BreakerItems:
    return BreakerItems(store.tables)


@pytest.fixture
def step() -> str:
    return f"step{uuid4().hex}"


def test_is_closed_before_it_was_written(items: BreakerItems, step: str) -> None:
    assert items.get("trip", step) == BreakerState()


def test_comes_back_as_it_was_written(items: BreakerItems, step: str) -> None:
    assert items.swap("trip", step, BreakerState(), STATE)
    assert items.get("trip", step) == STATE
    closed = BreakerState(closed_at=STATE.closed_at, revision="two")
    assert items.swap("trip", step, STATE, closed)
    assert items.get("trip", step) == closed


def test_breakers_are_apart(items: BreakerItems, step: str) -> None:
    assert items.swap("trip", step, BreakerState(), STATE)
    assert items.get("other", step) == BreakerState()
    assert items.get("trip", f"{step}x") == BreakerState()


def test_is_under_a_key_of_its_own_and_in_no_index(store: Store, items: BreakerItems, step: str) -> None:
    assert items.swap("trip", step, BreakerState(), STATE)
    item = store.item(f"breaker#trip#{step}")
    assert item is not None
    assert not {"open_shard", "name_shard", "due", "expires_at"} & item.keys()


def test_refuses_what_was_changed_meanwhile(items: BreakerItems, step: str) -> None:
    first = replace(STATE, revision="one")
    assert items.swap("trip", step, BreakerState(), first)
    assert not items.swap("trip", step, BreakerState(), replace(STATE, revision="late"))
    opened = replace(first, open_until=1_800_000_500.0, revision="two")
    assert items.swap("trip", step, first, opened)
    assert not items.swap("trip", step, first, replace(first, open_until=0.0, revision="three"))
    assert items.get("trip", step) == opened, "an opening is never lost"


def test_recognises_its_own_write_whose_answer_was_lost(items: BreakerItems, step: str) -> None:
    assert items.swap("trip", step, BreakerState(), STATE)
    assert items.swap("trip", step, BreakerState(), STATE)


@pytest.mark.parametrize("where", ["emulator", "dynamodb_local"], indirect=True)
def test_has_one_winner(items: BreakerItems, step: str) -> None:
    barrier = threading.Barrier(8)

    def write(number: int) -> bool:
        barrier.wait(10)
        return items.swap("trip", step, BreakerState(), replace(STATE, revision=f"r{number}"))

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert won.count(True) == 1
    assert items.get("trip", step).revision == f"r{won.index(True)}"
