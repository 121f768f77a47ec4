from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from sagas.core.states import SagaState, SagaStatus, StepState, replace


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    labels: tuple[str, ...] = field(default=())


def test_is_what_dataclasses_have() -> None:
    point = Point(1, labels=("a",))
    assert replace(point, y=3) == dataclasses.replace(point, y=3) == Point(1, 3, ("a",))
    assert point == Point(1, 2, ("a",))


def test_of_a_saga() -> None:
    steps = (StepState("a"), StepState("b"))
    before = SagaState(
        saga_id="id", saga="trip", version="v1", correlation_id="id", status=SagaStatus.RUNNING, steps=steps
    )
    after = replace(before, cursor=1, digest="d")
    assert after == dataclasses.replace(before, cursor=1, digest="d")
    assert after.steps is before.steps


def test_of_a_field_that_there_is_not() -> None:
    with pytest.raises(KeyError, match="z"):
        replace(Point(1), z=1)
