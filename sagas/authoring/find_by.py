"""What the sagas of a type are found by: values in their requests, named by the class keyword ``find_by``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from sagas.authoring.codec import json_schema
from sagas.authoring.redaction import HIDDEN, REQUEST, Redaction
from sagas.errors import DefinitionError

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
_PATH = re.compile(r"\$((?:\.[^.\[\]$*]+)+)")
_FINDABLE = ("string", "integer", "boolean")
_KINDS: dict[type, str] = {bool: "boolean", int: "integer", str: "string", type(None): "null"}
_REF = "#/$defs/"


@dataclass(frozen=True, slots=True)
class FindBy:
    """One value that sagas are found by.

    Args:
        name: of the value, as it is asked for.
        path: where it is in the request: names of fields, from the outside in.
    """

    name: str
    path: tuple[str, ...]

    def value(self, request: Any) -> str | None:
        """Return the value in a request (JSON builtins) as text; ``None`` where there is none."""
        for field in self.path:
            request = cast("dict[str, Any]", request).get(field) if isinstance(request, dict) else None
        if isinstance(request, bool):
            return "true" if request else "false"
        if isinstance(request, int):
            return str(request)
        return request if isinstance(request, str) and request else None


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
        matched = _PATH.fullmatch(path)
        if matched is None:
            raise DefinitionError(f"{told}: {path!r} is no path like $.customer.id")
        one = FindBy(name, tuple(matched[1][1:].split(".")))
        _check(told, path, one, json_schema(request_type))
        probe: Any = "value"
        for field in reversed(one.path):
            probe = {field: probe}
        if one.value(redaction.shown(REQUEST, probe)[0]) in (HIDDEN, None):
            raise DefinitionError(f"{told}: {path} is not shown (Secret, or redact), so sagas are not found by it")
        found.append(one)
    return tuple(found)


def _check(told: str, path: str, one: FindBy, schema: dict[str, Any]) -> None:
    definitions: dict[str, Any] = schema.get("$defs", {})
    nodes, at = list(_branches(schema, definitions)), "$"
    for field in one.path:
        members = [node["properties"][field] for node in nodes if field in node.get("properties", {})]
        if not members:
            raise DefinitionError(f"{told}: {path}: the request has no field {field!r} in {at}")
        nodes, at = [branch for member in members for branch in _branches(member, definitions)], f"{at}.{field}"
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
        raise DefinitionError(f"{told}: {path} is {what}; sagas are found by a text, a whole number or a boolean")


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
