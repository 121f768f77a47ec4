"""Containers: arrays of many kinds, mappings, and free JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from sagas.authoring.shapes.base import Path, Problems, SchemaDefinitions, Shape, too_deep
from sagas.authoring.shapes.scalars import Boolean, Float, Integer, Null, String, whole


class Array(Shape):
    """A list, set, frozenset or variadic tuple: an array whose items have one type.

    Args:
        item: the items' shape.
        make: the container to build; ``list``, ``tuple``, ``set`` or ``frozenset``.
        encodable: what may be encoded.
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
        """Whether it is a set: encoded in a stable order, so that equal sets have equal hashes."""
        return self.make is set or self.make is frozenset

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems)
        if too_deep(at, problems):
            return None
        before = len(problems)
        items = [self.item.encode(item, at / index, problems) for index, item in enumerate(value)]
        return sorted(items, key=_sort_key) if self.unordered and len(problems) == before else items

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(data, list):
            return self.expected(at, problems)
        if too_deep(at, problems):
            return None
        before = len(problems)
        array = cast("list[Any]", data)
        items = [self.item.decode(item, at / index, problems) for index, item in enumerate(array)]
        if len(problems) > before:
            return None
        try:
            return self.make(items)
        except TypeError:
            return problems.add(at, "holds an item that cannot be in a set")

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {"type": "array", "items": self.item.schema(definitions)}

    def holds(self, value: Any) -> bool:
        """Tell whether it is such a container; a named tuple is not a tuple here."""
        return isinstance(value, self.encodable) and not hasattr(value, "_fields")


def _sort_key(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


class FixedArray(Shape):
    """A tuple of a fixed length, or a named tuple: an array whose items have a type each.

    Args:
        items: the shape of each item.
        type_: ``tuple``, or the named tuple's class.
        required: how many items must be there; the others have defaults.
    """

    json_types = frozenset({"array"})

    def __init__(self, items: list[Shape], type_: type[Any], required: int) -> None:
        self.items = items
        self.type = type_
        self.required = required

    @property
    def label(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] -- the items are known only later
        """How messages call it."""
        least, most = self.required, len(self.items)
        return f"an array of {most} items" if least == most else f"an array of {least} to {most} items"

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value) or len(value) != len(self.items):
            return self.expected(at, problems)
        if too_deep(at, problems):
            return None
        pairs = zip(self.items, value, strict=True)
        return [shape.encode(item, at / index, problems) for index, (shape, item) in enumerate(pairs)]

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not self.accepts(data):
            return self.expected(at, problems)
        if too_deep(at, problems):
            return None
        before = len(problems)
        pairs = zip(self.items, data, strict=False)
        items = [shape.decode(item, at / index, problems) for index, (shape, item) in enumerate(pairs)]
        if len(problems) > before:
            return None
        return tuple(items) if self.type is tuple else self.type(*items)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        items = [item.schema(definitions) for item in self.items]
        prefix = {"prefixItems": items} if items else {}
        return {"type": "array", **prefix, "minItems": self.required, "maxItems": len(items)}

    def holds(self, value: Any) -> bool:
        return type(value) is self.type

    def accepts(self, data: Any) -> bool:
        return isinstance(data, list) and self.required <= len(cast("list[Any]", data)) <= len(self.items)


class Mapping(Shape):
    """A dict. Keys that are no strings travel as their text.

    Args:
        key: the keys' shape, a scalar.
        item: the values' shape.
    """

    label = "an object"
    json_types = frozenset({"object"})
    hashable = False

    def __init__(self, key: Shape, item: Shape) -> None:
        self.key = key
        self.item = item

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems)
        if too_deep(at, problems):
            return None
        encoded: dict[str, Any] = {}
        for key, item in value.items():
            here = at / (key if isinstance(key, str) else "?")
            text = self.key.encode(key, here, problems)
            encoded[text if isinstance(text, str) else _number_text(text)] = self.item.encode(item, here, problems)
        return encoded

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(data, dict):
            return self.expected(at, problems)
        if too_deep(at, problems):
            return None
        decoded: dict[Any, Any] = {}
        for text, item in cast("dict[Any, Any]", data).items():
            if not isinstance(text, str):
                problems.add(at, "expected strings as keys")
                continue
            here = at / text
            key = self.key.decode(self._key_data(text), here, problems)
            if key in decoded and key is not None:
                problems.add(here, "another spelling of a key that is there already")
            decoded[key] = self.item.decode(item, here, problems)
        return decoded

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.item.schema(definitions)}
        if isinstance(self.key, Integer | Float):
            return schema | {"propertyNames": {"pattern": _PATTERNS[type(self.key)], "maxLength": _LONGEST_NUMBER}}
        names = self.key.schema(definitions)
        return schema if names == {"type": "string"} else schema | {"propertyNames": names}

    def holds(self, value: Any) -> bool:
        return isinstance(value, dict)

    def _key_data(self, text: str) -> Any:
        pattern = _PATTERNS.get(type(self.key))
        if pattern is None:
            return text
        if re.fullmatch(pattern, text) is None or len(text) > _LONGEST_NUMBER:
            return None  # no number: the key's shape says what it expected
        return int(text) if isinstance(self.key, Integer) else float(text)


_LONGEST_NUMBER = 1_234
"""Characters of a number as a key: what the largest integer has, with its sign."""

_PATTERNS: dict[type[Shape], str] = {
    Integer: r"^(0|-?[1-9][0-9]*)$",
    Float: r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$",
}


def _number_text(number: Any) -> str:
    return repr(number)


class Json(Shape):
    """Free JSON, for ``Any`` and ``object``: str, int, float, bool, None, and lists and dicts of them."""

    label = "a JSON value"
    json_types = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        """Return a copy; anything that is not JSON is a problem, a tuple too, since it would come back as a list."""
        if isinstance(value, dict):
            return Mapping(_STRING, self).encode(cast("Any", value), at, problems)
        if isinstance(value, list):
            return Array(self, list, (list,)).encode(cast("Any", value), at, problems)
        for scalar in _PLAIN:
            if type(value) in _PLAIN_TYPES and scalar.holds(value):
                return scalar.encode(value, at, problems)
        return self.expected(at, problems)

    decode = encode

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return {}

    def holds(self, value: Any) -> bool:
        return isinstance(value, dict | list) or type(value) in _PLAIN_TYPES


_STRING = String()
_PLAIN = (_STRING, Boolean(), Integer(), Float(), Null())
_PLAIN_TYPES = (str, bool, int, float, type(None))


def with_whole_numbers(data: Any) -> Any:
    """Return JSON builtins with ``1`` for ``1.0``, as far as floats are exact."""
    if isinstance(data, dict):
        return {key: with_whole_numbers(item) for key, item in cast("dict[str, Any]", data).items()}
    if isinstance(data, list):
        return [with_whole_numbers(item) for item in cast("list[Any]", data)]
    number = whole(data) if isinstance(data, float) else None
    return data if number is None else number
