"""The queues of one saga: one for each step group, and one for the dead letters of them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, Unpack, cast

from aws_cdk import Duration, Fn, Stack, Validations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.acknowledge import acknowledge
from sagas.cdk.nested_stacks import TOKEN, Placement, service_token
from sagas.cdk.options import AnyKey
from sagas.cdk.parts import tag_part
from sagas.messaging.routes import derived_name

_RETENTION = Duration.days(14)
_DEAD_LETTERS = "dead-letters"
"""No step is called like this: its name would be no identifier."""
_ARN = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:"
"""To be substituted, which takes a third of the room that joining takes. There may be thousands."""


class _QueueOptions(TypedDict, total=False):
    queue_name: str | None
    visibility_timeout: Duration
    dead_letter_queue: sqs.DeadLetterQueue


class SagaQueues:
    """Queues of one saga. All take encrypted connections only and keep messages for 14 days.

    Args:
        service: the construct of the service.
        placements: the places of the saga's step groups.
        encryption_key: encrypts the messages; a key of SQS's own when absent.
    """

    def __init__(self, service: Construct, placements: Sequence[Placement], encryption_key: AnyKey | None) -> None:
        self._key = encryption_key
        self._saga = placements[0].saga.name
        self.derived = placements[0].token is not None
        self._placements = placements
        self._service = service
        scopes = [Construct(placement.scope, placement.id_of("queues")) for placement in placements]
        self.dead_letters = self._queue(scopes[0], "DeadLetters", self._derived(placements[0], _DEAD_LETTERS))
        tag_part(self.dead_letters, "dead_letter_queue", saga=self._saga)
        acknowledge(Validations.of(self.dead_letters), {"Serverless-SQSRedrivePolicy": "It is where dead letters end."})
        self.by_group: dict[str, sqs.Queue] = {}
        self.by_step: dict[str, sqs.Queue] = {}
        self.grouped: dict[str, str] = {}
        """The id of the group of each step that shares one."""
        for placement, scope in zip(placements, scopes, strict=True):
            for group in placement.groups:
                queue = self._queue(
                    scope,
                    group.id,
                    self._derived(placement, group.id),
                    visibility_timeout=Duration.seconds(group.visibility_timeout),
                    dead_letter_queue=sqs.DeadLetterQueue(
                        queue=self.dead_letters, max_receive_count=group.max_receives
                    ),
                )
                tag_part(queue, "queue", saga=self._saga, step=group.names)
                self.by_group[group.id] = queue
                if len(group.steps) > 1:
                    self.grouped |= dict.fromkeys((step.name for step in group.steps), group.id)
                self.by_step |= dict.fromkeys((step.name for step in group.steps), queue)

    def arns(self, scope: Construct) -> list[str]:
        """Return the ARNs of the groups' queues, for a permission in the stack of ``scope``.

        Where names are derived, so are these: a stack can pass no more than 200 values on to another.
        """
        if not self.derived:
            return [queue.queue_arn for queue in self.by_group.values()]
        names = [derived_name(self._saga, group, f"${{{TOKEN}}}") for group in self.by_group]
        variables = None if self._placement_at(scope) else {TOKEN: self.token(scope)}
        return [Fn.sub(f"{_ARN}{name}", variables) for name in names]

    def token(self, scope: Construct) -> str:
        """Return what all derived names of the service end in, as it is known in the stack of ``scope``."""
        placement = self._placement_at(scope)
        return placement.token if placement and placement.token else service_token(self._service)

    def any_queue_in(self, scope: Construct) -> sqs.Queue:
        """Return one of the queues, if there is one from the stack of ``scope``."""
        placement = self._placement_at(scope)
        return self.by_group[placement.groups[0].id] if placement else self.dead_letters

    def _placement_at(self, scope: Construct) -> Placement | None:
        here = Stack.of(scope)
        return next((placement for placement in self._placements if Stack.of(placement.scope) is here), None)

    def _derived(self, placement: Placement, queue: str) -> str | None:
        """A name, where CloudFormation is not to choose it."""
        return derived_name(self._saga, queue, placement.token) if placement.token else None

    def _queue(self, scope: Construct, id: str, name: str | None, **options: Unpack[_QueueOptions]) -> sqs.Queue:
        return encrypted_queue(scope, id, self._key, queue_name=name, **options)


def encrypted_queue(scope: Construct, id: str, key: AnyKey | None, **options: Unpack[_QueueOptions]) -> sqs.Queue:
    """Make a queue that takes encrypted connections only and keeps messages for 14 days.

    Args:
        scope: parent construct.
        id: construct id.
        key: encrypts the messages; a key of SQS's own when absent.
        options: of ``aws_cdk.aws_sqs.Queue``.
    """
    return sqs.Queue(
        scope,
        id,
        retention_period=_RETENTION,
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=cast("kms.IKey | None", key),
        enforce_ssl=True,
        **options,
    )


def base_url(queue: sqs.IQueue) -> str:
    """The part of a queue's URL that all queues of the account and region share, without the last slash."""
    parts = Fn.split("/", queue.queue_url)
    return Fn.join("/", [Fn.select(0, parts), "", Fn.select(2, parts), Fn.select(3, parts)])
