"""What gets commands and events into a service: made when asked for, and with few rights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack, TimeZone, assertions
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs

from sagas import Context, Saga, step
from sagas.cdk import FunctionOptions, SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import as_list, of_type, rights, shown, statements
from tests.cdk.saga_classes import Loan, Order, Trip
from tests.cdk.templates import RUNBOOK, template
from tests.cdk.test_permissions import XRAY

Template = dict[str, Any]
LAMBDA: Any = iam.ServicePrincipal("lambda.amazonaws.com")


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

    def rule(self, id: str = "Ordered") -> events.Rule:
        return events.Rule(self.stack, self.free(id), event_pattern=events.EventPattern(source=["shop"]))

    @cached_property
    def template(self) -> Template:
        """What is synthesized when it is first asked for; nothing is added afterwards."""
        return dict(assertions.Template.from_stack(self.stack).to_json())

    def of_type(self, kind: str) -> list[Template]:
        return of_type(self.template, kind)

    def target_of(self, rule: str) -> Template:
        """The one target of a rule, by the id of the rule."""
        ((_, found),) = [
            (id, one)
            for id, one in self.template["Resources"].items()
            if one["Type"] == "AWS::Events::Rule" and re.fullmatch(f"{rule}[0-9A-F]{{8}}", id)
        ]
        (target,) = found["Properties"]["Targets"]
        return target


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
    return rights(template)[role]


def command_of(target: Template) -> Template:
    """The command that a rule's target is told to send."""
    text = target["InputTransformer"]["InputTemplate"]
    assert text.endswith(', "event": <aws.events.event.json>}')
    return json.loads(text.replace("<aws.events.event.json>", "{}"))


@pytest.fixture(scope="module")
def quiet() -> Shop:
    """A service that nobody asked for its command queue, and a role for each right that has to do with it."""
    shop = Shop()
    shop.service.grant_start(iam.Role(shop.stack, "Starter", assumed_by=LAMBDA))
    shop.service.grant_signal(iam.Role(shop.stack, "Caller", assumed_by=LAMBDA), Loan)
    return shop


class TestTheQueue:
    def test_is_not_there_unless_it_is_asked_for(self, quiet: Shop) -> None:
        assert "ommand" not in json.dumps(quiet.template["Resources"])
        assert not quiet.of_type("AWS::Events::EventBus")

    def test_has_dead_letters_and_an_alarm_on_them(self, everything: Template) -> None:
        id, queue = of_part(everything, "command_queue")
        letters, dead = of_part(everything, "command_dead_letter_queue")
        assert queue["RedrivePolicy"] == {
            "deadLetterTargetArn": {"Fn::GetAtt": [letters, "Arn"]},
            "maxReceiveCount": 100,
        }
        assert dead["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
        _, properties = of_part(everything, "command_function")
        variables = properties["Environment"]["Variables"]
        assert variables["SAGAS_COMMAND_QUEUE"] == {"Ref": id}
        assert variables["SAGAS_COMMAND_DEAD_LETTERS"] == {"Ref": letters}
        assert properties["Timeout"] == 30
        alarms = [one["AlarmDescription"] for one in of_type(everything, "AWS::CloudWatch::Alarm")]
        assert any(f"{RUNBOOK}#command-dead-letters" in told for told in alarms)

    def test_its_function_may_no_more_than_it_does(self, sources: Shop) -> None:
        template = sources.template
        function, _ = of_part(template, "command_function")
        rights = rights_of(template, function)
        wide = {action for action, resource in rights if resource == "*"}
        assert wide == {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}
        # It deletes the request that it has stored for a start or signal which is then refused.
        assert not {action for action, _ in rights if "Delete" in action} - {"sqs:DeleteMessage", "s3:DeleteObject"}
        assert not {action for action, _ in rights if action.endswith("*")}
        letters, _ = of_part(template, "command_dead_letter_queue")
        assert ("sqs:SendMessage", f"<{letters}.Arn>") in rights
        assert ("sqs:ReceiveMessage", f"<{letters}.Arn>") not in rights

    def test_options_of_its_function(self, everything: Template) -> None:
        _, properties = of_part(everything, "command_function")
        assert properties["MemorySize"] == 1024
        with pytest.raises(DefinitionError, match="functions: commands does not support timeout"):
            Shop(functions={"commands": FunctionOptions(timeout=60)})

    @pytest.mark.parametrize("before", [True, False])
    def test_who_may_start_may_send_there(self, before: bool) -> None:
        shop = Shop()
        role = iam.Role(shop.stack, "Caller", assumed_by=LAMBDA)
        one_type = iam.Role(shop.stack, "Other", assumed_by=LAMBDA)
        if before:
            shop.service.command_queue()
        shop.service.grant_start(role)
        shop.service.grant_start(one_type, Trip)
        assert shop.service.command_queue() is shop.service.command_queue()
        queue, _ = of_part(shop.template, "command_queue")
        sending = ("sqs:SendMessage", f"<{queue}.Arn>")
        senders = {role for role, own in rights(shop.template).items() if sending in own}
        assert any(sender.startswith("Caller") for sender in senders)
        assert not any(sender.startswith("Other") for sender in senders)

    def test_who_may_send_signals_may_do_nothing_else(self, quiet: Shop) -> None:
        (((action, resource),),) = (own for role, own in rights(quiet.template).items() if role.startswith("Caller"))
        assert action == "execute-api:Invoke"
        assert resource.endswith("/POST/sagas/loan/*/signals/*")


@pytest.fixture(scope="module")
def sources() -> Shop:
    """A service with a source of each kind."""
    shop = Shop()
    start, stack = shop.service.start_on, shop.stack
    start(shop.rule("Ordered"), Trip, request={"item": "$.detail.item"}, key="$.detail.id")
    start(shop.rule("Bracketed"), Trip, request={"item": "<b>1 < 2</b> <aws.events.event>"})
    shop.service.signal_on(shop.rule("Granted"), Loan.approval, saga_id="$.detail.loan", value="$.detail.granted")
    night = scheduler.ScheduleExpression.cron(hour="3", minute="0", time_zone=TimeZone.EUROPE_BERLIN)
    start(night, Trip, request={"item": "report"}, key=["nightly", "$.time"])
    start(scheduler.ScheduleExpression.rate(Duration.hours(1)), Trip, request={"item": "hourly"})
    start(events.Schedule.rate(Duration.minutes(5)), Trip, request={"item": "report"})
    start(s3.Bucket(stack, "Uploads"), Trip, request={"item": "$.detail.object.key"})
    start(s3.Bucket.from_bucket_name(stack, "Theirs", "theirs"), Trip)
    start(s3.Bucket(stack, "Silent", event_bridge_enabled=True), Trip)
    start(sns.Topic(stack, "Orders"), Trip)
    shop.service.signal_on(sqs.Queue(stack, "Answers"), Loan.approval, value="$.detail.granted")
    return shop


class TestSources:
    def test_a_rule_sends_the_whole_event_with_what_to_take_of_it(self, sources: Shop) -> None:
        target = sources.target_of("Ordered")
        queue, _ = of_part(sources.template, "command_queue")
        assert target["Arn"] == {"Fn::GetAtt": [queue, "Arn"]}
        assert command_of(target) == {
            "command": "start_on", "type": "trip", "request": {"item": "$.detail.item"}, "key": "$.detail.id",
            "event": {},
        }  # fmt: skip
        assert "DeadLetterConfig" in target

    def test_what_is_in_angle_brackets_is_no_variable_of_eventbridges(self, sources: Shop) -> None:
        target = sources.target_of("Bracketed")
        text = target["InputTransformer"]["InputTemplate"]
        assert re.findall("<[^>]*>", text) == ["<aws.events.event.json>"]
        assert command_of(target)["request"] == {"item": "<b>1 < 2</b> <aws.events.event>"}

    def test_only_that_rule_may_send(self, everything: Template) -> None:
        """Of rules; the template has one, and a topic."""
        queue, _ = of_part(everything, "command_queue")
        policies = of_type(everything, "AWS::SQS::QueuePolicy")
        (policy,) = [one for one in policies if one["Queues"] == [{"Ref": queue}]]
        allowed = [one for one in policy["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
        senders = {
            service: [shown(source) for one in condition.values() for source in as_list(one["aws:SourceArn"])]
            for one in allowed
            for service, condition in [(one["Principal"]["Service"], one["Condition"])]
        }
        assert senders.keys() == {"events.amazonaws.com", "sns.amazonaws.com"}
        assert len(allowed) == 2
        (rule,), (topic,) = senders["events.amazonaws.com"], senders["sns.amazonaws.com"]
        assert rule.startswith("<Ordered")
        assert topic.startswith("<Orders")

    @pytest.mark.slow
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
        with pytest.raises(DefinitionError, match=r"Sagas: start_on trip: .* only 50 rules and topics"):
            shop.service.start_on(shop.rule(), Trip)

    def test_a_signal(self, sources: Shop) -> None:
        assert command_of(sources.target_of("Granted")) == {
            "command": "signal_on", "type": "loan", "step": "approval", "saga_id": "$.detail.loan",
            "value": "$.detail.granted", "event": {},
        }  # fmt: skip

    def test_a_schedule_of_scheduler(self, sources: Shop) -> None:
        found = sorted(sources.of_type("AWS::Scheduler::Schedule"), key=lambda one: one["ScheduleExpression"])
        first, second = found
        assert (first["ScheduleExpression"], first["ScheduleExpressionTimezone"]) == (
            "cron(0 3 * * ? *)",
            "Europe/Berlin",
        )
        told = json.loads(first["Target"]["Input"])
        assert (told["request"], told["key"]) == ({"item": "report"}, ["nightly", "$.time"])
        assert told["event"]["time"] == "<aws.scheduler.scheduled-time>"
        other = json.loads(second["Target"]["Input"])
        assert (other["key"], other["event"]["id"]) == ("$.id", "<aws.scheduler.execution-id>")
        roles = [one for one in sources.of_type("AWS::IAM::Role") if "scheduler" in json.dumps(one)]
        assert len(roles) == 1
        (statement,) = roles[0]["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}

    def test_a_schedule_of_rules(self, sources: Shop) -> None:
        rules = sources.of_type("AWS::Events::Rule")
        scheduled = [one for one in rules if one.get("ScheduleExpression") == "rate(5 minutes)"]
        assert any("InputTransformer" in target for one in scheduled for target in one["Targets"])

    def test_a_bucket_tells_eventbridge_and_its_objects_are_told_apart_by_key_and_sequencer(
        self, sources: Shop
    ) -> None:
        buckets = {id: one for id, one in sources.template["Resources"].items() if one["Type"] == "AWS::S3::Bucket"}
        (told,) = [one["Properties"] for id, one in buckets.items() if id.startswith("Uploads")]
        assert told["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
        (rule,) = [one for one in _of_buckets(sources) if "Uploads" in json.dumps(one["EventPattern"])]
        assert rule["EventPattern"]["source"] == ["aws.s3"]
        assert rule["EventPattern"]["detail"]["bucket"]["name"][0]["Ref"].startswith("Uploads")
        assert command_of(rule["Targets"][0])["key"] == ["$.detail.object.key", "$.detail.object.sequencer"]

    def test_a_bucket_that_is_imported_or_has_notifications(self, sources: Shop) -> None:
        assert len(_of_buckets(sources)) == 1 + 2
        told = [
            one["NotificationConfiguration"]
            for one in sources.of_type("AWS::S3::Bucket")
            if "NotificationConfiguration" in one
        ]
        assert len(told) == 1

    def test_a_topic_and_a_queue_are_declared_to_the_function(self, sources: Shop) -> None:
        template = sources.template
        function, properties = of_part(template, "command_function")
        declared = shown(properties["Environment"]["Variables"]["SAGAS_SOURCES"])
        assert '"command":"start_on","type":"trip","request":"$.detail","key":"$.id"' in declared
        assert '"command":"signal_on","type":"loan","step":"approval"' in declared
        found = assertions.Template.from_stack(sources.stack).find_resources("AWS::SNS::Subscription")
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
        mappings = sources.of_type("AWS::Lambda::EventSourceMapping")
        assert any(shown(one["EventSourceArn"]).startswith("<Answers") for one in mappings)


def _of_buckets(shop: Shop) -> list[Template]:
    """The rules on events of buckets."""
    return [one for one in shop.of_type("AWS::Events::Rule") if "aws.s3" in json.dumps(one.get("EventPattern"))]


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


def foreign_rule(shop: Shop) -> None:
    other = Stack(shop.stack.node.root, shop.free("Rules"))  # pyright: ignore[reportArgumentType] - the root is the app
    shop.service.start_on(events.Rule(other, "R", event_pattern=events.EventPattern(source=["shop"])), Trip)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (
            foreign_rule,
            "Sagas: start_on trip: the rule Rulesx*/R is in another stack, .*; create it in the service's stack",
        ),
        (no_rule, "Sagas: start_on trip: the source must be a Rule, a Schedule, .* not 'rate"),
        (no_path, r"Sagas: start_on trip: request: '\$detail' is not a path"),
        (no_key, r"Sagas: start_on trip: key must be a path such as \$.detail.id, or several, not 7"),
        (constant_key, "Sagas: start_on trip: key must contain a path into the event"),
        (bad_key, r"Sagas: start_on trip: key: '\$.detail id' is not a path"),
        (bad_request, "Sagas: start_on trip: request is invalid: .*item"),
        (other_saga, "Other is not among its sagas"),
        (no_wait, "Sagas: signal_on: step pay of saga loan takes no signal"),
        (no_step, "Sagas: signal_on: step must be one that waits, such as Loan.approval, not 'approval'"),
        (no_id, r"Sagas: signal_on loan.approval: saga_id must be a path"),
        (bad_value, "Sagas: signal_on loan.approval: value is invalid"),
        (
            hasty_queue,
            "Sagas: start_on trip: the queue Shop/Qx* has a visibility timeout of 5 s; it must be at least 30 s",
        ),
        (fifo_queue, "Sagas: start_on trip: the queue Shop/Qx* is a FIFO queue"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(shop: Shop, build: Callable[[Shop], None], told: str) -> None:
    with pytest.raises(DefinitionError, match=told) as raised:
        build(shop)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "allowed"), [("everything", set[str]()), ("network_and_key", {"ec2", "xray"})])
def test_nothing_wide_is_allowed_but_traces_and_interfaces(name: str, allowed: set[str]) -> None:
    actions = {
        action
        for _, statement in statements(template(name))
        if "*" in as_list(statement["Resource"])
        for action in as_list(statement["Action"])
    }
    assert {action.partition(":")[0] for action in actions} == allowed
    assert {action for action in actions if action.startswith("xray:")} <= XRAY
