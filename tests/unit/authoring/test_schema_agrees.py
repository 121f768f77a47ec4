"""What a type's JSON Schema accepts is what the codec decodes, and nothing else.

What JSON Schema cannot say, and the codec refuses: a float too large to be exact where an integer stands, an integer
of more than 4,096 bits, text with half a character, the same key in two spellings, a date that no calendar has.
"""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas import InvalidRequest
from sagas.authoring.codec import decode, encode, json_schema
from tests.unit.authoring.test_codec_properties import CASES, Json, Model

FORMATTED = (date, datetime, time, timedelta, Decimal, UUID, bytes)
Mutant = st.one_of(
    Json,
    st.integers(-3, 3).map(float),
    st.sampled_from([1.0, 2.0, -0.0, 1.5, True, False, 0, 1, "1", "a", "red", "s", [], {}, [1], {"a": 1}, {"a": 1.0}]),
)


def _fits(data: Any, type_: Any) -> bool:
    try:
        decode(data, type_)
    except InvalidRequest:
        return False
    return True


def _validator(type_: Any, *, formats: bool = False) -> jsonschema_rs.Draft202012Validator:
    schema = json_schema(type_)
    assert jsonschema_rs.meta.is_valid(schema)
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=formats)


def _places(data: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in some JSON, as the keys that lead to it."""
    items: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    elif isinstance(data, list):
        items = list(enumerate(data))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [here, *(place for key, item in items for place in _places(item, (*here, key)))]


def _changed(data: Any, place: tuple[Any, ...], change: str, new: Any) -> Any:
    if not place:
        if change == "spell" and isinstance(data, int) and not isinstance(data, bool) and abs(data) < 2**53:
            return float(data)
        if change == "add" and isinstance(data, dict):
            return data | {"more": new}  # pyright: ignore[reportUnknownVariableType]
        return [*data, new] if change == "add" and isinstance(data, list) else new
    first, *rest = place
    copied = data.copy()
    if change == "drop" and not rest:
        del copied[first]
    else:
        copied[first] = _changed(copied[first], tuple(rest), change, new)
    return copied


@st.composite
def _nearly(draw: st.DrawFn, values: st.SearchStrategy[Any], type_: Any) -> Any:
    """The form of a value, changed in one place or not at all."""
    data = json.loads(json.dumps(encode(draw(values), type_)))
    if draw(st.booleans()):
        return data
    place = draw(st.sampled_from(_places(data)))
    change = draw(st.sampled_from(["spell", "replace", "add", "drop"]))
    return draw(Mutant) if change == "drop" and not place else _changed(data, place, change, draw(Mutant))


def _beyond_schemas(data: Any) -> bool:
    """Whether there is a number in it that JSON Schema cannot tell from one that the codec takes."""
    numbers = [item for place in _places(data) if isinstance(item := _at(data, place), float)]
    return any(number.is_integer() and abs(number) >= 2**53 for number in numbers)


def _at(data: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        data = data[key]
    return data


EXACT = [name for name in CASES if name != "pydantic" and not any(word in name for word in ("date", "time", "dates"))]


@pytest.mark.parametrize("name", EXACT)
def test_a_schema_accepts_what_is_decoded(name: str) -> None:
    type_, values = CASES[name]
    validator = _validator(type_)

    @given(_nearly(values, type_) | Json)
    def prove(data: Any) -> None:
        if not _beyond_schemas(data):
            assert validator.is_valid(data) == _fits(data, type_)

    prove()


TEXTS: dict[Any, st.SearchStrategy[str]] = {
    date: st.from_regex(r"\A[0-9]{4}-[01][0-9]-[0-3][0-9]\Z"),
    datetime: st.from_regex(
        r"\A202[0-9]-[01][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?[Zz+-]?\Z"
    ),
    time: st.from_regex(r"\A[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})?\Z"),
    timedelta: st.from_regex(r"\A[+-]?P([0-9]{1,3}[DWY])?(T([0-9]{1,3}(\.[0-9]{1,3})?[HMS]){0,3})?\Z"),
    Decimal: st.from_regex(r"\A[+-]?[0-9]{0,3}\.?[0-9]{0,3}([eE][+-]?[0-9]{1,19})?\Z"),
    UUID: st.uuids().map(str) | st.from_regex(r"\A[0-9a-fA-F]{8}-?([0-9a-f]{4}-){3}[0-9a-fA-F]{12}\Z"),
    bytes: st.text("AQg+/=", max_size=9),
}


@pytest.mark.parametrize("type_", FORMATTED)
def test_texts_of_a_format(type_: Any) -> None:
    """What has pattern and format is decoded, and what is decoded has the pattern; a date without an offset is one."""
    loose, strict = _validator(type_), _validator(type_, formats=True)
    written = CASES[type_.__name__][1].map(lambda value: encode(value, type_))

    @given(written | TEXTS[type_] | st.text(max_size=12))
    def prove(text: str) -> None:
        fits = _fits(text, type_)
        assert loose.is_valid(text) or not fits
        assert fits or not strict.is_valid(text)

    prove()


class Inner(pydantic.BaseModel):
    count: int
    rate: float = 1.0
    word: Literal["a", "b"] = "a"


class Middle(pydantic.BaseModel):
    inner: list[Inner]


class Outer(pydantic.BaseModel):
    middle: Middle | None = None


def test_a_pydantic_model_takes_what_its_schema_accepts() -> None:
    validator = _validator(Outer)
    inner = st.builds(Inner, count=st.integers(-9, 9), rate=st.floats(allow_nan=False, allow_infinity=False))
    values = st.builds(Outer, middle=st.none() | st.builds(Middle, inner=st.lists(inner, max_size=2)))

    @given(_nearly(values, Outer))
    def prove(data: Any) -> None:
        if not _beyond_schemas(data):
            assert validator.is_valid(data) == _fits(data, Outer)

    prove()


@pytest.mark.parametrize("type_", [Outer, Model, *(type_ for type_, _ in CASES.values())])
def test_every_reference_is_defined(type_: Any) -> None:
    assert _validator(type_)
