"""The page of the HTTP API, from the OpenAPI description that a service answers with. ``generated.py`` writes it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
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

Calls are signed with AWS credentials (SigV4, service `execute-api`), unless the service has its own authorizer. Bodies
and answers are JSON. `GET /openapi.json` describes a service with its own saga types. `{type}` is a saga type of the
service, and `{step}` is one of its `wait_for` steps. `/callbacks` exists if a wait is public, and needs no
[right](../concepts/security-model.md#rights-by-saga-type).
"""
_CLIENTS = """## Generate a client

`GET /openapi.json` answers with an OpenAPI 3.1 document of the deployed types, and `sagas openapi` prints the same
without a service: then its title is `--service`, its server `/`, and its security scheme SigV4. Tests generate these
clients and use the first and the last of them:

| client | command |
|---|---|
| Python, with httpx | `openapi-python-client generate --path openapi.json` |
| Python and 50 other languages | `openapi-generator-cli generate -i openapi.json -g python -o client` |
| TypeScript types | `openapi-typescript openapi.json -o client.ts` |

Generated clients do not sign. Pass them what does: an `httpx.Auth` for the first, for the last a `fetch` that signs.
The fields `request` and `result` have the types of your code, unless a part of them is
[redacted](../concepts/security-model.md). A saga of an earlier version of its type can have others.
"""
_ERRORS = """## Statuses

An error is `{"error": {"code", "message", "details"}}`. [Errors](errors.md) describes each code, and whether to try
again.

| status | meaning | codes |
|---|---|---|"""
_SCALARS = {"boolean": "true or false", "null": "null", "integer": "whole number", "number": "number"}
_METHODS = ("get", "post", "put", "delete")
_FORMATS = {"uuid": "UUID", "date-time": "time"}
_RIGHTS = {(operation.method.lower(), operation.path): operation.right for operation in OPERATIONS}
_STATUSES = {status.value for status in SagaStatus}


class StandIn(Saga[str], name="stand-in"):
    """Has every call that a saga can have. On the page, ``{type}`` and ``{step}`` replace its own names."""

    @wait_for(str, timeout=timedelta(days=1), public=True)
    def stand_in(self) -> None: ...

    @step
    def last(self) -> None: ...


_SAGA, _WAIT = definition_of(StandIn).name, StandIn.stand_in.name


def _general(text: str, quote: str = "") -> str:
    return text.replace(_WAIT, f"{quote}{{step}}{quote}").replace(_SAGA, f"{quote}{{type}}{quote}")


def _words(text: str | None) -> str:
    """A description on one line, for a table."""
    line = " ".join(inspect.cleandoc(text or "").split()).replace("``None``", "null").replace("``", "`")
    return line.replace("|", "\\|").replace("<", "&lt;")


def _choice(values: list[str]) -> str:
    """The description of a choice."""
    if set(values) == _STATUSES:
        return "a [status](../concepts/states.md)"
    if values == [_SAGA]:
        return "a saga type"
    return "an [action](audit-actions.md)" if len(values) > 10 else " or ".join(f"`{value}`" for value in values)


@cache
def _description() -> dict[str, Any]:
    return openapi.describe(list(Registry([StandIn])))


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    """A node of the description, or the component that it refers to."""
    if "$ref" not in node:
        return node
    _, _, kind, name = node["$ref"].split("/")
    return _description()["components"][kind][name]


def form(schema: dict[str, Any]) -> str:
    """The description of a schema."""
    if "allOf" in _resolved(schema):  # the sagas of a type
        return form(_resolved(schema)["allOf"][0])
    if "$ref" in schema and "properties" in _resolved(schema):
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    schema = _resolved(schema)
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


def _inputs(path: str, item: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    """The rows of the table of a call's inputs."""
    for parameter in [*item.get("parameters", []), *operation.get("parameters", [])]:
        if "name" not in parameter or parameter["in"] == "path":
            continue
        schema = parameter["schema"]
        default = f" Default: `{json.dumps(schema['default'])}`." if schema.get("default") not in (None, "") else ""
        text = f"{_words(parameter.get('description'))}{default}".strip()
        yield f"| {parameter['in']} `{parameter['name']}` | {form(schema)} | {text} |"
    if "requestBody" not in operation:
        return
    schema = _resolved(operation["requestBody"]["content"]["application/json"]["schema"])
    if "properties" not in schema:
        what = "the value of the signal" if "callbacks" in path or "signals" in path else "the saga's request"
        yield f"| body | {what} | required |"
    for name, field in schema.get("properties", {}).items():
        yield f"| body `{name}` | {form(field)} | {'required' if name in schema.get('required', ()) else ''} |"


def _operations(paths: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The operations of all paths."""
    yield from (item[method] for item in paths.values() for method in _METHODS if method in item)


def _answers(responses: dict[str, Any], always: set[str]) -> str:
    """The sentence on a call's answers: its statuses and schemas, without the errors that every call can get."""
    schemas = {
        status: answer.get("content", {}).get("application/json", {}).get("schema")
        for status, answer in responses.items()
        if status < "300"
    }
    good = " or ".join(sorted(schemas))
    forms = {form(schema) for schema in schemas.values() if schema}
    others = ", ".join(status for status in sorted(responses) if status not in schemas and status not in always)
    return f"Answers {good} with {' or '.join(sorted(forms))}{f'; or {others}' if others else ''}."


def _statuses(paths: dict[str, Any]) -> Iterator[str]:
    """A row for each status of an answer."""
    statuses: dict[str, tuple[str, set[str]]] = {}
    for operation in _operations(paths):
        for status, answer in operation["responses"].items():
            described = _resolved(answer)
            codes = described.get("content", {}).get("application/json", {}).get("examples", {})
            statuses.setdefault(status, (described["description"], {*codes}))
    for status, (text, names) in sorted(statuses.items()):
        codes = ", ".join(f"[`{name}`](errors.md#{name})" for name in sorted(names))
        yield f"| {status} | {_words(text)} | {codes} |"


def http_page() -> str:
    """The page of the API: the inputs and answers of each call."""
    description = _description()
    paths = {_general(path): item for path, item in description["paths"].items()}
    answers: list[set[str]] = [set(operation["responses"]) for operation in _operations(paths)]
    always = {status for status in answers[0] if status >= "400" and all(status in statuses for statuses in answers)}
    general = (
        f"Any call can be answered with {', '.join(sorted(always))}: see [Statuses](#statuses). 422 is also\n"
        "the answer to an unknown or repeated query parameter. Only callbacks accept any parameter."
    )
    lines = [_HEAD, f"{general}\n"]
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
            rows = list(_inputs(path, item, operation))
            if rows:
                lines += ["| input | form | |", "|---|---|---|", *(_general(row, "`") for row in rows), ""]
            right = f" Right: `{_RIGHTS[method, path]}`." if (method, path) in _RIGHTS else ""
            lines.append(_answers(operation["responses"], always) + f"{right}\n")
    lines += [
        _CLIENTS,
        _ERRORS,
        *_statuses(paths),
        "\n## Fields of answers\n\nTimes are ISO 8601 in UTC. A field marked *not always* can be missing.\n",
    ]
    bodies = {operation.body.__name__ for operation in OPERATIONS if operation.body is not None}
    for name, schema in sorted(description["components"]["schemas"].items()):
        if "properties" not in schema or name in bodies:
            continue
        lines += [f"### {name}\n\n{_words(schema.get('description'))}\n", "| field | form | |", "|---|---|---|"]
        for field, value in schema["properties"].items():
            always = "" if field in schema.get("required", ()) else "not always"
            lines.append(f"| `{field}` | {_general(form(value), '`')} | {always} |")
        lines.append("")
    return "\n".join(lines)
