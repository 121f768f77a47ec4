"""Two schemas compared: what is said to fit is read by the code, and what is said not to fit, is not."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import pytest

from sagas.authoring.codec import decode, encode, json_schema
from sagas.errors import InvalidRequest
from sagas.lock.fitting import Misfit, Types, misfits


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class MoreColors(enum.Enum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


@dataclass(frozen=True)
class One:
    a: int


@dataclass(frozen=True)
class OneText:
    a: str


@dataclass(frozen=True)
class WithDefault:
    a: int
    b: str = ""


@dataclass(frozen=True)
class Without:
    a: int
    b: str


@dataclass(frozen=True)
class Outer:
    inner: One
    many: list[One] = field(default_factory=list[One])


@dataclass(frozen=True)
class OuterWithDefault:
    inner: WithDefault
    many: list[WithDefault] = field(default_factory=list[WithDefault])


@dataclass(frozen=True)
class OuterWithout:
    inner: Without
    many: list[Without] = field(default_factory=list[Without])


@dataclass(frozen=True)
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list["Tree"])


@dataclass(frozen=True)
class WideTree:
    name: str
    children: list[WideTree] = field(default_factory=list["WideTree"])
    reason: str | None = None


@dataclass(frozen=True)
class NumberedTree:
    name: int
    children: list[NumberedTree] = field(default_factory=list["NumberedTree"])


@dataclass(frozen=True)
class Chain:
    a: int
    next: Chain | None = None


@dataclass(frozen=True)
class WideChain:
    a: int
    next: WideChain | None = None
    b: str = ""


@dataclass(frozen=True)
class TextChain:
    a: str
    next: TextChain | None = None


class Links(NamedTuple):
    x: int
    next: Links | None = None


class Loose(TypedDict):
    a: int
    b: NotRequired[str]


class Pair(NamedTuple):
    x: int
    y: int = 0


SAMPLES: list[tuple[Any, list[Any]]] = [
    (int, [0, 7, -3]),
    (float, [0.5, 1.0]),
    (bool, [True, False]),
    (str, ["", "x"]),
    (None, [None]),
    (int | None, [1, None]),
    (int | str, [1, "x"]),
    (float | None, [0.5, None]),
    (Decimal, [Decimal("1.50")]),
    (UUID, [UUID(int=1)]),
    (date, [date(2026, 1, 2)]),
    (datetime, [datetime(2026, 1, 2, 3, 4)]),
    (timedelta, [timedelta(hours=2)]),
    (bytes, [b"\x00\xff"]),
    (Color, list(Color)),
    (MoreColors, list(MoreColors)),
    (Literal["red"], ["red"]),
    (Literal[1, 2], [1, 2]),
    (list[int], [[], [1, 2, 3]]),
    (list[float], [[], [1.5]]),
    (set[int], [set[int](), {1, 2}]),
    (tuple[int, int], [(1, 2)]),
    (tuple[int, str], [(1, "x")]),
    (tuple[int, ...], [(), (1, 2, 3)]),
    (Pair, [Pair(1), Pair(1, 2)]),
    (dict[str, int], [{}, {"a": 1}, {"zz": 1}]),
    (dict[int, int], [{}, {1: 1}]),
    (dict[str, Any], [{}, {"a": [1]}, {"b": "x"}]),
    (Mapping[str, int], [{}, {"a": 1}]),
    (Any, [None, 1, "x", [1], {"a": 1}]),
    (One, [One(1)]),
    (OneText, [OneText("x")]),
    (WithDefault, [WithDefault(1), WithDefault(1, "x")]),
    (Without, [Without(1, "x")]),
    (Outer, [Outer(One(1)), Outer(One(1), [One(2)])]),
    (OuterWithDefault, [OuterWithDefault(WithDefault(1), [WithDefault(2)])]),
    (OuterWithout, [OuterWithout(Without(1, "x"))]),
    (One | None, [One(1), None]),
    (One | OneText | None, [One(1), OneText("x"), None]),
    (Tree, [Tree("a"), Tree("a", [Tree("b", [Tree("c")])])]),
    (WideTree, [WideTree("a", [WideTree("b")]), WideTree("a", reason="x")]),
    (NumberedTree, [NumberedTree(1, [NumberedTree(2)])]),
    (Chain, [Chain(1), Chain(1, Chain(2, Chain(3)))]),
    (Links, [Links(1), Links(1, Links(2))]),
    (WideChain, [WideChain(1, WideChain(2, b="x"))]),
    (TextChain, [TextChain("x", TextChain("y"))]),
    (Loose, [{"a": 1}, {"a": 1, "b": "x"}]),
]


def compared(old: Any, new: Any) -> list[Misfit]:
    was, now = json_schema(old), json_schema(new)
    return misfits(was, now, Types(was.pop("$defs", {}), now.pop("$defs", {})))


def read(old: Any, value: Any, new: Any) -> bool:
    try:
        decode(encode(value, old), new)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize(("old", "values"), SAMPLES, ids=lambda one: str(one)[:40])
def test_it_says_what_the_code_does(old: Any, values: list[Any]) -> None:
    """Of every type as every other: what fits is read; what does not, fails with some value of the samples."""
    for new, _ in SAMPLES:
        told = compared(old, new)
        every = all(read(old, value, new) for value in values)
        assert every or told, (old, new)
        if every and told:
            assert (old, new) in _KNOWN_TO_BE_STRICT, (old, new, told)


_KNOWN_TO_BE_STRICT: list[tuple[Any, Any]] = [
    (WithDefault, Without),
    (OuterWithDefault, OuterWithout),
    (Pair, tuple[int, int]),
]
"""A default that is gone: a dataclass writes every field, but a request may come without it."""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (One, Without, [Misfit("$.b", "a new field without a default")]),
        (WithDefault, Without, [Misfit("$.b", "no longer has a default")]),
        (WithDefault, One, [Misfit("$.b", "was removed, and values that have it are refused")]),
        (One, OneText, [Misfit("$.a", "changed from an integer to string")]),
        (One, WithDefault, []),
        (
            Outer,
            OuterWithout,
            [
                Misfit("$.inner.b", "a new field without a default"),
                Misfit("$.many[].b", "a new field without a default"),
            ],
        ),
        (One | None, Without | None, [Misfit("$.b", "a new field without a default")]),
        (MoreColors, Color, [Misfit("$", "'green' is no longer allowed")]),
        (str, Color, [Misfit("$", "changed from string to one of 'red', 'blue'")]),
        (str, date, [Misfit("$", "changed from string to string (date)")]),
        (date, datetime, [Misfit("$", "changed from string (date) to string (date-time)")]),
        (int, str, [Misfit("$", "changed from an integer to string")]),
        (None, One, [Misfit("$", "changed from null to an object")]),
        (int | None, int, [Misfit("$", "changed from null to an integer")]),
        (Tree, NumberedTree, [Misfit("$.name", "changed from string to an integer")]),
        (Tree, WideTree, []),
        (Chain, WideChain, []),
        (Chain, TextChain, [Misfit("$.a", "changed from an integer to string")]),
        (dict[str, int], dict[int, int], [Misfit("$", "the type of its keys changed")]),
        (
            dict[str, int],
            One,
            [Misfit("$.a", "a new field without a default"), Misfit("$", "no longer allows other fields")],
        ),
        (
            tuple[int, ...],
            Pair,
            [Misfit("$", "maxItems changed from unlimited to 2"), Misfit("$", "minItems changed from unlimited to 1")],
        ),
    ],
)
def test_it_names_the_place_and_what_changed(old: Any, new: Any, found: list[Misfit]) -> None:
    assert compared(old, new) == found


def test_pydantics_models() -> None:
    pydantic = pytest.importorskip("pydantic")
    old = pydantic.create_model("Order", item=(str, ...), count=(int, 1))
    new = pydantic.create_model("Order", item=(str, ...), count=(int, 1), price=(float, ...))
    wider = pydantic.create_model("Order", item=(str | None, None), count=(float, 1))
    assert compared(old, new) == [Misfit("$.price", "a new field without a default")]
    assert compared(old, wider) == []
    narrow = pydantic.create_model("Order", item=(str, pydantic.Field(max_length=3)), count=(int, 1))
    assert compared(old, narrow) == [Misfit("$.item", "maxLength changed from unlimited to 3")]
    assert compared(narrow, old) == []
