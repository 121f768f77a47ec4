"""Authors' side: crash points of anything that makes requests."""

from __future__ import annotations

from contextlib import suppress

import pytest
from botocore.exceptions import ReadTimeoutError

from sagas.testing.faults import Fault, Point, ProcessDied, Trial, Wire, crash_points


class Till:
    """Takes money in two requests; whether it asks first is up to the test."""

    def __init__(self, *, careful: bool) -> None:
        self.careful = careful
        self.taken = 0

    def scenario(self, wire: Wire) -> None:
        self.taken = 0
        for _ in range(2):
            with suppress(ProcessDied):
                with wire.process():
                    self._sell(wire)
                break
        self._check()

    def _check(self) -> None:
        if self.taken != 1:
            raise ValueError(f"taken {self.taken} times")

    def _sell(self, wire: Wire) -> None:
        if not (self.careful and wire.request("look", {}, lambda: self.taken)):
            wire.request("take", {}, self._take)

    def _take(self) -> None:
        self.taken += 1


def trials(scenario: Till, **options: object) -> list[Trial]:
    return list(crash_points(scenario.scenario, **options))  # type: ignore[arg-type]


def test_each_request_dies_on_both_sides() -> None:
    runs = trials(Till(careful=True))
    assert [str(*trial.points) for trial in runs[1:]] == [
        "request 1 dies before it leaves",
        "request 1 dies after it took effect",
        "request 2 dies before it leaves",
        "request 2 dies after it took effect",
    ]
    assert [trial.error for trial in runs] == [None] * 5
    assert runs[0].trace == ("look", "take")


def test_what_is_not_idempotent_is_found() -> None:
    [broken] = [trial for trial in trials(Till(careful=False)) if trial.error]
    assert broken.points == (Point(1, Fault.DIES_AFTER),)
    assert str(broken).splitlines() == [
        "request 1 dies after it took effect: taken 2 times",
        "  take  <-- dies after it took effect",
        "  take",
    ]


def test_a_dead_process_makes_no_request() -> None:
    wire = Wire()
    wire.begin([Point(1, Fault.DIES_BEFORE)])
    sent: list[int] = []

    def work() -> None:
        try:
            wire.request("first", {}, lambda: sent.append(1))
        finally:
            wire.request("in a finally", {}, lambda: sent.append(2))

    with pytest.raises(ProcessDied), wire.process():
        work()
    assert sent == []
    assert wire.deaths == 1


def test_an_outage_lasts_to_the_end_of_its_process() -> None:
    wire = Wire()
    wire.begin([Point(2, Fault.OUTAGE)])
    sent: list[str] = []

    def ask(service: str) -> None:
        with suppress(ReadTimeoutError):
            wire.request(service, {}, lambda: sent.append(service), service)

    for _ in range(2):
        with wire.process():
            for service in ("dynamodb", "sqs", "dynamodb"):
                ask(service)
    assert sent == ["dynamodb", "sqs", "dynamodb", "sqs", "dynamodb"]
    assert wire.trace[:3] == ["dynamodb", "sqs", "dynamodb  <-- finds DynamoDB out of reach from here on"]


def test_a_sample_is_the_same_each_time() -> None:
    first = [trial.points for trial in trials(Till(careful=True), at_once=2, sample=3, seed=7)]
    again = [trial.points for trial in trials(Till(careful=True), at_once=2, sample=3, seed=7)]
    assert first == again
    assert len(first) == 4
