"""Records: dataclasses and TypedDicts, whose JSON form is an object with a fixed set of fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct

from sagas.authoring.shapes.base import Path, Problems, SchemaDefinitions, Shape, json_type_of, too_deep

_ABSENT: Any = object()


class RecordField(Struct, frozen=True):
    """A field of a record.

    Args:
        name: the field's name, in Python and in JSON.
        shape: the shape of the field's type.
        required: whether the JSON form must have the field.
        always: whether encoding a value always writes the field.
    """

    name: str
    shape: Shape
    required: bool
    always: bool


class Record(Shape):
    """A JSON object with a fixed set of fields.

    Args:
        type_: the class, or parametrized class, that identifies the schema.
        make: the function that builds a value from its fields.
        exact: the dataclass that values must have, not a subclass; None for a TypedDict, whose values are dicts.
    """

    json_types = frozenset({"object"})

    def __init__(self, type_: Any, name: str, make: Callable[..., Any], exact: type[Any] | None) -> None:
        self.type = type_
        self.name = name
        self.label = name
        self.hashable = exact is not None and exact.__hash__ is not None
        self.fields: dict[str, RecordField] = {}
        self.recursive = False
        self._make = make
        self._exact = exact

    def complete(self, fields: list[RecordField]) -> None:
        """Set the fields. This is not in the constructor because a field can have the record's own type."""
        self.fields.update({field.name: field for field in fields})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self._is_instance(value):
            return self.expected(at, problems, value)
        if too_deep(at, problems):
            return None
        encoded: dict[str, Any] = {}
        at.append("")
        for name, field in self.fields.items():
            at[-1] = name
            item = value.get(name, _ABSENT) if self._exact is None else getattr(value, name, _ABSENT)
            if item is not _ABSENT:
                encoded[name] = field.shape.encode(item, at, problems)
            elif field.required:
                problems.add(at, "required field is missing")
        at.pop()
        if self._exact is None and len(encoded) < len(value):
            self._refuse_unknown(value, at, problems)
        return encoded

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(data, dict):
            return problems.add(at, f"expected an object ({self.name})", type(data).__name__)
        if too_deep(at, problems):
            return None
        before = len(problems)
        members = cast("dict[Any, Any]", data)
        decoded: dict[str, Any] = {}
        at.append("")
        for name, field in self.fields.items():
            at[-1] = name
            if name in members:
                decoded[name] = field.shape.decode(members[name], at, problems)
            elif field.required:
                problems.add(at, "required field is missing")
        at.pop()
        if len(decoded) < len(members):
            self._refuse_unknown(members, at, problems)
        if len(problems) > before:
            return None
        try:
            return self._make(**decoded)
        except Exception as error:  # noqa: BLE001 -- a ``__post_init__`` can raise anything to refuse its fields
            # Report only the type: the text could quote the value.
            return problems.add(at, f"refused by {self.name} ({type(error).__name__})")

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        ref, new = definitions.reference(self.type, self.name)
        if new:
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {field.name: field.shape.schema(definitions) for field in self.fields.values()},
                "required": [field.name for field in self.fields.values() if field.required],
                "additionalProperties": False,
            }
            definitions.define(self.type, schema)
        return ref

    def holds(self, value: Any) -> bool:
        if not self._is_instance(value):
            return False
        return self._exact is not None or self._has_kinds(value, _may_be)

    def accepts(self, data: Any) -> bool:
        """Whether the names of fields and the JSON types of their values fit this record."""
        return isinstance(data, dict) and self._has_kinds(cast("dict[Any, Any]", data), _may_be_form)

    def _has_kinds(self, members: dict[Any, Any], check: Callable[[Shape, Any], bool]) -> bool:
        complete = all(field.name in members for field in self.fields.values() if field.required)
        fields = self.fields
        return complete and all(name in fields and check(fields[name].shape, item) for name, item in members.items())

    def _refuse_unknown(self, data: Mapping[Any, Any], at: Path, problems: Problems) -> None:
        for name in data:
            if name not in self.fields:
                problems.add(at / str(name), "unknown field")

    def _is_instance(self, value: Any) -> bool:
        return isinstance(value, dict) if self._exact is None else type(value) is self._exact


def _may_be(shape: Shape, value: Any) -> bool:
    """Check quickly whether a value can have the shape."""
    kind = json_type_of(value)
    return kind is None or kind in shape.json_types


def _may_be_form(shape: Shape, data: Any) -> bool:
    """Check quickly whether ``data`` can be the JSON form of a value of the shape."""
    return _may_be(shape, data) if isinstance(data, dict | list) else shape.accepts(data)
