"""Containers: arrays of many kinds, mappings, and free JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from sagas.authoring.shapes.base import Path, Problems, SchemaDefinitions, Shape, too_deep
from sagas.authoring.shapes.comparing import check_read_back
from sagas.authoring.shapes.scalars import Boolean, Float, Integer, Null, String, whole


class Array(Shape):
    """A list, set, frozenset or variadic tuple: an array whose items have one type.

    Args:
        item: the shape of the items.
        make: the type to build: ``list``, ``tuple``, ``set`` or ``frozenset``.
        encodable: the types that can be encoded.
    """

    label = "an array"
    json_types = frozenset({"array"})

    def __init__(self, item: Shape, make: Callable[[list[Any]], Any], encodable: tuple[type[Any], ...]) -> None:
        self.item = item
        self.make = make
        self.encodable = encodable
        self.hashable = make is frozenset or (make is tuple and item.hashable)

    @property
    def unordered(self) -> bool:
        """Whether the type is a set. Sets are encoded in a stable order, so equal sets have equal hashes."""
        return self.make is set or self.make is frozenset

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems, value)
        if too_deep(at, problems):
            return None
        before = len(problems)
        items: list[Any] = []
        at.append(0)
        for index, item in enumerate(value):
            at[-1] = index
            items.append(self.item.encode(item, at, problems))
        at.pop()
        if self.unordered and len(problems) == before:
            items.sort(key=lambda item: json.dumps(item, sort_keys=True))
        return items

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(data, list):
            return self.expected(at, problems, data)
        if too_deep(at, problems):
            return None
        before = len(problems)
        items: list[Any] = []
        at.append(0)
        for index, item in enumerate(cast("list[Any]", data)):
            at[-1] = index
            items.append(self.item.decode(item, at, problems))
        at.pop()
        if len(problems) > before:
            return None
        try:
            return self.make(items)
        except TypeError:
            return problems.add(at, "has an item that cannot be in a set")

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(definitions)}

    def holds(self, value: Any) -> bool:
        """Whether ``value`` is a container of this type. A named tuple does not count as a tuple."""
        return isinstance(value, self.encodable) and not hasattr(value, "_fields")


class FixedArray(Shape):
    """A tuple of a fixed length, or a named tuple: an array with a type for each item.

    Args:
        items: the shape of each item.
        type_: ``tuple``, or the named tuple's class.
        required: the number of items without defaults.
    """

    json_types = frozenset({"array"})

    def __init__(self, items: list[Shape], type_: type[Any], required: int) -> None:
        self.items = items
        self.type = type_
        self.required = required
        self._makes_itself = type_ is not tuple and "_fields" not in vars(type_)  # derived from a named tuple

    @property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] -- the items are added later
        """The name of the type in error messages."""
        least = self.required
        most = len(self.items)
        return f"an array of {most} items" if least == most else f"an array of {least} to {most} items"

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value) or len(value) != len(self.items):
            return self.expected(at, problems, value)
        if too_deep(at, problems):
            return None
        before = len(problems)
        items: list[Any] = []
        at.append(0)
        for index, (shape, item) in enumerate(zip(self.items, value, strict=True)):
            at[-1] = index
            items.append(shape.encode(item, at, problems))
        at.pop()
        if self._makes_itself and problems.reads_back and len(problems) == before:
            check_read_back(self, value, items, at, problems)
        return items

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not self.accepts(data):
            return self.expected(at, problems, data)
        if too_deep(at, problems):
            return None
        before = len(problems)
        items: list[Any] = []
        at.append(0)
        for index, (shape, item) in enumerate(zip(self.items, data, strict=False)):
            at[-1] = index
            items.append(shape.decode(item, at, problems))
        at.pop()
        if len(problems) > before:
            return None
        return tuple(items) if self.type is tuple else self.type(*items)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        if self.type is tuple:
            return self._schema(definitions)
        ref, new = definitions.reference(self, self.type.__name__)  # a named tuple can contain itself
        if new:
            definitions.define(self, self._schema(definitions))
        return ref

    def _schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        items = [item.schema(definitions) for item in self.items]
        prefix = {"prefixItems": items} if items else {}
        return {"type": "array", **prefix, "minItems": self.required, "maxItems": len(items)}

    def holds(self, value: Any) -> bool:
        return type(value) is self.type

    def accepts(self, data: Any) -> bool:
        return isinstance(data, list) and self.required <= len(cast("list[Any]", data)) <= len(self.items)


class Mapping(Shape):
    """A dict. Keys that are not strings are encoded as text.

    Args:
        key: the shape of the keys, a scalar.
        item: the shape of the values.
    """

    label = "an object"
    json_types = frozenset({"object"})
    hashable = False

    def __init__(self, key: Shape, item: Shape) -> None:
        self.key = key
        self.item = item

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems, value)
        if too_deep(at, problems):
            return None
        encoded: dict[str, Any] = {}
        at.append("")
        for key, item in value.items():
            at[-1] = key if isinstance(key, str) else "?"
            text = self.key.encode(key, at, problems)
            encoded[text if isinstance(text, str) else repr(text)] = self.item.encode(item, at, problems)
        at.pop()
        return encoded

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(data, dict):
            return self.expected(at, problems, data)
        if too_deep(at, problems):
            return None
        pattern = _PATTERNS.get(type(self.key))
        decoded: dict[Any, Any] = {}
        for text, item in cast("dict[Any, Any]", data).items():
            if not isinstance(text, str):
                problems.add(at, "expected strings as keys")
                continue
            at.append(text)
            form: Any = text
            if pattern is not None:
                form = None  # if this is not a number, the key's shape reports what it expects
                if len(text) <= _LONGEST_NUMBER and re.fullmatch(pattern, text):
                    form = int(text) if isinstance(self.key, Integer) else float(text)
            key = self.key.decode(form, at, problems)
            if key in decoded and key is not None:
                problems.add(at, "another spelling of a key that already exists")
            decoded[key] = self.item.decode(item, at, problems)
            at.pop()
        return decoded

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.item.schema(definitions)}
        if isinstance(self.key, Integer | Float):
            return schema | {"propertyNames": {"pattern": _PATTERNS[type(self.key)], "maxLength": _LONGEST_NUMBER}}
        names = self.key.schema(definitions)
        return schema if names == {"type": "string"} else schema | {"propertyNames": names}

    def holds(self, value: Any) -> bool:
        return isinstance(value, dict)


_LONGEST_NUMBER = 1_234
"""The maximum length of a number as a key: that of the largest integer, with a sign."""

_PATTERNS: dict[type[Shape], str] = {
    Integer: r"^(0|-?[1-9][0-9]*)$",
    Float: r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
}


class Json(Shape):
    """Free JSON, for ``Any`` and ``object``: str, int, float, bool, None, and lists and dicts of them."""

    label = "a JSON value"
    json_types = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

    def __init__(self) -> None:
        self._object = Mapping(String(), self)
        self._array = Array(self, list, (list,))

    def encode(self, value: object, at: Path, problems: Problems) -> Any:
        """Return a copy. Anything that is not JSON is a problem. So is a tuple, because it would be decoded as a
        list."""
        scalar = _PLAIN.get(type(value))
        if scalar is not None:
            return scalar.encode(value, at, problems)
        if isinstance(value, dict):
            return self._object.encode(cast("Any", value), at, problems)
        if isinstance(value, list):
            return self._array.encode(cast("Any", value), at, problems)
        return self.expected(at, problems, value)

    decode = encode

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {}

    def holds(self, value: Any) -> bool:
        return isinstance(value, dict | list) or type(value) in _PLAIN


_PLAIN: dict[type[Any], Shape] = {str: String(), bool: Boolean(), int: Integer(), float: Float(), type(None): Null()}


def with_whole_numbers(data: Any) -> Any:
    """Return JSON builtins in which floats such as ``1.0`` are integers, in the range where floats are exact."""
    if isinstance(data, float):
        number = whole(data)
        return data if number is None else number
    if isinstance(data, dict):
        return {key: with_whole_numbers(item) for key, item in cast("dict[str, Any]", data).items()}
    if isinstance(data, list):
        return [with_whole_numbers(item) for item in cast("list[Any]", data)]
    return data
