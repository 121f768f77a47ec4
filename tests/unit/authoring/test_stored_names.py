"""Steps whose stored name is not the method's, steps that are retired, and the functions that read older shapes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pytest

from sagas import DefinitionError, Saga, children, sleep, step, wait_for
from sagas.authoring.definition.definition import definition_of
from sagas.errors import TypeChanged
from sagas.testing import run
from tests.unit.authoring.test_definition_errors import create, saga

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Order:
    """As it is now."""

    item: str
    price: Decimal


@dataclass(frozen=True)
class Seat:
    """A result."""

    code: str


async def later(old: object) -> object:
    return old


def order_before_3(old: dict[str, Any]) -> Order:
    """Read an order from when prices were in cents."""
    return Order(item=old["item"], price=Decimal(old["cents"]) / 100)


class Room(Saga[Order], name="room"):
    """A child."""

    @step
    def rent(self, request: Order) -> Seat:
        return Seat(request.item)


def tomorrow(request: Order) -> datetime:
    """Return when to wake."""
    return datetime(2030, 1, 1, tzinfo=UTC)


class Trip(
    Saga[Order],
    name="trip",
    version="3",
    redact=["$.hold.code"],
    result="hold",
    upcast={"request": order_before_3, "hold": Seat, "rooms": lambda old: [Seat(code) for code in old]},
):
    """Every kind of step under another name, and every kind that is retired."""

    @step(name="hold")
    def reserve(self, request: Order) -> Seat:
        return Seat(request.item)

    @reserve.compensate
    def release(self, reserve: Seat) -> None: ...

    @step(retired=True)
    def insure(self, request: Order) -> str:
        return request.item

    @children(Room, name="rooms")
    def lodge(self, request: Order, reserve: Seat) -> list[Order]:
        return [request]

    consent = wait_for(int, timeout=DAY, name="approval")
    rest = sleep(DAY, name="night")
    old_answer = wait_for(int, timeout=DAY, retired=True)
    old_nap = sleep(DAY, retired=True)
    old_alarm = sleep(until=tomorrow, retired=True)

    @children(Room, retired=True)
    def old_rooms(self, insure: str) -> list[Order]:
        return []

    @wait_for(int, timeout=DAY, retired=True)
    def old_question(self, insure: str) -> None: ...

    @step(name="pay", result="receipt")
    def charge(self, lodge: list[Seat], consent: int) -> str:
        return f"{lodge[0].code} {consent}"

    @charge.compensate
    def refund(self, receipt: str) -> None: ...

    @step
    def tell(self, receipt: str) -> str:
        return receipt


def test_the_stored_name_is_the_steps_and_its_result_has_the_methods() -> None:
    now = [(one.name, one.result) for one in definition_of(Trip).steps if not one.retired]
    assert now == [
        ("hold", "reserve"),
        ("rooms", "lodge"),
        ("approval", "consent"),
        ("night", "rest"),
        ("pay", "receipt"),
        ("tell", "tell"),
    ]
    assert definition_of(Trip).result_step.name == "hold"


def test_waits_and_children_retire_and_keep_what_they_need() -> None:
    retired = [one.name for one in definition_of(Trip).steps if one.retired]
    assert retired == ["insure", "old_answer", "old_nap", "old_alarm", "old_rooms", "old_question"]


def test_strings_stand_for_the_stored_name_and_members_for_the_method() -> None:
    request = Order("train", Decimal(5))
    failing = {"hold": [RuntimeError(), None], "rooms[0].rent": [RuntimeError(), None], "pay": RuntimeError()}
    undone = run(Trip, request, fail=failing, signals={"approval": 7})
    assert undone.status == "COMPENSATED"
    assert undone.steps == {
        "hold": "COMPENSATED",
        "rooms": "COMPENSATED",
        "approval": "COMPLETED",
        "night": "COMPLETED",
        "pay": "FAILED",
        "tell": "PENDING",
    }
    done = run(Trip, request, signals={"approval": 7})
    assert (done.status, done.result) == ("COMPLETED", Seat("train"))
    assert (done.results[Trip.reserve], done.results[Trip.charge], done.results[Trip.consent]) == (
        Seat("train"),
        "train 7",
        7,
    )
    assert [entry.step for entry in done.audit if entry.action == "StepCompleted"] == ["hold", "pay", "tell"]
    for unknown in ("reserve", "charge"):
        with pytest.raises(ValueError, match=f'has no step or undo "{unknown}"'):
            run(Trip, request, fail={unknown: RuntimeError()})
    with pytest.raises(ValueError, match='has no wait "consent"'):
        run(Trip, request, signals={"consent": 7})


def test_a_subclass_inherits_the_stored_name_of_what_it_does_not_replace() -> None:
    class Longer(Trip, name="longer", result="pay", redact=[], upcast={}):
        """Replaces one step, under the name of its method."""

        @step
        def reserve(self, request: Order) -> Seat:
            return Seat("")

    names = [one.name for one in definition_of(Longer).steps if not one.retired]
    assert names == ["reserve", "rooms", "approval", "night", "pay", "tell"]


_B = "@step\ndef b(self) -> int: ...\n"


@pytest.mark.parametrize(
    ("body", "fragments"),
    [
        ("@step(name='Hold')\ndef a(self) -> int: ...", ['step "a"', "'Hold'", "a-z", "40"]),
        ("@step(name='')\ndef a(self) -> int: ...", ['step "a"', "''"]),
        ("@step(name='1a')\ndef a(self) -> int: ...", ['step "a"', "'1a'"]),
        ("@step(name='a-b')\ndef a(self) -> int: ...", ['step "a"', "'a-b'"]),
        (f"@step(name='{'a' * 41}')\ndef a(self) -> int: ...", ['step "a"', "40"]),
        ("@step(name=['x'])\ndef a(self) -> int: ...", ['step "a"', "['x']"]),
        ("@step(name='request')\ndef a(self) -> int: ...", ['step "request"', "reserved"]),
        ("@step(name='ctx')\ndef a(self) -> int: ...", ['step "ctx"', "reserved"]),
        ("@step(name='held')\ndef create(self) -> int: ...", ['"create"', "reserved"]),
        ("@step(name='x')\ndef a(self) -> int: ...\n@step(name='x')\ndef c(self) -> int: ...", ['"a"', '"c"', '"x"']),
        (_B + "@step(name='b')\ndef a(self) -> int: ...", ['"a"', '"b"', "another member"]),
        ("@step(name='x')\ndef a(self) -> int: ...\ndef x(self) -> int: ...", ['"a"', '"x"', "another member"]),
        ("@step(name='create')\ndef a(self) -> int: ...", ['"a"', '"create"', "another member"]),
        ("@step(name='b')\ndef a(self) -> int: ...\n@step(name='c')\ndef b(self) -> int: ...", ['"a"', '"b"']),
        (_B + "@b.compensate\ndef u(self) -> None: ...\nw = sleep(timedelta(1), name='u')", ['"w"', '"u"']),
        ("@step(name='u')\ndef a(self) -> int: ...\n@a.compensate\ndef u(self) -> None: ...", ['"a"', '"u"']),
        (_B + "@step(name='x')\ndef a(self) -> int: ...\n@step(result='a')\ndef c(self) -> int: ...", ['"x"', '"a"']),
        (_B + "@step(name='x')\ndef a(self) -> int: ...\n@step(result='x')\ndef c(self) -> int: ...", ['"c"', '"x"']),
        ("@step(name='x')\ndef a(self) -> int: ...\n@step\ndef c(self, x: int) -> int: ...", ['"x"', 'is called "a"']),
        ("@step\ndef c(self, a: int) -> int: ...\n@step(name='x')\ndef a(self) -> int: ...", ['"x"', "not an earlier"]),
        ("w = wait_for(int, timeout=timedelta(1), retired=True)", ["no steps"]),
        ("w = sleep(timedelta(1), retired=True)\n@step(retired=True)\ndef a(self) -> int: ...", ["only retired"]),
        (_B + "w = sleep(timedelta(1), retired=True)\n@step\ndef c(self, w: None) -> int: ...", ['"w"', "skip"]),
        (_B + "@step(retired='yes')\ndef a(self) -> int: ...", ['"a"', "retired must be True or False, not 'yes'"]),
        (_B + "w = sleep(timedelta(1), retired=None)", ['"w"', "retired must be True or False, not None"]),
    ],
)  # fmt: skip
def test_a_name_that_cannot_be_is_refused(body: str, fragments: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        create(saga(body))
    text = str(caught.value)
    assert all(fragment in text for fragment in ('Ship (saga "ship")', *fragments)), text


@pytest.mark.parametrize(
    ("upcast", "fragments"),
    [
        ({"reserve": order_before_3}, ["'reserve'", "request, hold"]),
        ({"hold": 3}, ["'hold'", "function", "3"]),
        ({"request": None}, ["'request'", "function"]),
        ({"request": later}, ["'request'", "plain function", "later"]),
        ([order_before_3], ["upcast", "dict of functions"]),
    ],
)
def test_an_upcast_that_cannot_be_is_refused(upcast: Any, fragments: list[str]) -> None:
    with pytest.raises(DefinitionError) as caught:

        class Wrong(Saga[Order], upcast=upcast):  # pyright: ignore[reportUnusedClass] -- defining it fails
            """Its upcast is wrong."""

            @step(name="hold")
            def reserve(self, request: Order) -> Seat: ...

    text = str(caught.value)
    assert all(fragment in text for fragment in ("Wrong", "upcast", *fragments)), text


_OLD = {"item": "train", "cents": 250}
_NEW = {"item": "train", "price": "2.5"}


def test_a_stored_value_that_does_not_fit_is_read_by_its_upcast() -> None:
    trip = definition_of(Trip)
    assert trip.stored("request", _OLD) == Order("train", Decimal("2.5"))
    assert trip.stored("hold", "7a") == Seat("7a")
    assert trip.stored("rooms", ["7a", "7b"]) == [Seat("7a"), Seat("7b")]


def _never(old: object) -> Any:
    raise AssertionError


def _returning(value: object) -> dict[str, Callable[[Any], Any]]:
    return {"request": lambda _: value}


def _renamed(old: dict[str, Any]) -> Order:
    return Order(old["item"], old["prize"])


def _reading(upcast: Mapping[str, Callable[[Any], Any]]) -> Callable[[str, Any], Any]:
    class Ship(Saga[Order], upcast=upcast):
        """Takes a request and returns a seat."""

        @step
        def hold(self, request: Order) -> Seat: ...

    return definition_of(Ship).stored


def test_a_value_that_fits_never_reaches_its_upcast() -> None:
    read = _reading({"request": _never, "hold": _never})
    assert read("request", _NEW) == Order("train", Decimal("2.5"))
    assert read("hold", {"code": "7a"}) == Seat("7a")


@pytest.mark.parametrize(
    ("upcast", "told"),
    [
        ({}, "the request no longer matches Order"),
        ({"hold": Seat}, "the request no longer matches Order"),
        ({"request": _renamed}, "its upcast raised KeyError"),
        ({"request": sys.exit}, "its upcast raised SystemExit"),
        (_returning(_OLD), "the request does not match Order after its upcast"),
        (_returning(None), "the request does not match Order after its upcast"),
        (_returning(Seat("7a")), "the request does not match Order after its upcast"),
        (_returning(Order("train", cast("Any", 2))), "the request does not match Order after its upcast: $.price"),
    ],
)
def test_an_upcast_that_fails_leaves_the_value_unread(upcast: dict[str, Callable[[Any], Any]], told: str) -> None:
    with pytest.raises(TypeChanged) as raised:
        _reading(upcast)("request", _OLD)
    assert told in str(raised.value)
