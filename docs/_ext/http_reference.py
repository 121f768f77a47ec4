"""The page of the HTTP API, from the OpenAPI description that a service answers with. ``generated.py`` writes it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sagas import step, wait_for
from sagas.authoring.definition.definition import definition_of
from sagas.authoring.saga import Saga
from sagas.core.states import SagaStatus
from sagas.engine.registry import Registry
from sagas.handlers.http import openapi
from sagas.operations import OPERATIONS

_HEAD = """# HTTP API

*Generated from the code by `make docs`.*

Calls are signed with AWS credentials (SigV4, service `execute-api`), unless the service has an authorizer of its own;
bodies and answers are JSON. `GET /openapi.json` of a service describes it with the types of its own sagas. `{type}` is
a saga type of the service, `{step}` a `wait_for` of it; `/callbacks` is there where a wait is public and takes no
[right](../concepts/security-model.md#rights-by-saga-type).
"""
_ERRORS = """## Statuses

An error is `{"error": {"code", "message", "details"}}`; what each code means, and whether to try again, is under
[Errors](errors.md).

| status | means | codes |
|---|---|---|"""
_SCALARS = {"boolean": "true or false", "null": "null", "integer": "whole number", "number": "number"}
_METHODS = ("get", "post", "put", "delete")
_FORMATS = {"uuid": "UUID", "date-time": "time"}
_RIGHTS = {(operation.method.lower(), operation.path): operation.right for operation in OPERATIONS}
_STATUSES = {status.value for status in SagaStatus}


class StandIn(Saga[str], name="stand-in"):
    """Has each call that there can be about a saga; the page says ``{type}`` and ``{step}`` for what is its own."""

    @wait_for(str, timeout=timedelta(days=1), public=True)
    def stand_in(self) -> None: ...

    @step
    def last(self) -> None: ...


_SAGA, _WAIT = definition_of(StandIn).name, StandIn.stand_in.name


def _general(text: str, quote: str = "") -> str:
    return text.replace(_WAIT, f"{quote}{{step}}{quote}").replace(_SAGA, f"{quote}{{type}}{quote}")


def _words(text: str | None) -> str:
    """A description on one line, as it can stand in a table."""
    one = " ".join(inspect.cleandoc(text or "").split()).replace("``None``", "null").replace("``", "`")
    return one.replace("|", "\\|").replace("<", "&lt;")


def _choice(values: list[str]) -> str:
    """One of these."""
    if set(values) == _STATUSES:
        return "a [status](../concepts/states.md)"
    if values == [_SAGA]:
        return "a saga type"
    return "an [action](audit-actions.md)" if len(values) > 10 else " or ".join(f"`{one}`" for one in values)


def form(schema: dict[str, Any]) -> str:
    """What a schema allows, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(form, schema["anyOf"]))
    if "enum" in schema:
        return _choice(schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of: {form(schema.get('items', {}))}"
        case "object" if schema.get("properties"):
            return "object of " + ", ".join(f"`{name}`" for name in schema["properties"])
        case "object":
            return "object"
        case "string":
            most = f" of up to {schema['maxLength']:,} characters" if "maxLength" in schema else ""
            return _FORMATS.get(schema.get("format", ""), f"text{most}")
        case kind:
            words = _SCALARS.get(str(kind), "JSON")
            return f"{words}, {schema['minimum']:,} to {schema['maximum']:,}" if "maximum" in schema else words


def _given(path: str, item: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    """A row of the table for each thing that a call is given."""
    for one in [*item.get("parameters", []), *operation.get("parameters", [])]:
        if "name" not in one or one["in"] == "path":
            continue
        schema = one["schema"]
        default = f" Default: `{json.dumps(schema['default'])}`." if schema.get("default") not in (None, "") else ""
        told = f"{_words(one.get('description'))}{default}".strip()
        yield f"| {one['in']} `{one['name']}` | {form(schema)} | {told} |"
    if "requestBody" not in operation:
        return
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    if "properties" not in schema:
        what = "the value of the signal" if "callbacks" in path or "signals" in path else "the saga's request"
        yield f"| body | {what} | must be given |"
    for name, field in schema.get("properties", {}).items():
        yield f"| body `{name}` | {form(field)} | {'must be given' if name in schema.get('required', ()) else ''} |"


def _operations(paths: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each call that there is."""
    yield from (item[method] for item in paths.values() for method in _METHODS if method in item)


def _answers(responses: dict[str, Any], always: set[str]) -> str:
    """What is answered when it went well, and which statuses there are besides those that every call has."""
    schemas = {
        status: answer.get("content", {}).get("application/json", {}).get("schema")
        for status, answer in responses.items()
        if status < "300"
    }
    well = " or ".join(sorted(schemas))
    holds = {form(schema) for schema in schemas.values() if schema}
    others = ", ".join(status for status in sorted(responses) if status not in schemas and status not in always)
    return f"Answers {well} with {' or '.join(sorted(holds))}{f'; or {others}' if others else ''}."


def _statuses(paths: dict[str, Any]) -> Iterator[str]:
    """A row for each status that some call may be answered with."""
    found: dict[str, tuple[str, set[str]]] = {}
    for operation in _operations(paths):
        for status, answer in operation["responses"].items():
            codes = re.findall(r"'code': {'type': 'string', 'enum': (\[[^\]]*\])", str(answer))
            names = {name for code in codes for name in re.findall(r"'(\w+)'", code)}
            told, before = found.get(status, (answer["description"], set[str]()))
            found[status] = (told, before | names)
    for status, (told, names) in sorted(found.items()):
        codes = ", ".join(f"[`{name}`](errors.md#{name})" for name in sorted(names))
        yield f"| {status} | {_words(told)} | {codes} |"


def http_page() -> str:
    """Every call of the API: what it is given, what it answers."""
    description = openapi.describe(list(Registry([StandIn])))
    paths = {_general(path): item for path, item in description["paths"].items()}
    answers: list[set[str]] = [set(operation["responses"]) for operation in _operations(paths)]
    always = {status for status in answers[0] if status >= "400" and all(status in one for one in answers)}
    told = (
        f"Every call may be answered {', '.join(sorted(always))}: [statuses](#statuses). 422 is the answer to a query"
    )
    also = "parameter that a call does not take, too, and to one that is given twice; but callbacks take any."
    lines = [_HEAD, f"{told}\n{also}\n"]
    for path, item in sorted(paths.items()):
        for method in _METHODS:
            if method not in item:
                continue
            operation = item[method]
            more = "" if operation.get("description") == StandIn.__doc__ else _words(operation.get("description"))
            lines.append(
                f"## {method.upper()} {path}\n\n{_general(_words(operation.get('summary')), '`')}. {more}".rstrip()
                + "\n"
            )
            rows = list(_given(path, item, operation))
            if rows:
                lines += ["| given | is | |", "|---|---|---|", *(_general(row, "`") for row in rows), ""]
            right = f" Right: `{_RIGHTS[method, path]}`." if (method, path) in _RIGHTS else ""
            lines.append(_answers(operation["responses"], always) + f"{right}\n")
    lines += [
        _ERRORS,
        *_statuses(paths),
        "\n## What answers hold\n\nTimes are ISO 8601 in UTC. A field that is not always there says so.\n",
    ]
    for name, schema in sorted(description["components"]["schemas"].items()):
        lines += [f"### {name}\n\n{_words(schema.get('description'))}\n", "| field | is | |", "|---|---|---|"]
        for field, one in schema["properties"].items():
            always = "" if field in schema.get("required", ()) else "not always"
            lines.append(f"| `{field}` | {_general(form(one), '`')} | {always} |")
        lines.append("")
    return "\n".join(lines)
