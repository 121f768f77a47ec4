"""The outbox: from the stream of the control table, a function tells a service's events on a bus of EventBridge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import jsii
from aws_cdk import Duration, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.acknowledge import acknowledge
from sagas.cdk.existing import AnyTable
from sagas.cdk.functions import SagaFunction, SharedAssets
from sagas.cdk.options import FunctionOptions
from sagas.cdk.parts import tag_part
from sagas.cdk.permissions import allow_telling
from sagas.cdk.queues import encrypted_queue
from sagas.cdk.told import SagaEvents
from sagas.errors import DefinitionError

_TIMEOUT = 60
_BATCH = 100
_KEPT = Duration.hours(23)
"""How long a change is tried to be told: streams keep 24 hours, and what is given up is to be told of before."""
_TOLD = ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED", "DEAD_LETTERED", "WAITING")
"""Statuses of which something may be told. Changes to others only tell of steps."""
_FINDINGS = ("Serverless-SQSRedrivePolicy", "AwsSolutions-SQS3")
_OF_A_SAGA = {"name_shard": {"S": [{"exists": True}]}}
"""The table holds more than sagas."""


class Outbox(SagaFunction):
    """The function, its bus and the queue of what it could not tell.

    Args:
        scope: the service.
        id: construct id.
        shared: code, layers, options and tables.
        told: what is told, and where.
        environment: its variables.

    Raises:
        DefinitionError: the control table is there already, and has no stream of old and new images.
    """

    def __init__(
        self, scope: Construct, id: str, *, shared: SharedAssets, told: SagaEvents, environment: Mapping[str, str]
    ) -> None:
        tables, service = shared.tables, shared.options.service
        stream = _stream_of(tables.sagas, service)
        self.bus = cast("events.IEventBus", told.bus or events.EventBus(scope, "Bus"))
        asked = [name for name, one in (("steps", told.steps), ("payloads", told.payloads)) if one]
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.outbox.handler",
            timeout=_TIMEOUT,
            environment={
                **environment,
                "SAGAS_EVENT_BUS": self.bus.event_bus_arn,
                "SAGAS_EVENT_SOURCE": f"sagas.{service}",
                **({"SAGAS_EVENTS": ",".join(asked)} if asked else {}),
            },
            function=FunctionOptions(),
            description="Tells events of sagas, as they are committed",
        )
        tag_part(self.alias, "events_function")
        self.lost = encrypted_queue(self, "Untold", shared.options.encryption_key)
        tag_part(self.lost, "event_dead_letter_queue")
        acknowledge(Validations.of(self.lost), dict.fromkeys(_FINDINGS, "It is where changes end that were given up."))
        allow_telling(self.role, tables, payloads=told.payloads)
        self.role.add_to_policy(iam.PolicyStatement(actions=["events:PutEvents"], resources=[self.bus.event_bus_arn]))
        self.role.add_to_policy(iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.lost.queue_arn]))
        reading = ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
        self.role.add_to_policy(
            iam.PolicyStatement(actions=[f"dynamodb:{name}" for name in reading], resources=[stream])
        )
        self.alias.add_event_source_mapping(
            "Stream",
            event_source_arn=stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=_BATCH,
            max_batching_window=Duration.seconds(1),
            # One change that cannot be told is told apart from the others, which go on.
            bisect_batch_on_error=True,
            max_record_age=_KEPT,
            on_failure=cast("lambda_.IEventSourceDlq", _GivenUp(self.lost)),
            filters=_filters(steps=told.steps),
        )


@jsii.implements(lambda_.IEventSourceDlq)
class _GivenUp:
    """Where Lambda says which changes it gave up. The CDK's own would grant the role all of a key's actions."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(
        self, target: lambda_.IEventSourceMapping, target_handler: lambda_.IFunction
    ) -> lambda_.DlqDestinationConfig:
        """Return the queue."""
        return lambda_.DlqDestinationConfig(destination=self._queue.queue_arn)


def _filters(*, steps: bool) -> Sequence[Mapping[str, Any]]:
    """What of the stream the function is called for. Claims and heartbeats of sagas tell nothing."""
    if steps:
        changes: Iterable[dict[str, Any]] = [{"eventName": ["INSERT", "MODIFY"], "dynamodb": {"NewImage": _OF_A_SAGA}}]
    else:
        ends = _OF_A_SAGA | {"status": {"S": list(_TOLD)}}
        attention = _OF_A_SAGA | {"attention": {"S": [{"exists": True}]}}
        changes = [
            {"eventName": ["INSERT"], "dynamodb": {"NewImage": _OF_A_SAGA}},
            {"eventName": ["MODIFY"], "dynamodb": {"NewImage": ends}},
            {"eventName": ["MODIFY"], "dynamodb": {"NewImage": attention}},
        ]
    return [lambda_.FilterCriteria.filter(one) for one in changes]


def _stream_of(table: AnyTable, service: str) -> str:
    """Have the control table keep a stream, and return its ARN."""
    resource = table.node.default_child
    both = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES.value
    if isinstance(resource, dynamodb.CfnTable):
        kept = cast("dynamodb.CfnTable.StreamSpecificationProperty | None", resource.stream_specification)
        if kept is None:
            resource.stream_specification = dynamodb.CfnTable.StreamSpecificationProperty(stream_view_type=both)
        elif kept.stream_view_type != both:
            raise DefinitionError(f"{service}: events: the stream of sagas_table must be {both}")
        return resource.attr_stream_arn
    if isinstance(resource, dynamodb.CfnGlobalTable):
        # Replicas may have one anyway; it is always of both images then.
        if resource.stream_specification is None:
            resource.stream_specification = dynamodb.CfnGlobalTable.StreamSpecificationProperty(stream_view_type=both)
        return resource.attr_stream_arn
    if table.table_stream_arn is None:
        raise DefinitionError(f"{service}: events: sagas_table has no stream; import it with its table_stream_arn")
    return table.table_stream_arn
