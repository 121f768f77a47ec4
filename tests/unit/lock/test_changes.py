"""Each change since the last release is named, with what becomes of sagas in flight and what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sagas.authoring.definition.definition import definition_of
from sagas.authoring.policies import Exhausted, OrphanSweep, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.authoring.waits import sleep, wait_for
from sagas.errors import InvalidRequest, NotFound
from sagas.lock.changes import Change, changes
from sagas.lock.content import FORMAT, content_of, read, text_of
from sagas.testing import assert_fits_release

_HALT = Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.FAIL)


@dataclass(frozen=True)
class Order:
    item: str


@dataclass(frozen=True)
class PricedOrder:
    item: str
    price: int


class Old(Saga[Order], name="trip"):
    @step
    def book(self, request: Order) -> int:
        return 1

    @book.compensate
    def unbook(self, book: int) -> None: ...

    @step
    def pay(self, book: int) -> str:
        return "paid"


class Renamed(Saga[Order], name="trip"):
    book = Old.book
    unbook = Old.unbook

    @step
    def charge(self, book: int) -> str:
        return "paid"


class Priced(Saga[PricedOrder], name="trip"):
    @step
    def book(self, request: PricedOrder) -> int:
        return 1

    @book.compensate
    def unbook(self, book: int) -> None: ...

    pay = Old.pay


class Everything(Saga[Order], name="trip"):
    """Changes that sagas in flight can take."""

    @step(undo_when="started")
    def book(self, request: Order) -> int:
        return 1

    @book.compensate
    def unbook(self, book: int | None) -> None: ...

    @step(retry=_HALT, retired=True)
    def pay(self, book: int) -> str:
        return "paid"

    @pay.compensate
    def refund(self) -> None: ...

    @step
    def tell(self, book: int) -> None: ...


class Final(Saga[Order], name="trip"):
    """Paying is the point of no return."""

    book = Old.book
    unbook = Old.unbook

    @step(pivot=True)
    def pay(self, book: int) -> str:
        return "paid"


class Asking(Saga[Order], name="trip"):
    """Paying is a wait: a person says that it is paid."""

    book = Old.book
    unbook = Old.unbook

    @wait_for(str, timeout=timedelta(days=1))
    def pay(self, book: int) -> None: ...


class Resting(Saga[Order], name="trip"):
    """Paying is a wait for a time."""

    book = Old.book
    unbook = Old.unbook
    pay = sleep(timedelta(days=1))


class Nothing(Saga[Order], name="trip"):
    """Paying returns nothing."""

    book = Old.book
    unbook = Old.unbook

    @step
    def pay(self, book: int) -> None: ...


class Other(Saga[Order], name="other"):
    book = Old.book
    unbook = Old.unbook


def _sweep(prefix: str) -> OrphanSweep:
    return OrphanSweep(bucket_env="B", prefix=prefix, min_age=timedelta(days=2), every=timedelta(hours=6))


class Sweeping(Saga[Order], name="trip", orphans=_sweep("trip/")):
    book = Old.book
    unbook = Old.unbook
    pay = Old.pay


class SweepingElsewhere(Saga[Order], name="trip", orphans=_sweep("trips/")):
    book = Old.book
    unbook = Old.unbook
    pay = Old.pay


def compared(old: type[Saga[Any]], *new: type[Saga[Any]]) -> list[Change]:
    return changes(content_of([definition_of(old)]), map(definition_of, new))


def broken(old: type[Saga[Any]], *new: type[Saga[Any]]) -> list[tuple[str, str, str]]:
    return [(one.saga, one.where, one.what) for one in compared(old, *new) if one.breaks]


def test_nothing_changed() -> None:
    assert compared(Old, Old) == []


def test_a_renamed_step_is_told_with_its_likely_new_name() -> None:
    assert broken(Old, Renamed) == [("trip", 'step "pay"', 'was removed, or renamed to "charge"')]
    [change, _] = compared(Old, Renamed)
    assert "CodeGone" in change.effect
    assert "@step(retired=True)" in change.todo


def test_a_value_with_an_upcast_stops_no_saga() -> None:
    class Upcasting(Priced, name="trip", upcast={"request": lambda old: PricedOrder(old["item"], 0)}):
        """Reads old requests."""

    assert broken(Old, Upcasting) == []
    [change] = compared(Old, Upcasting)
    assert (change.where, change.effect) == (
        "the request, $.price",
        "its upcast reads the old form, which is not checked",
    )


def test_a_step_that_waits_under_its_old_name_stops_those_that_come_to_it() -> None:
    for new, kind in ((Asking, "a wait for a signal"), (Resting, "a wait for a time")):
        assert ("trip", 'step "pay"', f"changed from a step to {kind}") in broken(Old, new)
    [change] = compared(Old, Asking)
    assert change.effect == "those that reach it wait for an operator (TypeChanged or CodeGone)"
    assert change.todo.startswith("Give the new step another name, and keep the old one")


def test_a_wait_that_takes_no_signal_any_more_leaves_those_that_wait_there() -> None:
    [change] = compared(Asking, Old)
    assert change.breaks
    assert change.what == "changed from a wait for a signal to a step"
    assert change.effect == "those that wait there no longer accept a signal, and time out"


def test_a_wait_that_is_removed_can_be_retired() -> None:
    [change, *_] = compared(Asking, Renamed)
    assert (change.where, change.what) == ('step "pay"', 'was removed, or renamed to "charge"')
    assert change.todo.startswith("Keep it under its name with retired=True, and deploy it until")


def test_who_sleeps_goes_on_where_nothing_sleeps_any_more() -> None:
    [change] = compared(Resting, Nothing)
    assert not change.breaks
    assert change.effect == "those that wait there continue as before"


def test_a_new_field_is_told_with_who_takes_it() -> None:
    [change] = compared(Old, Priced)
    assert (change.where, change.what) == ("the request, $.price", "a new field without a default")
    assert change.todo == "Give it a default"
    assert str(change) == (
        "trip, the request, $.price: a new field without a default. Sagas in flight: step book cannot take the old "
        "form: such a saga waits for an operator (TypeChanged) until matching code is deployed. Give it a default."
    )


def test_a_removed_type_and_a_new_one() -> None:
    assert [(one.saga, one.what, one.breaks) for one in compared(Old, Other)] == [
        ("trip", "the saga type was removed or renamed", True),
        ("other", "a new saga type", False),
    ]


def test_what_sagas_in_flight_can_take_is_told_and_breaks_nothing() -> None:
    told = compared(Old, Everything)
    assert not any(one.breaks for one in told)
    assert [(one.where, one.what) for one in told] == [
        ('step "book"', "undo_when changed from 'completed' to 'started'"),
        ('step "pay"', "now has an undo"),
        ('step "pay"', "on_exhausted changed from COMPENSATE to FAIL"),
        ('step "pay"', "is now retired"),
        ('step "tell"', "was added"),
    ]


def test_a_pivot_that_moves_is_named_and_breaks_nothing() -> None:
    for old, new, what in ((Old, Final, "is now the pivot"), (Final, Old, "is no longer the pivot")):
        [change] = compared(old, new)
        assert (change.where, change.what, change.breaks) == ('step "pay"', what, False)


def test_a_retired_step_may_be_removed() -> None:
    [change, *_] = compared(Everything, Other, Renamed)
    assert not change.breaks or change.where != 'step "pay"'
    told = {one.where: one.breaks for one in compared(Everything, Renamed)}
    assert told['step "pay"'] is False
    assert told['step "tell"'] is True


def test_another_prefix_loses_objects() -> None:
    assert broken(Sweeping, SweepingElsewhere) == [("trip", "orphans", "the prefix changed to trips/")]
    assert broken(Old, Sweeping) == []


def test_the_file_is_the_same_for_the_same_types_and_can_be_read_back(tmp_path: Path) -> None:
    content = content_of(map(definition_of, (Old, Other)))
    again = content_of(map(definition_of, (Other, Old)))
    assert text_of(content) == text_of(again)
    path = tmp_path / "lock.json"
    path.write_text(text_of(content))
    assert read(path) == content
    assert all(len(line) <= 120 for line in text_of(content).splitlines())


def test_a_change_of_one_field_is_a_change_of_one_line() -> None:
    before = set(text_of(content_of([definition_of(Old)])).splitlines())
    after = set(text_of(content_of([definition_of(Renamed)])).splitlines())
    assert (len(before - after), len(after - before)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a lock file"),
        ('{"format": 1}', "is not a lock file"),
        (json.dumps({"format": FORMAT + 1, "sagas": {}}), "cannot be read"),
    ],
)
def test_what_is_no_lock_file_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "lock.json"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match=told):
        read(path)


def test_no_lock_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="`sagas check --write` creates it"):
        read(tmp_path / "lock.json")


def test_a_test_of_ones_own_can_say_so(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    path.write_text(text_of(content_of([definition_of(Old)])))
    assert_fits_release(Old, lock=path)
    assert_fits_release(Everything, lock=path)
    with pytest.raises(AssertionError, match="a new field without a default"):
        assert_fits_release(Priced, lock=path)
