"""JSON Schemas of what the API answers. Closed: an answer has the fields described, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sagas.authoring.policies import Exhausted
from sagas.core.events import FACTS
from sagas.core.states import SagaStatus, StepStatus

Json = dict[str, Any]

_TIME: Json = {"type": "string", "format": "date-time"}
_UUID: Json = {"type": "string", "format": "uuid"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_ACTIONS = ("SagaStarted", *FACTS, "SignalReceived", "WaitTimedOut")


def text() -> Json:
    """Return the schema of any text."""
    return {"type": "string"}


def one_of(values: Iterable[str]) -> Json:
    """Return the schema of one of some words."""
    return {"type": "string", "enum": list(values)}


def ref(name: str) -> Json:
    """Return a reference to a schema of the description."""
    return {"$ref": f"#/components/schemas/{name}"}


def page(item: str, key: str) -> Json:
    """Return the schema of a page of a list."""
    return _object({key: _list(ref(item)), "cursor": _maybe(text())})


def _maybe(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def _object(required: Json, optional: Json | None = None) -> Json:
    properties = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def answer_schemas() -> Json:
    """Return the schemas of what is answered, by name."""
    return {
        "Step": _step(),
        "Summary": _object(_summary(), {"why": text()}),
        "Saga": _object(_summary() | _saga(), {"why": text()}),
        "Entry": _entry(),
        "Problem": _object({"path": text(), "message": text()}),
        "Error": _object({"error": _object({"code": text(), "message": text(), "details": {}})}),
        "Definition": _definition(),
    }


def error_schema(codes: Iterable[str], *, listed: bool) -> Json:
    """Return the schema of an error.

    Args:
        codes: the codes it may have.
        listed: whether it lists what does not fit, or has no details at all.
    """
    details = _list(ref("Problem")) | {"minItems": 1} if listed else {"type": "null"}
    narrowed: Json = {"type": "object", "properties": {"code": one_of(codes), "details": details}}
    return {"allOf": [ref("Error"), {"type": "object", "properties": {"error": narrowed}}]}


def _step() -> Json:
    return _object(
        {
            "name": text(),
            "status": one_of(StepStatus),
            "attempts": _COUNT,
            "undo_attempts": _COUNT,
            "started_at": _maybe(_TIME),
            "ended_at": _maybe(_TIME),
            "result": {},
            "error": _maybe(_object({"type": text(), "message": text()})),
            "next_attempt_at": _maybe(_TIME),
        }
    )


def _summary() -> Json:
    return {
        "saga_id": _UUID,
        "name": text(),
        "version": text(),
        "status": one_of(SagaStatus),
        "in_doubt": _list(text()),
        "recovery_attempts": _COUNT,
        "cancel_requested_at": _maybe(_TIME),
        "created_at": _TIME,
        "updated_at": _TIME,
        "links": _object({"self": text()}),
    }


def _saga() -> Json:
    fraction = {"type": "number", "minimum": 0, "maximum": 1}
    resolution = {"by": text(), "at": _TIME, "note": text(), "action": text(), "steps": _list(text())}
    return {
        "request": {},
        "steps": _list(ref("Step")) | {"minItems": 1},
        "error": _maybe(_object({"step": _maybe(text()), "type": text(), "message": text()})),
        "progress": _maybe(_object({"step": text(), "fraction": fraction, "message": text(), "at": _TIME})),
        "resolution": _maybe(_object(resolution)),
        "correlation_id": text(),
    }


def _entry() -> Json:
    return _object(
        {
            "saga_id": _UUID,
            "seq": {"type": "integer", "minimum": 1},
            "at": _TIME,
            "saga": text(),
            "action": one_of(_ACTIONS),
            "step": _maybe(text()),
            "attempt": _maybe({"type": "integer", "minimum": 1}),
            "status": one_of(SagaStatus),
            "actor": text(),
            "correlation_id": text(),
            "trace_id": _maybe(text()),
            "details": {"type": "object"},
        }
    )


def _definition() -> Json:
    step = {
        "name": text(),
        "undo": _maybe(text()),
        "max_retries": _COUNT,
        "on_exhausted": one_of(one.value for one in Exhausted),
        "timeout": {"type": "number", "exclusiveMinimum": 0},
        "retired": {"type": "boolean"},
    }
    return _object(
        {
            "name": text(),
            "version": text(),
            "description": text(),
            "active": {"type": "boolean"},
            "reason": _maybe(text()),
            "changed_by": _maybe(text()),
            "changed_at": _maybe(_TIME),
            "failures": _COUNT,
            "disabled_until": _maybe(_TIME),
            "request": {"type": ["object", "boolean"]},
            "steps": _list(_object(step)),
        }
    )
