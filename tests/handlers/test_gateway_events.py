"""Events as API Gateway describes them: the resource that was matched decides, not the path as the caller wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.handlers import api as api_handler
from tests.handlers.conftest import Answer, Make, Site, request
from tests.support.aws import LambdaContext
from tests.support.sagas import Trip


@pytest.fixture
def trip(site: Make) -> Site:
    return site(Trip)


def called(method: str, resource: str, path: str, body: Any = None, **parameters: str) -> dict[str, Any]:
    """A call that the gateway matched to a resource, with a path that may look like another's."""
    event = request(method, path, body)
    event |= {"resource": resource, "pathParameters": parameters or None}
    event["requestContext"] |= {"resourcePath": resource}
    return event


@pytest.mark.parametrize("slash", ["/", "%2F", "%252F"])
def test_an_encoded_slash_leads_to_no_other_resource(trip: Site, slash: str) -> None:
    saga_id = trip.begin("trip")
    before = trip.tables()
    for method, call in (("GET", "audit"), ("POST", "purge"), ("POST", "retry"), ("DELETE", "x")):
        decoded, encoded = f"{saga_id}/{call}", f"{saga_id}{slash}{call}"
        for path in (f"/sagas/trip/{decoded}", f"/sagas/trip/{encoded}"):
            allowed = called(method, "/sagas/{type}/{id}", path, type="trip", id=encoded)
            assert trip.send(allowed).status == 404, (method, path)
            deeper = called(method, "/sagas/{type}", path, type=f"trip{slash}{encoded}")
            assert trip.send(deeper).status == 404, (method, path)
    assert trip.tables() == before


def test_the_path_of_another_resource_changes_nothing(trip: Site) -> None:
    saga_id = trip.begin("trip")
    event = called("GET", "/sagas/{type}/{id}", f"/sagas/trip/{saga_id}/audit", type="trip", id=saga_id)
    answer = Answer(api_handler.handler(event, LambdaContext()))
    assert (answer.status, answer.body["saga_id"]) == (200, saga_id)
    start = called("POST", "/sagas/{type}", f"/sagas/trip/{saga_id}/purge", {"item": "train"}, type="trip")
    assert Answer(api_handler.handler(start, LambdaContext())).status == 202
    assert trip.call("GET", f"/sagas/trip/{saga_id}").status == 200


def test_a_name_of_the_whole_path_is_no_resource_of_ours(trip: Site) -> None:
    assert trip.send(called("GET", "/{proxy+}", "/sagas/trip", proxy="sagas/trip")).status == 404


@pytest.mark.parametrize(
    "values", [None, {}, {"type": "trip"}, {"type": "trip", "id": None}, {"type": "trip", "id": 7}]
)
def test_a_resource_without_its_values_is_no_call(trip: Site, values: Any) -> None:
    event = called("GET", "/sagas/{type}/{id}", f"/sagas/trip/{trip.begin('trip')}") | {"pathParameters": values}
    assert trip.send(event).status == 404


def test_a_slash_at_the_end_is_the_same_resource(trip: Site) -> None:
    saga_id = trip.begin("trip")
    event = called("GET", "/sagas/{type}/{id}", f"/sagas/trip/{saga_id}/", type="trip", id=saga_id)
    assert trip.send(event).body["saga_id"] == saga_id


def test_a_domain_name_may_map_a_path_to_the_api(trip: Site) -> None:
    """Then the paths of the event begin with it, and those of resources do not."""
    event = called("POST", "/sagas/{type}", "/shop/sagas/trip", {"item": "train"}, type="trip")
    event["requestContext"]["path"] = "/shop/sagas/trip"
    answer = trip.send(event)
    assert answer.status == 202
    assert answer.headers["location"] == f"/shop/sagas/trip/{answer.body['saga_id']}"


def test_the_console_of_api_gateway_sends_no_stage(trip: Site) -> None:
    event = called("GET", "/sagas", "/sagas")
    event["requestContext"] |= {"stage": "test-invoke-stage", "path": "/sagas"}
    event["headers"] = event["multiValueHeaders"] = None
    assert trip.send(event).status == 200
