"""JSON Schemas of the API's answers, from their types. They are closed: answers only have the described fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from msgspec.json import schema_components

from sagas.core.events import FACTS
from sagas.engine.read import answers, overviews, reports

Json = dict[str, Any]

_NAMED: dict[str, Any] = {
    "Step": answers.StepView,
    "Summary": answers.Summary,
    "Saga": answers.SagaView,
    "Entry": answers.AuditEntry,
    "Verification": answers.VerificationView,
    "Type": overviews.TypeView,
    "Breaker": overviews.BreakerView,
    "Callback": answers.CallbackView,
    "Problem": answers.ProblemView,
    "Error": answers.ErrorAnswer,
    "Sagas": answers.Page,
    "Entries": answers.AuditPage,
    "Incidents": answers.IncidentList,
    "Types": overviews.TypeList,
    "Breakers": overviews.BreakerList,
    "Stats": overviews.StatsView,
    "InFlight": overviews.InFlightView,
    "Recovery": reports.RecoveryView,
}
"""The named schemas, to which others refer. All other types are inlined."""

_ACTIONS = ("SagaStarted", *FACTS, "SagaPurged")


def one_of(values: Iterable[str]) -> Json:
    """Return the schema of a text that must be one of these values."""
    return {"type": "string", "enum": list(values)}


def ref(name: str) -> Json:
    """Return a reference to a named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def answer_schemas() -> Json:
    """Return the schemas of answers, by name."""
    _, generated = schema_components(_NAMED.values(), ref_template="{name}")
    names = {type_.__name__: name for name, type_ in _NAMED.items()}

    def closed(node: Any) -> Any:
        if isinstance(node, list):
            return [closed(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        schema = cast("Json", node)
        if "$ref" in schema:
            name = schema["$ref"]
            return ref(names[name]) if name in names else closed(generated[name])
        copy = {key: closed(value) for key, value in schema.items()}
        if "properties" in copy:
            del copy["title"]  # msgspec adds the name of the class
            copy["additionalProperties"] = False
        return copy

    schemas: Json = {name: closed(generated[type_.__name__]) for name, type_ in _NAMED.items()}
    # The types cannot express this without imports that clients should not have to load.
    schemas["Entry"]["properties"]["action"] = one_of(_ACTIONS)
    type_: Json = schemas["Type"]["properties"]
    type_["request"] = {"type": ["object", "boolean"]}
    type_["steps"]["items"]["properties"]["signal"] = {"type": ["object", "boolean"]}
    return schemas


def error_schema(codes: Iterable[str], *, listed: bool) -> Json:
    """Return the schema of an error."""
    details = {"type": "array", "items": ref("Problem"), "minItems": 1} if listed else {"type": "null"}
    narrowed: Json = {"type": "object", "properties": {"code": one_of(codes), "details": details}}
    return {"allOf": [ref("Error"), {"type": "object", "properties": {"error": narrowed}}]}
