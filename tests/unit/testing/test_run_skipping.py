"""Steps that are skipped, in process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from sagas import Retry, Saga, children, sleep, step, wait_for
from sagas.testing import run

ANSWERS: list[bool] = []
"""What ``moody`` says, in turn."""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    ANSWERS.clear()


def large(request: int) -> bool:
    return request > 500


def moody(request: int) -> bool:
    return ANSWERS.pop(0)


class Part(Saga[int], name="part"):
    """A child."""

    @step
    def cut(self, request: int) -> int:
        return request


class Trip(Saga[int], name="trip"):
    """Every kind of step, under a condition."""

    @children(Part, when=large)
    def parts(self, request: int) -> list[int]:
        return [request, request]

    @wait_for(str, timeout=timedelta(days=1), when=large)
    def answer(self) -> None: ...

    pause = sleep(timedelta(days=1), when=large)

    @step(when=large)
    def insure(self, request: int) -> str:
        return f"policy for {request}"

    @insure.compensate
    def cancel(self, insure: str) -> None: ...

    @step
    def ship(self, parts: list[int] | None, answer: str | None, insure: str | None) -> str:
        return f"{parts} {answer} {insure}"


class Moody(Saga[int], name="moody"):
    """The answer changes while the step is retried."""

    @step(when=moody, retry=Retry.constant(max_retries=2, delay=1))
    def insure(self) -> str:
        raise OSError("down")

    @step
    def ship(self, insure: str | None) -> str:
        return f"{insure}"


def test_skipped_steps_have_no_result_no_attempt_and_no_undo() -> None:
    outcome = run(Trip, 5)
    assert outcome.status == "COMPLETED"
    assert outcome.steps == {**dict.fromkeys(("parts", "answer", "pause", "insure"), "SKIPPED"), "ship": "COMPLETED"}
    assert (outcome.result, outcome.waited, outcome.children) == ("None None None", {}, {"parts": []})
    assert outcome.results == {"ship": "None None None"}
    for skipped in (Trip.answer, Trip.insure):
        assert outcome.results[skipped] is None
    undone = run(Trip, 5, fail={"ship": RuntimeError()})
    assert (undone.status, undone.steps["insure"]) == ("COMPENSATED", "SKIPPED")
    assert not [entry for entry in undone.audit if entry.action == "StepCompensated"]


def test_under_a_true_condition_nothing_changes() -> None:
    outcome = run(Trip, 900, signals={"answer": "yes"})
    assert set(outcome.steps.values()) == {"COMPLETED"}
    assert outcome.result == "[900, 900] yes policy for 900"
    assert outcome.waited["pause"] == timedelta(days=1)


def test_a_step_that_has_begun_is_passed_over_and_not_skipped() -> None:
    ANSWERS[:] = [True, False]
    outcome = run(Moody, 5)
    assert (outcome.status, outcome.result) == ("COMPLETED", "None")
    assert (outcome.steps["insure"], outcome.results[Moody.insure]) == ("FAILED", None)
    assert [entry.action for entry in outcome.audit] == [
        *("SagaStarted", "StepFailed", "StepSkipped", "StepCompleted"),
    ]
