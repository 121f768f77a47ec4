"""JSON Schemas of the API, from its types. The schemas of answers are closed: answers have only the described fields.

Each object and each choice has a name, because generators of clients invent one where it is missing. The title of a
choice is its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

from msgspec import Struct
from msgspec.json import schema_components

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import REQUEST
from sagas.authoring.shapes.base import SchemaDefinitions
from sagas.authoring.shapes.compiler import shape_of
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
    "StepError": answers.ErrorView,
    "SagaResolution": answers.ResolutionView,
    "Sagas": answers.Page,
    "Entries": answers.AuditPage,
    "Incidents": answers.IncidentList,
    "Overview": overviews.OverviewView,
    "Types": overviews.TypeList,
    "Breakers": overviews.BreakerList,
    "Stats": overviews.StatsView,
    "InFlight": overviews.InFlightView,
    "Recovery": reports.RecoveryView,
}
"""The answers, and the types whose names differ from their schemas' by more than ``View``."""

_ACTIONS = ("SagaStarted", *FACTS, "SagaPurged")
_NULL: Json = {"type": "null"}


def one_of(values: Iterable[str]) -> Json:
    """Return the schema of a text that must be one of these values."""
    return {"type": "string", "enum": list(values)}


def ref(name: str, kind: str = "schemas") -> Json:
    """Return a reference to a named component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def answer_schemas(codes: Iterable[str]) -> Json:
    """Return the schemas of answers, by name. ``codes``: the error codes."""
    _, generated = schema_components(_NAMED.values(), ref_template="{name}")
    names = {name: name.removesuffix("View") for name in generated}
    names |= {type_.__name__: name for name, type_ in _NAMED.items()}
    schemas: Json = {"ErrorCode": one_of(codes), "Action": one_of(_ACTIONS)}

    def closed(node: Any) -> Any:
        if isinstance(node, list):
            return [closed(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        schema = cast("Json", node)
        if "$ref" in schema:
            return ref(names[schema["$ref"]])
        copy = {key: closed(value) for key, value in schema.items()}
        title = copy.pop("title", None)
        if "properties" in copy:  # msgspec adds the name of the class as a title
            copy["additionalProperties"] = False
        elif title is not None:
            schemas[title] = copy
            return ref(title)
        return copy

    schemas |= {names[name]: closed(schema) for name, schema in generated.items()}
    # The types cannot express this without imports that clients should not have to load.
    schemas["Entry"]["properties"]["action"] = ref("Action")
    schemas["Refusal"]["properties"]["code"] = ref("ErrorCode")
    return schemas


class TypeSchemas(Struct, frozen=True):
    """The schemas of a saga type.

    Args:
        request: the schema of its request.
        signals: the schemas of its signals, by step.
        saga: the schema of its sagas in answers.
        named: the schemas to which the others refer, by name.
    """

    request: Json
    signals: dict[str, Json]
    saga: Json
    named: Json


def type_schemas(definition: SagaDefinition, taken: Collection[str], number: int = 0) -> TypeSchemas:
    """Return the schemas of a saga type. Their names start with the type's name, plus a number if one is ``taken``."""
    prefix = "".join(word.capitalize() for word in definition.name.split("-")) + str(number or "")
    definitions = SchemaDefinitions(ref("{name}")["$ref"], prefix)
    saga, _ = definitions.reference(definition.saga_class, f"{prefix}Saga")
    request = shape_of(definition.request_type).schema(definitions)
    signals = {
        step.name: shape_of(step.signal_type).schema(definitions)
        for step in definition.steps
        if step.waits_for == "signal"
    }
    last = definition.result_step
    result = shape_of(last.result_type).schema(definitions)
    # In a value, "***" replaces hidden parts, so the value does not fit its type.
    fields = {
        field: {"anyOf": [*schema.get("anyOf", [schema]), _NULL]}
        for field, source, schema in (("request", REQUEST, request), ("result", last.name, result))
        if source not in definition.redaction.hidden and schema not in ({}, _NULL)
    }
    text = "Request and result are as in the deployed version. They can differ in a saga of another version."
    typed = [{"type": "object", "properties": fields}] if fields else []
    definitions.define(definition.saga_class, {"description": text, "allOf": [ref("Saga"), *typed]})
    if not definitions.schemas.keys().isdisjoint(taken):
        return type_schemas(definition, taken, number + 1)
    return TypeSchemas(request, signals, saga, definitions.schemas)
