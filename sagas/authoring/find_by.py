"""What the sagas of a type are found by: values in their requests, named by the class keyword ``find_by``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sagas.authoring.codec import json_schema
from sagas.authoring.redaction import HIDDEN, REQUEST, Redaction
from sagas.errors import DefinitionError
from sagas.paths import EACH, Place, parse_path, value_at

MOST = 4
"""Values that a type may be found by: each is an item of its own, written with every start."""
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
"""What lists are asked by anyway, or may be."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FINDABLE = ("string", "integer", "boolean")
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", type(None): "null"}
_REF = "#/$defs/"


@dataclass(frozen=True, slots=True)
class FindBy:
    """One value that sagas are found by.

    Args:
        name: of the value, as it is asked for.
        path: where it is in the request.
    """

    name: str
    path: Place

    def value(self, request: Any) -> str | None:
        """Return the value in a request (JSON builtins) as text; ``None`` where there is none."""
        try:
            value = value_at(request, self.path)
        except LookupError:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        return value if isinstance(value, str) and value else None


def find_by_of(where: str, request_type: Any, redaction: Redaction, paths: Mapping[str, str]) -> tuple[FindBy, ...]:
    """Return what the sagas of a type are found by."""
    if len(paths) > MOST:
        raise DefinitionError(f"{where}: find_by has {len(paths)} entries; at most {MOST} are kept")
    found = list[FindBy]()
    for name, path in paths.items():
        told = f"{where}: find_by {name!r}"
        if not _NAME.fullmatch(name):
            raise DefinitionError(f"{told}: a name has 1 to 40 characters of a-z, 0-9 and _, and begins with a letter")
        if name in RESERVED:
            raise DefinitionError(f"{told}: lists are asked by that name already")
        try:
            parts = parse_path(path)
        except ValueError as error:
            raise DefinitionError(f"{told}: {error}") from None
        if not parts or EACH in parts:
            raise DefinitionError(f"{told}: {path} is not one value; write a path like $.customer.id or $.items[0]")
        one = FindBy(name, parts)
        _check(told, path, one, json_schema(request_type))
        probe: Any = "value"
        for part in reversed(parts):
            probe = [probe] * (int(part[1:-1]) + 1) if part.startswith("[") else {part: probe}
        if one.value(redaction.shown(REQUEST, probe)[0]) in (HIDDEN, None):
            raise DefinitionError(f"{told}: {path} is redacted, so it cannot be a search key")
        found.append(one)
    return tuple(found)


def _check(told: str, path: str, one: FindBy, schema: dict[str, Any]) -> None:
    definitions: dict[str, Any] = schema.get("$defs", {})
    nodes, at = list(_branches(schema, definitions)), "$"
    for field in one.path:
        members = [member for node in nodes for member in _members(node, field)]
        if not members:
            raise DefinitionError(f"{told}: {path}: the request has no {field!r} in {at}")
        at += field if field.startswith("[") else f".{field}"
        nodes = [branch for member in members for branch in _branches(member, definitions)]
    kinds = set[str]()
    for node in nodes:
        given = node.get("type", ())
        if given:
            kinds |= {given} if isinstance(given, str) else set(given)
        else:
            values: list[Any] = node.get("enum", [node["const"]] if "const" in node else [])
            kinds |= {_KINDS.get(cast("type[Any]", type(value)), "object") for value in values}
    kinds -= {"null"}
    if not kinds or not kinds <= set(_FINDABLE):
        what = ", ".join(sorted(kinds)) or "anything"
        raise DefinitionError(f"{told}: {path} is {what}; a search key is a text, a whole number or a boolean")


def _members(schema: dict[str, Any], part: str) -> list[Any]:
    """The schemas of what an object has under a name, or an array at an index."""
    if not part.startswith("["):
        return [schema["properties"][part]] if part in schema.get("properties", {}) else []
    first: list[Any] = schema.get("prefixItems", [])
    index = int(part[1:-1])
    if index < len(first):
        return [first[index]]
    return [schema["items"]] if isinstance(schema.get("items"), dict) else []


def _branches(schema: dict[str, Any], definitions: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """A schema, or those of which it is any."""
    if str(schema.get("$ref", "")).startswith(_REF):
        yield from _branches(definitions[schema["$ref"][len(_REF) :]], definitions)
        return
    several: list[dict[str, Any]] = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
    if not several:
        yield schema
    for one in several:
        yield from _branches(one, definitions)
