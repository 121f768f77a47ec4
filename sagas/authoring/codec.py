"""Converts values to JSON builtins and back, by type. Decoding returns the annotated type, never a bare dict."""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from typing import Any, cast

from sagas.authoring.shapes.base import MAX_DEPTH, Path, Problems, SchemaDefinitions
from sagas.authoring.shapes.compiler import shape_of, type_name
from sagas.authoring.shapes.containers import Json, with_whole_numbers
from sagas.authoring.shapes.scalars import MAX_INTEGER_BITS, whole
from sagas.errors import InvalidRequest

_JSON = Json()
_STR = frozenset({str})
_UNCHANGED = frozenset({str, bool, type(None)})


def encode(value: object, type_: Any, *, reads_back: bool = True) -> Any:
    """Return ``value`` as JSON builtins (dict, list, str, int, float, bool, None).

    It is refused if :func:`decode` would return another value. ``reads_back=False`` allows that.
    """
    problems = Problems(reads_back=reads_back)
    data = shape_of(type_).encode(value, Path(), problems)
    if problems:
        raise InvalidRequest(f"the value is not a valid {type_name(type_)}", list(problems))
    return data


def decode(data: object, type_: Any) -> Any:
    """Return the value of ``type_`` whose JSON form is ``data``. Decoding is strict: ``"1"`` is not an int.

    Unknown fields are refused. As in JSON Schema, ``1.0`` is an int, but only below 2**53, where floats are exact.
    """
    problems = Problems()
    value = shape_of(type_).decode(data, Path(), problems)
    if problems:
        raise InvalidRequest(f"the input does not fit {type_name(type_)}", list(problems))
    return value


def json_schema(type_: Any, *, ref_template: str = "#/$defs/{name}") -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the data that ``decode`` accepts."""
    definitions = SchemaDefinitions(ref_template)
    schema = shape_of(type_).schema(definitions)
    return {**schema, "$defs": definitions.schemas} if definitions.schemas else schema


def canonical(data: object) -> bytes:
    """Return JSON builtins as canonical JSON: sorted keys, no spaces, UTF-8, and ``1.0`` written as ``1``."""
    with suppress(ValueError):
        return _dumped(_plain(data, 0))
    problems = Problems()
    plain = _JSON.encode(data, Path(), problems)
    if problems:
        raise InvalidRequest("not a JSON value", list(problems))
    return _dumped(with_whole_numbers(plain))


def content_hash(data: object) -> str:
    """Return the SHA-256 of the canonical JSON of ``data``, in hexadecimal."""
    return hashlib.sha256(canonical(data)).hexdigest()


def _dumped(plain: Any) -> bytes:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _plain(data: Any, depth: int) -> Any:
    """Return a copy of JSON with ``1`` for ``1.0``. This walk tracks no paths, so it is several times as fast."""
    kind = cast("object", type(data))
    if kind is dict and depth <= MAX_DEPTH and {*map(type, data)} <= _STR:
        return {key: item if type(item) is str else _plain(item, depth + 1) for key, item in data.items()}
    if kind is list and depth <= MAX_DEPTH:
        return [item if type(item) is str else _plain(item, depth + 1) for item in data]
    if kind is float and math.isfinite(data):
        number = whole(data)
        return data if number is None else number
    if kind in _UNCHANGED or (kind is int and data.bit_length() <= MAX_INTEGER_BITS):
        return data
    raise ValueError
