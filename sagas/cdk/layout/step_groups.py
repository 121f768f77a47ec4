"""Step groups: a queue, its function, and the steps that use both. A service has one per step, one per saga, or the
groups that its options name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition, UndoDefinition
from sagas.cdk.options.function_options import FunctionOptions
from sagas.errors import DefinitionError
from sagas.topology import AFTER_FUNCTION, FUNCTION_SPARE

_LAMBDA_MAX = 900
_SPARE_RECEIVES = 10
"""A message may be received this many times without an attempt, for example while Lambda throttles the function. More
would be expensive: if 500 sagas per second kill their function, 20 receives each use all 10,000 invocations per second
of an account. The supervisor resends messages that were dead-lettered only because of throttling."""


SHARED = "steps"
"""The id of the group that contains all steps of a saga."""


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Steps of a saga, one or more, that share one queue and one function. A function that needs more time than Lambda
    allows, or that has less time than one of its steps, is refused."""

    id: str
    saga: SagaDefinition
    steps: tuple[StepDefinition, ...]
    options: FunctionOptions

    def __post_init__(self) -> None:
        if self.options.timeout is None and self._needed(self.batch_size) > _LAMBDA_MAX:
            needed = self._needed(self.batch_size)
            raise DefinitionError(
                f"step {self._slowest.name}: a batch of {self.batch_size} with a timeout of "
                f"{self._slowest.longest_timeout:g} s each needs {needed} s, "
                f"and Lambda's limit is {_LAMBDA_MAX} s"
            )
        if self.timeout < self._needed(1):
            raise DefinitionError(
                f"step {self._slowest.name}: the option timeout must be at least {self._needed(1)} s, "
                f"not {self.timeout}: the step's own {self._slowest.longest_timeout:g} s plus {FUNCTION_SPARE} s "
                "to commit"
            )

    @property
    def names(self) -> str:
        return ",".join(step.name for step in self.steps)

    @property
    def batch_size(self) -> int:
        return self.options.batch_size or 1

    @property
    def shares_all(self) -> bool:
        return self.id == SHARED

    @property
    def chain(self) -> str:
        """The steps that an invocation may continue with, as ``sagas.engine.attempt.course.Chain`` reads them."""
        if len(self.steps) == 1:
            return ""
        return "*" if self.shares_all else self.names

    @property
    def timeout(self) -> int:
        """Seconds the function may run. Default: enough for a batch of messages, one after the other, plus a reserve.
        If steps share the function, a message may need time for all of them, up to Lambda's limit. Then another
        invocation runs the remaining steps."""
        if self.options.timeout is not None:
            return self.options.timeout
        if len(self.steps) == 1:
            return self._needed(self.batch_size)
        chain = sum(math.ceil(step.longest_timeout) for step in self.steps)
        return min(chain * self.batch_size + FUNCTION_SPARE, _LAMBDA_MAX)

    @property
    def visibility_timeout(self) -> int:
        """Seconds that a received message stays hidden: slightly more than an invocation can last. AWS advises six
        times as much. But claims make an early delivery harmless, and a late delivery would delay the recovery from a
        worker's death."""
        return self.timeout + AFTER_FUNCTION

    @property
    def max_receives(self) -> int:
        """Receives before SQS dead-letters a message. This is a safety net: the engine itself counts attempts."""
        return min(max(work.retry.executions for work in self._works) + _SPARE_RECEIVES, 1000)

    @property
    def longest(self) -> float:
        """The longest life of a message in seconds, by its step's policy: all attempts, and the delays between them."""
        return max(work.timeout * work.retry.executions + work.retry.longest_wait for work in self._works)

    @property
    def _works(self) -> list[StepDefinition | UndoDefinition]:
        return [*self.steps, *(step.undo for step in self.steps if step.undo)]

    @property
    def _slowest(self) -> StepDefinition:
        return max(self.steps, key=lambda step: step.longest_timeout)

    def _needed(self, messages: int) -> int:
        return math.ceil(self._slowest.longest_timeout) * messages + FUNCTION_SPARE
