"""The OpenAPI 3.1 description of the API, from the deployed saga types."""

from __future__ import annotations

from typing import Any

from sagas.authoring.definition.definition import StepDefinition
from sagas.core.events import AttentionCode
from sagas.core.ids import KEY_PATTERN, LONGEST_CANCEL_REASON, LONGEST_CORRELATION_ID, LONGEST_KEY
from sagas.engine.registry import SagaType
from sagas.handlers.http.bodies import describe_body, may_be_absent
from sagas.handlers.http.inputs import FORM, SHORTEST_ID_START
from sagas.handlers.http.schemas import Json, TypeSchemas, answer_schemas, one_of, ref, type_schemas
from sagas.operations import ATTENTION, AUDIT, CANCEL, LIST, OPERATIONS, SIGNAL, START, STATS, Operation
from sagas.store.index.listing import LONGEST_CURSOR

_ERRORS: dict[str, tuple[str, str]] = {
    "400": ("The body is not JSON, or the request is not valid HTTP.", "malformed_body bad_request"),
    "403": ("The call is not signed or not allowed, or the path or method does not exist.", "forbidden"),
    "404": ("The saga type, saga, step or path does not exist.", "not_found"),
    "409": ("The saga's state does not allow the call. The message names the state.", "conflict state_changed"),
    "413": ("The body is larger than 256 KB.", "too_large"),
    "422": ("Invalid input. The field details lists paths and messages.", "invalid_request idempotency_key_reused"),
    "429": ("Too many calls.", "throttled"),
    "500": ("An internal error. The service's log has it under the request's id.", "internal"),
    "502": ("The function behind the API failed.", "internal"),
    "503": ("A store is out of reach, or starts are paused. Try again as Retry-After says.", "unavailable paused"),
    "504": ("There was no answer within 29 seconds. The call may have taken effect.", "timeout"),
}
_DONE = {"200": "Done.", "202": "Accepted. The saga continues in the background."}
_ANYWHERE = ("400", "403", "429", "500", "502", "503", "504")
"""Statuses that any call can get, from API Gateway or because a store is out of reach."""

_SAGA_ID: Json = {"type": "string", "format": "uuid"}
_FIELD: Json = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 2}]}
"""The value of a field of a form: a text, or the texts of a name that comes several times."""
_ID_START: Json = {"type": "string", "minLength": SHORTEST_ID_START}
_RETRY_AFTER: Json = {"required": True, "schema": {"type": "integer", "minimum": 1}}
_KEY = (
    "A call repeated with the same key and request gets 200 and the saga of the first call, without request and "
    "results. All callers of a type share its keys. The key starts no other saga while that saga is stored, nor for "
    "the service's key_retention after its purge: 30 days by default."
)
_NOT_CANCELLABLE = (
    "Sagas of this type cannot be cancelled: the answer is 409, except for a saga whose cancel was accepted by an "
    "earlier version of the type."
)
_BY_KEY = "Only the sagas that this Idempotency-Key started. Allowed only with type and limit."
_GROUP = "Group the sagas by type, step, code and error type, and count them. limit and cursor are ignored."
_ERROR_TYPE = "Only sagas with this type of error; empty for sagas without an error. Needs a code."
_SEARCH_KEY = "Only sagas with this value in their requests, of types with this search key."
_ETAG: Json = {"required": True, "schema": {"type": "string"}}
_LOCATION: Json = {"required": True, "schema": {"type": "string", "format": "uri-reference"}}
_SIGNED = "A signature by AWS Signature Version 4, for the service execute-api."
_OF_ALL = {"name": "service", "description": "All saga types."}
"""The tag of operations that are not about one saga type."""


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _error(status: str) -> Json:
    """The answer with an error status, with an example for each of its error codes."""
    description, codes = _ERRORS[status]
    details = [{"path": "$.amount", "message": "required field is missing"}] if status == "422" else None
    examples = {
        code: {"value": {"error": {"code": code, "message": description, "details": details}}} for code in codes.split()
    }
    content = {"application/json": {"schema": ref("Error"), "examples": examples}}
    headers = {"headers": {"Retry-After": _RETRY_AFTER}} if status == "503" else {}
    return {"description": description, "content": content, **headers}


def _described(operation: Operation, id: str = "", name: str = "", saga: Json | None = None) -> Json:
    """Return the description of an operation from its row. ``saga``: the schema of the sagas that it returns."""
    itself: Json = {"type": "object"}
    answers = [saga if saga and name == "Saga" else ref(name) for name in operation.answer.split()]
    answered = {"anyOf": answers} if len(answers) > 1 else {**answers[0]} if answers else itself
    content = _content(answered)
    responses: Json = {code: {"description": _DONE[code], "content": content} for code in operation.statuses.split()}
    responses |= {
        status: ref(f"Error{status}", "responses") for status in sorted({*operation.errors.split(), *_ANYWHERE})
    }
    described: Json = {
        "operationId": id or operation.name,
        "tags": [name or _OF_ALL["name"]],
        "summary": operation.summary.format(type=name),
        "description": operation.description or operation.verb.effect,
        "responses": responses,
    }
    if operation.has_etag:
        text = "The ETag of the caller's copy of the answer."
        header = {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}
        described["parameters"] = [header | {"description": text}]
        responses["200"] |= {"headers": {"ETag": _ETAG}}
        text = "The caller's copy with this ETag is current."
        responses["304"] = {"description": text, "headers": {"ETag": _ETAG}}
    if operation.body is not None and operation.method != "DELETE":
        described |= _body(ref(operation.body.__name__), required=not may_be_absent(operation.body))
    return described


def _body(schema: Json, *, required: bool = True) -> Json:
    return {"requestBody": {"required": required, "content": _content(schema)}}


def _in_path(operation: Operation, schemas: Json) -> list[Json]:
    return [{"name": name, "in": "path", "required": True, "schema": schemas[name]} for name in operation.parameters]


def _add(paths: Json, path: str, operation: Operation, described: Json, parameters: list[Json]) -> None:
    """Add an operation to its path. The parameters apply to all operations of the path."""
    paths.setdefault(path, {"parameters": parameters} if parameters else {})[operation.method.lower()] = described


def _query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _moment(name: str) -> Json:
    return _query(name, {"type": "string"}) | {"description": "An ISO 8601 time. Without an offset, it is UTC."}


def _paging() -> list[Json]:
    cursor: Json = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "maxLength": LONGEST_CURSOR}
    text = "The cursor of an earlier answer of the same list, to continue after it."
    limit = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    return [_query("limit", limit), _query("cursor", cursor) | {"description": text}]


def _saga_paths(saga: SagaType, schemas: TypeSchemas) -> Json:
    """Return the operations on the sagas of a type."""
    name = saga.definition.name
    paths = Json()
    for operation in OPERATIONS:
        if not operation.typed:
            continue
        for step in _signalled(saga) if operation is SIGNAL else [None]:
            described = _described(operation, _id(operation, saga, step), name, schemas.saga)
            if operation is START:
                described |= _start(saga, described) | _body(schemas.request)
            elif operation is CANCEL:
                effect = CANCEL.verb.effect if saga.definition.cancellable else _NOT_CANCELLABLE
                described |= {"parameters": _CANCEL_QUERY, "description": effect}
            elif step is not None:
                described |= _body(schemas.signals[step.name]) | {
                    "summary": f"Send the signal {step.name} to one {name}"
                }
            path = operation.path.replace("{type}", name).replace("{step}", step.name if step else "")
            in_path = [parameter for parameter in _in_path(operation, _IN_PATH) if parameter["name"] == "saga_id"]
            _add(paths, path, operation, described, [*in_path, *(_paging() if operation is AUDIT else ())])
    return paths


_IN_PATH: Json = {"type": {}, "step": {}, "saga_id": _SAGA_ID}
"""The schemas of the path parameters of a type's operations. Only the saga's id remains as a parameter."""


def _id(operation: Operation, saga: SagaType, step: StepDefinition | None = None) -> str:
    """Return the id of an operation on the sagas of a type."""
    suffix = f"_{step.name}" if step else ""
    return f"{operation.name}_{saga.definition.name}{suffix}".replace("-", "_")


def _start(saga: SagaType, described: Json) -> Json:
    """Return the parts that only a start has: its headers, and links to the calls that can follow."""
    responses = described["responses"]
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
        ("X-Correlation-Id", correlation, "Your own correlation id, for the audit trail, messages and logs."),
        ("traceparent", {"type": "string"}, "W3C. Without X-Correlation-Id, its trace id is the correlation id."),
    )
    parameters = [
        {"name": header, "in": "header", "required": False, "schema": schema, "description": text}
        for header, schema, text in headers
    ]
    return {"parameters": parameters, "description": saga.definition.description or described["description"]}


_CANCEL_QUERY = [
    _query("force", {"type": "boolean", "default": False})
    | {"description": "Also cancel a child whose parent has not ended. The child counts as failed."},
    _query("reason", {"type": "string", "maxLength": LONGEST_CANCEL_REASON, "default": ""})
    | {"description": "The audit trail keeps the reason of the first accepted cancel."},
]


def _signalled(saga: SagaType) -> list[StepDefinition]:
    return [step for step in saga.definition.steps if step.waits_for == "signal"]


def _callback_path(sagas: list[SagaType], schemas: list[TypeSchemas]) -> Json:
    """Return the route for signals to all public waits; empty if there are none."""
    bodies = [
        of_type.signals[step.name]
        for saga, of_type in zip(sagas, schemas, strict=True)
        for step in _signalled(saga)
        if step.public
    ]
    if not bodies:
        return {}
    operation = Operation(
        *("call_back", "POST", "/callbacks/{token}", "", "Send a signal to a public wait", "Callback", "200 202"),
        errors=SIGNAL.errors,
        description="The token names the step. Anyone with the URL can send the signal, without AWS credentials.",
    )
    token = {"name": "token", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    open_to_all: Json = {"security": list[Json](), **_body({"anyOf": bodies})}
    # A body that fits one of the types, as far as the texts of a form can.
    form: Json = {"type": "object", "additionalProperties": _FIELD, "anyOf": bodies}
    open_to_all["requestBody"]["content"] |= {FORM: {"schema": form}}
    return {operation.path: {"parameters": [token], "post": _described(operation) | open_to_all}}


def describe(sagas: list[SagaType], base: str = "", service: str = "Sagas", authorizer: str = "") -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the API for these saga types. URLs begin with ``base``. Without an
    ``authorizer``, IAM authorizes callers. Otherwise it is API Gateway's type of authorizer, followed by the place and
    the name of what the authorizer reads, such as ``custom header X-Token``."""
    schemas = answer_schemas(dict.fromkeys(code for _, codes in _ERRORS.values() for code in codes.split()))
    bodies = (operation.body for operation in OPERATIONS if operation.method != "DELETE")
    schemas |= {body.__name__: describe_body(body) for body in bodies if body is not None}
    schemas["TypeName"] = one_of(saga.definition.name for saga in sagas)
    of_types = list[TypeSchemas]()
    for saga in sagas:
        of_types.append(type_schemas(saga.definition, schemas.keys()))
        schemas |= of_types[-1].named
    name = ref("TypeName")
    parent = _query("parent", _SAGA_ID) | {"description": "Children of this saga. Allowed only with limit and cursor."}
    search_keys = sorted({key.name for saga in sagas for key in saga.definition.find_by})
    filters = [parent, _query("type", name), _query("status", ref("SagaStatus")), *map(_moment, ("since", "until"))]
    filters += [_query("idempotency_key", {"type": "string"}) | {"description": _BY_KEY}, *_paging()]
    filters += [_query(key, {"type": "string"}) | {"description": _SEARCH_KEY} for key in search_keys]
    queries = {
        LIST.name: filters,
        ATTENTION.name: [
            _query("type", name),
            _query("step", {"type": "string"}) | {"description": "Only sagas with trouble at this step. Needs a type."},
            _query("code", one_of(list(AttentionCode))) | {"description": "Only sagas with this reason. Needs a step."},
            _query("error", {"type": "string"}) | {"description": _ERROR_TYPE},
            *_paging(),
            _query("group", one_of(["incident"])) | {"description": _GROUP},
        ],
        STATS.name: [_query("type", name), _moment("since")],
    }
    in_path: Json = {"type": name, "saga_id": _ID_START, "step": {"type": "string"}}
    paths: Json = {}
    for operation in OPERATIONS:
        if not operation.typed:
            parameters = [*_in_path(operation, in_path), *queries.get(operation.name, ())]
            _add(paths, operation.path, operation, _described(operation), parameters)
    callbacks = _callback_path(sagas, of_types)
    paths |= callbacks
    if not callbacks:
        del schemas["Callback"]
    tags = [_OF_ALL]
    for saga, of_type in zip(sagas, of_types, strict=True):
        paths |= _saga_paths(saga, of_type)
        text = saga.definition.description or f"Sagas of the type {saga.definition.name}."
        tags.append({"name": saga.definition.name, "description": text})
    scheme, place, credential = (authorizer or "awsSigv4 header Authorization").split()
    text = {"awsSigv4": _SIGNED}.get(scheme, "The credential that the API's authorizer reads.")
    security = {"type": "apiKey", "in": place, "name": credential, "description": text}
    described: Json = {
        "openapi": "3.1.0",
        "info": {"title": service, "version": "1", "description": "Start, read, cancel and repair sagas."},
        "servers": [{"url": base or "/"}],
        "security": [{scheme: list[str]()}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {f"Error{status}": _error(status) for status in _ERRORS},
            "securitySchemes": {scheme: security | {"x-amazon-apigateway-authtype": scheme}},
        },
    }
    return described
