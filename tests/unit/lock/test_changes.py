"""Each change since the last release is named, with what becomes of sagas in flight and what to do."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sagas import Exhausted, OrphanSweep, Retry, Saga, children, sleep, step, wait_for
from sagas.authoring.definition.definition import definition_of
from sagas.errors import DefinitionError, InvalidRequest, NotFound
from sagas.lock import content
from sagas.lock.changes import Change, changes
from sagas.lock.content import (
    FORMAT,
    blueprint_in,
    blueprint_of,
    body_of,
    check_size,
    content_of,
    hash_of,
    read,
    text_of,
)
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


class Final(Old, name="trip"):
    """Paying is the point of no return."""

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


class Sweeping(Old, name="trip", orphans=_sweep("trip/")):
    """It owns objects."""


class SweepingElsewhere(Old, name="trip", orphans=_sweep("trips/")):
    """It owns objects under another prefix."""


def compared(old: type[Saga[Any]], *new: type[Saga[Any]]) -> list[Change]:
    return changes(content_of([definition_of(old)]), map(definition_of, new))


def broken(old: type[Saga[Any]], *new: type[Saga[Any]]) -> list[tuple[str, str, str]]:
    return [(one.saga, one.where, one.what) for one in compared(old, *new) if one.breaks]


def test_nothing_changed() -> None:
    assert compared(Old, Old) == []


def test_a_removed_step_is_gone_whatever_it_may_be_called_now() -> None:
    assert broken(Old, Renamed) == [("trip", 'step "pay"', "it is gone")]
    [change] = compared(Old, Renamed)
    assert change.effect == "would be dead-lettered (CodeGone)"
    assert change.todo == "Keep step 'pay' with retired=True, or give the renamed one name='pay'"


def test_a_step_that_waits_under_its_old_name_stops_those_that_come_to_it() -> None:
    [change] = compared(Old, Asking)
    assert str(change) == (
        'trip, step "pay": it is a wait now, and was a step. Sagas in flight would be dead-lettered (TypeChanged).'
    )
    assert change.todo == "Give the new step 'pay' another name, and keep the old step"
    assert broken(Asking, Old) == [("trip", 'step "pay"', "it is a step now, and was a wait")]
    assert broken(Resting, Nothing) == [("trip", 'step "pay"', "it is a step now, and was a wait")]
    assert broken(Asking, Resting) == [
        ("trip", 'step "pay"', "it is a wait for a time now, and was a wait for a signal")
    ]


def test_a_new_field_is_named_with_the_step_that_takes_it() -> None:
    [change] = compared(Old, Priced)
    assert (change.where, change.what) == ("the request, $.price", "a new field without a default")
    assert change.todo == "Give the request, $.price a default"
    assert str(change) == (
        "trip, the request, $.price: a new field without a default. Sagas in flight would be dead-lettered before "
        'step "book" (TypeChanged).'
    )


def order_before_2(old: dict[str, Any]) -> PricedOrder:
    return PricedOrder(old["item"], 0)


class Upcasting(Priced, name="trip", upcast={"request": order_before_2}):
    """Reads old requests."""


def test_a_value_with_an_upcast_stops_no_saga() -> None:
    [change] = compared(Old, Upcasting)
    assert not change.breaks
    assert str(change) == "trip, the request: upcast by order_before_2: not checked."


def test_a_removed_type_and_a_new_one() -> None:
    assert [(one.saga, one.what, one.breaks) for one in compared(Old, Other)] == [("trip", "the type is gone", True)]


def test_policies_and_added_steps_are_no_changes_for_sagas_in_flight() -> None:
    assert compared(Old, Everything) == []
    assert compared(Old, Final) == compared(Final, Old) == []


def test_a_retired_step_may_be_removed() -> None:
    changes = compared(Everything, Renamed)
    assert [str(change) for change in changes if not change.breaks] == [
        'trip, step "pay": it was retired and is gone: make sure that no saga in flight has it.'
    ]
    assert [change.where for change in changes if change.breaks] == ['step "tell"']


def test_another_prefix_loses_objects() -> None:
    [change] = compared(Sweeping, SweepingElsewhere)
    assert not change.breaks
    assert str(change) == ("trip, orphans: the prefix is trips/ now: objects under trip/ are neither found nor swept.")
    assert compared(Old, Sweeping) == []


class Keyed(Old, name="trip", find_by={"item": "$.item"}, redact=["$.pay"]):
    """It is found by its item, and hides a result."""


class Child(Saga[Order], name="child"):
    @step
    def do(self, request: Order) -> int:
        return 1


class Sister(Saga[Order], name="sister"):
    do = Child.do


class Family(Saga[Order], name="family", result="both"):
    @children(Child, Sister, tolerate=1)
    def both(self, request: Order) -> tuple[Order, Order]:
        return request, request

    @children(Child, tolerate=2)
    def many(self, request: Order) -> list[Order]:
        return [request]

    @step
    def use(self, both: tuple[int | None, int | None]) -> None: ...


class Turned(Saga[Order], name="family"):
    """The children changed places, and fewer may fail."""

    @children(Sister, Child, tolerate=1)
    def both(self, request: Order) -> tuple[Order, Order]:
        return request, request

    @children(Child, tolerate=1)
    def many(self, request: Order) -> list[Order]:
        return [request]

    use = Family.use


def test_children_in_another_order_stop_the_step_that_takes_their_results() -> None:
    stop, warning = compared(Family, Turned)
    assert str(stop) == (
        'family, the result of step "both": children (child, sister) are (sister, child) now. Sagas in flight would be '
        'dead-lettered before step "use" (TypeChanged).'
    )
    assert str(warning) == 'family, step "many": it tolerates 1 failed children now, and tolerated 2.'


def test_warnings_about_keys_and_hidden_values() -> None:
    assert [str(change) for change in compared(Keyed, Old)] == [
        'trip, search key "item": it changed: sagas in flight are not found by it.',
        "trip, the hidden value $.pay: it is shown now, but stays hidden in sagas in flight.",
    ]
    assert [str(change) for change in compared(Old, Keyed)] == [
        'trip, search key "item": it changed: sagas in flight are not found by it.'
    ]


def test_the_blueprint_of_a_type() -> None:
    family = blueprint_of(definition_of(Family))
    assert (family["format"], family["saga"], family["version"], family["result"]) == (FORMAT, "family", "1", "both")
    both, many, use = family["steps"]
    assert (both["waits_for"], both["sagas"], both["tolerate"]) == ("children", ["child", "sister"], 1)
    assert (many["sagas"], "sagas" in use) == (["child"], False)
    assert family["request"] == {"$ref": "#/types/Order"}
    pay = blueprint_of(definition_of(Everything))["steps"][1]
    assert (pay["name"], pay["retired"], pay["undo"]) == ("pay", True, [])


def test_the_hash_of_a_blueprint_is_that_of_its_structure() -> None:
    assert re.fullmatch("[A-Za-z0-9_-]{22}", hash_of(blueprint_of(definition_of(Old))))
    hashes = {hash_of(blueprint_of(definition_of(cls))) for cls in (Old, Priced, Asking, Keyed)}
    assert len(hashes) == 4
    assert hash_of({"b": 1, "a": [1]}) == hash_of({"a": [1], "b": 1})
    text = hashlib.sha256(b'{"a":[1],"b":1}').digest()[:16]
    assert hash_of({"a": [1], "b": 1}) == base64.urlsafe_b64encode(text).decode()[:22]


def test_the_file_is_the_same_for_the_same_types_and_can_be_read_back(tmp_path: Path) -> None:
    both = content_of(map(definition_of, (Old, Other)))
    again = content_of(map(definition_of, (Other, Old)))
    assert text_of(both) == text_of(again)
    path = tmp_path / "lock.json"
    path.write_text(text_of(both))
    assert read(path) == both
    assert all(len(line) <= 120 for line in text_of(both).splitlines())


def test_a_change_of_one_field_is_a_change_of_one_line() -> None:
    before = set(text_of(content_of([definition_of(Old)])).splitlines())
    after = set(text_of(content_of([definition_of(Renamed)])).splitlines())
    assert (len(before - after), len(after - before)) == (2, 2), "its step, and the step whose result is the saga's"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a lock file"),
        ('{"format": 2}', "is not a lock file"),
        (
            json.dumps({"format": 1, "sagas": {}}),
            "^lock.json has format 1; this version reads 2. Write it with `sagas check --write`$",
        ),
        (json.dumps({"format": FORMAT, "sagas": {"trip": {"steps": []}}}), "is not a lock file"),
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
    with pytest.raises(AssertionError, match="Pass all saga types of the service to the assertion, also "):
        assert_fits_release(lock=path)


def test_a_blueprint_that_is_too_large_names_its_largest_type(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = definition_of(Family)
    check_size(definition)
    monkeypatch.setattr(content, "LARGEST", 100)
    message = r'saga "family": its types take \d+ bytes, and a blueprint has room for 100; the largest is Order'
    with pytest.raises(DefinitionError, match=message):
        check_size(definition)


def test_a_stored_blueprint_is_read_back_unless_it_was_altered() -> None:
    blueprint = blueprint_of(definition_of(Family))
    assert blueprint_in(body_of(blueprint)) == blueprint
    assert blueprint_in(b"altered") is None
    assert blueprint_in(body_of(blueprint | {"format": FORMAT + 1})) is None
