"""A form from a JSON Schema, and the JSON that was filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sagas.errors import InvalidRequest, Problem

PREFIX = "value."
_NAMED = re.compile(r"\$\.([^.\[]+)")
"""The beginning of a path into a value: what names the form's field."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Args:
        name: the key; empty where the whole value is the field.
        kind: ``text``, ``number``, ``integer``, ``boolean``, ``choice`` or ``json``.
        required: whether something must be there.
        choices: of a choice.
        told: what the schema says of it.
        nullable: whether nothing, where it is required, is null.
    """

    name: str
    kind: str
    required: bool
    choices: tuple[str, ...] = ()
    told: str = ""
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """What was wrong with a form that was sent, and what had been typed into it.

    Args:
        text: what is the matter.
        typed: what was filled in, by the names of the inputs.
        problems: what is wrong with a field, by its name, each with its path.
        others: what is wrong besides, each with its path.
    """

    text: str
    typed: Mapping[str, str]
    problems: Mapping[str, str]
    others: tuple[str, ...]


NOT_SENT = Refused("", {}, {}, ())
"""Of a form that nothing was typed into yet."""


def refused(
    text: str, problems: Sequence[Problem], schema: Mapping[str, Any] | None, form: Mapping[str, str]
) -> Refused:
    """Return what to show again with a form that was refused."""
    names = {one.name for one in fields_of(schema)}
    of_fields, others = dict[str, str](), list[str]()
    for problem in problems:
        told, named = f"{problem.path}: {problem.message}", _NAMED.match(problem.path)
        name = named[1] if named and named[1] in names else ""
        if name in names:
            of_fields[name] = f"{of_fields[name]}; {told}" if name in of_fields else told
        else:
            others.append(told)
    return Refused(text, form, of_fields, tuple(others))


def fields_of(schema: Mapping[str, Any] | None) -> tuple[Field, ...]:
    """Return the fields for a value: one for each property of a plain object, else one for the whole as JSON."""
    if not schema:
        return (Field("", "json", True),)
    known = _resolved(schema, schema)
    properties = known.get("properties")
    if known.get("type") != "object" or not isinstance(properties, dict):
        return (_field("", known, schema, True),)
    required = known.get("required", ())
    named = cast("dict[str, Any]", properties).items()
    return tuple(_field(name, one, schema, name in required) for name, one in named)


def value_of(schema: Mapping[str, Any] | None, form: Mapping[str, str]) -> Any:
    """Return the value that a form was filled in with."""
    fields, problems, value = fields_of(schema), list[Problem](), dict[str, Any]()
    for field in fields:
        text = form.get(PREFIX + field.name, "")
        # Nothing is chosen for the operator who fills it in: an approval is not to be a yes by oversight.
        if text == "" and (not field.required or field.nullable or field.kind != "text"):
            if field.required and field.nullable:
                value[field.name] = None
            elif field.required:
                problems.append(Problem(f"$.{field.name}".rstrip("."), "is missing"))
            continue
        try:
            match field.kind:
                case "boolean":
                    value[field.name] = {"true": True, "false": False}[text]
                case "integer":
                    value[field.name] = int(text)
                case "number" | "json":
                    value[field.name] = json.loads(text)
                case _:
                    value[field.name] = text
        except (KeyError, ValueError, RecursionError):
            problems.append(Problem(f"$.{field.name}".rstrip("."), f"is no {field.kind}"))
    if problems:
        raise InvalidRequest("the value does not fit", problems)
    return value.get("") if len(fields) == 1 and fields[0].name == "" else value


def _field(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], required: bool) -> Field:
    known = _resolved(schema, root)
    either = known.get("anyOf")
    if isinstance(either, list) and len(cast("list[Any]", either)) == 2 and {"type": "null"} in either:
        (other,) = (one for one in cast("list[Any]", either) if one != {"type": "null"})
        return replace(_field(name, other, root, required), nullable=True)
    told = str(known.get("description", "") or known.get("format", ""))
    enum = known.get("enum")
    if isinstance(enum, list) and all(isinstance(one, str) for one in cast("list[Any]", enum)):
        return Field(name, "choice", required, tuple(cast("list[str]", enum)), told)
    kinds = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    return Field(name, kinds.get(str(known.get("type")), "json"), required, (), told)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference stands for."""
    for _ in range(8):
        place = schema.get("$ref")
        if not isinstance(place, str) or not place.startswith("#/"):
            return schema
        found: Any = root
        for part in place[2:].split("/"):
            found = found.get(part, {})
        schema = found
    return schema
