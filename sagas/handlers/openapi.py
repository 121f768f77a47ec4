"""The OpenAPI 3.1 description of the API, made from the saga types that are deployed."""

from __future__ import annotations

from typing import Any

from sagas.authoring.codec import json_schema
from sagas.authoring.definition import StepDefinition
from sagas.core.keys import KEY_PATTERN, LONGEST_CANCEL_NOTE, LONGEST_CORRELATION_ID, LONGEST_KEY
from sagas.core.states import SagaStatus
from sagas.engine.registry import SagaType
from sagas.handlers.bodies import (
    Attempts,
    Change,
    Compensation,
    Note,
    Purging,
    Recovering,
    Resolution,
    describe_body,
)
from sagas.handlers.inputs import SHORTEST_BEGINNING
from sagas.handlers.schemas import Json, answer_schemas, error_schema, one_of, ref

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

_READ = "404 422"
_WRITE = "404 413 422"
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
_BY_KEY = "Only what this Idempotency-Key started; goes with name alone."
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


def _operation(id: str, summary: str, answers: dict[str, Json], errors: str) -> Json:
    responses: Json = {status: {"description": "Done.", "content": _content(body)} for status, body in answers.items()}
    responses |= {status: _error(status) for status in sorted({*errors.split(), *_ANYWHERE})}
    return {"operationId": id, "summary": summary, "responses": responses}


def _polled(operation: Json) -> Json:
    """An operation of which who has the answer already is told just that."""
    told = "The ETag of an answer that the caller has."
    header = {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}
    unchanged = {"description": "The answer is still the one with this ETag.", "headers": {"ETag": _ETAG}}
    done: Json = operation["responses"]["200"]
    responses = {**operation["responses"], "200": done | {"headers": {"ETag": _ETAG}}, "304": unchanged}
    return operation | {"parameters": [header | {"description": told}], "responses": responses}


def _with_body(operation: Json, schema: Json, *, required: bool = True) -> Json:
    return operation | {"requestBody": {"required": required, "content": _content(schema)}}


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
    definition, name = saga.definition, saga.definition.name
    one, identifier = f"/sagas/{name}/{{saga_id}}", name.replace("-", "_")
    where = [{"name": "saga_id", "in": "path", "required": True, "schema": _SAGA_ID}]

    def operation(verb: str, summary: str, statuses: str, errors: str) -> Json:
        return _operation(f"{verb}_{identifier}", summary, dict.fromkeys(statuses.split(), ref("Saga")), errors)

    request = _request_schema(saga)
    request.pop("$defs", None)
    start = _with_body(operation("start", f"Start {name}", "200 202", _WRITE), request)
    start["responses"]["422"] = _error("422", "idempotency_key_reused")
    next_calls = ("show", "cancel", "audit", "verify", "retry", "compensate", "resolve", "purge")
    answered = {"saga_id": "$response.body#/saga_id"}
    linked = {verb: f"{verb}_{identifier}" for verb in next_calls}
    linked |= {f"signal_{step.name}": f"signal_{identifier}_{step.name}" for step in _signalled(saga)}
    links = {name: {"operationId": id, "parameters": answered} for name, id in linked.items()}
    for status in ("200", "202"):
        start["responses"][status] |= {"headers": {"Location": _LOCATION}, "links": links}
    key: Json = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": KEY_PATTERN}
    correlation: Json = {**key, "maxLength": LONGEST_CORRELATION_ID}
    headers = (
        ("Idempotency-Key", key, _KEY),
        ("X-Correlation-Id", correlation, "Your own correlation id; kept in the audit trail, messages and logs."),
        ("traceparent", {"type": "string"}, "Of W3C: without X-Correlation-Id its trace id is the correlation id."),
    )
    start["parameters"] = [
        {"name": header, "in": "header", "required": False, "schema": schema, "description": told}
        for header, schema, told in headers
    ]
    start["description"] = definition.description
    cancel = operation("cancel", f"Cancel one {name}", "200 202", "404 409 422")
    if not definition.cancellable:
        cancel["description"] = _NOT_CANCELLABLE
    told = "Also a child whose parent is not over: it counts as failed."
    note = {"type": "string", "maxLength": LONGEST_CANCEL_NOTE, "default": ""}
    cancel["parameters"] = [
        _query("force", {"type": "boolean", "default": False}) | {"description": told},
        _query("note", note) | {"description": "Why; kept in the audit trail with the cancel that is accepted first."},
    ]
    note, change = describe_body(Note), f"{_WRITE} 409"
    retry = operation("retry", "Retry what failed", "202", change)
    compensate = operation("compensate", "Give up and undo", "202", change)
    resolve = operation("resolve", "Settle by hand", "200", change)
    purge = operation("purge", "Delete what is stored of one that is over, but for the tombstone", "200", change)
    patience = operation("set_recovery_attempts", "Set how often it has stalled", "200", change)
    audit = _operation(f"audit_{identifier}", "The audit trail", {"200": ref("Entries")}, "404 422")
    verified = {"200": ref("Verification")}
    verify = _operation(f"verify_{identifier}", "Verify the audit trail by its hashes", verified, _READ)
    return {
        f"/sagas/{name}": {"post": start},
        one: {
            "parameters": where,
            "get": _polled(operation("show", f"Show one {name}", "200", _READ)),
            "delete": cancel,
        },
        f"{one}/audit": {"parameters": [*where, *_paging()], "get": audit},
        f"{one}/verification": {"parameters": where, "get": verify},
        f"{one}/retry": {"parameters": where, "post": _with_body(retry, note, required=False)},
        f"{one}/compensate": {
            "parameters": where,
            "post": _with_body(compensate, describe_body(Compensation), required=False),
        },
        f"{one}/recovery-attempts": {"parameters": where, "put": _with_body(patience, describe_body(Attempts))},
        f"{one}/resolve": {"parameters": where, "post": _with_body(resolve, describe_body(Resolution))},
        f"{one}/purge": {"parameters": where, "post": _with_body(purge, describe_body(Purging), required=False)},
        **{f"{one}/signals/{step.name}": _signal_path(saga, step, where) for step in _signalled(saga)},
    }


def _signalled(saga: SagaType) -> list[StepDefinition]:
    return [step for step in saga.definition.steps if step.waits_for == "signal"]


def _signal_schema(saga: SagaType, step: StepDefinition) -> Json:
    """The schema of what a step takes. What it refers to goes under the saga's and the step's name."""
    template = f"#/components/schemas/{saga.definition.name}.{step.name}.{{name}}"
    return json_schema(step.signal_type, ref_template=template)


def _signal_path(saga: SagaType, step: StepDefinition, where: list[Json]) -> Json:
    identifier = f"signal_{saga.definition.name}_{step.name}".replace("-", "_")
    answers: dict[str, Json] = {"200": ref("Saga"), "202": ref("Saga")}
    schema = _signal_schema(saga, step)
    schema.pop("$defs", None)
    operation = _operation(identifier, f"Send {step.name} of one {saga.definition.name}", answers, f"{_WRITE} 409")
    told = "202: accepted; 200: the same value was before. It is kept, also if the saga has not come to the step yet."
    return {"parameters": where, "post": _with_body(operation | {"description": told}, schema)}


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
    answers: dict[str, Json] = {"200": ref("Callback"), "202": ref("Callback")}
    operation = _operation("call_back", "Send what a public wait is for", answers, f"{_WRITE} 409")
    told = "As the signal of the step that the token is for, without AWS credentials: who has the URL may call it."
    token = {"name": "token", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    open_to_all: Json = {"description": told, "security": list[Json]()}
    return {
        "/callbacks/{token}": {"parameters": [token], "post": _with_body(operation | open_to_all, {"anyOf": bodies})}
    }


def describe(sagas: list[SagaType], base: str = "") -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the API for these saga types.

    Args:
        sagas: the types that are deployed.
        base: what precedes the paths in the URL: the stage.
    """
    name = one_of(saga.definition.name for saga in sagas)
    parent = _query("parent", _SAGA_ID) | {"description": "Children of this saga; goes with limit and cursor only."}
    one, list_of_sagas = {"200": ref("Definition")}, {"200": ref("Sagas")}
    change = _operation("change_definition", "Pause or resume a type, a step or one saga", one, f"{_WRITE} 409")
    itself = {"200": {"type": "object", "required": ["openapi", "info", "paths"]}}
    found_by = sorted({one.name for saga in sagas for one in saga.definition.find_by})
    listed_by = [parent, _query("name", name), _query("status", one_of(SagaStatus)), *map(_moment, ("since", "until"))]
    listed_by += [_query("idempotency_key", {"type": "string"}) | {"description": _BY_KEY}, *_paging()]
    listed_by += [_query(one, {"type": "string"}) | {"description": _FOUND_BY} for one in found_by]
    paths: Json = {
        "/sagas": {
            "parameters": listed_by,
            "get": _polled(_operation("list_sagas", "List sagas", list_of_sagas, "404 422") | {"description": _LIST}),
        },
        "/sagas/{saga_id}": {
            "parameters": [{"name": "saga_id", "in": "path", "required": True, "schema": _BEGINNING}],
            "get": _polled(_operation("look_up", "Show a saga by its id alone", {"200": ref("Saga")}, "404 409 422"))
            | {"description": "Also by how its id begins, if that is enough to tell it from others: 409 if not."},
        },
        "/attention": {
            "parameters": [_query("name", name), *_paging()],
            "get": _polled(_operation("list_attention", "Sagas that need a person", list_of_sagas, "404 422")),
        },
        "/definitions": {"get": _operation("list_definitions", "The saga types", {"200": ref("Definitions")}, "422")},
        "/definitions/{name}": {
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": name}],
            "get": _operation("show_definition", "One saga type", one, _READ),
            "put": _with_body(change, describe_body(Change)),
        },
        "/definitions/{name}/recover": {
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": name}],
            "post": _with_body(
                _operation("recover", "Look for stalled sagas now", {"200": ref("Recovery")}, _WRITE),
                describe_body(Recovering),
                required=False,
            ),
        },
        "/stats": {
            "parameters": [_query("name", name), _moment("since")],
            "get": _operation("stats", "Counts by type and status", {"200": ref("Stats")}, "404 422"),
        },
        "/breakers": {"get": _operation("list_breakers", "The circuit breakers", {"200": ref("Breakers")}, "422")},
        "/breakers/{saga}/{step}/close": {
            "parameters": [
                {"name": "saga", "in": "path", "required": True, "schema": name},
                {"name": "step", "in": "path", "required": True, "schema": {"type": "string"}},
            ],
            "post": _operation("close_breaker", "Close a circuit breaker", {"200": ref("Breaker")}, _READ),
        },
        "/openapi.json": {"get": _operation("openapi", "This description", itself, "422")},
        **_callback_path(sagas),
    }
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
