"""Which id a child has: it follows from its parent, so that starting it again starts nothing."""

from __future__ import annotations

import math

from sagas.core.keys import id_from
from sagas.core.states import COUNTERS, Parent, SagaState, StepState

_PER_COUNTER = 4
"""Children under way for each counter: a transaction takes some ten milliseconds of it, and their steps far longer."""


def children_ids(parent: SagaState) -> list[str]:
    """Return the ids of all children that a saga may have started, by step, position and round."""
    return [
        child_id(parent.saga_id, step.name, position, round_)
        for step in parent.steps
        for position in range(step.fan_out.children)
        for round_ in range(step.round + 1)
        if step.waits_for == "children" and (round_ < step.round or position < step.fan_out.handed_out)
    ]


def counters(step: StepState) -> int:
    """Return how many counters the first ends of a step's children are counted in: a child's end reads all of them."""
    return min(COUNTERS, math.ceil((step.fan_out.at_once or step.fan_out.children) / _PER_COUNTER))


def parent_of(state: SagaState, step: StepState, position: int) -> Parent:
    """Return what a child knows of its parent."""
    return Parent(state.saga_id, state.saga, step.name, position, step.round, counters(step))


def child_id(parent_id: str, step: str, position: int, round_: int = 0) -> str:
    """Return the id of a child."""
    return id_from(parent_id, step, round_, position)
