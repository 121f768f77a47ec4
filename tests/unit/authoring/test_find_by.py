"""What a class may say its sagas are found by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Literal, TypedDict
from uuid import UUID

import pytest

from sagas import Saga, step
from sagas.authoring.definition.definition import definition_of
from sagas.authoring.redaction import Secret
from sagas.authoring.search_keys import RESERVED
from sagas.errors import DefinitionError


class Kind(StrEnum):
    A = "a"


class Inner(TypedDict):
    id: int
    tags: list[str]


@dataclass(frozen=True)
class Order:
    customer: str
    inner: Inner
    maybe: Inner | None
    ref: UUID
    day: date
    kind: Kind
    size: Literal["s", "l"] | None
    price: float
    pin: Secret[str]
    card: str
    free: Any
    on: bool


def declare(find_by: Any) -> Any:
    class Found(Saga[Order], name="found", find_by=find_by, redact=("$.request.card",)):
        @step
        def go(self, request: Order) -> None: ...

    return definition_of(Found).find_by


@pytest.mark.parametrize(
    "path", ["$.customer", "$.inner.id", "$.maybe.id", "$.ref", "$.day", "$.kind", "$.size", "$.on"]
)
def test_texts_whole_numbers_and_booleans_are_found_by(path: str) -> None:
    (one,) = declare({"it": path})
    assert "$." + ".".join(one.path) == path


def test_values_as_texts() -> None:
    number, flag, text = declare({"number": "$.inner.id", "flag": "$.on", "text": "$.customer"})
    assert number.value({"inner": {"id": 7}}) == "7"
    assert flag.value({"on": True}) == "true"
    assert text.value({"customer": "c"}) == "c"
    assert [one.value({"inner": None}) for one in (number, flag, text)] == [None, None, None]


@pytest.mark.parametrize(
    ("find_by", "told"),
    [
        ({"a": "$.nothing"}, "has no 'nothing' in $"),
        ({"a": "$.inner.name"}, "has no 'name' in $.inner"),
        ({"a": "$.inner"}, "is object"),
        ({"a": "$.inner.tags"}, "is array"),
        ({"a": "$.price"}, "is number"),
        ({"a": "$.free"}, "is anything"),
        ({"a": "customer"}, "'customer' is not a path; write one like $.customer.id"),
        ({"a": "$.inner..id"}, "is not a path"),
        ({"a": "$"}, "is not one value"),
        ({"a": "$.inner.tags[*]"}, "is not one value"),
        ({"a": "$.on[0]"}, "has no '[0]' in $.on"),
        ({"a": "$.pin"}, "is redacted"),
        ({"a": "$.card"}, "is redacted"),
        ({"A": "$.customer"}, "a name has"),
        ({"status": "$.customer"}, "a parameter of this name"),
        ({f"n{n}": "$.customer" for n in range(5)}, "at most 4"),
        ({"a": 1}, "find_by must be a dict"),
        (["$.customer"], "find_by must be a dict"),
    ],
)
def test_anything_else_is_an_error_of_the_class_that_names_it(find_by: Any, told: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        declare(find_by)
    assert told in str(raised.value)
    assert 'Found (saga "found")' in str(raised.value)


def test_no_list_is_asked_by_a_name_in_two_ways() -> None:
    from sagas.handlers.http import sagas

    assert set(sagas._LISTED_BY) <= RESERVED  # pyright: ignore[reportPrivateUsage]
