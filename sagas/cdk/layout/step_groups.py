"""Step groups: a queue, its function, and the steps that use them. One per step, one per saga, or as the service
chooses."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition, UndoDefinition
from sagas.cdk.options.function_options import FunctionOptions
from sagas.errors import DefinitionError

_LAMBDA_MAX = 900
_SPARE = 6
"""Seconds a function has beyond its step's timeout, to record the outcome."""
_AFTER_FUNCTION = 2
"""Seconds a message stays hidden beyond its function's timeout, after which SQS redelivers it if the worker died."""
_SPARE_RECEIVES = 10
"""Receives allowed without an attempt, for example while Lambda throttles the function. A dying message is received
this often: if 500 sagas per second die, 20 receives each use all 10,000 invocations per second of an account. The
supervisor sends messages again that were given up only because of throttling."""


SHARED = "steps"
"""The id of the group of all steps of a saga."""


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Some steps of a saga with one queue and one function.

    Args:
        id: of its constructs, below those of the saga.
        saga: the saga of the steps.
        steps: at least one.
        options: of the function.

    Raises:
        DefinitionError: the function would run longer than Lambda allows, or not long enough for a step.
    """

    id: str
    saga: SagaDefinition
    steps: tuple[StepDefinition, ...]
    options: FunctionOptions

    def __post_init__(self) -> None:
        if self.options.timeout is None and self._needed(self.options.batch_size) > _LAMBDA_MAX:
            needed = self._needed(self.options.batch_size)
            raise DefinitionError(
                f"step {self._slowest.name}: a batch of {self.options.batch_size} with a timeout of "
                f"{_longest(self._slowest):g} s each needs {needed} s, "
                f"and Lambda's limit is {_LAMBDA_MAX} s"
            )
        if self.timeout < self._needed(1):
            raise DefinitionError(
                f"step {self._slowest.name}: the option timeout must be at least {self._needed(1)} s, "
                f"not {self.timeout}: the step's own {_longest(self._slowest):g} s plus {_SPARE} s to commit"
            )

    @property
    def names(self) -> str:
        """The names of the steps, as in ``check,upload``."""
        return ",".join(step.name for step in self.steps)

    @property
    def shares_all(self) -> bool:
        """Whether these are all steps of the saga."""
        return self.id == SHARED

    @property
    def chain(self) -> str:
        """The steps that an invocation may continue with, as ``sagas.engine.attempt.course.Chain`` reads them."""
        if len(self.steps) == 1:
            return ""
        return "*" if self.shares_all else self.names

    @property
    def timeout(self) -> int:
        """Seconds the function may run. Default: a whole batch, one message after the other, with a reserve.

        If steps share the function, each message may need all of them, up to Lambda's limit. Another invocation runs
        the remaining steps.
        """
        if self.options.timeout is not None:
            return self.options.timeout
        if len(self.steps) == 1:
            return self._needed(self.options.batch_size)
        chain = sum(math.ceil(_longest(step)) for step in self.steps)
        return min(chain * self.options.batch_size + _SPARE, _LAMBDA_MAX)

    @property
    def visibility_timeout(self) -> int:
        """Seconds a received message stays hidden: little more than an invocation can last.

        AWS advises six times as much. But the claim makes an early delivery harmless, and a late delivery delays the
        recovery from a worker's death.
        """
        return self.timeout + _AFTER_FUNCTION

    @property
    def max_receives(self) -> int:
        """Receives before SQS dead-letters a message. A safety net under the engine's count of attempts."""
        return min(max(work.retry.executions for work in self._works) + _SPARE_RECEIVES, 1000)

    @property
    def longest(self) -> float:
        """The longest life of a message in seconds by its step's policy: all attempts, and the delays between them."""
        return max(work.timeout * work.retry.executions + work.retry.longest_wait for work in self._works)

    @property
    def _works(self) -> list[StepDefinition | UndoDefinition]:
        """Return all steps and their undos."""
        return [*self.steps, *(step.undo for step in self.steps if step.undo)]

    @property
    def _slowest(self) -> StepDefinition:
        return max(self.steps, key=_longest)

    def _needed(self, messages: int) -> int:
        return math.ceil(_longest(self._slowest)) * messages + _SPARE


def _longest(step: StepDefinition) -> float:
    return max(step.timeout, step.undo.timeout if step.undo else 0.0)
