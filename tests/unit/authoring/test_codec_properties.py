"""decode(encode(x)) == x, for values of every supported type."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas import InvalidRequest
from sagas.authoring.codec import canonical, content_hash, decode, encode, json_schema
from sagas.authoring.shapes.containers import with_whole_numbers

T = TypeVar("T")
Text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
Finite = st.floats(allow_nan=False, allow_infinity=False)
Zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Settings(TypedDict):
    a: int
    b: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclass(frozen=True)
class Address:
    city: str
    zip: int | None = None


@dataclass
class Person:
    name: str
    born: date
    home: Address
    others: list[Address] = field(default_factory=list[Address])


@dataclass(frozen=True)
class Tree:
    value: int
    children: tuple[Tree, ...] = ()


@dataclass
class Card:
    kind: Literal["card"]
    number: str


@dataclass
class Transfer:
    kind: Literal["transfer"]
    iban: str


@dataclass
class Page(Generic[T]):
    items: list[T]
    next: T | None = None


class Model(pydantic.BaseModel):
    name: str
    when: date
    parts: list[Decimal] = []


Addresses = st.builds(Address, Text, st.none() | st.integers())
Trees = st.recursive(
    st.builds(Tree, st.integers()),
    lambda children: st.builds(Tree, st.integers(), st.lists(children, max_size=3).map(tuple)),
    max_leaves=6,
)
Json = st.recursive(
    st.none() | st.booleans() | st.integers() | Finite | Text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(Text, inner, max_size=3),
    max_leaves=8,
)

CASES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "None": (None, st.none()),
    "bool": (bool, st.booleans()),
    "int": (int, st.integers()),
    "float": (float, Finite),
    "str": (str, Text),
    "bytes": (bytes, st.binary(max_size=20)),
    "date": (date, st.dates()),
    "datetime": (datetime, st.datetimes(timezones=st.none() | Zones)),
    "time": (time, st.times(timezones=st.none() | Zones)),
    "timedelta": (timedelta, st.timedeltas()),
    "Decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "UUID": (UUID, st.uuids()),
    "Enum": (Color, st.sampled_from(Color)),
    "IntEnum": (Level, st.sampled_from(Level)),
    "StrEnum": (Size, st.sampled_from(Size)),
    "Literal": (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    "list": (list[int], st.lists(st.integers())),
    "set": (set[Address], st.sets(Addresses)),
    "frozenset": (frozenset[date], st.frozensets(st.dates())),
    "tuple": (tuple[int, str, date], st.tuples(st.integers(), Text, st.dates())),
    "variadic tuple": (tuple[Color, ...], st.lists(st.sampled_from(Color)).map(tuple)),
    "dict": (dict[str, Address], st.dictionaries(Text, Addresses)),
    "dict of ints": (dict[int, str], st.dictionaries(st.integers(), Text)),
    "dict of floats": (dict[float, str], st.dictionaries(Finite, Text)),
    "dict of dates": (dict[date, str], st.dictionaries(st.dates(), Text)),
    "dict of enums": (dict[Color, int], st.dictionaries(st.sampled_from(Color), st.integers())),
    "TypedDict": (Settings, st.fixed_dictionaries({"a": st.integers()}, optional={"b": Text})),
    "NamedTuple": (Point, st.builds(Point, st.integers(), Finite)),
    "dataclass": (Person, st.builds(Person, Text, st.dates(), Addresses, st.lists(Addresses))),
    "recursive dataclass": (Tree, Trees),
    "generic dataclass": (Page[Address], st.builds(Page[Address], st.lists(Addresses), st.none() | Addresses)),
    "union of dataclasses": (
        Card | Transfer | Address,
        st.builds(Card, st.just("card"), Text) | st.builds(Transfer, st.just("transfer"), Text) | Addresses,
    ),
    "union of scalars": (int | float | str | bool | None, st.integers() | Finite | Text | st.booleans() | st.none()),
    "union of dates": (date | timedelta | UUID | None, st.dates() | st.timedeltas() | st.uuids() | st.none()),
    "Any": (Any, Json),
    "object": (object, Json),
    "pydantic": (Model, st.builds(Model, name=Text, when=st.dates(), parts=st.lists(st.decimals(-10, 10), max_size=3))),
}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_a_value_comes_back_as_what_it_was(name: str, data: st.DataObject) -> None:
    type_, strategy = CASES[name]
    value = data.draw(strategy)
    back = decode(json.loads(json.dumps(encode(value, type_))), type_)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("name", CASES)
def test_every_type_has_a_schema(name: str) -> None:
    assert isinstance(json.dumps(json_schema(CASES[name][0])), str)


@given(Json, st.sampled_from([type_ for type_, _ in CASES.values()]))
def test_any_json_is_decoded_or_refused(data: Any, type_: Any) -> None:
    try:
        value = decode(data, type_)
    except InvalidRequest:
        pass  # anything else would be a bug
    else:
        assert decode(encode(value, type_), type_) == value


@given(Json)
def test_canonical_json_reads_the_same(data: Any) -> None:
    written = canonical(data)
    assert json.loads(written) == data
    assert content_hash(json.loads(written)) == content_hash(data)


@given(Json)
def test_canonical_json_is_what_the_walk_that_knows_places_makes(data: Any) -> None:
    plain = with_whole_numbers(encode(data, Any))
    assert canonical(data) == json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
