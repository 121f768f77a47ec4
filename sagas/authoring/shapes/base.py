"""The base class of shapes, and the record of a position and of problems during a walk over data."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from sagas.errors import Problem, SagaError

MAX_DEPTH = 100
"""The maximum number of nested levels in a value. Python's recursion limit does not allow many more."""

MAX_PROBLEMS = 1_000
"""At most this many problems are reported for one value, because the list goes into an HTTP response."""

_LONGEST_PATH = 1_000
"""The maximum length of a rendered path. Without this limit, a hundred long keys above a thousand bad items would make
a response of 75 MB."""

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
    """Return the JSON type of ``data``; None if it is not a JSON value."""
    return _JSON_TYPES.get(type(data))


class UnsupportedType(SagaError):
    """A type has no JSON form. The caller adds the saga, step and parameter to the message."""


class Path(list[str | int]):
    """The position of a walk over a value, rendered (``$.keys[0]``) only if there is a problem.

    A walk updates a single path, because a new path for each item would cost more than most items. For other positions
    use ``at / name``.

    Args:
        root: the text for the value itself.
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
    """The problems that a walk has met so far.

    Args:
        of: the problems that include these, because a union tries one of its members.
        reads_back: whether a value that would be another when it is read back is a problem.
    """

    def __init__(self, of: Problems | None = None, *, reads_back: bool = True) -> None:
        super().__init__()
        self.tried: dict[tuple[int, int, str], tuple[Any, bool, Any]] = {} if of is None else of.tried
        """The results that unions had for values in the same walk. Without them, members that differ only deep inside
        would double the work at each level of a value."""
        self.reads_back = reads_back if of is None else of.reads_back

    def add(self, at: Path, message: str, actual_type: str = "") -> None:
        """Add a problem. After the first ``MAX_PROBLEMS``, problems are dropped."""
        if len(self) < MAX_PROBLEMS:
            self.append(Problem(str(at), message, actual_type))


class SchemaDefinitions:
    """The named schemas that ``$ref`` points to, collected while a schema is built. All names start with ``prefix``."""

    def __init__(self, ref_template: str, prefix: str = "") -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self._names: dict[Any, str] = {}
        self._begun: set[str] = set()
        self._template = ref_template
        self._prefix = prefix

    def reference(self, type_: Any, name: str) -> tuple[dict[str, Any], bool]:
        """Return a ``$ref`` to the schema of a type, and whether this schema must still be built."""
        unique = self._names.get(type_)
        if unique is None:
            # OpenAPI allows only these characters, and the name of a generic class contains brackets.
            free = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            unique = free = free if free.startswith(self._prefix) else f"{self._prefix}{free}"
            number = 1
            while unique in self._names.values():
                number += 1
                unique = f"{free}_{number}"
            self._names[type_] = unique
        missing = unique not in self._begun
        self._begun.add(unique)
        return {"$ref": self._template.format(name=unique)}, missing

    def define(self, type_: Any, schema: dict[str, Any]) -> None:
        """Store the schema of a referenced type, without pydantic's titles: two types can have the same."""
        for item in (schema, *schema.get("properties", {}).values()):
            item.pop("title", None)
        self.schemas[self._names[type_]] = schema

    def same(self, type_: Any, other: Any) -> None:
        """Give the schema of ``type_`` the name of ``other``."""
        self._names[type_] = self._names[other]


class Shape:
    """The JSON form of one type.

    ``encode`` and ``decode`` add to ``problems`` if something is wrong. Callers then ignore the return value.
    """

    label: str
    json_types: frozenset[JsonType]
    hashable: bool = True
    """Whether values of the type can be in a set."""
    secret: bool = False
    """Whether values of the type are redacted."""

    def encode(self, value: Any, at: Path, problems: Problems, /) -> Any:
        """Return the JSON form of ``value``."""
        raise NotImplementedError

    def decode(self, data: Any, at: Path, problems: Problems, /) -> Any:
        """Return the value whose JSON form is ``data``."""
        raise NotImplementedError

    def schema(self, definitions: SchemaDefinitions, /) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of exactly the data that ``decode`` accepts."""
        raise NotImplementedError

    def holds(self, value: Any, /) -> bool:
        """Check quickly whether ``value`` is of the type. Unions use this to choose the member that encodes."""
        raise NotImplementedError

    def accepts(self, data: Any, /) -> bool:
        """Check quickly whether ``data`` can be a form of the type. Unions use this to choose the member that
        decodes."""
        return json_type_of(data) in self.json_types

    def expected(self, at: Path, problems: Problems, value: Any) -> None:
        """Record a type mismatch. The value itself is never reported."""
        problems.add(at, f"expected {self.label}", type(value).__name__)


def too_deep(at: Path, problems: Problems) -> bool:
    """Whether the walk is too deep; if so, record a problem."""
    deep = len(at) > MAX_DEPTH + 1
    if deep:
        problems.add(at, f"nested deeper than {MAX_DEPTH} levels")
    return deep
