"""Search keys: the class keyword ``find_by`` declares values of the request by which sagas can be listed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from sagas.authoring.codec import json_schema
from sagas.authoring.redaction import REQUEST, Redaction
from sagas.errors import DefinitionError
from sagas.paths import EACH, Place, parse_path, value_at

MOST = 4
"""The maximum number of search keys of a type: every start writes an item for each."""
RESERVED = frozenset(
    (
        "type",
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
"""Names that lists already use as parameters, or could use later."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_FINDABLE = ("string", "integer", "boolean")
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", type(None): "null"}
_REF = "#/$defs/"


class SearchKey(Struct, frozen=True):
    """One search key of a saga type.

    Args:
        name: the key's name in queries.
        path: the place of the value in the request.
    """

    name: str
    path: Place

    def value(self, request: Any) -> str | None:
        """Return the value in a request (JSON builtins) as text; ``None`` if the request has none."""
        try:
            value = value_at(request, self.path)
        except LookupError:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        return value if isinstance(value, str) and value else None


def find_by_of(where: str, request_type: Any, redaction: Redaction, paths: Mapping[str, str]) -> tuple[SearchKey, ...]:
    """Return the search keys of a saga type."""
    if len(paths) > MOST:
        raise DefinitionError(f"{where}: find_by has {len(paths)} entries; at most {MOST} are allowed")
    # Leave out the types of results: their references may be resolved later.
    own = Redaction({REQUEST: request_type}, {REQUEST: redaction.places.get(REQUEST, ())})
    keys = list[SearchKey]()
    for name, path in paths.items():
        field = f"{where}: find_by {name!r}"
        if not _NAME.fullmatch(name):
            raise DefinitionError(f"{field}: a name has 1 to 40 characters of a-z, 0-9 and _, and begins with a letter")
        if name in RESERVED:
            raise DefinitionError(f"{field}: lists already have a parameter of this name")
        try:
            parts = parse_path(path)
        except ValueError as error:
            raise DefinitionError(f"{field}: {error}") from None
        if not parts or EACH in parts:
            raise DefinitionError(f"{field}: {path} is not one value; write a path like $.customer.id or $.items[0]")
        key = SearchKey(name, parts)
        _check(field, path, key, json_schema(request_type))
        if own.hides(REQUEST, parts):
            raise DefinitionError(f"{field}: {path} is redacted, so it cannot be a search key")
        keys.append(key)
    return tuple(keys)


def _check(field: str, path: str, key: SearchKey, schema: dict[str, Any]) -> None:
    definitions: dict[str, Any] = schema.get("$defs", {})
    nodes = list(_branches(schema, definitions))
    at = "$"
    for part in key.path:
        members = [member for node in nodes for member in _members(node, part)]
        if not members:
            raise DefinitionError(f"{field}: {path}: the request has no {part!r} in {at}")
        at += part if part.startswith("[") else f".{part}"
        nodes = [branch for member in members for branch in _branches(member, definitions)]
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


def _members(schema: dict[str, Any], part: str) -> list[Any]:
    """The schema of an object's member or of an array's item; empty if there is none."""
    if not part.startswith("["):
        return [schema["properties"][part]] if part in schema.get("properties", {}) else []
    first: list[Any] = schema.get("prefixItems", [])
    index = int(part[1:-1])
    if index < len(first):
        return [first[index]]
    return [schema["items"]] if isinstance(schema.get("items"), dict) else []


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
