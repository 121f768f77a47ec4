"""Which annotations can hold which types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NewType, Protocol, TypedDict

import pytest

from sagas.authoring.context import Context
from sagas.authoring.signatures import can_hold, can_hold_context

UserId = NewType("UserId", str)


class Base: ...


class Child(Base): ...


class Color(Enum):
    RED = "red"


class Small(TypedDict):
    a: int


class Large(TypedDict):
    a: int
    b: int


class HasName(Protocol):
    name: str


YES: list[tuple[Any, Any]] = [
    (int, int),
    (Any, int),
    (object, int),
    (int, Any),
    (float, int),
    (int, bool),
    (date, datetime),
    (Base, Child),
    (HasName, Child),
    (int | None, int),
    (int | None, None),
    (int | str | None, int | None),
    (str, Literal["a", "b"]),
    (Literal["a", "b", "c"], Literal["a", "b"]),
    (Literal["a"] | Literal["b"], Literal["a", "b"]),
    (int | str, Literal["a", 1]),
    (str | None, Literal["a"]),
    (Color, Literal[Color.RED]),
    (list, list[int]),
    (list[float], list[int]),
    (Sequence[Base], list[Child]),
    (Sequence[int], tuple[int, ...]),
    (tuple[int, ...], tuple[int, int]),
    (tuple[float, str], tuple[int, str]),
    (Mapping[str, int], dict[str, int]),
    (Iterable[str], dict[str, int]),
    (dict, Small),
    (Small, Large),
    (Annotated[int, "x"], int),
    (UserId, str),
    (str, UserId),
]

NO: list[tuple[Any, Any]] = [
    (int, str),
    (int, float),
    (str, None),
    (None, int),
    (int, int | None),
    (Child, Base),
    (datetime, date),
    (Literal["a"], str),
    (Literal["a"], Literal["a", "b"]),
    (Literal[1], Literal[True]),
    (int, Literal["a"]),
    (int | None, Literal["a"]),
    (int | None, Literal["a", 1]),
    (list[int], list[str]),
    (list[int], Sequence[int]),
    (set[int], list[int]),
    (Sequence[int], tuple[int, str]),
    (tuple[int, int], tuple[int, ...]),
    (tuple[int], tuple[int, int]),
    (dict[str, int], dict[str, str]),
    (Large, Small),
    (Small, dict[str, int]),
]


@pytest.mark.parametrize(("annotation", "produced"), YES, ids=str)
def test_can_hold(annotation: Any, produced: Any) -> None:
    assert can_hold(annotation, produced)


@pytest.mark.parametrize(("annotation", "produced"), NO, ids=str)
def test_cannot_hold(annotation: Any, produced: Any) -> None:
    assert not can_hold(annotation, produced)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [(Context, True), (Any, True), (HasName, True), (Context | None, True), (str, False), (None, False)],
)
def test_what_can_hold_the_context(annotation: Any, expected: bool) -> None:
    assert can_hold_context(annotation) is expected
