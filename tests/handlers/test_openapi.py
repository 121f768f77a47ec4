"""The API's description of itself is valid OpenAPI 3.1, and describes what is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import jsonschema_rs
import pytest
import schemathesis

from sagas import Saga, Secret, step
from sagas.engine.registry import Registry
from sagas.handlers.http.openapi import describe
from tests.handlers.conftest import Make
from tests.support.described import Description
from tests.support.sagas import Fatal, Trip

_METHODS = {"get", "put", "post", "delete"}
_TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}


def _described(site: Make) -> dict[str, Any]:
    answer = site(Trip, Fatal).call("GET", "/openapi.json")
    assert answer.status == 200
    return answer.body


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        node = cast("dict[str, Any]", value)
        yield node
        for member in node.values():
            yield from _nodes(member)
    elif isinstance(value, list):
        for member in cast("list[Any]", value):
            yield from _nodes(member)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in _METHODS & set(item):
            yield path, item, item[method]


def test_it_has_what_openapi_requires(site: Make) -> None:
    document = _described(site)
    assert document["openapi"].startswith("3.1.")
    assert {"title", "version"} <= set(document["info"])
    assert set(document) <= {"openapi", "info", "paths", "components", "servers", "security", "tags"}
    for path, item, operation in _operations(document):
        assert path.startswith("/")
        assert operation["responses"]
        for status, answer in operation["responses"].items():
            assert status.isdigit()
            assert answer.get("description") or status >= "400"
        parameters = [*item.get("parameters", []), *operation.get("parameters", [])]
        named = [(parameter["in"], parameter["name"]) for parameter in parameters]
        assert len(named) == len(set(named))
        placeholders = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert placeholders == {name for where, name in named if where == "path"}
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")


def test_it_is_valid_by_the_official_schema(site: Make) -> None:
    document = _described(site)
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        assert jsonschema_rs.meta.is_valid(schema)


def test_what_a_recovery_takes_is_described_with_its_bounds(site: Make) -> None:
    body = _described(site)["components"]["schemas"]["RecoveryOptions"]["properties"]
    assert {"type": "number", "minimum": 0, "maximum": 366 * 86_400} in body["stale_after"]["anyOf"]
    assert {"type": "integer", "minimum": 1, "maximum": 1_000} in body["limit"]["anyOf"]
    assert {"type": "string", "maxLength": 4_000, "format": "uuid"} in body["saga_id"]["anyOf"]


def test_what_is_answered_is_described_to_the_last_field(site: Make) -> None:
    """Every object of an answer is closed, but for what is the author's or depends on the action."""
    document = _described(site)
    schemas = document["components"]["schemas"]
    answers = [schema for name, schema in schemas.items() if not name.startswith(("Trip", "Fatal"))]
    open_objects = [node for schema in answers for node in _nodes(schema) if node.get("type") == "object"]
    # an entry's details, a blueprint, and the JSON Schemas of a request and of a signal
    assert sum("additionalProperties" not in node for node in open_objects) == 4


def test_an_answer_that_is_not_described_is_noticed(site: Make) -> None:
    """All answers in these tests are held to the description; this one would not pass."""
    s = site(Trip)
    description = Description(s.call("GET", "/openapi.json").body)
    answer = s.call("GET", "/types/trip")
    checked = ("GET", "/types/trip")
    description.check(*checked, 200, answer.headers, answer.body)
    with pytest.raises(jsonschema_rs.ValidationError):
        description.check(*checked, 200, answer.headers, answer.body | {"more": 1})
    with pytest.raises(AssertionError, match="not described"):
        description.check(*checked, 409, answer.headers, answer.body)
    error = {"error": {"code": "unavailable", "message": "", "details": None}}
    with pytest.raises(AssertionError, match="Retry-After"):
        description.check(*checked, 503, {}, error)
    with pytest.raises(AssertionError, match="one of the codes"):
        description.check(*checked, 404, {}, error)


def test_the_paths_begin_with_the_stage(site: Make) -> None:
    assert _described(site)["servers"] == [{"url": "/prod"}]


def test_every_link_leads_to_an_operation(site: Make) -> None:
    operations = [operation for _, _, operation in _operations(_described(site))]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    answers = [answer for operation in operations for answer in operation["responses"].values()]
    linked = [link["operationId"] for answer in answers for link in answer.get("links", {}).values()]
    assert linked
    assert set(linked) <= set(ids)


def test_every_reference_leads_somewhere(site: Make) -> None:
    document = _described(site)
    for node in _nodes(document):
        if "$ref" not in node:
            continue
        target: Any = document
        assert node["$ref"].startswith("#/")
        for part in node["$ref"][2:].split("/"):
            target = target[part]


def test_every_type_is_one_of_json_schema(site: Make) -> None:
    document = _described(site)
    for node in _nodes(document["components"]["schemas"]):
        kind = node.get("type")
        if isinstance(kind, str):
            assert kind in _TYPES
        if isinstance(node.get("required"), list) and isinstance(node.get("properties"), dict):
            assert set(node["required"]) <= set(node["properties"])


def test_every_call_of_the_contract_is_there(site: Make) -> None:
    paths = _described(site)["paths"]
    for name in ("trip", "fatal"):
        one = f"/sagas/{name}/{{saga_id}}"
        assert "post" in paths[f"/sagas/{name}"]
        assert {"get", "delete"} <= set(paths[one])
        assert all("get" in paths[f"{one}/{noun}"] for noun in ("audit", "verification"))
        assert all("post" in paths[f"{one}/{verb}"] for verb in ("retry", "compensate", "resolve", "purge"))
        assert "put" in paths[f"{one}/recovery-attempts"]
    assert all("get" in paths[path] for path in ("/sagas", "/attention", "/types", "/breakers", "/openapi.json"))
    assert "post" in paths["/breakers/{type}/{step}/close"]
    assert {"get", "put"} <= set(paths["/types/{type}"])


def test_an_answer_has_the_fields_described(site: Make) -> None:
    s = site(Trip)
    schemas = s.call("GET", "/openapi.json").body["components"]["schemas"]
    saga_id = s.begin("trip")
    s.run()
    saga = s.call("GET", f"/sagas/trip/{saga_id}").body
    [entry, *_] = s.call("GET", f"/sagas/trip/{saga_id}/audit").body["entries"]
    [summary] = s.call("GET", "/sagas").body["sagas"]
    verification = s.call("GET", f"/sagas/trip/{saga_id}/verification").body
    definition = s.call("GET", "/types/trip").body
    shown = {"Saga": saga, "Step": saga["steps"][0], "Entry": entry, "Summary": summary, "Type": definition}
    shown |= {"Verification": verification}
    for name, value in shown.items():
        assert set(schemas[name]["required"]) <= set(value) <= set(schemas[name]["properties"])


def test_the_beginning_of_an_id_is_as_long_as_described(site: Make) -> None:
    s = site(Trip)
    paths = s.call("GET", "/openapi.json").body["paths"]
    [parameter] = paths["/sagas/{saga_id}"]["parameters"]
    shortest = parameter["schema"]["minLength"]
    saga_id = s.begin("trip")
    assert s.call("GET", f"/sagas/{saga_id[:shortest]}").body["saga_id"] == saga_id
    assert s.call("GET", f"/sagas/{saga_id[: shortest - 1]}").paths == ["path.saga_id"]


@dataclass(frozen=True)
class Error:
    """Its name is one of the API's own, if it is joined to that of its type."""

    message: str


@dataclass(frozen=True)
class Order:
    card: Secret[str]
    item: str


class Step(Saga[Order], name="step"):
    @step
    def place(self, request: Order) -> Error: ...


class Other(Saga[list[Error]], name="saga"):
    @step
    def last(self) -> None: ...


def _document(*classes: type[Saga[Any]], authorizer: str = "") -> dict[str, Any]:
    return describe(list(Registry(classes)), service="Shop", authorizer=authorizer)


def test_every_schema_has_a_name_of_its_own_and_no_title() -> None:
    schemas = _document(Step, Other, Trip)["components"]["schemas"]
    assert {
        "StepError",
        "Step1Error",
        "Step1Order",
        "Step1Saga",
        "SagaError",
        "Saga1Error",
        "TripSaga",
    } <= schemas.keys()
    assert all(re.fullmatch("[A-Za-z0-9_]+", name) for name in schemas)
    assert not [node for node in _nodes(schemas) if isinstance(node.get("title"), str)]
    # Generators name what has no name: an object or a choice inside another schema.
    nested = [node for schema in schemas.values() for value in schema.values() for node in _nodes(value)]
    own = [node for node in nested if "enum" in node and len(cast("list[Any]", node["enum"])) > 1]
    assert own == []


def test_a_request_and_a_result_have_their_types_unless_a_part_is_hidden() -> None:
    schemas = _document(Step, Trip)["components"]["schemas"]
    typed = schemas["Step1Saga"]["allOf"][1]["properties"]
    assert typed == {"result": {"anyOf": [{"$ref": "#/components/schemas/Step1Error"}, {"type": "null"}]}}
    assert "request" in schemas["TripSaga"]["allOf"][1]["properties"]


def test_all_operations_have_a_tag_a_description_and_the_same_errors(site: Make) -> None:
    document = _described(site)
    tags = [tag["name"] for tag in document["tags"]]
    assert tags == ["service", "trip", "fatal"]
    for _, _, operation in _operations(document):
        assert operation["description"]
        assert set(operation["tags"]) <= set(tags)
        errors = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
        assert errors == {status: {"$ref": f"#/components/responses/Error{status}"} for status in errors}


def test_it_says_how_calls_are_authorized() -> None:
    document = _document(Trip)
    assert document["info"]["title"] == "Shop"
    assert document["security"] == [{"awsSigv4": []}]
    assert document["components"]["securitySchemes"]["awsSigv4"]["x-amazon-apigateway-authtype"] == "awsSigv4"
    document = _document(Trip, authorizer="custom query token")
    [(name, scheme)] = document["components"]["securitySchemes"].items()
    assert document["security"] == [{name: []}]
    assert (scheme["in"], scheme["name"], scheme["x-amazon-apigateway-authtype"]) == ("query", "token", "custom")
