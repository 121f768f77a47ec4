"""Services whose sagas have children: the table of joins, and who may write there."""

from __future__ import annotations

import json

import pytest
from aws_cdk import App, Stack

from sagas.cdk import SagaEvents, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, template_of
from tests.cdk.saga_classes import Delivery, Shipment, Trip
from tests.cdk.test_waiting import granted, part, synthesized


@pytest.fixture(scope="module")
def family() -> Template:
    stack = Stack(App(), "Family")
    SagaService(stack, "Sagas", sagas=[Delivery, Shipment, Trip]).command_queue()
    return template_of(stack)


def joins(template: Template) -> list[str]:
    """Logical ids of the tables of joins."""
    return [
        name
        for name, one in template["Resources"].items()
        if one["Type"] == "AWS::DynamoDB::Table" and one["Properties"]["KeySchema"][0]["AttributeName"] == "join"
    ]


def test_there_is_a_table_of_joins_only_where_some_saga_has_children(family: Template, plain: Template) -> None:
    assert len(joins(family)) == 1
    assert joins(plain) == []


def test_functions_of_a_family_and_of_the_service_find_it(family: Template) -> None:
    for saga, step_name, there in (
        ("delivery", "shipments", True),
        ("shipment", "book", True),
        ("trip", "book", False),
    ):
        function = part(family, part="function", saga=saga, step=step_name)
        assert ("SAGAS_JOINS_TABLE" in function["Environment"]["Variables"]) is there
    for tag in ({"part": "work_function", "name": "now"}, {"part": "work_function", "name": "bulk"}):
        assert "SAGAS_JOINS_TABLE" in part(family, **tag)["Environment"]["Variables"]


def test_a_step_may_join_and_nothing_else_there(family: Template) -> None:
    (table,) = joins(family)
    function = part(family, part="function", saga="shipment", step="book")
    mine = {action for action, resource in granted(family, function) if table in resource}
    assert mine == {"dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
    now = part(family, part="work_function", name="now")
    assert {action for action, resource in granted(family, now) if table in resource} == {*mine, "dynamodb:Query"}


def test_a_command_may_end_a_child(family: Template) -> None:
    """A signal to its last step, or a cancel."""
    (table,) = joins(family)
    commands = part(family, part="command_function")
    mine = {action for action, resource in granted(family, commands) if table in resource}
    assert mine == {"dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}


def test_what_tells_payloads_reads_parents_with_their_children(everything: Template) -> None:
    bare = synthesized(Delivery, Shipment, events=SagaEvents())[1]
    for template, there in ((everything, {"dynamodb:BatchGetItem", "dynamodb:Query"}), (bare, set[str]())):
        (table,) = joins(template)
        alias = part(template, part="events_function")
        function = template["Resources"][alias["FunctionName"]["Ref"]]["Properties"]
        assert {action for action, resource in granted(template, function) if table in resource} == there


def test_a_child_tells_its_parent_by_the_queue_now(family: Template) -> None:
    function = part(family, part="function", saga="shipment", step="book")
    assert "now" in json.dumps(function["Environment"]["Variables"]["SAGAS_QUEUES"])


def test_children_must_be_among_the_sagas() -> None:
    with pytest.raises(DefinitionError, match="saga delivery has children of type Shipment, which is not among"):
        synthesized(Delivery)
