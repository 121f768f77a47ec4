"""The command queue: a queue, its dead letters, and the function that executes commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from aws_cdk import Aws, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from sagas.cdk.compute.environment import check_size
from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import allow_commands, allow_sending, allow_working
from sagas.cdk.data.queues import queue_with_letters
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import service_token
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.function_options import FunctionOptions
from sagas.cdk.options.service_options import AnyKey
from sagas.cdk.parts.alarms import Alarms
from sagas.cdk.parts.part import Part
from sagas.errors import DefinitionError

TIMEOUT = 30
"""Seconds the function may run. A user's queue must hide messages at least that long; SQS's default is 30 seconds."""
_HIDDEN = 6 * TIMEOUT
_MAX_RECEIVES = 100
"""Receives of a command. The function replaces it by a copy long before. This limit is for commands that kill it."""
_BATCH = 10
_USUAL = FunctionOptions(memory_size=512, maximum_concurrency=10)
_MOST_SENDERS = 50
"""The queue's policy names at most this many rules and topics: it can have 8,192 bytes, and an ARN has about 100."""


class CommandQueue(Construct):
    """The command queue and its dead-letter queue."""

    imported: sqs.IQueue
    """The queue as if it were imported, so the CDK does not change its policy. The CDK would add a statement per
    sender, and SQS allows 20."""
    imported_dead_letters: sqs.IQueue

    def __init__(self, scope: Construct, id: str, *, shared: SharedAssets) -> None:
        super().__init__(scope, id)
        key = shared.options.encryption_key
        name = f"Commands-{service_token(scope)}"
        self.queue, self.dead_letters = queue_with_letters(self, name, key, hidden=_HIDDEN, max_receives=_MAX_RECEIVES)
        tag_part(self.dead_letters, "command_dead_letter_queue")
        tag_part(self.queue, "command_queue")
        self.imported, self.imported_dead_letters = (
            sqs.Queue.from_queue_arn(self, name, queue.queue_arn)
            for name, queue in (("Known", self.queue), ("KnownDeadLetters", self.dead_letters))
        )
        self._key = key
        self._senders: dict[str, list[str]] = {}
        self._using: set[str] = set()
        self._statements: dict[str, list[iam.PolicyStatement]] = {}
        self._policy: IDependable | None = None

    def let_send(self, service: str, source: events.Rule | sns.TopicBase, what: str) -> IDependable | None:
        """Let an AWS service send to the queue, and to the dead-letter queue if that fails. Returns the queue's
        policy."""
        senders = self._senders.setdefault(service, [])
        arn = source.rule_arn if isinstance(source, events.Rule) else source.topic_arn
        if arn in senders:
            return self._policy
        if sum(map(len, self._senders.values())) == _MOST_SENDERS:
            fault = f"the command queue's policy has room for only {_MOST_SENDERS} rules and topics"
            raise DefinitionError(f"{what}: {fault}; have it send to your own queue, and use that queue as the source")
        senders.append(arn)
        if service not in self._statements:
            principal = cast("iam.IPrincipal", iam.ServicePrincipal(f"{service}.amazonaws.com"))
            self._statements[service] = list[iam.PolicyStatement]()
            for queue in (self.dead_letters, self.queue):
                statement = iam.PolicyStatement(
                    actions=["sqs:SendMessage"], resources=[queue.queue_arn], principals=[principal]
                )
                self._statements[service].append(statement)
                self._policy = queue.add_to_resource_policy(statement).policy_dependable
        for statement in self._statements[service]:
            statement.add_condition("ArnEquals", {"aws:SourceArn": [*senders]})
        if self._key is not None:
            self._let_use_key(self._key, service, source.env.account)
        return self._policy

    def _let_use_key(self, key: AnyKey, service: str, account: str) -> None:
        """Let an AWS service send to the encrypted queue on behalf of an account. The key's policy does not name the
        source: a topic that uses this key refers to it, which would be a cycle."""
        pattern = f"arn:{Aws.PARTITION}:{service}:*:{account}:*"
        if pattern not in self._using:
            self._using.add(pattern)
            statement = iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],
                principals=[cast("iam.IPrincipal", iam.ServicePrincipal(f"{service}.amazonaws.com"))],
                conditions={"ArnLike": {"aws:SourceArn": pattern}},
            )
            key.add_to_resource_policy(statement)


class CommandFunction(SagaFunction, Part):
    """The function of the command queue, and of users' queues that are sources of events."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: SharedAssets,
        commands: CommandQueue,
        environment: Mapping[str, str],
    ) -> None:
        self.commands = commands
        options = shared.options.own_function("commands", _USUAL)
        self._environment = {
            **environment,
            "SAGAS_COMMAND_QUEUE": commands.queue.queue_url,
            "SAGAS_COMMAND_DEAD_LETTERS": commands.dead_letters.queue_url,
        }
        super().__init__(
            scope,
            id,
            shared=shared,
            handler="sagas.handlers.commands.handler",
            timeout=TIMEOUT,
            environment=self._environment,
            function=options,
            description="Executes commands, and starts sagas and sends signals for events",
            sends_to=shared.queues.values(),
            # The function resends a command that cannot be executed yet, and steps can send commands.
            recursive=True,
        )
        self._options = options
        self._queues = 0
        self._sources: dict[str, Mapping[str, Any]] = {}
        tag_part(self.function, "command_function")
        allow_commands(self.role, shared.tables)
        allow_sending(self.role, shared.queues.values())
        if shared.now is not None:
            # A signal may end a wait, and then a message is sent to this queue.
            allow_working(self.role, shared.now, counting=False)
        sending = iam.PolicyStatement(
            actions=["sqs:SendMessage"], resources=[commands.queue.queue_arn, commands.dead_letters.queue_arn]
        )
        self.role.allow(sending)
        self.listen(cast("sqs.IQueue", commands.queue))

    @classmethod
    def reserve(cls, catalogue: Catalogue) -> int:
        """Count the function, the two queues and the alarms, in case they are requested."""
        return 10 + catalogue.service_options.alarms_by_step + catalogue.gradual

    def watch(self, alarms: Alarms) -> None:
        what = "Commands or events were rejected, or could not be delivered."
        alarms.watch_letters("CommandDeadLetters", self.commands.dead_letters, what, "command-dead-letters")
        errors = alarms.watch_errors("CommandErrors", self.function, "The function of the command queue")
        alarms.guard(self, self.alias, *errors)

    def listen(self, queue: sqs.IQueue) -> None:
        """Consume a queue. The queues together never get more executions than are reserved for the function."""
        self._queues += 1
        most = self._options.maximum_concurrency or 0
        reserved = self._options.reserved_concurrency
        needed = self._queues * most
        if self._queues > 1 and reserved is not None and needed > reserved:
            raise DefinitionError(
                f"{self.node.path}: {self._queues} queues call the function 'commands', with up to {most} executions "
                f"each (maximum_concurrency), which is more than reserved_concurrency={reserved}; lower "
                f"maximum_concurrency, or raise reserved_concurrency to {needed}"
            )
        self.consume(queue, _BATCH, most)

    def declare(self, arn: str, command: Mapping[str, Any]) -> None:
        """Declare the command that each message of a topic or a user's queue stands for."""
        self._sources[arn] = command
        sources = Stack.of(self).to_json_string(self._sources)
        check_size(self, {**self._environment, "SAGAS_SOURCES": sources})
        self.function.add_environment("SAGAS_SOURCES", sources)
