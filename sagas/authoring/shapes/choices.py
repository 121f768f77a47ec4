"""Types with a fixed list of values: enums and literals."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, Flag
from typing import Any, cast

from sagas.authoring.shapes.base import (
    JsonType,
    Path,
    Problems,
    SchemaDefinitions,
    Shape,
    UnsupportedType,
    json_type_of,
)
from sagas.authoring.shapes.scalars import has_surrogate, whole


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
