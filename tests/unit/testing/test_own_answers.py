"""Code that asks, and answers itself, in process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Exhausted, Rejected, Retry, Saga, step, wait_for
from sagas.testing import FakeContext, run


@dataclass(frozen=True)
class Word:
    """What is said."""

    by: str


class Lenient(Saga[int], name="lenient"):
    """Asks for large amounts only; reminds after a day; but not if a person answered."""

    @wait_for(Word, timeout=timedelta(days=1), on_timeout=Exhausted.CONTINUE)
    def first(self, request: int, ctx: Context) -> None:
        if request < 5:
            ctx.signal(Word("the limit"))

    @wait_for(Word, timeout=timedelta(days=2))
    def second(self, first: Word | None, ctx: Context) -> None:
        if first is not None:
            ctx.signal(first)

    @step
    def end(self, second: Word) -> str:
        return second.by


def test_what_needs_nobody_does_not_wait() -> None:
    outcome = run(Lenient, 1)
    assert (outcome.status, outcome.result) == ("COMPLETED", "the limit")
    assert set(outcome.waited.values()) <= {timedelta()}


def test_an_answer_to_the_first_is_one_to_the_second() -> None:
    outcome = run(Lenient, 9, signals={"first": Word("ada")}, at={"first": timedelta(hours=3)})
    assert (outcome.result, outcome.waited["first"]) == ("ada", timedelta(hours=3))
    assert outcome.waited.get("second", timedelta()) == timedelta()


def test_who_is_reminded_may_answer() -> None:
    outcome = run(Lenient, 9, signals={"second": Word("bob")}, at={"second": timedelta(hours=3)})
    assert (outcome.result, outcome.waited["first"]) == ("bob", timedelta(days=1))


def test_nobody_answers() -> None:
    outcome = run(Lenient, 9)
    assert outcome.status == "COMPENSATED"
    assert outcome.waited == {"first": timedelta(days=1), "second": timedelta(days=2)}


def test_a_fake_context_keeps_the_answer() -> None:
    ctx = FakeContext(saga="lenient", step="first")
    Lenient().first(request=1, ctx=ctx)
    assert ctx.signalled == [Word("the limit")]


def test_a_moment_that_is_no_length_is_told_by_its_wait() -> None:
    wrong: Any = {"first": 3}
    with pytest.raises(TypeError, match=r'at: "first" must be a timedelta since its wait began, not 3'):
        run(Lenient, 9, signals={"first": Word("ada")}, at=wrong)


class Ordered(Saga[int]):
    """Waits behind a step."""

    @step
    def book(self, request: int) -> int:
        return request

    word = wait_for(Word, timeout=timedelta(days=1))

    @step
    def close(self, book: int, word: Word) -> str:
        return f"{book} {word.by}"


def test_a_signal_may_come_before_its_wait() -> None:
    """As through the API: it answers 202 then, and the wait ends when it begins."""
    outcome = run(Ordered, 9, signals={"word": Word("ada")}, at={"word": timedelta(hours=-2)})
    assert (outcome.result, outcome.waited) == ("9 ada", {"word": timedelta()})
    sent = next(entry for entry in outcome.audit if entry.action == "SignalReceived").details["sent_at"]
    assert sent <= next(entry for entry in outcome.audit if entry.action == "StepCompleted").at


def test_a_signal_before_its_wait_may_be_too_much() -> None:
    """Its saga ends without the wait."""
    early = {"word": timedelta(seconds=-1)}
    outcome = run(Ordered, 9, fail={"book": Rejected("no")}, signals={"word": Word("ada")}, at=early)
    assert outcome.status == "COMPENSATED"


def test_a_signal_of_another_type_is_told_with_what_is_wrong() -> None:
    with pytest.raises(
        TypeError, match=r'signals: "first": the value is not a valid Word: \$\.by is int, expected a string'
    ):
        run(Lenient, 9, signals={"first": Word(3)})  # pyright: ignore[reportArgumentType]


class Patient(Saga[int], name="patient", timeout=timedelta(days=9)):
    """Has a person look when nobody answers, and has a deadline of its own."""

    answer = wait_for(Word, timeout=timedelta(days=1), on_timeout=Exhausted.DEAD_LETTER)

    @step(retry=Retry.constant(max_retries=0, on_exhausted=Exhausted.DEAD_LETTER))
    def end(self, answer: Word) -> str:
        return answer.by


def test_it_ends_where_a_person_is_waited_for_whichever_step_is_dead_lettered() -> None:
    assert run(Patient, 1).status == "DEAD_LETTERED"
    outcome = run(Patient, 1, signals={"answer": Word("ada")}, fail={"end": RuntimeError()})
    assert outcome.status == "DEAD_LETTERED"


class Stubborn(Saga[int], name="stubborn", timeout=timedelta(hours=1)):
    """Is out of time before it is out of retries."""

    @step(retry=Retry.constant(max_retries=5, delay=1800))
    def end(self) -> str:
        raise RuntimeError("busy")


def test_a_step_that_is_tried_no_more_has_failed() -> None:
    outcome = run(Stubborn, 1)
    assert outcome.error is not None
    assert (outcome.status, outcome.error.type) == ("COMPENSATED", "SagaTimedOut")
    assert outcome.steps == {"end": "FAILED"}, "as the API shows it"


def test_a_result_that_the_saga_continued_without_is_none() -> None:
    outcome = run(Lenient, 9, signals={"second": Word("ada")})
    assert outcome.results[Lenient.first] is None
    with pytest.raises(KeyError):
        _ = run(Lenient, 9).results[Lenient.second]  # the saga was undone
