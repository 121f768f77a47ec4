"""What gets commands and events into a service, and its own out of it: made when asked for, and with few rights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack, TimeZone, Validations, assertions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from sagas import Context, Saga, step, wait_for
from sagas.cdk import FunctionOptions, SagaEvents, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import lint
from tests.cdk.test_permissions import as_list, pairs, shown

Template = dict[str, Any]
LAMBDA: Any = iam.ServicePrincipal("lambda.amazonaws.com")


@dataclass(frozen=True)
class Order:
    """What is asked for."""

    item: str


class Trip(Saga[Order]):
    """One step."""

    @step
    def book(self, request: Order, ctx: Context) -> str:
        """Book it."""
        return request.item


class Loan(Saga[Order]):
    """Waits for a yes, then pays."""

    approval = wait_for(bool, timeout=timedelta(days=1))

    @step
    def pay(self, approval: bool, ctx: Context) -> None:
        """Pay."""


def untyped(value: Any) -> Any:
    """What a user without a type checker may pass."""
    return value


class Shop:
    """A stack with a service of two sagas."""

    def __init__(self, **options: Any) -> None:
        self.stack = Stack(App(), "Shop")
        self.service = SagaService(self.stack, "Sagas", sagas=[Trip, Loan], **options)

    def free(self, id: str) -> str:
        """An id that no construct of the stack has."""
        return id if self.stack.node.try_find_child(id) is None else self.free(f"{id}x")

    def rule(self) -> events.Rule:
        return events.Rule(self.stack, self.free("Ordered"), event_pattern=events.EventPattern(source=["shop"]))

    @property
    def template(self) -> Template:
        return dict(assertions.Template.from_stack(self.stack).to_json())

    def of_type(self, kind: str) -> list[Template]:
        return [one.get("Properties", {}) for one in self.template["Resources"].values() if one["Type"] == kind]


def of_part(template: Template, part: str) -> tuple[str, Template]:
    """The resource that is that part of the service."""
    ((id, found),) = [
        (id, one)
        for id, one in template["Resources"].items()
        if one.get("Metadata", {}).get("sagas", {}).get("part") == part
    ]
    return id, found["Properties"]


def rights_of(template: Template, function: str) -> set[tuple[str, str]]:
    """(action, resource) pairs of a function's role."""
    role = template["Resources"][function]["Properties"]["Role"]["Fn::GetAtt"][0]
    policies = [one["Properties"] for one in template["Resources"].values() if one["Type"] == "AWS::IAM::Policy"]
    return {pair for one in policies if {"Ref": role} in one["Roles"] for pair in pairs(one["PolicyDocument"])}


def command_of(target: Template) -> Template:
    """The command that a rule's target is told to send."""
    text = target["InputTransformer"]["InputTemplate"]
    assert text.endswith(', "event": <aws.events.event.json>}')
    return json.loads(text.replace("<aws.events.event.json>", "{}"))


class TestTheQueue:
    def test_is_not_there_unless_it_is_asked_for(self) -> None:
        shop = Shop()
        shop.service.grant_start(iam.Role(shop.stack, "Caller", assumed_by=LAMBDA))
        assert "ommand" not in json.dumps(shop.template["Resources"])
        assert not shop.of_type("AWS::Events::EventBus")

    def test_has_dead_letters_and_an_alarm_on_them(self) -> None:
        shop = Shop()
        assert shop.service.command_queue is shop.service.command_queue
        template = shop.template
        id, queue = of_part(template, "command_queue")
        letters, dead = of_part(template, "command_dead_letter_queue")
        assert queue["RedrivePolicy"] == {
            "deadLetterTargetArn": {"Fn::GetAtt": [letters, "Arn"]},
            "maxReceiveCount": 100,
        }
        assert dead["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
        _, properties = of_part(template, "command_function")
        variables = properties["Environment"]["Variables"]
        assert variables["SAGAS_COMMAND_QUEUE"] == {"Ref": id}
        assert variables["SAGAS_COMMAND_DEAD_LETTERS"] == {"Ref": letters}
        assert properties["Timeout"] == 30
        alarms = [one["AlarmDescription"] for one in shop.of_type("AWS::CloudWatch::Alarm")]
        assert any("docs/operations/runbook.md#command-dead-letters" in told for told in alarms)

    def test_its_function_may_no_more_than_it_does(self) -> None:
        shop = Shop()
        _ = shop.service.command_queue
        template = shop.template
        function, _ = of_part(template, "command_function")
        rights = rights_of(template, function)
        wide = {(action, resource) for action, resource in rights if resource == "*"}
        assert {action for action, _ in wide} == {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
        assert not {action for action, _ in rights if "Delete" in action} - {"sqs:DeleteMessage"}
        assert not {action for action, _ in rights if action.endswith("*")}
        letters, _ = of_part(template, "command_dead_letter_queue")
        assert ("sqs:SendMessage", f"<{letters}.Arn>") in rights
        assert ("sqs:ReceiveMessage", f"<{letters}.Arn>") not in rights

    def test_options_of_its_function(self) -> None:
        shop = Shop(command_options=FunctionOptions(memory_size=1024, maximum_concurrency=40))
        _ = shop.service.command_queue
        _, properties = of_part(shop.template, "command_function")
        assert properties["MemorySize"] == 1024
        with pytest.raises(DefinitionError, match="command_options takes no timeout"):
            Shop(command_options=FunctionOptions(timeout=60))

    @pytest.mark.parametrize("before", [True, False])
    def test_who_may_start_may_send_there(self, before: bool) -> None:
        shop = Shop()
        role = iam.Role(shop.stack, "Caller", assumed_by=LAMBDA)
        one_type = iam.Role(shop.stack, "Other", assumed_by=LAMBDA)
        if before:
            _ = shop.service.command_queue
        shop.service.grant_start(role)
        shop.service.grant_start(one_type, Trip)
        _ = shop.service.command_queue
        template = shop.template
        queue, _ = of_part(template, "command_queue")
        senders = {
            policy["Roles"][0]["Ref"]
            for policy in shop.of_type("AWS::IAM::Policy")
            if ("sqs:SendMessage", f"<{queue}.Arn>") in set(pairs(policy["PolicyDocument"]))
        }
        assert any(sender.startswith("Caller") for sender in senders)
        assert not any(sender.startswith("Other") for sender in senders)

    def test_who_may_send_signals_may_do_nothing_else(self) -> None:
        shop = Shop()
        role = iam.Role(shop.stack, "Caller", assumed_by=LAMBDA)
        shop.service.grant_signal(role, Loan)
        granted = [
            pair
            for policy in shop.of_type("AWS::IAM::Policy")
            if policy["Roles"][0]["Ref"].startswith("Caller")
            for pair in pairs(policy["PolicyDocument"])
        ]
        ((action, resource),) = granted
        assert action == "execute-api:Invoke"
        assert resource.endswith("/POST/sagas/loan/*/signals/*")


class TestSources:
    def test_a_rule_sends_the_whole_event_with_what_to_take_of_it(self) -> None:
        shop = Shop()
        shop.service.start_on(shop.rule(), Trip, request={"item": "$.detail.item"}, key="$.detail.id")
        (rule,) = [one for one in shop.of_type("AWS::Events::Rule") if "EventPattern" in one]
        (target,) = rule["Targets"]
        queue, _ = of_part(shop.template, "command_queue")
        assert target["Arn"] == {"Fn::GetAtt": [queue, "Arn"]}
        assert command_of(target) == {
            "command": "start_on", "saga": "trip", "request": {"item": "$.detail.item"}, "key": "$.detail.id",
            "event": {},
        }  # fmt: skip
        assert "DeadLetterConfig" in target

    def test_what_is_in_angle_brackets_is_no_variable_of_eventbridges(self) -> None:
        shop = Shop()
        shop.service.start_on(shop.rule(), Trip, request={"item": "<b>1 < 2</b> <aws.events.event>"})
        (rule,) = [one for one in shop.of_type("AWS::Events::Rule") if "EventPattern" in one]
        (target,) = rule["Targets"]
        text = target["InputTransformer"]["InputTemplate"]
        assert re.findall("<[^>]*>", text) == ["<aws.events.event.json>"]
        assert command_of(target)["request"] == {"item": "<b>1 < 2</b> <aws.events.event>"}

    def test_only_that_rule_may_send(self) -> None:
        shop = Shop()
        shop.service.start_on(shop.rule(), Trip)
        queue, _ = of_part(shop.template, "command_queue")
        (policy,) = [one for one in shop.of_type("AWS::SQS::QueuePolicy") if one["Queues"] == [{"Ref": queue}]]
        (allowed,) = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
        assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
        ((source,),) = [one["aws:SourceArn"] for one in allowed["Condition"].values()]
        assert shown(source).startswith("<Ordered")

    @pytest.mark.parametrize("encrypted", [False, True])
    def test_many_sources_fit_into_the_policies_of_the_queue(self, encrypted: bool) -> None:
        """SQS takes 20 statements, and 8,192 bytes, in which most ARNs have a hundred."""
        shop = Shop()
        if encrypted:
            shop.stack = Stack(App(), "Shop")
            key: Any = kms.Key(shop.stack, "Key")
            shop.service = SagaService(shop.stack, "Sagas", sagas=[Trip, Loan], encryption_key=key)
        rules, topics = [shop.rule() for _ in range(30)], [sns.Topic(shop.stack, f"Topic{n}") for n in range(20)]
        for source in (*rules, *topics):
            shop.service.start_on(source, Trip)
        shop.service.signal_on(rules[0], Loan.approval)
        template = shop.template
        for part in ("command_queue", "command_dead_letter_queue"):
            queue, _ = of_part(template, part)
            (policy,) = [one for one in shop.of_type("AWS::SQS::QueuePolicy") if one["Queues"] == [{"Ref": queue}]]
            statements = policy["PolicyDocument"]["Statement"]
            assert len(statements) <= 20
            assert len(json.dumps(statements)) < 4096
            allowed = [one for one in statements if one["Effect"] == "Allow"]
            senders = [source for one in allowed for source in as_list(one["Condition"]["ArnEquals"]["aws:SourceArn"])]
            assert len({shown(one) for one in senders}) == len(senders) == 50
        uses = [
            as_list(one["Principal"]["Service"])
            for found in shop.of_type("AWS::KMS::Key")
            for one in found["KeyPolicy"]["Statement"]
            if set(as_list(one["Action"])) >= {"kms:Decrypt", "kms:GenerateDataKey"} and "Service" in one["Principal"]
        ]
        services = {one for listed in uses for one in listed if isinstance(one, str)}
        assert services == ({"events.amazonaws.com", "sns.amazonaws.com"} if encrypted else set())
        with pytest.raises(DefinitionError, match=r"Sagas: start_on trip: .* some 50 rules and topics"):
            shop.service.start_on(shop.rule(), Trip)

    def test_a_signal(self) -> None:
        shop = Shop()
        shop.service.signal_on(shop.rule(), Loan.approval, saga_id="$.detail.loan", value="$.detail.granted")
        (rule,) = [one for one in shop.of_type("AWS::Events::Rule") if "EventPattern" in one]
        assert command_of(rule["Targets"][0]) == {
            "command": "signal_on", "saga": "loan", "step": "approval", "saga_id": "$.detail.loan",
            "value": "$.detail.granted", "event": {},
        }  # fmt: skip

    def test_a_schedule_of_scheduler(self) -> None:
        shop = Shop()
        night = scheduler.ScheduleExpression.cron(hour="3", minute="0", time_zone=TimeZone.EUROPE_BERLIN)
        shop.service.start_on(night, Trip, request={"item": "report"}, key=["nightly", "$.time"])
        once = scheduler.ScheduleExpression.rate(Duration.hours(1))
        shop.service.start_on(once, Trip, request={"item": "hourly"})
        first, second = sorted(shop.of_type("AWS::Scheduler::Schedule"), key=lambda one: one["ScheduleExpression"])
        assert (first["ScheduleExpression"], first["ScheduleExpressionTimezone"]) == (
            "cron(0 3 * * ? *)",
            "Europe/Berlin",
        )
        told = json.loads(first["Target"]["Input"])
        assert (told["request"], told["key"]) == ({"item": "report"}, ["nightly", "$.time"])
        assert told["event"]["time"] == "<aws.scheduler.scheduled-time>"
        other = json.loads(second["Target"]["Input"])
        assert (other["key"], other["event"]["id"]) == ("$.id", "<aws.scheduler.execution-id>")
        roles = [one for one in shop.of_type("AWS::IAM::Role") if "scheduler" in json.dumps(one)]
        assert len(roles) == 1
        (statement,) = roles[0]["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}

    def test_a_schedule_of_rules(self) -> None:
        shop = Shop()
        shop.service.start_on(events.Schedule.rate(Duration.minutes(5)), Trip, request={"item": "report"})
        rules = [one for one in shop.of_type("AWS::Events::Rule") if one.get("ScheduleExpression") == "rate(5 minutes)"]
        assert any("InputTransformer" in target for one in rules for target in one["Targets"])

    def test_a_bucket_tells_eventbridge_and_its_objects_are_told_apart_by_key_and_sequencer(self) -> None:
        shop = Shop()
        bucket = s3.Bucket(shop.stack, "Uploads")
        shop.service.start_on(bucket, Trip, request={"item": "$.detail.object.key"})
        buckets = [one for one in shop.of_type("AWS::S3::Bucket") if "NotificationConfiguration" in one]
        (told,) = [one["NotificationConfiguration"] for one in buckets]
        assert told == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
        (rule,) = [one for one in shop.of_type("AWS::Events::Rule") if "EventPattern" in one]
        assert rule["EventPattern"]["source"] == ["aws.s3"]
        assert rule["EventPattern"]["detail"]["bucket"]["name"][0]["Ref"].startswith("Uploads")
        assert command_of(rule["Targets"][0])["key"] == ["$.detail.object.key", "$.detail.object.sequencer"]

    def test_a_bucket_that_is_imported_or_has_notifications(self) -> None:
        shop = Shop()
        shop.service.start_on(s3.Bucket.from_bucket_name(shop.stack, "Theirs", "theirs"), Trip)
        bucket = s3.Bucket(shop.stack, "Uploads", event_bridge_enabled=True)
        shop.service.start_on(bucket, Trip)
        assert len([one for one in shop.of_type("AWS::Events::Rule") if "EventPattern" in one]) == 2
        assert not [one for one in shop.of_type("AWS::S3::Bucket") if "NotificationConfiguration" in one]

    def test_a_topic_and_a_queue_are_declared_to_the_function(self) -> None:
        shop = Shop()
        shop.service.start_on(sns.Topic(shop.stack, "Orders"), Trip)
        shop.service.signal_on(sqs.Queue(shop.stack, "Answers"), Loan.approval, value="$.detail.granted")
        template = shop.template
        function, properties = of_part(template, "command_function")
        declared = shown(properties["Environment"]["Variables"]["SAGAS_SOURCES"])
        assert '"command":"start_on","saga":"trip","request":"$.detail","key":"$.id"' in declared
        assert '"command":"signal_on","saga":"loan","step":"approval"' in declared
        found = assertions.Template.from_stack(shop.stack).find_resources("AWS::SNS::Subscription")
        ((id, subscription),) = found.items()
        # Under another id it would be made anew, and go with the old one: SNS has one of a topic and a queue.
        assert id == "SagasCommandsQueueShopOrdersA8B1F5096FD68714"
        (policy,) = subscription["DependsOn"]
        assert template["Resources"][policy]["Properties"]["Queues"] == [{"Ref": of_part(template, "command_queue")[0]}]
        subscription = subscription["Properties"]
        assert subscription["Protocol"] == "sqs"
        assert "RedrivePolicy" in subscription
        mine = {action for action, resource in rights_of(template, function) if resource.startswith("<Answers")}
        assert mine >= {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
        sources = [shown(one["EventSourceArn"]) for one in shop.of_type("AWS::Lambda::EventSourceMapping")]
        assert any(source.startswith("<Answers") for source in sources)


@pytest.fixture(scope="module")
def shop() -> Shop:
    """One for all that is refused."""
    return Shop()


def no_rule(shop: Shop) -> None:
    shop.service.start_on(untyped("rate(1 hour)"), Trip)


def no_path(shop: Shop) -> None:
    shop.service.start_on(shop.rule(), Trip, request="$detail")


def no_key(shop: Shop) -> None:
    shop.service.start_on(shop.rule(), Trip, key=untyped(7))


def constant_key(shop: Shop) -> None:
    shop.service.start_on(shop.rule(), Trip, key="detail.id")


def bad_key(shop: Shop) -> None:
    shop.service.start_on(shop.rule(), Trip, key="$.detail id")


def bad_request(shop: Shop) -> None:
    shop.service.start_on(shop.rule(), Trip, request={"itm": "report"})


def other_saga(shop: Shop) -> None:
    class Other(Saga[Order]):
        @step
        def book(self, request: Order, ctx: Context) -> None: ...

    shop.service.start_on(shop.rule(), Other)


def no_wait(shop: Shop) -> None:
    shop.service.signal_on(shop.rule(), Loan.pay)


def no_step(shop: Shop) -> None:
    shop.service.signal_on(shop.rule(), untyped("approval"))


def no_id(shop: Shop) -> None:
    shop.service.signal_on(shop.rule(), Loan.approval, saga_id="detail.saga_id")


def bad_value(shop: Shop) -> None:
    shop.service.signal_on(shop.rule(), Loan.approval, value="yes")


def hasty_queue(shop: Shop) -> None:
    shop.service.start_on(sqs.Queue(shop.stack, shop.free("Q"), visibility_timeout=Duration.seconds(5)), Trip)


def fifo_queue(shop: Shop) -> None:
    shop.service.start_on(sqs.Queue(shop.stack, shop.free("Q"), fifo=True), Trip)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (no_rule, "Sagas: start_on trip: the source must be a Rule, a Schedule, .* not 'rate"),
        (no_path, r"Sagas: start_on trip: request: '\$detail' is no JSON path"),
        (no_key, r"Sagas: start_on trip: key must be a JSON path such as \$.detail.id, or several, not 7"),
        (constant_key, "Sagas: start_on trip: key must take something from the event"),
        (bad_key, r"Sagas: start_on trip: key: '\$.detail id' is no JSON path"),
        (bad_request, "Sagas: start_on trip: request does not fit: .*item"),
        (other_saga, "Other is not among its sagas"),
        (no_wait, "Sagas: signal_on: step pay of saga loan takes no signal"),
        (no_step, "Sagas: signal_on: step must be one that waits, like Loan.approval, not 'approval'"),
        (no_id, r"Sagas: signal_on loan.approval: saga_id must be a JSON path"),
        (bad_value, "Sagas: signal_on loan.approval: value does not fit"),
        (hasty_queue, "Sagas: start_on trip: the queue Shop/Qx* hides messages for 5 s; it must be 30 at least"),
        (fifo_queue, "Sagas: start_on trip: the queue Shop/Qx* is a FIFO queue"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(shop: Shop, build: Callable[[Shop], None], told: str) -> None:
    with pytest.raises(DefinitionError, match=told) as raised:
        build(shop)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("encrypted", [False, True])
def test_policy_checks_find_nothing(encrypted: bool, tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    stack = Stack(app, "Shop")
    key: Any = kms.Key(stack, "Key", enable_key_rotation=True) if encrypted else None
    service = SagaService(stack, "Sagas", sagas=[Trip, Loan], encryption_key=key)
    rule = events.Rule(stack, "Ordered", event_pattern=events.EventPattern(source=["shop"]))
    service.start_on(rule, Trip)
    service.start_on(scheduler.ScheduleExpression.rate(Duration.hours(1)), Trip, request={"item": "hourly"})
    service.start_on(sns.Topic(stack, "Orders", enforce_ssl=True, master_key=key), Trip)
    _ = service.events
    app.synth()
    assert lint(tmp_path / "Shop.template.json") == []
    template = json.loads((tmp_path / "Shop.template.json").read_text())
    actions = {
        action
        for one in template["Resources"].values()
        if one["Type"] == "AWS::IAM::Policy"
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
        if "*" in as_list(statement["Resource"])
        for action in as_list(statement["Action"])
    }
    assert actions == {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}


class TestEvents:
    def test_reading_the_bus_turns_it_on(self) -> None:
        shop = Shop()
        assert shop.service.events is shop.service.events
        template = shop.template
        (bus,) = shop.of_type("AWS::Events::EventBus")
        id, table = of_part(template, "sagas_table")
        assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        (mapping,) = [one for one in shop.of_type("AWS::Lambda::EventSourceMapping") if "StartingPosition" in one]
        assert mapping["EventSourceArn"] == {"Fn::GetAtt": [id, "StreamArn"]}
        assert mapping["BisectBatchOnFunctionError"] is True
        assert mapping["MaximumRecordAgeInSeconds"] == 23 * 3600
        assert "MaximumRetryAttempts" not in mapping
        lost, _ = of_part(template, "event_dead_letter_queue")
        assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": [lost, "Arn"]}
        filters = [json.loads(one["Pattern"]) for one in mapping["FilterCriteria"]["Filters"]]
        statuses = {status for one in filters for status in one["dynamodb"]["NewImage"].get("status", {"S": []})["S"]}
        assert "RUNNING" not in statuses
        told = {one["AlarmDescription"].partition("#")[2] for one in shop.of_type("AWS::CloudWatch::Alarm")}
        assert {"events-late", "events-lost", "events-unread"} <= told
        assert bus["Name"]

    def test_its_function_reads_and_tells_and_does_nothing_else(self) -> None:
        shop = Shop()
        _ = shop.service.events
        template = shop.template
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

    def test_an_operator_of_all_types_may_have_them_told_again(self) -> None:
        shop = Shop()
        roles = [iam.Role(shop.stack, name, assumed_by=LAMBDA) for name in ("First", "Second", "Third")]
        shop.service.grant_operate(roles[0])
        shop.service.grant_operate(roles[2], Trip)
        _ = shop.service.events
        shop.service.grant_operate(roles[1])
        template = shop.template
        _, alias = of_part(template, "events_function")
        may = {
            policy["Roles"][0]["Ref"][:5]
            for policy in shop.of_type("AWS::IAM::Policy")
            if ("lambda:InvokeFunction", f"<{alias['FunctionName']['Ref']}.Arn>")
            in set(pairs(policy["PolicyDocument"]))
        }
        assert {"First", "Secon"} <= may
        assert "Third" not in may

    def test_a_bus_of_ones_own_and_more_to_tell(self) -> None:
        stack = Stack(App(), "Shop")
        bus = events.EventBus(stack, "Mine")
        told = SagaEvents(bus=bus, steps=True, payloads=True)
        service = SagaService(stack, "Sagas", sagas=[Trip, Loan], events=told, service_name="shop")
        assert service.events.event_bus_name == bus.event_bus_name
        template = dict(assertions.Template.from_stack(stack).to_json())
        assert len([one for one in template["Resources"].values() if one["Type"] == "AWS::Events::EventBus"]) == 1
        _, alias = of_part(template, "events_function")
        function = template["Resources"][alias["FunctionName"]["Ref"]]["Properties"]
        variables = function["Environment"]["Variables"]
        assert variables["SAGAS_EVENTS"] == "steps,payloads"
        assert variables["SAGAS_EVENT_SOURCE"] == "sagas.shop"

    def test_a_bus_given_is_enough(self) -> None:
        stack = Stack(App(), "Shop")
        SagaService(stack, "Sagas", sagas=[Trip, Loan], events=events.EventBus(stack, "Mine"))
        of_part(dict(assertions.Template.from_stack(stack).to_json()), "events_function")

    def test_what_is_no_bus_or_has_no_stream(self) -> None:
        with pytest.raises(DefinitionError, match="events must be an EventBus or SagaEvents, not True"):
            Shop(events=True)
        stack = Stack(App(), "Other")
        arn = "arn:aws:dynamodb:eu-central-1:123456789012:table/sagas"
        table = dynamodb.Table.from_table_arn(stack, "Theirs", arn)
        service = SagaService(stack, "Sagas", sagas=[Trip], sagas_table=table)
        with pytest.raises(DefinitionError, match="sagas_table: it has no stream; import it with its table_stream_arn"):
            _ = service.events
