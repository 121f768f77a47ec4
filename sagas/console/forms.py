"""Makes HTML forms from a JSON Schema, and JSON from what an operator entered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sagas.core.text import parse_json
from sagas.errors import InvalidRequest, Problem

PREFIX = "value."
_NAMED = re.compile(r"\$\.([^.\[]+)")
"""The start of a path into a value, which names a form field."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form. Its kind is ``text``, ``number``, ``integer``, ``boolean``, ``choice`` or ``json``. The name
    is empty if the field is the whole value. ``nullable``: whether an empty required field means null."""

    name: str
    kind: str
    required: bool
    choices: tuple[str, ...] = ()
    description: str = ""
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class RefusedForm:
    """The error of a refused form, the text in each input, and the problems, with paths: those of each field, and
    others."""

    text: str
    typed: Mapping[str, str]
    problems: Mapping[str, str]
    others: tuple[str, ...]


NOT_SENT = RefusedForm("", {}, {}, ())
"""The state of an empty form."""


def refused(
    text: str, problems: Sequence[Problem], schema: Mapping[str, Any] | None, form: Mapping[str, str]
) -> RefusedForm:
    """Return the problems of a refused form, and the text to show in it again."""
    names = {item.name for item in fields_of(schema)}
    of_fields = dict[str, str]()
    others = list[str]()
    for problem in problems:
        line = f"{problem.path}: {problem.message}"
        named = _NAMED.match(problem.path)
        name = named[1] if named and named[1] in names else ""
        if name in names:
            of_fields[name] = f"{of_fields[name]}; {line}" if name in of_fields else line
        else:
            others.append(line)
    return RefusedForm(text, form, of_fields, tuple(others))


def fields_of(schema: Mapping[str, Any] | None) -> tuple[FormField, ...]:
    """Return one field per property of an object. For any other value, return a single JSON field."""
    if not schema:
        return (FormField("", "json", True),)
    resolved = _resolved(schema, schema)
    properties = resolved.get("properties")
    if resolved.get("type") != "object" or not isinstance(properties, dict):
        return (_field("", resolved, schema, True),)
    required = resolved.get("required", ())
    named = cast("dict[str, Any]", properties).items()
    return tuple(_field(name, property_, schema, name in required) for name, property_ in named)


def value_of(schema: Mapping[str, Any] | None, form: Mapping[str, str]) -> Any:
    fields = fields_of(schema)
    problems = list[Problem]()
    value = dict[str, Any]()
    for field in fields:
        text = form.get(PREFIX + field.name, "")
        # Fields have no defaults: an oversight must not approve anything.
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
                    value[field.name] = parse_json(text)
                case _:
                    value[field.name] = text
        except (KeyError, ValueError):
            problems.append(
                Problem(
                    f"$.{field.name}".rstrip("."),
                    "is not valid JSON" if field.kind == "json" else f"is not a valid {field.kind}",
                )
            )
    if problems:
        raise InvalidRequest("invalid value", problems)
    return value.get("") if len(fields) == 1 and fields[0].name == "" else value


def _field(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], required: bool) -> FormField:
    resolved = _resolved(schema, root)
    either = resolved.get("anyOf")
    if isinstance(either, list) and len(cast("list[Any]", either)) == 2 and {"type": "null"} in either:
        (other,) = (item for item in cast("list[Any]", either) if item != {"type": "null"})
        return replace(_field(name, other, root, required), nullable=True)
    description = str(resolved.get("description", "") or resolved.get("format", ""))
    enum = resolved.get("enum")
    if isinstance(enum, list) and all(isinstance(each, str) for each in cast("list[Any]", enum)):
        return FormField(name, "choice", required, tuple(cast("list[str]", enum)), description)
    kinds = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    return FormField(name, kinds.get(str(resolved.get("type")), "json"), required, (), description)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(8):
        place = schema.get("$ref")
        if not isinstance(place, str) or not place.startswith("#/"):
            return schema
        node: Any = root
        for part in place[2:].split("/"):
            node = node.get(part, {})
        schema = node
    return schema
