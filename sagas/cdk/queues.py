"""The queues of one saga: one for each lane, and one for the dead letters of them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aws_cdk import Duration, Fn
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.lanes import Lane
from sagas.cdk.topology import mark

__all__ = ["SagaQueues", "base_url"]

_RETENTION = Duration.days(14)


class SagaQueues(Construct):
    """Queues of one saga. All take encrypted connections only and keep messages for 14 days.

    Args:
        scope: parent construct.
        id: construct id.
        lanes: of the saga, at least one.
        encryption_key: encrypts the messages; a key of SQS's own when absent.
    """

    def __init__(
        self, scope: Construct, id: str, *, lanes: Sequence[Lane], encryption_key: kms.IKey | kms.Key | None
    ) -> None:
        super().__init__(scope, id)
        self._key = encryption_key
        self.dead_letters = self._queue("DeadLetters")
        mark(self.dead_letters, "dead_letter_queue", saga=lanes[0].saga.name)
        self.lanes = {lane.id: self._lane_queue(lane) for lane in lanes}
        self.steps = {step.name: self.lanes[lane.id] for lane in lanes for step in lane.steps}

    @property
    def all(self) -> list[sqs.Queue]:
        """Every queue once."""
        return [*self.lanes.values(), self.dead_letters]

    def _lane_queue(self, lane: Lane) -> sqs.Queue:
        queue = self._queue(
            lane.id,
            visibility_timeout=Duration.seconds(lane.visibility_timeout),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=lane.max_receives),
        )
        mark(queue, "queue", saga=lane.saga.name, step=lane.names)
        return queue

    def _queue(
        self,
        id: str,
        visibility_timeout: Duration | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            id,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            retention_period=_RETENTION,
            encryption=sqs.QueueEncryption.KMS if self._key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=cast("kms.IKey | None", self._key),
            enforce_ssl=True,
        )


def base_url(queue: sqs.IQueue) -> str:
    """The part of a queue's URL that all queues of the account and region share, without the last slash."""
    parts = Fn.split("/", queue.queue_url)
    return Fn.join("/", [Fn.select(0, parts), "", Fn.select(2, parts), Fn.select(3, parts)])
