"""The queues of one saga: one for each step group, and one for the dead letters of them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from aws_cdk import ArnFormat, Aws, Duration, Fn, Stack, Validations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.layout.nested_stacks import TOKEN, Layout
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.service_options import AnyKey
from sagas.cdk.parts.part import Part
from sagas.messaging.routes import derived_name

_RETENTION = Duration.days(14)
DEAD_LETTERS = "dead-letters"
"""No step is called like this: its name would be no identifier."""
_MOST_SOURCES = 10
"""Queues that a dead-letter queue can name as those whose dead letters it takes."""
_ARN = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:"
"""To be substituted, which takes a third of the room that joining takes. There may be thousands."""


class SagaQueues(Part):
    """Queues of one saga. All take encrypted connections only and keep messages for 14 days.

    Args:
        service: the construct of the service.
        layout: the places of all that the saga has.
        encryption_key: encrypts the messages; a key of SQS's own when absent.
    """

    def __init__(self, service: Construct, layout: Layout, encryption_key: AnyKey | None) -> None:
        self._key = encryption_key
        self.saga = layout.saga.name
        self._layout = layout
        # The CDK runs in another process, which a service of many steps would ask hundreds of times for each of these.
        self._imported: dict[tuple[Stack, str], sqs.IQueue] = {}
        self._arns: dict[tuple[str, bool], str] = {}
        self._bases: dict[sqs.Queue, str] = {}
        self.scope = scope = Construct(*layout.queues)
        self._stack = Stack.of(scope)
        self._in_service = self._stack is Stack.of(service)
        self.dead_letters = self._queue(scope, "DeadLetters", self._name(DEAD_LETTERS))
        tag_part(self.dead_letters, "dead_letter_queue", saga=self.saga)
        acknowledge(Validations.of(self.dead_letters), {"Serverless-SQSRedrivePolicy": "It is where dead letters end."})
        self.by_group: dict[str, sqs.Queue] = {}
        self.by_step: dict[str, sqs.Queue] = {}
        self.grouped: dict[str, str] = {}
        """The id of the group of each step that shares one with some others of its saga, but not with all."""
        for group in layout.groups:
            queue = self._queue(
                scope,
                group.id,
                self._name(group.id),
                visibility_timeout=Duration.seconds(group.visibility_timeout),
                dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=group.max_receives),
            )
            tag_part(queue, "queue", saga=self.saga, step=group.names)
            self.by_group[group.id] = queue
            if len(group.steps) > 1 and not group.shares_all:
                self.grouped |= dict.fromkeys((step.name for step in group.steps), group.id)
            self.by_step |= dict.fromkeys((step.name for step in group.steps), queue)
        if len(self.by_group) <= _MOST_SOURCES:
            # By names, for the queues refer to this one. Those of a longer saga SQS cannot list.
            sources = self.arns(scope)
            allowed = {"redrivePermission": "byQueue", "sourceQueueArns": sources}
            cast("sqs.CfnQueue", self.dead_letters.node.default_child).redrive_allow_policy = allowed

    def held(self) -> Mapping[str, object]:
        """All its queues."""
        queues = {f"queue of {self.saga}.{group}": queue for group, queue in self.by_group.items()}
        return {f"dead-letter queue of {self.saga}": self.dead_letters, **queues}

    def seen_from(self, scope: Construct, group: str) -> sqs.IQueue:
        """Return the queue of a group, as a stack that is not its own nor the service's knows it: by its name.

        A stack passes no more than 200 values on to others.
        """
        if self._in_service or Stack.of(scope) is self._stack:
            return cast("sqs.IQueue", self.by_group[group])
        key = Stack.of(scope), group
        if key not in self._imported:
            arn = self._arn(group, within=self._layout.token_in(scope) is not None)
            self._imported[key] = sqs.Queue.from_queue_arn(scope, f"{self.saga}-{group}-Queue", arn)
        return self._imported[key]

    def arns(self, scope: Construct) -> list[str]:
        """Return the ARNs of the groups' queues, for a permission in the stack of ``scope``."""
        within = self._layout.token_in(scope) is not None
        return [self._arn(group, within=within) for group in self.by_group]

    def arn_of_letters(self, scope: Construct) -> str:
        """Return the ARN of the dead-letter queue, for a permission in the stack of ``scope``."""
        # Of a nested stack it is known by name: a stack passes no more than 200 values on to others.
        if self._in_service:
            return self.dead_letters.queue_arn
        return self._arn(DEAD_LETTERS, within=self._layout.token_in(scope) is not None)

    def pattern(self, scope: Construct, names: Iterable[str]) -> str | None:
        """Return a pattern of the ARNs of the saga's own queues and dead letters, for a permission in that stack.

        Returns ``None`` if the pattern would have queues of another saga.
        """
        beginning = f"{self.saga}-"
        if any(one.startswith(beginning) for one in names):
            return None
        return self.arn_of_all(scope, f"{beginning}*")

    def arn_of_all(self, scope: Construct, queue: str = "*") -> str:
        """Return a pattern of the ARNs of all queues of the service, or of those that are for ``queue``."""
        return f"arn:{Aws.PARTITION}:sqs:{Aws.REGION}:{Aws.ACCOUNT_ID}:{queue}-{self.token(scope)}"

    def token(self, scope: Construct) -> str:
        """Return what all derived names of the service end in, as it is known in the stack of ``scope``."""
        return self._layout.token_in(scope) or self._layout.token

    def base_url(self, scope: Construct) -> str:
        """Return the part of a queue's URL that all queues of the account and region share, without the last slash.

        It is taken from one of these queues, if there is one from the stack of ``scope``.
        """
        queue = next(iter(self.by_group.values())) if Stack.of(scope) is self._stack else self.dead_letters
        if queue not in self._bases:
            parts = Fn.split("/", queue.queue_url)
            self._bases[queue] = Fn.join("/", [Fn.select(0, parts), "", Fn.select(2, parts), Fn.select(3, parts)])
        return self._bases[queue]

    def _arn(self, queue: str, *, within: bool) -> str:
        """The ARN of a queue, as it is known ``within`` the nested stacks of the saga, or outside of them."""
        key = queue, within
        if key not in self._arns:
            text = f"{_ARN}{derived_name(self.saga, queue, f'${{{TOKEN}}}')}"
            self._arns[key] = Fn.sub(text, None if within else {TOKEN: self._layout.token})
        return self._arns[key]

    def _name(self, queue: str) -> str:
        return derived_name(self.saga, queue, self.token(self.scope))

    def _queue(
        self,
        scope: Construct,
        id: str,
        name: str,
        visibility_timeout: Duration | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return encrypted_queue(scope, id, self._key, name, visibility_timeout, dead_letter_queue)


def encrypted_queue(
    scope: Construct,
    id: str,
    key: AnyKey | None,
    name: str | None = None,
    visibility_timeout: Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    """Make a queue that takes encrypted connections only and keeps messages for 14 days. ``visibility_timeout``: SQS's
    30 seconds when absent."""
    return sqs.Queue(
        scope,
        id,
        queue_name=name,
        visibility_timeout=visibility_timeout,
        dead_letter_queue=dead_letter_queue,
        retention_period=_RETENTION,
        encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
        encryption_master_key=cast("kms.IKey | None", key),
        enforce_ssl=True,
    )


def queue_with_letters(
    scope: Construct, name: str, key: AnyKey | None, *, hidden: float, max_receives: int
) -> tuple[sqs.Queue, sqs.Queue]:
    """Make a queue, and its dead-letter queue, which takes messages of no other.

    Each of the two names the other, and that takes a name known beforehand. ``hidden``: seconds for which a message
    that was received is hidden. Returns the queue and the dead-letter queue.
    """
    letters = encrypted_queue(scope, "DeadLetters", key)
    acknowledge(Validations.of(letters), {"Serverless-SQSRedrivePolicy": "It is where dead letters end."})
    redrive = sqs.DeadLetterQueue(queue=letters, max_receive_count=max_receives)
    queue = encrypted_queue(
        scope, "Queue", key, name=name, visibility_timeout=Duration.seconds(hidden), dead_letter_queue=redrive
    )
    arn = Stack.of(scope).format_arn(service="sqs", resource=name, arn_format=ArnFormat.NO_RESOURCE_NAME)
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [arn]}
    cast("sqs.CfnQueue", letters.node.default_child).redrive_allow_policy = allowed
    return queue, letters
