"""Functions that follow a table: they are called with its changes, and what was given up is named in a queue."""

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
_BOTH = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES.value


def stream_of(table: AnyTable, where: str, *, old: bool) -> str:
    """Have a table keep a stream, and return its ARN."""
    resource = table.node.default_child
    new = dynamodb.StreamViewType.NEW_IMAGE.value
    wanted, enough = (_BOTH, (_BOTH,)) if old else (new, (new, _BOTH))
    if isinstance(resource, dynamodb.CfnTable):
        kept = cast("dynamodb.CfnTable.StreamSpecificationProperty | None", resource.stream_specification)
        if kept is None:
            resource.stream_specification = dynamodb.CfnTable.StreamSpecificationProperty(stream_view_type=wanted)
        elif kept.stream_view_type not in enough:
            raise DefinitionError(f"{where}: its stream must be {wanted}")
        return resource.attr_stream_arn
    if isinstance(resource, dynamodb.CfnGlobalTable):
        # Replicas may have one anyway; it is always of both images then.
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
    max_age: Duration | None = None,
) -> sqs.Queue:
    """Have a function called with the changes of a table, in the order in which each item was changed. Returns the
    queue."""
    queue = encrypted_queue(function, lost, encryption_key)
    acknowledge(Validations.of(queue), dict.fromkeys(_FINDINGS, "It is where changes end that were given up."))
    allow_streaming(function.role, table, stream, queue)
    function.alias.add_event_source_mapping(
        "Stream",
        event_source_arn=stream,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,
        batch_size=batch_size,
        max_batching_window=window,
        bisect_batch_on_error=True,
        max_record_age=max_age,
        on_failure=cast("lambda_.IEventSourceDlq", _GivenUp(queue)),
        filters=[lambda_.FilterCriteria.filter(dict(one)) for one in filters],
    )
    return queue


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
