"""Functions that follow a table: Lambda calls them with the table's changes. If Lambda gives up on changes, a queue
gets a message that identifies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import jsii
from aws_cdk import Duration, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from sagas.cdk.compute.functions import SagaFunction
from sagas.cdk.compute.permissions import allow_streaming
from sagas.cdk.data.queues import encrypted_queue
from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.options.existing import AnyTable
from sagas.cdk.options.service_options import AnyKey
from sagas.errors import DefinitionError

_FINDINGS = ("Serverless-SQSRedrivePolicy", "AwsSolutions-SQS3")
_RETRIED = Duration.hours(23)
"""How long a change is retried. Streams keep changes for 24 hours, so one is given up and reported earlier."""
_BOTH = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES.value


def stream_of(table: AnyTable, where: str, *, old: bool) -> str:
    """Give a table a stream, and return its ARN."""
    resource = table.node.default_child
    new = dynamodb.StreamViewType.NEW_IMAGE.value
    required, enough = (_BOTH, (_BOTH,)) if old else (new, (new, _BOTH))
    if isinstance(resource, dynamodb.CfnTable):
        existing = cast("dynamodb.CfnTable.StreamSpecificationProperty | None", resource.stream_specification)
        if existing is None:
            resource.stream_specification = dynamodb.CfnTable.StreamSpecificationProperty(stream_view_type=required)
        elif existing.stream_view_type not in enough:
            raise DefinitionError(f"{where}: its stream must be {required}")
        return resource.attr_stream_arn
    if isinstance(resource, dynamodb.CfnGlobalTable):
        # A table with replicas may already have a stream, which always has both images.
        if resource.stream_specification is None:
            resource.stream_specification = dynamodb.CfnGlobalTable.StreamSpecificationProperty(stream_view_type=_BOTH)
        return resource.attr_stream_arn
    if table.table_stream_arn is None:
        raise DefinitionError(f"{where}: it has no stream; import it with its table_stream_arn")
    return table.table_stream_arn


def follow(
    function: SagaFunction,
    table: AnyTable,
    stream: str,
    *,
    lost: str,
    encryption_key: AnyKey | None,
    batch_size: int,
    window: Duration,
    filters: Sequence[Mapping[str, Any]],
) -> sqs.Queue:
    """Have Lambda call a function with a table's changes, in order per item. Returns the queue for changes that failed
    for 23 hours."""
    queue = encrypted_queue(function, lost, encryption_key)
    acknowledge(Validations.of(queue), dict.fromkeys(_FINDINGS, "The queue is a dead-letter queue itself."))
    allow_streaming(function.role, table, stream, queue)
    function.alias.add_event_source_mapping(
        "Stream",
        event_source_arn=stream,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,
        batch_size=batch_size,
        max_batching_window=window,
        bisect_batch_on_error=True,
        max_record_age=_RETRIED,
        on_failure=cast("lambda_.IEventSourceDlq", _GivenUp(queue)),
        filters=[lambda_.FilterCriteria.filter(dict(pattern)) for pattern in filters],
    )
    return queue


@jsii.implements(lambda_.IEventSourceDlq)
class _GivenUp:
    """The queue for changes that Lambda gave up on. The CDK's own class would let the role do too much with the KMS
    key."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(
        self, target: lambda_.IEventSourceMapping, target_handler: lambda_.IFunction
    ) -> lambda_.DlqDestinationConfig:
        return lambda_.DlqDestinationConfig(destination=self._queue.queue_arn)
