"""What every shape offers, and how a walk over data says where it is and what it found wrong."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from sagas.errors import Problem, SagaError

MAX_DEPTH = 100
"""Levels of nesting a value may have. Python's own limit on recursion is not far above."""

MAX_PROBLEMS = 1_000
"""Problems kept of one value: a list of them goes into an HTTP answer."""

_LONGEST_PATH = 1_000
"""Characters a path is rendered with: a hundred long keys above a thousand bad items would make an answer of 75 MB."""

JsonType = Literal["null", "boolean", "integer", "number", "string", "array", "object"]

_JSON_TYPES: dict[type[Any], JsonType] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_type_of(data: object) -> JsonType | None:
    """Return the kind of JSON value ``data`` is; None if it is none."""
    return _JSON_TYPES.get(type(data))


class UnsupportedType(SagaError):
    """A type has no JSON form here. The caller knows the saga, step and parameter, and says so."""


class Path(list[str | int]):
    """Where a walk over a value is, rendered (``$.keys[0]``) only when something is wrong there.

    A walk writes the name or index it is at into the one path it has: a path for each item would cost more than most
    items do. What is beside the way is ``at / name``.

    Args:
        root: what stands for the value itself.
    """

    def __init__(self, root: str = "$") -> None:
        super().__init__((root,))

    def __truediv__(self, part: str | int) -> Path:
        path = Path()
        path[:] = [*self, part]
        return path

    def __str__(self) -> str:
        text = str(self[0])
        for part in self[1:]:
            if isinstance(part, int):
                text += f"[{part}]"
            else:
                name = part[:64]
                text += f".{name}" if name.isidentifier() else f"[{json.dumps(name)}]"
        half = _LONGEST_PATH // 2
        return text if len(text) <= _LONGEST_PATH else f"{text[:half]}…{text[-half:]}"


class Problems(list[Problem]):
    """What a walk found wrong so far.

    Args:
        tried: what unions found out about values, of the walk this one is part of. Without it, members that look alike
            until far inside would have each level of a value walked twice as often as the level above.
    """

    def __init__(self, tried: dict[tuple[int, int, str], tuple[Any, bool, Any]] | None = None) -> None:
        super().__init__()
        self.tried = {} if tried is None else tried

    def add(self, at: Path, message: str, found: str = "") -> None:
        """Note a problem; beyond ``MAX_PROBLEMS`` it is only known that there are more."""
        if len(self) < MAX_PROBLEMS:
            self.append(Problem(str(at), message, found))


class SchemaDefinitions:
    """Named schemas collected while a schema is made: what ``$ref`` points to."""

    def __init__(self, ref_template: str) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self._names: dict[Any, str] = {}
        self._begun: set[str] = set()
        self._template = ref_template

    def reference(self, type_: Any, name: str) -> tuple[dict[str, Any], bool]:
        """Return a ``$ref`` to the type's schema, and whether it is still to be made."""
        known = self._names.get(type_)
        if known is None:
            # the names that OpenAPI allows; a generic class's has brackets
            known = free = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            number = 1
            while known in self._names.values():
                number += 1
                known = f"{free}_{number}"
            self._names[type_] = known
        missing = known not in self._begun
        self._begun.add(known)
        return {"$ref": self._template.format(name=known)}, missing

    def define(self, type_: Any, schema: dict[str, Any]) -> None:
        """Keep the schema of a type that was referenced."""
        self.schemas[self._names[type_]] = schema

    def same(self, type_: Any, other: Any) -> None:
        """Let ``type_`` be known by the name ``other`` has."""
        self._names[type_] = self._names[other]


class Shape:
    """The JSON form of one type.

    ``encode`` and ``decode`` add to ``problems`` what is wrong and then return anything; a caller that sees the list
    grow uses nothing of what was returned.
    """

    label: str
    json_types: frozenset[JsonType]
    hashable: bool = True
    """Whether its values can be in a set."""
    secret: bool = False
    """Whether its values are not to be shown."""

    def encode(self, value: Any, at: Path, problems: Problems, /) -> Any:
        """Return the JSON form of ``value``."""
        raise NotImplementedError

    def decode(self, data: Any, at: Path, problems: Problems, /) -> Any:
        """Return the value whose JSON form ``data`` is."""
        raise NotImplementedError

    def schema(self, definitions: SchemaDefinitions, /) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of exactly what ``decode`` takes."""
        raise NotImplementedError

    def holds(self, value: Any, /) -> bool:
        """Tell at a glance whether ``value`` is of the type: how a union picks the member that encodes it."""
        raise NotImplementedError

    def accepts(self, data: Any, /) -> bool:
        """Tell at a glance whether ``data`` may be such a value's form: how a union picks the member that decodes."""
        return json_type_of(data) in self.json_types

    def expected(self, at: Path, problems: Problems, found: Any) -> None:
        """Note that ``found``, of which only the type is told, stands where a value of this type should."""
        problems.add(at, f"expected {self.label}", type(found).__name__)


def too_deep(at: Path, problems: Problems) -> bool:
    """Tell, and note, that the walk is deeper than it may be."""
    deep = len(at) > MAX_DEPTH + 1
    if deep:
        problems.add(at, f"nested deeper than {MAX_DEPTH} levels")
    return deep
