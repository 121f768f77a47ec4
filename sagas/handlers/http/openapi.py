"""The OpenAPI 3.1 description of the API, made from the saga types that are deployed."""

from __future__ import annotations

from typing import Any

from sagas.authoring.codec import json_schema
from sagas.authoring.definition.definition import StepDefinition
from sagas.core.ids import KEY_PATTERN, LONGEST_CANCEL_REASON, LONGEST_CORRELATION_ID, LONGEST_KEY
from sagas.core.states import SagaStatus
from sagas.engine.registry import SagaType
from sagas.handlers.http.bodies import describe_body, may_be_absent
from sagas.handlers.http.inputs import SHORTEST_BEGINNING
from sagas.handlers.http.schemas import Json, answer_schemas, error_schema, one_of, ref
from sagas.operations import (
    ATTENTION,
    AUDIT,
    CANCEL,
    LIST,
    LOOK_UP,
    OPERATIONS,
    SIGNAL,
    START,
    STATS,
    Operation,
)

_ERRORS: dict[str, tuple[str, str]] = {
    "400": ("The body is not JSON, or the call is no proper HTTP.", "malformed_body bad_request"),
    "403": ("The call is not signed or not allowed, or there is no such path and method.", "forbidden"),
    "404": ("There is no such resource.", "not_found"),
    "409": ("The saga's state does not allow it; the message says what the state is.", "conflict"),
    "413": ("The body is larger than 256 KB.", "too_large"),
    "422": ("The input does not fit; details lists the paths.", "invalid_request"),
    "429": ("Too many calls.", "throttled"),
    "500": ("An internal error; the log has it under the request's id.", "internal"),
    "502": ("The function behind the API failed.", "internal"),
    "503": ("Out of reach or paused: try again after Retry-After seconds.", "unavailable paused"),
    "504": ("There was no answer in time.", "timeout"),
}
_ANYWHERE = ("400", "403", "429", "500", "502", "503", "504")
"""What every call may be answered: by the gateway, or because the store is out of reach."""

_SAGA_ID: Json = {"type": "string", "format": "uuid"}
_BEGINNING: Json = {"type": "string", "minLength": SHORTEST_BEGINNING}
_RETRY_AFTER: Json = {"required": True, "schema": {"type": "integer", "minimum": 1}}
_KEY = (
    "The same key and request start one saga. The key answers with it, by 200, for as long as the saga is stored, and "
    "for the service's key_retention (30 days unless it says otherwise) after it was purged; until then it starts no "
    "other."
)
_NOT_CANCELLABLE = (
    "Sagas of this type cannot be cancelled: the answer is 409, but for one whose cancel was accepted before the type "
    "was declared so."
)
_LIST = (
    "Newest first. since (inclusive) and until (exclusive) are of the start; where status is an end and no value is "
    "asked for, of the end, and the last to end comes first. A page may be short although the cursor leads on."
)
_BEGUN = "Also by how its id begins, if that is enough to tell it from others: 409 if not."
_SIGNALLED = "202: accepted; 200: the same value was before. It is kept, also if the saga has not come to the step yet."
_DESCRIPTIONS = {LIST.name: _LIST, LOOK_UP.name: _BEGUN, SIGNAL.name: _SIGNALLED}
_BY_KEY = "Only what this Idempotency-Key started; goes with type alone."
_GROUP = "By type, step and error type, with the number of sagas of each; limit and cursor do not apply."
_FOUND_BY = "Only sagas with this value in their requests, of types that are found by it."
_ETAG: Json = {"required": True, "schema": {"type": "string"}}
_LOCATION: Json = {"required": True, "schema": {"type": "string", "format": "uri-reference"}}


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _error(status: str, also: str = "") -> Json:
    description, codes = _ERRORS[status]
    schema = error_schema(f"{codes} {also}".split(), listed=status == "422")
    headers = {"headers": {"Retry-After": _RETRY_AFTER}} if status == "503" else {}
    return {"description": description, "content": _content(schema), **headers}


def _described(operation: Operation, id: str = "", name: str = "") -> Json:
    """Return what the row of an operation says of it."""
    itself: Json = {"type": "object", "required": ["openapi", "info", "paths"]}
    answers = [ref(name) for name in operation.answer.split()]
    answered = {"anyOf": answers} if len(answers) > 1 else {**answers[0]} if answers else itself
    content = _content(answered)
    responses: Json = {status: {"description": "Done.", "content": content} for status in operation.statuses.split()}
    responses |= {status: _error(status) for status in sorted({*operation.errors.split(), *_ANYWHERE})}
    described: Json = {
        "operationId": id or operation.name,
        "summary": operation.summary.format(type=name),
        "responses": responses,
    }
    if operation.polled:
        told = "The ETag of an answer that the caller has."
        header = {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}
        described["parameters"] = [header | {"description": told}]
        responses["200"] |= {"headers": {"ETag": _ETAG}}
        unchanged = "The answer is still the one with this ETag."
        responses["304"] = {"description": unchanged, "headers": {"ETag": _ETAG}}
    if operation.body is not None and operation.method != "DELETE":
        described |= _body(describe_body(operation.body), required=not may_be_absent(operation.body))
    if operation.name in _DESCRIPTIONS:
        described["description"] = _DESCRIPTIONS[operation.name]
    return described


def _body(schema: Json, *, required: bool = True) -> Json:
    return {"requestBody": {"required": required, "content": _content(schema)}}


def _in_path(operation: Operation, schemas: Json) -> list[Json]:
    return [{"name": one, "in": "path", "required": True, "schema": schemas[one]} for one in operation.parameters]


def _add(paths: Json, path: str, operation: Operation, described: Json, parameters: list[Json]) -> None:
    """Add an operation to its path, whose parameters are those of all that it has."""
    paths.setdefault(path, {"parameters": parameters} if parameters else {})[operation.method.lower()] = described


def _query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _moment(name: str) -> Json:
    return _query(name, {"type": "string"}) | {"description": "ISO 8601; UTC without an offset."}


def _paging() -> list[Json]:
    cursor: Json = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": 256}
    told = "Where to go on: the cursor of an earlier answer about the same, and nothing else."
    limit = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    return [_query("limit", limit), _query("cursor", cursor) | {"description": told}]


def _request_schema(saga: SagaType) -> Json:
    """The schema of a request. What it refers to goes under the saga's name: two sagas may each have an ``Item``."""
    template = f"#/components/schemas/{saga.definition.name}.{{name}}"
    return json_schema(saga.definition.request_type, ref_template=template)


def _saga_paths(saga: SagaType) -> Json:
    """The operations on sagas of one type."""
    name, paths = saga.definition.name, Json()
    for operation in OPERATIONS:
        if not operation.typed:
            continue
        for step in _signalled(saga) if operation is SIGNAL else [None]:
            described = _described(operation, _id(operation, saga, step), name)
            if operation is START:
                described |= _start(saga, described)
            elif operation is CANCEL:
                described |= _cancel(saga)
            elif step is not None:
                schema = _signal_schema(saga, step)
                schema.pop("$defs", None)
                described |= _body(schema) | {"summary": f"Send {step.name} of one {name}"}
            path = operation.path.replace("{type}", name).replace("{step}", step.name if step else "")
            where = [one for one in _in_path(operation, _IN_PATH) if one["name"] == "saga_id"]
            _add(paths, path, operation, described, [*where, *(_paging() if operation is AUDIT else ())])
    return paths


_IN_PATH: Json = {"type": {}, "step": {}, "saga_id": _SAGA_ID}
"""Schemas of the parameters where a path is of one type; the others are filled in."""


def _id(operation: Operation, saga: SagaType, step: StepDefinition | None = None) -> str:
    """The id of an operation on sagas of one type."""
    at = f"_{step.name}" if step else ""
    return f"{operation.name}_{saga.definition.name}{at}".replace("-", "_")


def _start(saga: SagaType, described: Json) -> Json:
    """What a start has besides: its request, headers, and links to what can be asked next."""
    request, responses = _request_schema(saga), described["responses"]
    request.pop("$defs", None)
    responses["422"] = _error("422", "idempotency_key_reused")
    answered = {"saga_id": "$response.body#/saga_id"}
    next_calls = [operation for operation in OPERATIONS if operation.typed and operation not in (START, SIGNAL)]
    linked = {operation.name: _id(operation, saga) for operation in next_calls}
    linked |= {f"signal_{step.name}": _id(SIGNAL, saga, step) for step in _signalled(saga)}
    links = {name: {"operationId": id, "parameters": answered} for name, id in linked.items()}
    for status in START.statuses.split():
        responses[status] |= {"headers": {"Location": _LOCATION}, "links": links}
    key: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": KEY_PATTERN}
    correlation: Json = {**key, "maxLength": LONGEST_CORRELATION_ID}
    headers = (
        ("Idempotency-Key", key, _KEY),
        ("X-Correlation-Id", correlation, "Your own correlation id; kept in the audit trail, messages and logs."),
        ("traceparent", {"type": "string"}, "Of W3C: without X-Correlation-Id its trace id is the correlation id."),
    )
    parameters = [
        {"name": header, "in": "header", "required": False, "schema": schema, "description": told}
        for header, schema, told in headers
    ]
    return _body(request) | {"parameters": parameters, "description": saga.definition.description}


def _cancel(saga: SagaType) -> Json:
    """What a cancel has besides: its query, and whether it is of any use."""
    told = "Also a child whose parent is not over: it counts as failed."
    reason = {"type": "string", "maxLength": LONGEST_CANCEL_REASON, "default": ""}
    parameters = [
        _query("force", {"type": "boolean", "default": False}) | {"description": told},
        _query("reason", reason) | {"description": "Why; kept in the audit trail with the first accepted cancel."},
    ]
    return {"parameters": parameters} | ({} if saga.definition.cancellable else {"description": _NOT_CANCELLABLE})


def _signalled(saga: SagaType) -> list[StepDefinition]:
    return [step for step in saga.definition.steps if step.waits_for == "signal"]


def _signal_schema(saga: SagaType, step: StepDefinition) -> Json:
    """The schema of what a step takes. What it refers to goes under the saga's and the step's name."""
    template = f"#/components/schemas/{saga.definition.name}.{step.name}.{{name}}"
    return json_schema(step.signal_type, ref_template=template)


def _callback_path(sagas: list[SagaType]) -> Json:
    """The route of all public waits, which takes what any of them does; none where there are none."""
    bodies = list[Json]()
    for saga in sagas:
        for step in (one for one in _signalled(saga) if one.public):
            schema = _signal_schema(saga, step)
            schema.pop("$defs", None)
            bodies.append(schema)
    if not bodies:
        return {}
    called = Operation(
        *("call_back", "POST", "/callbacks/{token}", "", "Send what a public wait is for", "Callback", "200 202"),
        errors=SIGNAL.errors,
    )
    told = "As the signal of the step that the token is for, without AWS credentials: who has the URL may call it."
    token = {"name": "token", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    open_to_all: Json = {"description": told, "security": list[Json](), **_body({"anyOf": bodies})}
    return {called.path: {"parameters": [token], "post": _described(called) | open_to_all}}


def describe(sagas: list[SagaType], base: str = "") -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the API for these saga types."""
    name = one_of(saga.definition.name for saga in sagas)
    parent = _query("parent", _SAGA_ID) | {"description": "Children of this saga; goes with limit and cursor only."}
    found_by = sorted({one.name for saga in sagas for one in saga.definition.find_by})
    listed_by = [parent, _query("type", name), _query("status", one_of(SagaStatus)), *map(_moment, ("since", "until"))]
    listed_by += [_query("idempotency_key", {"type": "string"}) | {"description": _BY_KEY}, *_paging()]
    listed_by += [_query(one, {"type": "string"}) | {"description": _FOUND_BY} for one in found_by]
    queries = {
        LIST.name: listed_by,
        ATTENTION.name: [
            _query("type", name),
            *_paging(),
            _query("group", one_of(["incident"])) | {"description": _GROUP},
        ],
        STATS.name: [_query("type", name), _moment("since")],
    }
    in_path: Json = {"type": name, "saga_id": _BEGINNING, "step": {"type": "string"}}
    paths: Json = {}
    for operation in OPERATIONS:
        if not operation.typed:
            parameters = [*_in_path(operation, in_path), *queries.get(operation.name, ())]
            _add(paths, operation.path, operation, _described(operation), parameters)
    paths |= _callback_path(sagas)
    schemas = answer_schemas()
    for saga in sagas:
        paths |= _saga_paths(saga)
        defined: Json = _request_schema(saga).get("$defs", {})
        schemas |= {f"{saga.definition.name}.{name}": schema for name, schema in defined.items()}
        for step in _signalled(saga):
            parts: Json = _signal_schema(saga, step).get("$defs", {})
            schemas |= {f"{saga.definition.name}.{step.name}.{name}": schema for name, schema in parts.items()}
    described: Json = {
        "openapi": "3.1.0",
        "info": {"title": "Sagas", "version": "1", "description": "Start, read, cancel and repair sagas."},
        "servers": [{"url": base or "/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return described
