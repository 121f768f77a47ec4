"""What a well declared saga class becomes."""

from __future__ import annotations

import asyncio
import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Generic, Literal, NoReturn, TypedDict, TypeVar

import pytest

from sagas import Context, DefinitionError, Retry, S3Object, Saga, step, wait_for
from sagas.authoring.codec import decode, encode
from sagas.authoring.definition.definition import StepSource, definition_of
from sagas.authoring.policies import DEFAULT_RETRY
from sagas.testing import FakeContext

T = TypeVar("T")


@dataclass(frozen=True)
class Trip:
    city: str


class BookTrip(Saga[Trip]):
    """Books a trip.

    In two steps.
    """

    @step(result="flight", retry=Retry.linear(max_retries=2), timeout=12)
    def book_flight(self, request: Trip) -> str:
        return f"to {request.city}"

    @book_flight.compensate
    def cancel_flight(self, flight: str, ctx: Context) -> None:
        ctx.progress(1.0, f"cancelled {flight}")

    @step(undo_when="started")
    async def book_hotel(self, *, flight: str, ctx: Context) -> int:
        await asyncio.sleep(0)
        return len(flight) + len(self.book_flight(Trip(city=ctx.saga)))

    @book_hotel.compensate(retry=Retry.constant(), timeout=5)
    async def cancel_hotel(self, book_hotel: int | None) -> None: ...

    def helper(self) -> None: ...


def test_a_definition_says_what_was_declared() -> None:
    saga = definition_of(BookTrip)
    assert (saga.name, saga.version, saga.saga_class, saga.request_type) == ("book-trip", "1", BookTrip, Trip)
    assert saga.description == "Books a trip.\n\nIn two steps."
    assert (saga.lock_expiry, saga.stale_after) == (timedelta(minutes=5), timedelta(minutes=2))
    assert [s.name for s in saga.steps] == ["book_flight", "book_hotel"]
    flight, hotel = saga.steps
    assert (flight.result, flight.result_type, flight.timeout) == ("flight", str, 12.0)
    assert (hotel.result, hotel.result_type, hotel.retry) == ("book_hotel", int, DEFAULT_RETRY)


def test_an_undo_takes_its_steps_policies_or_its_own() -> None:
    flight, hotel = definition_of(BookTrip).steps
    assert flight.undo is not None
    assert hotel.undo is not None
    assert (flight.undo.retry, flight.undo.timeout) == (flight.retry, flight.timeout)
    assert (hotel.undo.retry, hotel.undo.timeout) == (Retry.constant(), 5.0)


class Ours(Saga[T], retry=Retry.linear(max_retries=6), undo_retry=Retry.linear(max_retries=9), step_timeout=7):
    """The policies of a service: of all sagas that derive from it."""


class Crate(Ours[Trip], retry=Retry.constant(max_retries=4)):
    """It has a policy of its own for its steps."""

    @step
    def pack(self, request: Trip) -> str:
        return request.city

    @pack.compensate
    def unpack(self) -> None: ...

    @step(retry=Retry.constant(max_retries=1), timeout=3)
    def book(self) -> None: ...

    @book.compensate(retry=Retry.constant(max_retries=2))
    def call_off(self) -> None: ...

    agreed = wait_for(str, timeout=timedelta(days=1))


class Letter(Ours[Trip]):
    """It has those of its base class."""

    @step
    def post(self, request: Trip) -> None: ...


def test_the_nearest_policy_applies() -> None:
    """That of the step, of the class, of a base class, of the library."""
    pack, book, agreed = definition_of(Crate).steps
    assert pack.undo is not None
    assert book.undo is not None
    assert (pack.retry, pack.timeout) == (agreed.retry, agreed.timeout) == (Retry.constant(max_retries=4), 7.0)
    assert (pack.undo.retry, pack.undo.timeout) == (Retry.linear(max_retries=9), 7.0)
    assert (book.retry, book.timeout) == (Retry.constant(max_retries=1), 3.0)
    assert (book.undo.retry, book.undo.timeout) == (Retry.constant(max_retries=2), 3.0)
    (post,) = definition_of(Letter).steps
    assert (post.retry, post.timeout) == (Retry.linear(max_retries=6), 7.0)
    hotel = definition_of(BookTrip).step("book_hotel")
    assert (hotel.retry, hotel.timeout) == (DEFAULT_RETRY, 30.0)


def test_parameters_say_where_their_values_come_from() -> None:
    flight, hotel = definition_of(BookTrip).steps
    assert [(p.name, p.source, p.step) for p in hotel.parameters] == [
        ("flight", StepSource.RESULT, "book_flight"),
        ("ctx", StepSource.CONTEXT, None),
    ]
    assert flight.undo is not None
    assert hotel.undo is not None
    assert [p.optional for p in (*flight.undo.parameters, *hotel.undo.parameters)] == [False, False, True]


def test_steps_are_plain_methods() -> None:
    saga, ctx = BookTrip(), FakeContext(saga="abc")
    assert saga.book_flight(request=Trip("Rome")) == "to Rome"
    assert asyncio.run(saga.book_hotel(flight="x", ctx=ctx)) == 7
    saga.cancel_flight(flight="x", ctx=ctx)
    assert ctx.progressed == [(1.0, "cancelled x")]
    assert saga.book_flight.__name__ == "book_flight"
    assert BookTrip.book_flight(saga, Trip("Rome")) == "to Rome"


def test_a_step_of_a_class_is_a_value() -> None:
    class Sub(BookTrip): ...

    table = {BookTrip.book_flight: 1, Sub.book_flight: 2}
    assert table[BookTrip.book_flight] == 1
    assert table[Sub.book_flight] == 2
    assert (Sub.book_flight.owner, Sub.book_flight.name) == (Sub, "book_flight")
    assert BookTrip.book_flight.owner is BookTrip
    assert BookTrip.book_flight != BookTrip.book_hotel
    assert repr(Sub.book_flight).endswith("Sub.book_flight>")


def test_names_local_to_a_function_are_found() -> None:
    @dataclass
    class Local:
        inner: Inner

    @dataclass
    class Inner:
        when: date

    class Ship(Saga[Local]):
        @dataclass
        class Nested:
            x: int

        @step
        def a(self, request: Local) -> Inner:
            return request.inner

        @step
        def b(self, a: Inner) -> None: ...

    saga = definition_of(Ship)
    assert saga.step("a").result_type is Inner
    value = Local(Inner(date(2026, 1, 2)))
    assert decode(encode(value, Local), Local) == value


def test_types_declared_in_the_class_itself_are_found() -> None:
    class Ship(Saga[Trip]):
        @dataclass
        class Parcel:
            weight: int

        Parcels = list[Parcel]

        @step
        def pack(self, request: Trip) -> Parcel:
            return self.Parcel(len(request.city))

        @step
        def split(self, pack: Ship.Parcel) -> Parcels:
            return [pack]

    class Faster(Ship):
        class Trip:
            """Hides no name of the module from a step that is inherited."""

        @step
        def send(self, split: Ship.Parcels) -> None: ...

    assert [one.result_type for one in definition_of(Faster).steps] == [Ship.Parcel, list[Ship.Parcel], type(None)]


def test_a_step_may_be_wrapped_for_use_elsewhere() -> None:
    class Ship(Saga[Trip]):
        @step
        def pack(self, request: Trip) -> int:
            return len(request.city)

        packed = functools.cache(pack)

    assert [one.name for one in definition_of(Ship).steps] == ["pack"]


def test_steps_of_a_base_come_first_and_overrides_keep_their_place() -> None:
    class Base(Saga[Trip], lock_expiry=timedelta(minutes=9)):
        @step
        def a(self) -> int:
            return 1

        @a.compensate
        def undo_a(self, a: int) -> None: ...

        @step
        def b(self) -> int:
            return 2

    class Mixin:
        @step
        def m(self, request: Trip) -> int:
            return 3

    class Child(Mixin, Base, name="child"):
        @step
        def c(self) -> int:
            return 4

        @step(timeout=7)
        def a(self) -> int:
            return 5

    saga = definition_of(Child)
    assert [s.name for s in saga.steps] == ["a", "b", "m", "c"]
    assert saga.step("a").function(Child()) == 5
    assert saga.step("a").timeout == 7
    undo = saga.step("a").undo
    assert undo is not None
    assert undo.name == "undo_a"
    assert (saga.name, saga.lock_expiry) == ("child", timedelta(minutes=9))
    assert [s.name for s in definition_of(Base).steps] == ["a", "b"]


def test_an_override_may_replace_the_undo() -> None:
    class Base(Saga[Trip]):
        @step
        def a(self) -> int:
            return 1

        @a.compensate
        def undo_a(self) -> None: ...

    class Child(Base):
        @Base.a.compensate
        def undo_better(self, a: int) -> None: ...

    child, base = definition_of(Child).step("a").undo, definition_of(Base).step("a").undo
    assert child is not None
    assert base is not None
    assert (child.name, base.name) == ("undo_better", "undo_a")


def test_a_generic_base_is_read_where_its_type_is_known() -> None:
    class Audited(Saga[T]):
        @step
        def audit(self, request: T) -> list[str]:
            return [str(request)]

    class Book(Audited[Trip], name="book"):
        @step
        def book(self, request: Trip, audit: Sequence[str]) -> None: ...

    with pytest.raises(DefinitionError, match="only as a base"):
        definition_of(Audited)
    assert definition_of(Book).request_type is Trip
    assert definition_of(Book).step("audit").parameters[0].type is Trip


def test_an_abstract_class_is_a_base_only() -> None:
    class Base(Saga[Trip], ABC):
        @step
        @abstractmethod
        def a(self, request: Trip) -> int: ...

    class Child(Base):
        @step
        def a(self, request: Trip) -> int:
            return 1

    with pytest.raises(DefinitionError, match="only as a base"):
        definition_of(Base)
    assert [s.name for s in definition_of(Child).steps] == ["a"]


def test_a_mixin_may_take_its_own_class_keyword() -> None:
    class Flavoured:
        flavour = ""

        def __init_subclass__(cls, *, flavour: str = "", **keywords: Any) -> None:
            super().__init_subclass__(**keywords)
            cls.flavour = flavour

    class Ship(Flavoured, Saga[Trip], name="ship", flavour="mint"):
        @step
        def a(self) -> None: ...

    assert (Ship.flavour, definition_of(Ship).name) == ("mint", "ship")


def test_a_saga_may_be_a_slotted_dataclass() -> None:
    @dataclass(slots=True)
    class Ship(Saga[Trip], name="my-ship"):
        rate: int = 3

        @step
        def a(self, request: Trip) -> int:
            return self.rate

    assert definition_of(Ship).name == "my-ship"
    assert definition_of(Ship).saga_class is Ship
    assert Ship.create().a(request=Trip("x")) == 3


def test_a_step_may_never_return() -> None:
    class Ship(Saga[Trip]):
        @step
        def a(self) -> NoReturn:
            raise ValueError

        @step
        def b(self, a: None) -> None: ...

    assert encode(None, definition_of(Ship).step("a").result_type) is None


def test_retired_steps_stay_with_their_undos() -> None:
    class Ship(Saga[Trip]):
        @step(retired=True)
        def a(self) -> int:
            return 1

        @step(retired=True)
        def b(self, a: int) -> int:
            return a

        @b.compensate
        def undo_b(self, a: int, b: int) -> None: ...

        @step
        def c(self) -> None: ...

    assert [s.retired for s in definition_of(Ship).steps] == [True, True, False]


@pytest.mark.parametrize("thing", [Saga, int, 3, None, Trip])
def test_other_things_have_no_definition(thing: Any) -> None:
    with pytest.raises(DefinitionError):
        definition_of(thing)


class Pair(Generic[T]): ...


class Options(TypedDict):
    fast: bool


@pytest.mark.parametrize(
    ("class_name", "name"),
    [("CreateZip", "create-zip"), ("HTTPProxy", "http-proxy"), ("Zip2", "zip2"), ("A", "a"), ("_Own", "own")],
)
def test_a_name_is_made_from_the_class(class_name: str, name: str) -> None:
    names: dict[str, Any] = {"Saga": Saga, "step": step, "__name__": __name__}
    source = f"class {class_name}(Saga[int]):\n    @step\n    def a(self) -> None: ..."
    exec(source, names)  # noqa: S102 -- the class's name is the test's input
    assert definition_of(names[class_name]).name == name


def test_results_of_many_types_can_be_handed_on() -> None:
    class Ship(Saga[Options]):
        @step
        def a(self, request: Options) -> S3Object | None: ...

        @step
        def b(self, a: object) -> Literal["x", "y"]:
            return "x"

        @step
        def c(self, a: S3Object | None, b: str) -> int:
            return 1

        @step
        def d(self, c: float, ctx: Any) -> tuple[int, str]:
            return (1, "")

        @step
        def e(self, d: Sequence[int | str], c: int | None) -> dict[str, list[int]]:
            return {}

    assert len(definition_of(Ship).steps) == 5
    assert json.dumps(encode(Options(fast=True), definition_of(Ship).request_type)) == '{"fast": true}'
