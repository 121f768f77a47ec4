"""A pivot, as it is declared: what it makes of the steps behind it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sagas import DefinitionError, Exhausted, Retry, Saga, children, sleep, step, wait_for
from sagas.authoring.definition.definition import definition_of
from tests.support.sagas import Order

DAY = timedelta(days=1)


class Parcel(Saga[Order], name="pivot-parcel"):
    """A child."""

    @step
    def ship(self) -> None: ...


class Sale(Saga[Order], name="pivot-sale"):
    """Three steps before its pivot, which is the fourth; of each kind one behind it."""

    @step
    def reserve(self) -> str:
        return "reserved"

    @reserve.compensate
    def release(self) -> None: ...

    @step(retired=True)
    def old(self) -> None: ...

    @old.compensate
    def undo_old(self) -> None: ...

    @step(pivot=True)
    def capture(self) -> str:
        return "captured"

    receipt = wait_for(str, timeout=DAY)

    @children(Parcel)
    def parcels(self) -> list[Order]:
        return []

    rest = sleep(DAY)

    @step(retired=True, retry=Retry.constant(on_exhausted=Exhausted.FAIL))
    def earlier(self) -> None: ...

    @earlier.compensate
    def undo_earlier(self) -> None: ...

    @step(retry=Retry.constant(max_retries=1))
    def tell(self) -> None: ...


def test_what_does_not_say_waits_for_an_operator_behind_it() -> None:
    steps = {one.name: one for one in definition_of(Sale).steps}
    assert {name for name, one in steps.items() if one.pivot} == {"capture"}
    assert {name: one.on_exhausted.value for name, one in steps.items()} == {
        "reserve": "COMPENSATE",
        "old": "COMPENSATE",
        "capture": "COMPENSATE",
        "receipt": "DEAD_LETTER",
        "parcels": "DEAD_LETTER",
        "rest": "DEAD_LETTER",
        "earlier": "FAIL",  # new sagas skip it, and those that have it may be from before the pivot
        "tell": "DEAD_LETTER",
    }
    assert (steps["receipt"].on_timeout, steps["parcels"].on_timeout) == (Exhausted.DEAD_LETTER, Exhausted.DEAD_LETTER)


def test_children_that_fail_lead_to_no_undo_behind_it() -> None:
    with pytest.raises(DefinitionError, match=r'step "parcels": on_failed .* after the pivot "capture"'):

        class Wrong(Saga[Order], name="pivot-wrong"):  # pyright: ignore[reportUnusedClass] - it is never made
            @step(pivot=True)
            def capture(self) -> None: ...

            @children(Parcel, on_failed=Exhausted.FAIL)
            def parcels(self) -> list[Order]:
                return []


def test_a_pivot_that_is_retired_leaves_room_for_another() -> None:
    class Moved(Saga[Order], name="pivot-moved"):
        @step(pivot=True, retired=True)
        def capture(self) -> None: ...

        @step
        def reserve(self) -> None: ...

        @reserve.compensate
        def release(self) -> None: ...

        @step(pivot=True)
        def charge(self) -> None: ...

    assert [one.name for one in definition_of(Moved).steps if one.pivot and not one.retired] == ["charge"]
