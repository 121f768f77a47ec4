"""Search keys: values of the request under which sagas can be listed, declared by the class keyword ``find_by``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sagas.authoring.codec import json_schema
from sagas.authoring.redaction import HIDDEN, REQUEST, Redaction
from sagas.errors import DefinitionError

MOST = 4
"""The most search keys of a type: every start writes an item for each."""
RESERVED = frozenset(
    (
        "name",
        "status",
        "since",
        "until",
        "parent",
        "idempotency_key",
        "key",
        "saga_id",
        "limit",
        "cursor",
        "error",
    )
)
"""Names that lists use as parameters already, or could use later."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PATH = re.compile(r"\$((?:\.[^.\[\]$*]+)+)")
_FINDABLE = ("string", "integer", "boolean")
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", type(None): "null"}
_REF = "#/$defs/"


@dataclass(frozen=True, slots=True)
class FindBy:
    """One search key of a saga type.

    Args:
        name: the key's name in queries.
        path: where the value is in the request: names of fields, from the outside in.
    """

    name: str
    path: tuple[str, ...]

    def value(self, request: Any) -> str | None:
        """Return the value in a request (JSON builtins) as text; ``None`` if the request has none."""
        for field in self.path:
            request = cast("dict[str, Any]", request).get(field) if isinstance(request, dict) else None
        if isinstance(request, bool):
            return "true" if request else "false"
        if isinstance(request, int):
            return str(request)
        return request if isinstance(request, str) and request else None


def find_by_of(where: str, request_type: Any, redaction: Redaction, paths: Mapping[str, str]) -> tuple[FindBy, ...]:
    """Return the search keys of a saga type."""
    if len(paths) > MOST:
        raise DefinitionError(f"{where}: find_by has {len(paths)} entries; at most {MOST} are allowed")
    keys = list[FindBy]()
    for name, path in paths.items():
        field = f"{where}: find_by {name!r}"
        if not _NAME.fullmatch(name):
            raise DefinitionError(f"{field}: a name has 1 to 40 characters of a-z, 0-9 and _, and begins with a letter")
        if name in RESERVED:
            raise DefinitionError(f"{field}: this name is a parameter of lists already")
        match = _PATH.fullmatch(path)
        if match is None:
            raise DefinitionError(f"{field}: {path!r} is not a path; write one like $.customer.id")
        key = FindBy(name, tuple(match[1][1:].split(".")))
        _check(field, path, key, json_schema(request_type))
        probe: Any = "value"
        for part in reversed(key.path):
            probe = {part: probe}
        if key.value(redaction.shown(REQUEST, probe)[0]) in (HIDDEN, None):
            raise DefinitionError(f"{field}: {path} is redacted, so it cannot be a search key")
        keys.append(key)
    return tuple(keys)


def _check(field: str, path: str, key: FindBy, schema: dict[str, Any]) -> None:
    definitions: dict[str, Any] = schema.get("$defs", {})
    nodes, at = list(_branches(schema, definitions)), "$"
    for name in key.path:
        members = [node["properties"][name] for node in nodes if name in node.get("properties", {})]
        if not members:
            raise DefinitionError(f"{field}: {path}: the request has no field {name!r} in {at}")
        nodes, at = [branch for member in members for branch in _branches(member, definitions)], f"{at}.{name}"
    kinds = set[str]()
    for node in nodes:
        json_type = node.get("type", ())
        if json_type:
            kinds |= {json_type} if isinstance(json_type, str) else set(json_type)
        else:
            values: list[Any] = node.get("enum", [node["const"]] if "const" in node else [])
            kinds |= {_KINDS.get(cast("type[Any]", type(value)), "object") for value in values}
    kinds -= {"null"}
    if not kinds or not kinds <= set(_FINDABLE):
        what = ", ".join(sorted(kinds)) or "anything"
        raise DefinitionError(f"{field}: {path} is {what}; a search key must be a text, a whole number or a boolean")


def _branches(schema: dict[str, Any], definitions: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the schema itself, or each of its alternatives."""
    if str(schema.get("$ref", "")).startswith(_REF):
        yield from _branches(definitions[schema["$ref"][len(_REF) :]], definitions)
        return
    alternatives: list[dict[str, Any]] = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
    if not alternatives:
        yield schema
    for alternative in alternatives:
        yield from _branches(alternative, definitions)
