"""Finds the places where a JSON Schema does not allow everything that an older schema allows.

Both schemas come from :func:`sagas.authoring.codec.json_schema`, of this version or an earlier one. If in doubt, a
value does not fit: a field with a default counts as optional, although a dataclass always writes it. Checks that are
not in a schema, such as ``__post_init__`` or a pydantic validator, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

Schema = dict[str, Any]

_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator")
"""Keywords of JSON Schema that do not restrict values."""
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_STRUCTURAL = frozenset(
    {
        "type",
        "enum",
        "anyOf",
        "format",
        "contentEncoding",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "propertyNames",
    }
)
_KINDS: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Misfit:
    """A path, such as ``$.order.id``, to a place where stored data may not fit, and what changed there. ``[]`` stands
    for any item."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class Types:
    """The named types that references in the schemas point to."""

    old: dict[str, Schema]
    new: dict[str, Schema]
    seen: frozenset[tuple[str, str]] = field(default_factory=frozenset[tuple[str, str]])
    """Pairs of schemas whose comparison has begun. Without them, recursive types would have no end."""


def misfits(old: Schema, new: Schema, types: Types, path: str = "$") -> list[Misfit]:
    """Return the places where a value of the old schema may not fit the new one; empty if every value fits."""
    pair = (str(old), str(new))
    if pair in types.seen:
        return []
    types = replace(types, seen=types.seen | {pair})
    written = old
    old = _plain(old, types.old)
    new = _plain(new, types.new)
    if not new:
        return []
    if "anyOf" in old:
        each = [misfit for member in old["anyOf"] for misfit in misfits(member, new, types, path)]
        return list(dict.fromkeys(each))
    if "anyOf" in new:
        return _union_misfits(written, new["anyOf"], types, path)
    if "enum" in old:
        missing = [value for value in old["enum"] if not _allows(new, value)]
        return [Misfit(path, f"{', '.join(map(repr, missing))} is no longer allowed")] if missing else []
    if "enum" in new:
        return [Misfit(path, f"changed from {_kind(old)} to one of {', '.join(map(repr, new['enum']))}")]
    kinds = _types_of(new)
    form = _form(new)
    if not _types_of(old) <= (kinds | {"integer"} if "number" in kinds else kinds) or (form and form != _form(old)):
        return [Misfit(path, f"changed from {_kind(old)} to {_kind(new)}")]
    return list(_narrower(old, new, types, path))


def _plain(schema: Schema, types: dict[str, Schema]) -> Schema:
    """Return a schema without references, in the form that this module compares."""
    while "$ref" in schema:
        schema = types[schema["$ref"].rsplit("/", 1)[1]]
    plain = {name: value for name, value in schema.items() if name not in _ANNOTATIONS}
    if "const" in plain:
        plain["enum"] = [plain.pop("const")]
    if "oneOf" in plain:
        plain["anyOf"] = plain.pop("oneOf")
    if len(plain.get("allOf", ())) == 1:
        [only] = plain.pop("allOf")
        plain = _plain(only, types) | plain
    if "enum" in plain:
        plain.pop("type", None)
    if "contentEncoding" in plain or "format" in plain:
        plain.pop("pattern", None)  # redundant
    return plain


def _types_of(schema: Schema) -> frozenset[str]:
    """Return the JSON types that a schema allows; ``any`` if it allows all types."""
    types = schema.get("type", "any")
    return frozenset(cast("list[str]", types) if isinstance(types, list) else [str(types)])


def _kind(schema: Schema) -> str:
    """Return a readable name for the values of a schema."""
    kinds = "any value" if "type" not in schema else " or ".join(sorted(_types_of(schema)))
    kinds = {"object": "an object", "array": "an array", "integer": "an integer"}.get(kinds, kinds)
    return f"{kinds} ({_form(schema)})" if _form(schema) else kinds


def _form(schema: Schema) -> str:
    """Return the format of a string."""
    return str(schema.get("format") or schema.get("contentEncoding") or "")


def _allows(schema: Schema, value: object) -> bool:
    """Whether a schema allows the type of an enum's value."""
    if "enum" in schema:
        return any(type(value) is type(allowed) and value == allowed for allowed in schema["enum"])
    kind = _KINDS.get(type(value), "")
    return set(schema) <= {"type"} and bool({kind, "number" if kind == "integer" else kind} & _types_of(schema))


def _union_misfits(old: Schema, members: list[Schema], types: Types, path: str) -> list[Misfit]:
    """Return the misfits with a union. If only one member has the same kind, return its misfits, which are the most
    helpful."""
    plain = _plain(old, types.old)
    if "enum" in plain and len(plain["enum"]) > 1:
        each = [{"enum": [value]} for value in plain["enum"]]
        return [misfit for value in each for misfit in _union_misfits(value, members, types, path)]
    by_member = [misfits(old, member, types, path) for member in members]
    if not all(by_member):
        return []
    near = [each for each in by_member if all(misfit.path != path for misfit in each)]
    if len(near) == 1:
        return near[0]
    return [Misfit(path, f"{_kind(plain)} is no longer allowed")]


def _narrower(old: Schema, new: Schema, types: Types, path: str) -> Iterator[Misfit]:
    """Yield the places where the new schema allows fewer values than the old schema, which has the same type."""
    kinds = _types_of(old) & _types_of(new)
    if "object" in kinds:
        yield from _fields(old, new, types, path)
    if "array" in kinds:
        before = cast("list[Schema]", old.get("prefixItems", []))
        after = cast("list[Schema]", new.get("prefixItems", []))
        for index in range(max(len(before), len(after))):
            was = before[index] if index < len(before) else old.get("items", {})
            now = after[index] if index < len(after) else new.get("items", {})
            if index < old.get("maxItems", index + 1):
                yield from misfits(was, now, types, f"{path}[{index}]")
        if len(before) < old.get("maxItems", len(before) + 1) and "items" in new:
            yield from misfits(old.get("items", {}), new["items"], types, f"{path}[]")
    # A limit can be relaxed; any other keyword must stay the same.
    for name in sorted(new.keys() - _STRUCTURAL):
        was = old.get(name)
        now = new[name]
        relaxed = was is not None and ((name in _LOWER and now <= was) or (name in _UPPER and now >= was))
        if was != now and not relaxed and not (name == "minItems" and now == 0):
            yield Misfit(path, f"{name} changed from {'unlimited' if was is None else repr(was)} to {now!r}")


def _fields(old: Schema, new: Schema, types: Types, path: str) -> Iterator[Misfit]:
    before = cast("Schema", old.get("properties", {}))
    after = cast("Schema", new.get("properties", {}))
    for name in new.get("required", ()):
        if name not in before:
            yield Misfit(f"{path}.{name}", "a new field without a default")
        elif name not in old.get("required", ()):
            yield Misfit(f"{path}.{name}", "no longer has a default")
    others = _others(new)
    for name, schema in before.items():
        now = after.get(name, others)
        if now is not None:
            yield from misfits(schema, now, types, f"{path}.{name}")
        else:
            yield Misfit(f"{path}.{name}", "was removed, and values that have it are refused")
    more = _others(old)
    if more is not None and others is None:
        yield Misfit(path, "no longer allows other fields")
    elif others is not None:
        yield from misfits(more, others, types, f"{path}.*") if more is not None else ()
        text = {"type": "string"}
        keys = {**text, **old.get("propertyNames", {})} if more is not None else {"enum": list(old["properties"])}
        if misfits(keys, {**text, **new.get("propertyNames", {})}, types):
            yield Misfit(path, "the type of its keys changed")


def _others(schema: Schema) -> Schema | None:
    """Return the schema of an object's other fields; ``None`` if no others are allowed."""
    others = schema.get("additionalProperties", True)
    return None if others is False else cast("Schema", others) if isinstance(others, dict) else {}
