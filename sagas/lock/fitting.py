"""Whether everything that one JSON Schema allows is allowed by another, and where it is not.

Both are schemas as :func:`sagas.authoring.codec.json_schema` makes them, of this version or an earlier one. What cannot
be shown to fit counts as unfit: a field with a default may be absent, though a dataclass always writes it. What no
schema says (a ``__post_init__``, a validator of pydantic's) is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

Schema = dict[str, Any]

_SAID = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator")
"""Keywords that allow and forbid nothing."""
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
    """One place where what is stored may not fit.

    Args:
        path: where, as in the problems of a request (``$.order.id``); ``[]`` stands for any item.
        what: what changed there.
    """

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class Types:
    """What the references of a schema point to, by name."""

    old: dict[str, Schema]
    new: dict[str, Schema]
    seen: frozenset[tuple[str, str]] = field(default_factory=frozenset[tuple[str, str]])
    """Pairs of references that are being compared: a recursive type comes back to itself."""


def misfits(old: Schema, new: Schema, types: Types, path: str = "$") -> list[Misfit]:
    """Return where a value of the old schema may not fit the new one; none if every value does."""
    pair = (str(old.get("$ref", "")), str(new.get("$ref", "")))
    if all(pair):
        if pair in types.seen:
            return []
        types = replace(types, seen=types.seen | {pair})
    old, new = _plain(old, types.old), _plain(new, types.new)
    if not new:
        return []
    if "anyOf" in old:
        found = [one for member in old["anyOf"] for one in misfits(member, new, types, path)]
        return list(dict.fromkeys(found))
    if "anyOf" in new:
        return _fits_one(old, new["anyOf"], types, path)
    if "enum" in old:
        gone = [value for value in old["enum"] if not _is_one(value, new)]
        return [Misfit(path, f"{', '.join(map(repr, gone))} is not allowed any more")] if gone else []
    if "enum" in new:
        return [Misfit(path, f"was {_kind(old)}, is one of {', '.join(map(repr, new['enum']))} now")]
    kinds = _types_of(new)
    form = _form(new)
    if not _types_of(old) <= (kinds | {"integer"} if "number" in kinds else kinds) or (form and form != _form(old)):
        return [Misfit(path, f"was {_kind(old)}, is {_kind(new)} now")]
    return list(_narrower(old, new, types, path))


def _plain(schema: Schema, types: dict[str, Schema]) -> Schema:
    """The schema itself where it was a reference, in the one form that the rest of this module knows."""
    while "$ref" in schema:
        schema = types[schema["$ref"].rsplit("/", 1)[1]]
    known = {name: value for name, value in schema.items() if name not in _SAID}
    if "const" in known:
        known["enum"] = [known.pop("const")]
    if "oneOf" in known:
        known["anyOf"] = known.pop("oneOf")
    if len(known.get("allOf", ())) == 1:
        [only] = known.pop("allOf")
        known = _plain(only, types) | known
    if "enum" in known:
        known.pop("type", None)
    if "contentEncoding" in known or "format" in known:
        known.pop("pattern", None)  # says the same, at length
    return known


def _types_of(schema: Schema) -> frozenset[str]:
    """The JSON types that a schema allows; a made-up one where it allows all."""
    given = schema.get("type", "any")
    return frozenset(cast("list[str]", given) if isinstance(given, list) else [str(given)])


def _kind(schema: Schema) -> str:
    """How a person calls what a schema allows."""
    kinds = "any value" if "type" not in schema else " or ".join(sorted(_types_of(schema)))
    kinds = {"object": "an object", "array": "an array", "integer": "an integer"}.get(kinds, kinds)
    return f"{kinds} ({_form(schema)})" if _form(schema) else kinds


def _form(schema: Schema) -> str:
    """What a string stands for."""
    return str(schema.get("format") or schema.get("contentEncoding") or "")


def _is_one(value: object, schema: Schema) -> bool:
    """Whether a value of an enum is allowed, as far as its type tells."""
    if "enum" in schema:
        return any(type(value) is type(one) and value == one for one in schema["enum"])
    kind = _KINDS.get(type(value), "")
    return set(schema) <= {"type"} and bool({kind, "number" if kind == "integer" else kind} & _types_of(schema))


def _fits_one(old: Schema, members: list[Schema], types: Types, path: str) -> list[Misfit]:
    """A value must fit a member of a union; if one alone is of its kind, that tells best what is wrong."""
    if "enum" in old and len(old["enum"]) > 1:
        each = [{"enum": [value]} for value in old["enum"]]
        return [one for value in each for one in _fits_one(value, members, types, path)]
    tried = [misfits(old, member, types, path) for member in members]
    if not all(tried):
        return []
    near = [found for found in tried if all(one.path != path for one in found)]
    if len(near) == 1:
        return near[0]
    return [Misfit(path, f"{_kind(old)} is not allowed any more")]


def _narrower(old: Schema, new: Schema, types: Types, path: str) -> Iterator[Misfit]:
    """Where a schema of the same type allows less: inside, or by its limits."""
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
    # A bound may move outward, any other keyword must be as it was.
    for name in sorted(new.keys() - _STRUCTURAL):
        was, now = old.get(name), new[name]
        outward = was is not None and ((name in _LOWER and now <= was) or (name in _UPPER and now >= was))
        if was != now and not outward and not (name == "minItems" and now == 0):
            yield Misfit(path, f"{name} was {'not limited' if was is None else repr(was)}, is {now!r} now")


def _fields(old: Schema, new: Schema, types: Types, path: str) -> Iterator[Misfit]:
    before, after = cast("Schema", old.get("properties", {})), cast("Schema", new.get("properties", {}))
    for name in new.get("required", ()):
        if name not in before:
            yield Misfit(f"{path}.{name}", "a new field without a default")
        elif name not in old.get("required", ()):
            yield Misfit(f"{path}.{name}", "has no default any more")
    others = _others(new)
    for name, schema in before.items():
        now = after.get(name, others)
        if now is not None:
            yield from misfits(schema, now, types, f"{path}.{name}")
        else:
            yield Misfit(f"{path}.{name}", "was removed, and a value that has it is refused")
    more = _others(old)
    if more is not None and others is None:
        yield Misfit(path, "had any fields, has only some now")
    elif others is not None:
        yield from misfits(more, others, types, f"{path}.*") if more is not None else ()
        text = {"type": "string"}
        keys = {**text, **old.get("propertyNames", {})} if more is not None else {"enum": list(old["properties"])}
        if misfits(keys, {**text, **new.get("propertyNames", {})}, types):
            yield Misfit(path, "has keys of another type now")


def _others(schema: Schema) -> Schema | None:
    """What an object's other fields may be; ``None`` if it has no others."""
    others = schema.get("additionalProperties", True)
    return None if others is False else cast("Schema", others) if isinstance(others, dict) else {}
