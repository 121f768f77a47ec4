"""Sources of events that start sagas or send signals: rules, schedules, buckets, topics and queues.

Each source sends to the command queue, or is a queue that the command function consumes, and declares how an event
becomes a command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsii
from aws_cdk import Aws, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from sagas.cdk.data.encryption import allow_key, via_services
from sagas.cdk.layout.roles import OwnRole
from sagas.cdk.messages.commands import TIMEOUT, CommandFunction, CommandQueue
from sagas.cdk.options.service_options import AnyKey
from sagas.errors import DefinitionError

Source = (
    events.Rule
    | events.Schedule
    | scheduler.ScheduleExpression
    | scheduler.Schedule
    | s3.BucketBase
    | s3.IBucket
    | sns.TopicBase
    | sns.ITopic
    | sqs.QueueBase
    | sqs.IQueue
)
"""Sources of events. An ``events.Schedule`` becomes a rule. A ``ScheduleExpression`` becomes a schedule of
Scheduler."""

OBJECT_KEY = ["$.detail.object.key", "$.detail.object.sequencer"]
"""The paths that identify an event of a bucket, even if S3 delivers the event twice."""
EVENT_ID = "$.id"
"""The path that identifies an event of EventBridge, a notification, an SQS message or an execution of Scheduler."""
_SCHEDULED: dict[str, Any] = {
    "id": "<aws.scheduler.execution-id>",
    "time": "<aws.scheduler.scheduled-time>",
    "source": "aws.scheduler",
    "detail-type": "Scheduled Event",
    "resources": ["<aws.scheduler.schedule-arn>"],
    "detail": {},
}
"""The event that Scheduler sends, in EventBridge's form. Scheduler replaces the parts in angle brackets."""
_NOTIFICATIONS = "Notifications"
"""The id of the construct that the CDK adds to a bucket for which the app sets notifications."""


def default_key(source: object) -> str | list[str]:
    """Return the JSON paths that identify an event of a source."""
    return OBJECT_KEY if isinstance(source, s3.BucketBase) else EVENT_ID


@dataclass(frozen=True, slots=True)
class Connector:
    """Connects sources with the command queue of a service. ``key`` is the customer's KMS key that encrypts the queue;
    ``None`` for SQS's own."""

    service: Construct
    commands: CommandQueue
    function: CommandFunction
    key: AnyKey | None

    def connect(self, source: object, command: Mapping[str, Any], what: str) -> None:
        match source:
            case events.Rule():
                self._rule(source, command, what)
            case events.Schedule():
                self._rule(events.Rule(self.service, self._free_id(what), schedule=source), command, what)
            case scheduler.ScheduleExpression():
                zone = source.time_zone
                scheduler.CfnSchedule(
                    self.service,
                    self._free_id(what),
                    schedule_expression=source.expression_string,
                    schedule_expression_timezone=zone.timezone_name if zone else None,
                    flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                    description=what,
                    target=self._scheduled(command),
                )
            case scheduler.Schedule():  # a schedule has only one target, so replace it
                cast("scheduler.CfnSchedule", source.node.default_child).target = self._scheduled(command)
            case s3.BucketBase():
                self._bucket(source, command, what)
            case sns.TopicBase():
                policy = self.commands.let_send("sns", source, what)
                source.add_subscription(cast("sns.ITopicSubscription", _Subscription(self.commands, policy)))
                self.function.declare(source.topic_arn, command)
            case sqs.QueueBase():
                self._queue(source, command, what)
            case _:
                expected = "a Rule, a Schedule, a ScheduleExpression, a Bucket, a Topic or a Queue"
                raise DefinitionError(f"{what}: the source must be {expected}, not {source!r}")

    def _rule(self, rule: events.Rule, command: Mapping[str, Any], what: str) -> None:
        if _outermost(rule) is not _outermost(self.service):
            fault = f"the rule {rule.node.path} is in another stack, so the two stacks would depend on each other"
            advice = "create it in the service's stack, or have it send to a queue of yours, and use that as the source"
            raise DefinitionError(f"{what}: {fault}; {advice}")
        self.commands.let_send("events", rule, what)
        target = targets.SqsQueue(
            self.commands.imported,
            message=cast("events.RuleTargetInput", _WholeEvent(command)),
            dead_letter_queue=self.commands.imported_dead_letters,
        )
        rule.add_target(cast("events.IRuleTarget", target))

    def _scheduled(self, command: Mapping[str, Any]) -> scheduler.CfnSchedule.TargetProperty:
        """Return the command queue as the target of a schedule."""
        queue = self.commands.queue.queue_arn
        dead_letters = self.commands.dead_letters.queue_arn
        # All schedules of the service share one role.
        role = cast("OwnRole | None", self.commands.node.try_find_child("SchedulerRole"))
        if role is None:
            condition = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            principal = iam.ServicePrincipal("scheduler.amazonaws.com", conditions=condition)
            role = OwnRole(self.commands, "SchedulerRole", principal=principal)
            role.allow(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[queue, dead_letters]))
            allow_key(role, self.key, "sqs")
        return scheduler.CfnSchedule.TargetProperty(
            arn=queue,
            role_arn=role.role_arn,
            input=json.dumps({**command, "event": _SCHEDULED}),
            dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=dead_letters),
        )

    def _bucket(self, bucket: s3.BucketBase, command: Mapping[str, Any], what: str) -> None:
        resource = bucket.node.default_child
        if isinstance(resource, s3.CfnBucket):
            if bucket.node.try_find_child(_NOTIFICATIONS) is not None:
                # The CDK's custom resource sets the bucket's notifications and would revert settings made elsewhere.
                bucket.enable_event_bridge_notification()
            else:
                enabled = s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
                resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
                    event_bridge_configuration=enabled
                )
        pattern = events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created"],
            detail={"bucket": {"name": [bucket.bucket_name]}},
        )
        self._rule(events.Rule(self.service, self._free_id(what), event_pattern=pattern), command, what)

    def _queue(self, queue: sqs.QueueBase, command: Mapping[str, Any], what: str) -> None:
        resource = queue.node.default_child
        hidden = resource.visibility_timeout if isinstance(resource, sqs.CfnQueue) else None
        if hidden is not None and hidden < TIMEOUT:
            fault = f"has a visibility timeout of {hidden:g} s; it must be at least {TIMEOUT} s"
            raise DefinitionError(f"{what}: the queue {queue.node.path} {fault}")
        if queue.fifo:
            raise DefinitionError(f"{what}: the queue {queue.node.path} is a FIFO queue; sagas cannot keep its order")
        if queue.encryption_master_key is not None:  # the app's queue may have another key than the service
            key = queue.encryption_master_key.key_arn
            self.function.role.allow(
                iam.PolicyStatement(actions=["kms:Decrypt"], resources=[key], conditions=via_services("sqs"))
            )
        self.function.listen(cast("sqs.IQueue", queue))
        self.function.declare(queue.queue_arn, command)

    def _free_id(self, what: str) -> str:
        base = "".join(part[:1].upper() + part[1:] for part in what.replace("_", " ").replace(".", " ").split())
        number = 1
        id = base
        while self.service.node.try_find_child(id) is not None:
            number += 1
            id = f"{base}{number}"
        return id


def _outermost(construct: Construct) -> Stack:
    stack = Stack.of(construct)
    while stack.nested_stack_parent is not None:
        stack = stack.nested_stack_parent
    return stack


@jsii.implements(sns.ITopicSubscription)
class _Subscription:
    """Subscribes a queue to a topic as the CDK does, but adds no statement to the queue's policy."""

    def __init__(self, commands: CommandQueue, policy: IDependable | None) -> None:
        self._commands = commands
        self._policy = policy

    def bind(self, topic: sns.ITopic) -> sns.TopicSubscriptionConfig:
        queue = self._commands.imported
        letters = self._commands.imported_dead_letters
        usual = subscriptions.SqsSubscription(queue, dead_letter_queue=letters).bind(topic)
        return sns.TopicSubscriptionConfig(
            endpoint=usual.endpoint,
            protocol=usual.protocol,
            subscriber_id=usual.subscriber_id,
            subscriber_scope=self._commands.queue,
            region=usual.region,
            dead_letter_queue=usual.dead_letter_queue,
            subscription_dependency=self._policy,
        )


class _WholeEvent(events.RuleTargetInput):
    """A command that contains the whole event. The command function takes the values from the event. EventBridge
    inserts single values without escaping them, so a quotation mark would break the message."""

    def __init__(self, command: Mapping[str, Any]) -> None:
        super().__init__()
        # EventBridge takes text in angle brackets for a variable, and refuses variables that it does not know.
        text = json.dumps(dict(command)).replace("<", "\\u003c").replace(">", "\\u003e")
        self._template = f'{text[:-1]}, "event": <aws.events.event.json>}}'

    @jsii.member(jsii_name="bind")
    def bind(self, rule: Any) -> events.RuleTargetInputProperties:
        return events.RuleTargetInputProperties(input_template=self._template)
