"""What publishes a service's own events: made when asked for, and with few rights."""

from __future__ import annotations

import json

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam

from sagas.cdk import SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, of_type, rights, template_of
from tests.cdk.saga_classes import Loan, Trip
from tests.cdk.test_inout import LAMBDA, Shop, of_part, rights_of


@pytest.fixture(scope="module")
def reading() -> Shop:
    """A service whose bus is asked for, with operators of before, of afterwards, and of one type."""
    shop = Shop()
    roles = [iam.Role(shop.stack, name, assumed_by=LAMBDA) for name in ("First", "Second", "Third")]
    shop.service.grant_operate(roles[0])
    shop.service.grant_operate(roles[2], Trip)
    shop.service.event_bus()
    shop.service.grant_operate(roles[1])
    return shop


class TestEvents:
    def test_its_function_reads_the_stream_of_the_table(self, everything: Template) -> None:
        id, table = of_part(everything, "sagas_table")
        assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        mappings = of_type(everything, "AWS::Lambda::EventSourceMapping")
        (mapping,) = [one for one in mappings if one["EventSourceArn"] == {"Fn::GetAtt": [id, "StreamArn"]}]
        assert mapping["BisectBatchOnFunctionError"] is True
        assert mapping["MaximumRecordAgeInSeconds"] == 23 * 3600
        assert "MaximumRetryAttempts" not in mapping
        lost, _ = of_part(everything, "event_dead_letter_queue")
        assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": [lost, "Arn"]}

    def test_asking_for_the_bus_turns_it_on(self, reading: Shop) -> None:
        assert reading.service.event_bus() is reading.service.event_bus()
        (bus,) = reading.of_type("AWS::Events::EventBus")
        id, _ = of_part(reading.template, "sagas_table")
        (mapping,) = [one for one in reading.of_type("AWS::Lambda::EventSourceMapping") if "StartingPosition" in one]
        assert mapping["EventSourceArn"] == {"Fn::GetAtt": [id, "StreamArn"]}
        filters = [json.loads(one["Pattern"]) for one in mapping["FilterCriteria"]["Filters"]]
        statuses = {status for one in filters for status in one["dynamodb"]["NewImage"].get("status", {"S": []})["S"]}
        assert "RUNNING" not in statuses
        told = {one["AlarmDescription"].partition("#")[2] for one in reading.of_type("AWS::CloudWatch::Alarm")}
        assert {"events-late", "events-lost", "events-unread"} <= told
        # Of the stack and the construct: a second stack of the app has another.
        assert bus["Name"] == "Shop-Sagas"

    def test_its_function_reads_and_tells_and_does_nothing_else(self, reading: Shop) -> None:
        template = reading.template
        alias, properties = of_part(template, "events_function")
        function = properties["FunctionName"]["Ref"]
        rights = rights_of(template, function)
        written = ("Put", "Update", "Delete", "Write", "Send")
        writing = {(action, resource) for action, resource in rights if any(verb in action for verb in written)}
        lost, _ = of_part(template, "event_dead_letter_queue")
        (bus,) = [id for id, one in template["Resources"].items() if one["Type"] == "AWS::Events::EventBus"]
        assert {pair for pair in writing if not pair[0].startswith(("xray:", "logs:"))} == {
            ("events:PutEvents", f"<{bus}.Arn>"),
            ("sqs:SendMessage", f"<{lost}.Arn>"),
        }
        assert {action for action, resource in rights if resource == "*"} == {
            "xray:PutTraceSegments",
            "xray:PutTelemetryRecords",
        }
        assert not [action for action, _ in rights if action.startswith("s3:")]
        assert alias

    def test_operators_may_call_the_supervisor_which_publishes_again_and_not_its_function(self, reading: Shop) -> None:
        called: dict[str, set[str]] = {}
        for part in ("supervisor", "events_function"):
            _, alias = of_part(reading.template, part)
            right = ("lambda:InvokeFunction", f"<{alias['FunctionName']['Ref']}.Arn>")
            called[part] = {role[:5] for role, own in rights(reading.template).items() if right in own}
        assert {"First", "Secon"} <= called["supervisor"]
        assert "Third" not in called["supervisor"]
        assert called["events_function"] == set()
        _, alias = of_part(reading.template, "supervisor")
        (bus,) = [id for id, one in reading.template["Resources"].items() if one["Type"] == "AWS::Events::EventBus"]
        supervisor = alias["FunctionName"]["Ref"]
        assert ("events:PutEvents", f"<{bus}.Arn>") in rights_of(reading.template, supervisor)
        variables = reading.template["Resources"][supervisor]["Properties"]["Environment"]["Variables"]
        assert variables["SAGAS_EVENT_BUS"] == {"Fn::GetAtt": [bus, "Arn"]}

    def test_a_bus_of_ones_own_and_more_to_tell(self, everything: Template) -> None:
        ((bus, _),) = [
            (id, one) for id, one in everything["Resources"].items() if one["Type"] == "AWS::Events::EventBus"
        ]
        assert bus.startswith("Mine")
        _, alias = of_part(everything, "events_function")
        function = everything["Resources"][alias["FunctionName"]["Ref"]]
        assert ("events:PutEvents", f"<{bus}.Arn>") in rights_of(everything, alias["FunctionName"]["Ref"])
        variables = function["Properties"]["Environment"]["Variables"]
        assert variables["SAGAS_EVENTS"] == "steps,payloads"
        assert variables["SAGAS_EVENT_SOURCE"] == "sagas.orders"

    def test_a_bus_given_is_enough(self) -> None:
        stack = Stack(App(), "Shop")
        SagaService(stack, "Sagas", sagas=[Trip], events=events.EventBus(stack, "Mine"))
        of_part(template_of(stack), "events_function")

    def test_what_is_no_bus_or_has_no_stream(self) -> None:
        with pytest.raises(DefinitionError, match="events must be an EventBus or SagaEvents, not True"):
            Shop(events=True)
        stack = Stack(App(), "Other")
        arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/sagas"
        table = dynamodb.Table.from_table_arn(stack, "Theirs", arn)
        service = SagaService(stack, "Sagas", sagas=[Trip], tables={"sagas": table})
        with pytest.raises(
            DefinitionError, match="tables: sagas: it has no stream; import it with its table_stream_arn"
        ):
            service.event_bus()


def test_a_rule_on_the_own_bus_is_warned_of() -> None:
    """What sagas publish would start sagas, and so on. Signals end waits, which end."""
    shop = Shop()
    ended = events.EventPattern(detail_type=["SagaCompleted"])
    other = events.Rule(shop.stack, "Others", event_bus=events.EventBus(shop.stack, "Theirs"), event_pattern=ended)
    mine = events.Rule(shop.stack, "Ended", event_bus=shop.service.event_bus(), event_pattern=ended)
    shop.service.start_on(other, Trip)
    shop.service.start_on(shop.rule(), Trip)
    shop.service.signal_on(mine, Loan.approval)
    assert _circles(shop.stack) == []
    shop.service.start_on(mine, Trip)
    (warning,) = _circles(shop.stack)
    assert "Sagas: start_on trip: the rule is on the service's own event bus" in warning


def test_a_rule_on_a_bus_that_was_given_is_warned_of_too() -> None:
    stack = Stack(App(), "Shop")
    bus = events.EventBus(stack, "Mine")
    service = SagaService(stack, "Sagas", sagas=[Trip], events=bus)
    pattern = events.EventPattern(detail_type=["SagaCompleted"])
    service.start_on(events.Rule(stack, "Ended", event_bus=bus, event_pattern=pattern), Trip)
    assert len(_circles(stack)) == 1


def _circles(stack: Stack) -> list[str]:
    found = assertions.Annotations.from_stack(stack).find_warning("*", assertions.Match.any_value())
    return [text for one in found if "own event bus" in (text := str(one.entry.data))]
