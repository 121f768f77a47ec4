"""Step groups: a queue with the function behind it, and the steps that go through them. One a step, one a saga, or as
the service says."""

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
"""Seconds a message stays hidden beyond its function's time: a worker that died is noticed by its queue."""
_SPARE_RECEIVES = 10
"""Receives that ran no attempt, such as those while Lambda throttles the function. Not more: a dying message is
received this often in a row, and where 500 sagas a second die, 20 receives each are all the 10,000 invocations a second
that an account has. What is given up for throttling alone is sent anew by the supervisor."""


SHARED = "steps"
"""The id of the group of all steps of a saga."""


@dataclass(frozen=True, slots=True)
class StepGroup:
    """Some steps of a saga with one queue and one function.

    Args:
        id: of its constructs, below those of the saga.
        saga: whose steps they are.
        steps: at least one.
        options: of the function.

    Raises:
        DefinitionError: the function would run longer than Lambda allows, or too short for a step.
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
                f"and Lambda ends a function after {_LAMBDA_MAX} s"
            )
        if self.timeout < self._needed(1):
            raise DefinitionError(
                f"step {self._slowest.name}: the option timeout must be at least {self._needed(1)} s, the step's own "
                f"{_longest(self._slowest):g} s and {_SPARE} s to record the outcome, not {self.timeout}"
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
        """Which steps an invocation goes on to, as ``sagas.engine.attempt.course.Chain`` reads it; empty for none."""
        if len(self.steps) == 1:
            return ""
        return "*" if self.shares_all else self.names

    @property
    def timeout(self) -> int:
        """Seconds the function may run: by default a whole batch, one message after the other, and some to spare.

        Where steps share the function, each message may take all of them, as far as Lambda allows; what is left is
        another invocation's.
        """
        if self.options.timeout is not None:
            return self.options.timeout
        if len(self.steps) == 1:
            return self._needed(self.options.batch_size)
        chain = sum(math.ceil(_longest(step)) for step in self.steps)
        return min(chain * self.options.batch_size + _SPARE, _LAMBDA_MAX)

    @property
    def visibility_timeout(self) -> int:
        """Seconds a received message stays hidden.

        What an invocation can last and little more, not the six times that AWS advises: the claim makes an early
        delivery harmless, and a late one is what a worker's death would have to wait for.
        """
        return self.timeout + _AFTER_FUNCTION

    @property
    def max_receives(self) -> int:
        """How often a message may be received before SQS gives it up. The net under the engine's count of attempts."""
        return min(max(work.retry.executions for work in self._works) + _SPARE_RECEIVES, 1000)

    @property
    def longest(self) -> float:
        """Seconds a message may be on its way by its step's own policy: all attempts, and the waiting between them."""
        return max(work.timeout * work.retry.executions + work.retry.longest_wait for work in self._works)

    @property
    def _works(self) -> list[StepDefinition | UndoDefinition]:
        """All steps, and the undos of those that have one."""
        return [*self.steps, *(step.undo for step in self.steps if step.undo)]

    @property
    def _slowest(self) -> StepDefinition:
        return max(self.steps, key=_longest)

    def _needed(self, messages: int) -> int:
        return math.ceil(_longest(self._slowest)) * messages + _SPARE


def _longest(step: StepDefinition) -> float:
    return max(step.timeout, step.undo.timeout if step.undo else 0.0)
