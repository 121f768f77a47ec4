"""The queues of one saga: one per step group, and one dead-letter queue."""

from __future__ import annotations

from collections.abc import Iterable
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
from sagas.messaging.routes import DEAD_LETTERS, derived_name

_RETENTION = Duration.days(14)
_MOST_SOURCES = 10
"""A dead-letter queue can name at most this many source queues."""
_ARN = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:"
"""The start of a queue's ARN for ``Fn::Sub``, which is a third as long as ``Fn::Join``. A template may have
thousands."""


class SagaQueues(Part):
    """The queues of one saga. They accept only encrypted connections and keep messages for 14 days."""

    def __init__(self, service: Construct, layout: Layout, encryption_key: AnyKey | None) -> None:
        self.saga = layout.saga.name
        self._layout = layout
        # Caches: the CDK runs in another process, and large services would call it hundreds of times per queue.
        self._imported: dict[tuple[Stack, str], sqs.IQueue] = {}
        self._arns: dict[tuple[str, bool], str] = {}
        self._bases: dict[sqs.Queue, str] = {}
        self.scope = scope = Construct(*layout.queues)
        self._stack = Stack.of(scope)
        self._in_service = self._stack is Stack.of(service)
        self.dead_letters = encrypted_queue(scope, "DeadLetters", encryption_key, self._name(DEAD_LETTERS))
        tag_part(self.dead_letters, "dead_letter_queue", saga=self.saga)
        acknowledge(Validations.of(self.dead_letters), {"Serverless-SQSRedrivePolicy": "It is a dead-letter queue."})
        self.by_group: dict[str, sqs.Queue] = {}
        self.by_step: dict[str, sqs.Queue] = {}
        self.grouped: dict[str, str] = {}
        """The group id of each step that shares a group with some, but not all, steps of its saga."""
        for group in layout.groups:
            queue = encrypted_queue(
                scope,
                group.id,
                encryption_key,
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
            # The list has generated names, because these queues refer to this one. SQS limits it, so longer sagas have
            # none.
            sources = self.arns(scope)
            allowed = {"redrivePermission": "byQueue", "sourceQueueArns": sources}
            cast("sqs.CfnQueue", self.dead_letters.node.default_child).redrive_allow_policy = allowed

    def seen_from(self, scope: Construct, group: str) -> sqs.IQueue:
        """Return the queue of a group for use in the stack of ``scope``. Another saga's stack refers to it by name. A
        reference would be an export, and a stack can export at most 200 values."""
        if self._in_service or Stack.of(scope) is self._stack:
            return cast("sqs.IQueue", self.by_group[group])
        key = Stack.of(scope), group
        if key not in self._imported:
            arn = self._arn(group, within=self._layout.token_in(scope) is not None)
            self._imported[key] = sqs.Queue.from_queue_arn(scope, f"{self.saga}-{group}-Queue", arn)
        return self._imported[key]

    def arns(self, scope: Construct) -> list[str]:
        """Return the ARNs of all groups' queues, for a permission in the stack of ``scope``."""
        within = self._layout.token_in(scope) is not None
        return [self._arn(group, within=within) for group in self.by_group]

    def arn_of_letters(self, scope: Construct) -> str:
        """Return the ARN of the dead-letter queue, for a permission in the stack of ``scope``."""
        # A queue in a nested stack is named, not referenced: a stack can export at most 200 values.
        if self._in_service:
            return self.dead_letters.queue_arn
        return self._arn(DEAD_LETTERS, within=self._layout.token_in(scope) is not None)

    def pattern(self, scope: Construct, names: Iterable[str]) -> str | None:
        """Return a pattern that matches the ARNs of the saga's queues, for a permission in the stack of ``scope``.
        Returns ``None`` if the pattern would match queues of another saga."""
        beginning = f"{self.saga}-"
        if any(name.startswith(beginning) for name in names):
            return None
        return self.arn_of_all(scope, f"{beginning}*")

    def arn_of_all(self, scope: Construct, queue: str = "*") -> str:
        """Return a pattern that matches the ARNs of all queues of the service. ``queue`` restricts the names."""
        return f"arn:{Aws.PARTITION}:sqs:{Aws.REGION}:{Aws.ACCOUNT_ID}:{queue}-{self.token(scope)}"

    def token(self, scope: Construct) -> str:
        """Return the suffix of the service's queue names, for use in the stack of ``scope``."""
        return self._layout.token_in(scope) or self._layout.token

    def base_url(self, scope: Construct) -> str:
        """Return the part of a queue's URL that all queues of the account and region share, without the last slash. The
        URL is that of a step's queue, or of the dead-letter queue if the queues are in another stack."""
        queue = next(iter(self.by_group.values())) if Stack.of(scope) is self._stack else self.dead_letters
        if queue not in self._bases:
            self._bases[queue] = base_of(queue)
        return self._bases[queue]

    def _arn(self, queue: str, *, within: bool) -> str:
        """Return the ARN of a queue, for use inside (``within``) or outside of the saga's nested stacks."""
        key = queue, within
        if key not in self._arns:
            text = f"{_ARN}{derived_name(self.saga, queue, f'${{{TOKEN}}}')}"
            self._arns[key] = Fn.sub(text, None if within else {TOKEN: self._layout.token})
        return self._arns[key]

    def _name(self, queue: str) -> str:
        return derived_name(self.saga, queue, self.token(self.scope))


def base_of(queue: sqs.Queue) -> str:
    """Return the part of a queue's URL that all queues of the account and region share, without the last slash."""
    parts = Fn.split("/", queue.queue_url)
    return Fn.join("/", [Fn.select(0, parts), "", Fn.select(2, parts), Fn.select(3, parts)])


def encrypted_queue(
    scope: Construct,
    id: str,
    key: AnyKey | None,
    name: str | None = None,
    visibility_timeout: Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    """Create a queue that accepts only encrypted connections and keeps messages for 14 days. The default of
    ``visibility_timeout`` is SQS's 30 seconds."""
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
    """Create a queue and its own dead-letter queue. Each of the two names the other, so one name must be known in
    advance. A received message is hidden for ``hidden`` seconds. Returns the queue and the dead-letter queue."""
    letters = encrypted_queue(scope, "DeadLetters", key)
    acknowledge(Validations.of(letters), {"Serverless-SQSRedrivePolicy": "It is a dead-letter queue."})
    redrive = sqs.DeadLetterQueue(queue=letters, max_receive_count=max_receives)
    queue = encrypted_queue(
        scope, "Queue", key, name=name, visibility_timeout=Duration.seconds(hidden), dead_letter_queue=redrive
    )
    arn = Stack.of(scope).format_arn(service="sqs", resource=name, arn_format=ArnFormat.NO_RESOURCE_NAME)
    allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [arn]}
    cast("sqs.CfnQueue", letters.node.default_child).redrive_allow_policy = allowed
    return queue, letters
