"""What the automaton needs to know of a saga type: numbers and choices, no code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Policy = Literal["COMPENSATE", "FAIL", "DEAD_LETTER", "CONTINUE"]
"""What happens when a step has failed for good."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step's policies.

    Args:
        executions: how many times it runs at most, in one budget.
        exhausted: what happens then.
        has_undo: whether it can be undone.
        undo_executions: how many times its undo runs at most, in one budget.
        undo_when_started: undo it also when it failed or its outcome is unknown.
        undo_needs_result: its undo takes the step's own result, so that it cannot be called without one.
        code_missing: the deployed code does not have it.
        asks: it has code to execute; a wait without any begins by itself.
        wait: seconds that it waits at most, from when it has asked.
        on_timeout: what happens when it waited in vain, or too many of its children failed.
        concurrency: how many of its children may be under way at a time.
        tolerate: how many of them may fail.
        one_by_one: they are undone one after the other, and not at once.
    """

    executions: int = 1
    exhausted: Policy = "COMPENSATE"
    has_undo: bool = False
    undo_executions: int = 1
    undo_when_started: bool = False
    code_missing: bool = False
    asks: bool = True
    wait: float = 0.0
    on_timeout: Policy = "COMPENSATE"
    concurrency: int = 0
    tolerate: int = 0
    one_by_one: bool = False
    undo_needs_result: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one saga, in its own order, and its limits.

    Args:
        steps: one for each step the saga was started with.
        max_recovery_attempts: stalls after which it is given up.
        stale_after: seconds of silence after which a message counts as lost.
    """

    steps: tuple[StepPlan, ...]
    max_recovery_attempts: int = 5
    stale_after: float = 120.0
