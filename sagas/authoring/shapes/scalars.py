"""Scalars: those of JSON, types that are encoded as strings, enums and literals."""

from __future__ import annotations

import base64
import math
import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, cast
from uuid import UUID

import msgspec

from sagas.authoring.shapes.base import (
    JsonType,
    Path,
    Problems,
    SchemaDefinitions,
    Shape,
    UnsupportedType,
    json_type_of,
)

MAX_INTEGER_BITS = 4_096
"""Python does not convert larger integers to text, because its limit is 4,300 digits."""

_LARGEST = int(sys.float_info.max)
_EXACT = 2.0**53
"""From this integer on, floats cannot represent every integer."""

_SURROGATE = "has a lone surrogate, which UTF-8 cannot encode"


def has_surrogate(text: str) -> bool:
    """Whether ``text`` cannot be encoded as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def whole(data: object) -> int | None:
    """Return a JSON number as an integer; ``None`` if it is not an integer.

    ``1.0`` is an integer, as in JSON Schema. Floats from 2**53 on are not integers, because they are no longer exact.
    """
    if isinstance(data, float) and data.is_integer() and abs(data) < _EXACT:
        return int(data)
    return data if isinstance(data, int) and not isinstance(data, bool) else None


class Null(Shape):
    """None."""

    label = "null"
    json_types = frozenset({"null"})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if value is not None:
            self.expected(at, problems, value)

    decode = encode

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "null"}

    def holds(self, value: Any) -> bool:
        return value is None


class Boolean(Shape):
    """A bool; never a number."""

    label = "a boolean"
    json_types = frozenset({"boolean"})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(value, bool):
            self.expected(at, problems, value)
        return value

    decode = encode

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "boolean"}

    def holds(self, value: Any) -> bool:
        return isinstance(value, bool)


class Integer(Shape):
    """An int with up to ``MAX_INTEGER_BITS``; never a bool. ``1.0`` is decoded as an int, but never encoded."""

    label = "an integer"
    json_types = frozenset({"integer"})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        """Return the int. A member of an IntEnum becomes a plain int."""
        if type(value) is not int and not self.holds(value):
            return self.expected(at, problems, value)
        if value.bit_length() > MAX_INTEGER_BITS:
            return problems.add(at, f"an integer of more than {MAX_INTEGER_BITS} bits")
        return int(value)

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        number = data if type(data) is int else whole(data)
        return self.encode(data if number is None else number, at, problems)

    def accepts(self, data: Any) -> bool:
        return whole(data) is not None

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "integer"}

    def holds(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)


class Float(Shape):
    """A finite float; an int is accepted, too."""

    label = "a number"
    json_types = frozenset({"integer", "number"})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if type(value) is not float and not self.holds(value):
            return self.expected(at, problems, value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            return problems.add(at, "expected a finite number")
        if number != value and problems.reads_back:
            return problems.add(at, "an integer that a float cannot represent")
        return number

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        number = float(data) if type(data) is int and -_LARGEST <= data <= _LARGEST else data
        return self.encode(number, at, problems)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "number"}

    def holds(self, value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)


class String(Shape):
    """A str that UTF-8 can encode."""

    label = "a string"
    json_types = frozenset({"string"})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        """Return the str. A member of a StrEnum becomes a plain str."""
        if type(value) is str and value.isascii():
            return value
        if not isinstance(value, str):
            return self.expected(at, problems, value)
        if has_surrogate(value):
            return problems.add(at, _SURROGATE)
        return str.__str__(value)

    decode = encode

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "string"}

    def holds(self, value: Any) -> bool:
        return isinstance(value, str)


class Formatted(Shape):
    """A type whose values are encoded as strings in a certain format.

    Args:
        type_: the exact type of values: for ``isinstance``, a datetime would be a date.
        label: the name of the type in error messages.
        to_text: the function that writes a value; raises ValueError if that is impossible.
        from_text: the function that reads a text that matches the pattern; raises ValueError.
        pattern: a regular expression for valid texts. It also matches dates that do not exist.
        keywords: JSON Schema keywords in addition to the type and the pattern.
        open_format: whether plain text can have this format by chance, so a union cannot distinguish the two.
    """

    json_types = frozenset({"string"})

    def __init__(
        self,
        type_: type[Any],
        label: str,
        to_text: Callable[[Any], str],
        from_text: Callable[[str], Any],
        pattern: str,
        keywords: dict[str, Any],
        *,
        open_format: bool = False,
    ) -> None:
        self.type = type_
        self.label = label
        self.open_format = open_format
        self._to_text = to_text
        self._from_text = from_text
        self._pattern = pattern
        self._keywords = {"pattern": f"^{pattern}$", **keywords}

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems, value)
        try:
            text = self._to_text(value)
        except (ValueError, OverflowError):
            text = ""
        if re.fullmatch(self._pattern, text):
            return text
        return problems.add(at, f"{self.label} that cannot be written as JSON")

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if isinstance(data, str) and re.fullmatch(self._pattern, data):
            try:
                return self._from_text(data)
            except (ValueError, ArithmeticError):
                pass
        return self.expected(at, problems, data)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "string", **self._keywords}

    def holds(self, value: Any) -> bool:
        return type(value) is self.type


def _iso_reader(type_: type[Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        return msgspec.convert(text, type_)  # pydantic's ValidationError is a ValueError

    return read


def _write(value: Any) -> str:
    return msgspec.to_builtins(value)


def _write_datetime(value: datetime) -> str:
    offset = value.utcoffset()
    whole_minutes = offset is None or not offset % timedelta(minutes=1)
    return _write(value if whole_minutes else value.astimezone(UTC))  # RFC 3339 allows no seconds in an offset


def _write_time(value: time) -> str:
    offset = value.utcoffset()
    if offset is not None and offset % timedelta(minutes=1):
        raise ValueError("RFC 3339 allows no seconds in an offset")
    if offset is None and value.tzinfo is not None:
        raise ValueError("the offset of a time zone depends on the date")
    return _write(value)


_DATE = r"([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?"
_TIME = _CLOCK + r"([Zz]|[+-]([01][0-9]|2[0-3]):?[0-5][0-9])?"
_COUNT = r"[0-9]{1,9}(\.[0-9]+)?"
_HOURS = rf"({_COUNT}H({_COUNT}M)?({_COUNT}S)?|{_COUNT}M({_COUNT}S)?|{_COUNT}S)"
_DURATION = rf"[+-]?P({_COUNT}D(T{_HOURS})?|T{_HOURS})"
_DECIMAL = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?"  # int() of 1e999999999 would take all memory
_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"


SCALARS: dict[Any, Shape] = {
    type(None): Null(),
    bool: Boolean(),
    int: Integer(),
    float: Float(),
    str: String(),
    date: Formatted(date, "a date (YYYY-MM-DD)", _write, _iso_reader(date), _DATE, {"format": "date"}),
    datetime: Formatted(
        datetime,
        "a date and time (RFC 3339)",
        _write_datetime,
        _iso_reader(datetime),
        f"{_DATE}[Tt ]{_TIME}",
        {"format": "date-time"},
    ),
    time: Formatted(time, "a time (RFC 3339)", _write_time, _iso_reader(time), _TIME, {"format": "time"}),
    timedelta: Formatted(
        timedelta, "a duration (ISO 8601)", _write, _iso_reader(timedelta), _DURATION, {"format": "duration"}
    ),
    Decimal: Formatted(Decimal, "a decimal number as a string", str, Decimal, _DECIMAL, {"format": "decimal"}),
    UUID: Formatted(UUID, "a UUID", str, UUID, _UUID, {"format": "uuid"}),
    bytes: Formatted(
        bytes,
        "bytes in base64",
        lambda value: base64.b64encode(value).decode("ascii"),
        base64.b64decode,
        _BASE64,
        {"contentEncoding": "base64"},
        open_format=True,
    ),
}


class Choice(Shape):
    """A fixed list of values.

    Args:
        label: the name of the type in error messages.
        pairs: each value with its JSON form, a string, integer, boolean or None.
    """

    def __init__(self, label: str, pairs: Iterable[tuple[Any, Any]]) -> None:
        self.label = label
        self.values: dict[tuple[type[Any], Any], Any] = {}
        self.forms: dict[tuple[type[Any], Any], Any] = {}
        for value, form in pairs:
            # since 1 == True == 1.0, the type is part of the key
            self.forms[type(value), value] = form
            self.values[type(form), form] = value
        kinds: list[JsonType | None] = [json_type_of(form) for _, form in self.values]
        self.json_types = frozenset([kind for kind in kinds if kind is not None])

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems, value)
        return self.forms[type(value), value]

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not self.accepts(data):
            return self.expected(at, problems, data)
        return self.values[_form(data)]

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"enum": [form for _, form in self.values]}

    def holds(self, value: Any) -> bool:
        return _scalar(value) and (type(value), value) in self.forms

    def accepts(self, data: Any) -> bool:
        form = _form(data)
        return _scalar(form[1]) and form in self.values


def _form(data: Any) -> tuple[type[Any], Any]:
    """Return a form together with its type. ``1.0`` counts as an integer, as in JSON Schema."""
    number = whole(data) if isinstance(data, float) else None
    return (cast("type[Any]", type(data)), data) if number is None else (int, number)


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | bool | Enum)


def _check_form(form: Any, name: str) -> Any:
    if not (form is None or isinstance(form, str | int)) or (isinstance(form, str) and has_surrogate(form)):
        raise UnsupportedType(f"{name} has a value that is neither a string nor an integer")
    return form


def enum_choice(type_: type[Enum]) -> Choice:
    """Return the shape of an enum. A member is encoded as its value."""
    if issubclass(type_, Flag) or not len(type_):
        raise UnsupportedType(
            f"{type_.__name__} is a Flag or has no members; use an Enum with string or integer values"
        )
    pairs = [(member, _plain(_check_form(member.value, type_.__name__))) for member in type_]
    return Choice(f"one of {', '.join(repr(form) for _, form in pairs)}", pairs)


def literal_choice(values: tuple[Any, ...]) -> Choice:
    """Return the shape of a ``Literal``."""
    raw = [(value, value.value if isinstance(value, Enum) else value) for value in values]
    pairs = [(value, _plain(_check_form(form, "Literal"))) for value, form in raw]
    return Choice(f"one of {', '.join(repr(form) for _, form in pairs)}", pairs)


def _plain(form: Any) -> Any:
    if isinstance(form, str):
        return str.__str__(form)
    return int(form) if isinstance(form, int) and not isinstance(form, bool) else form
