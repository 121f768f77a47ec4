"""The queues of one saga: one for each step, and one for the dead letters of them all."""

from __future__ import annotations

import math

from aws_cdk import Duration, Fn
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.authoring.definition import SagaDefinition, StepDefinition
from sagas.cdk.topology import mark
from sagas.errors import DefinitionError

__all__ = ["SagaQueues", "base_url", "function_timeout", "max_receives", "visibility_timeout"]

_RETENTION = Duration.days(14)
_LAMBDA_MAX = 900
_SPARE = 10
"""Seconds a function has beyond its step's timeout, to record the outcome."""
_SPARE_RECEIVES = 10
"""Receives that ran no attempt: throttling, a lost lease, an outage of the store."""


class SagaQueues(Construct):
    """Queues of one saga. All take encrypted connections only and keep messages for 14 days.

    Args:
        scope: parent construct.
        id: construct id.
        definition: the saga.
        batch_sizes: messages an invocation takes, by step name.
    """

    def __init__(self, scope: Construct, id: str, *, definition: SagaDefinition, batch_sizes: dict[str, int]) -> None:
        super().__init__(scope, id)
        self.dead_letters = _queue(self, "DeadLetters")
        mark(self.dead_letters, "dead_letter_queue", saga=definition.name)
        self.steps = {
            step.name: self._step_queue(definition.name, step, batch_sizes.get(step.name, 1))
            for step in definition.steps
        }

    def _step_queue(self, saga: str, step: StepDefinition, batch_size: int) -> sqs.Queue:
        queue = _queue(
            self,
            step.name,
            visibility_timeout=Duration.seconds(visibility_timeout(step, batch_size)),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=max_receives(step)),
        )
        mark(queue, "queue", saga=saga, step=step.name)
        return queue


def function_timeout(step: StepDefinition, batch_size: int = 1) -> int:
    """Seconds the step's function may run: a whole batch, one message after the other, and some to spare.

    Raises:
        DefinitionError: that is more than Lambda allows.
    """
    longest = max(step.timeout, step.undo.timeout if step.undo else 0.0)
    seconds = math.ceil(longest) * batch_size + _SPARE
    if seconds > _LAMBDA_MAX:
        raise DefinitionError(
            f"step {step.name}: a batch of {batch_size} with a timeout of {longest:g} s each needs {seconds} s, "
            f"and Lambda ends a function after {_LAMBDA_MAX} s"
        )
    return seconds


def visibility_timeout(step: StepDefinition, batch_size: int = 1) -> int:
    """Seconds a received message stays hidden: six function timeouts, as AWS advises."""
    return 6 * function_timeout(step, batch_size)


def max_receives(step: StepDefinition) -> int:
    """How often a message may be received before SQS gives it up. The net under the engine's own count of attempts."""
    executions = max(step.retry.executions, step.undo.retry.executions if step.undo else 0)
    return min(executions + _SPARE_RECEIVES, 1000)


def base_url(queue: sqs.IQueue) -> str:
    """The part of a queue's URL that all queues of the account and region share, without the last slash."""
    parts = Fn.split("/", queue.queue_url)
    return Fn.join("/", [Fn.select(0, parts), "", Fn.select(2, parts), Fn.select(3, parts)])


def _queue(
    scope: Construct,
    id: str,
    visibility_timeout: Duration | None = None,
    dead_letter_queue: sqs.DeadLetterQueue | None = None,
) -> sqs.Queue:
    return sqs.Queue(
        scope,
        id,
        visibility_timeout=visibility_timeout,
        dead_letter_queue=dead_letter_queue,
        retention_period=_RETENTION,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
    )
