"""The OpenAPI 3.1 description of the API, made from the saga types that are deployed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sagas.authoring.codec import json_schema
from sagas.core.states import SagaStatus, StepStatus
from sagas.engine.registry import SagaType

__all__ = ["describe"]

Json = dict[str, Any]

_TIME: Json = {"type": "string", "format": "date-time"}
_ERRORS = {
    "400": "The body is not JSON.",
    "404": "There is no such resource.",
    "409": "The saga's state does not allow it; the message says what the state is.",
    "413": "The body is larger than 256 KB.",
    "422": "The input does not fit; details lists the paths.",
    "503": "Out of reach or disabled: try again after Retry-After seconds.",
}


def _maybe(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(required: Json, optional: Json | None = None) -> Json:
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required)}


def _text(values: Iterable[str] | None = None) -> Json:
    return {"type": "string"} if values is None else {"type": "string", "enum": list(values)}


def _schemas() -> Json:
    error = _object({"type": _text(), "message": _text()})
    step = _object(
        {
            "name": _text(),
            "status": _text(StepStatus),
            "attempts": {"type": "integer"},
            "undo_attempts": {"type": "integer"},
            "started_at": _maybe(_TIME),
            "ended_at": _maybe(_TIME),
            "result": {},
            "error": _maybe(error),
            "next_attempt_at": _maybe(_TIME),
        }
    )
    summary = {
        "saga_id": {"type": "string", "format": "uuid"},
        "name": _text(),
        "version": _text(),
        "status": _text(SagaStatus),
        "in_doubt": {"type": "array", "items": _text()},
        "recovery_attempts": {"type": "integer"},
        "cancel_requested_at": _maybe(_TIME),
        "created_at": _TIME,
        "updated_at": _TIME,
        "links": {"type": "object", "additionalProperties": _text()},
    }
    saga = {
        "request": {},
        "steps": {"type": "array", "items": {"$ref": "#/components/schemas/Step"}},
        "error": _maybe(_object({"step": _maybe(_text()), "type": _text(), "message": _text()})),
        "progress": _maybe(_object({"step": _text(), "fraction": {"type": "number"}, "message": _text(), "at": _TIME})),
        "resolution": _maybe({"type": "object"}),
        "correlation_id": _text(),
    }
    return {
        "Step": step,
        "Summary": _object(summary, {"why": _text()}),
        "Saga": _object(summary | saga, {"why": _text()}),
        "Entry": _entry(),
        "Error": _object({"error": _object({"code": _text(), "message": _text(), "details": {}})}),
        "Definition": _definition(),
    }


def _entry() -> Json:
    return _object(
        {
            "saga_id": _text(),
            "seq": {"type": "integer"},
            "at": _TIME,
            "saga": _text(),
            "action": _text(),
            "step": _maybe(_text()),
            "attempt": _maybe({"type": "integer"}),
            "status": _text(SagaStatus),
            "actor": _text(),
            "correlation_id": _text(),
            "trace_id": _maybe(_text()),
            "details": {"type": "object"},
        }
    )


def _definition() -> Json:
    return _object(
        {
            "name": _text(),
            "version": _text(),
            "description": _text(),
            "active": {"type": "boolean"},
            "reason": _maybe(_text()),
            "changed_by": _maybe(_text()),
            "changed_at": _maybe(_TIME),
            "failures": {"type": "integer"},
            "disabled_until": _maybe(_TIME),
            "request": {"type": "object"},
            "steps": {"type": "array", "items": {"type": "object"}},
        }
    )


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _operation(summary: str, answers: dict[str, Json], errors: str, body: Json | None = None) -> Json:
    responses: Json = {code: {"description": "Done.", "content": _content(schema)} for code, schema in answers.items()}
    for code in errors.split():
        responses[code] = {"description": _ERRORS[code], "content": _content(_ref("Error"))}
    operation: Json = {"summary": summary, "responses": responses}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _content(body)}
    return operation


def _query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema}


_PAGING = [_query("limit", {"type": "integer", "minimum": 1, "maximum": 100}), _query("cursor", _text())]


def _page(item: str, key: str) -> Json:
    return _object({key: {"type": "array", "items": _ref(item)}, "cursor": _maybe(_text())})


def _start(saga: SagaType) -> Json:
    definition = saga.definition
    schema = json_schema(definition.request_type, ref_template="#/components/schemas/" + _prefix(saga) + "{name}")
    schema.pop("$defs", None)
    summary = f"Start {definition.name}"
    operation = _operation(summary, {"200": _ref("Saga"), "202": _ref("Saga")}, "400 404 413 422 503", schema)
    key = {"type": "string", "minLength": 1, "maxLength": 256}
    operation["parameters"] = [{"name": "Idempotency-Key", "in": "header", "required": False, "schema": key}]
    operation["description"] = definition.description
    return operation


def _prefix(saga: SagaType) -> str:
    return saga.definition.saga_class.__name__


def _request_schemas(saga: SagaType) -> Json:
    """The schemas a request refers to, under names of their own: two sagas may each have an ``Item``."""
    template = "#/components/schemas/" + _prefix(saga) + "{name}"
    found: Json = json_schema(saga.definition.request_type, ref_template=template).get("$defs", {})
    return {_prefix(saga) + name: schema for name, schema in found.items()}


def _one_saga(name: str) -> Json:
    return {
        "parameters": [{"name": "saga_id", "in": "path", "required": True, "schema": _text()}],
        "get": _operation(f"Show one {name}", {"200": _ref("Saga")}, "404 503"),
        "delete": _operation(f"Cancel one {name}", {"200": _ref("Saga"), "202": _ref("Saga")}, "404 409 503"),
    }


def _saga_paths(saga: SagaType) -> Json:
    name = saga.definition.name
    one = f"/sagas/{name}/{{saga_id}}"
    where = _one_saga(name)["parameters"]
    note = {"type": "object", "properties": {"note": _text()}, "additionalProperties": False}
    resolution = {
        "type": "object",
        "properties": {"note": _text(), "action": _text(), "steps": {"type": "array", "items": _text()}},
        "required": ["note"],
        "additionalProperties": False,
    }
    errors = "400 404 409 413 422 503"
    audit = _operation("The audit trail", {"200": _page("Entry", "entries")}, "404 422 503")
    return {
        f"/sagas/{name}": {"post": _start(saga)},
        one: _one_saga(name),
        f"{one}/audit": {"parameters": where + _PAGING, "get": audit},
        f"{one}/retry": {
            "parameters": where,
            "post": _operation("Retry what failed", {"202": _ref("Saga")}, errors, note),
        },
        f"{one}/compensate": {
            "parameters": where,
            "post": _operation("Give up and undo", {"202": _ref("Saga")}, errors, note),
        },
        f"{one}/resolve": {
            "parameters": where,
            "post": _operation("Settle by hand", {"200": _ref("Saga")}, errors, resolution),
        },
    }


def _common_paths() -> Json:
    name = [_query("name", _text())]
    change = {
        "type": "object",
        "properties": {"active": {"type": "boolean"}, "reason": _text()},
        "required": ["active"],
        "additionalProperties": False,
    }
    listing = _operation("List sagas", {"200": _page("Summary", "sagas")}, "404 422 503")
    attention = _operation("Sagas that need a person", {"200": _page("Summary", "sagas")}, "404 422 503")
    definitions = _object({"definitions": {"type": "array", "items": _ref("Definition")}})
    one = _operation("Enable or disable starts", {"200": _ref("Definition")}, "400 404 413 422 503", change)
    return {
        "/sagas": {"parameters": [*name, _query("status", _text(SagaStatus)), *_PAGING], "get": listing},
        "/attention": {"parameters": [*name, *_PAGING], "get": attention},
        "/definitions": {"get": _operation("The saga types", {"200": definitions}, "503")},
        "/definitions/{name}": {
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": _text()}],
            "get": _operation("One saga type", {"200": _ref("Definition")}, "404 503"),
            "put": one,
        },
        "/openapi.json": {"get": _operation("This description", {"200": {"type": "object"}}, "503")},
    }


def describe(sagas: list[SagaType]) -> Json:
    """Return the OpenAPI 3.1 description of the API for these saga types."""
    paths, schemas = _common_paths(), _schemas()
    for saga in sagas:
        paths |= _saga_paths(saga)
        schemas |= _request_schemas(saga)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sagas", "version": "1", "description": "Start, read, cancel and repair sagas."},
        "paths": paths,
        "components": {"schemas": schemas},
    }
