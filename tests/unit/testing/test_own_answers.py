"""Code that asks, and answers itself, in process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Context, Exhausted, Saga, step, wait_for
from sagas.testing import FakeContext, run


@dataclass(frozen=True)
class Word:
    """What is said."""

    by: str


class Lenient(Saga[int], name="lenient"):
    """Asks for large amounts only; reminds after a day; but not if somebody answered."""

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
    with pytest.raises(TypeError, match=r'at: "first" must be a timedelta from the beginning of its wait on, not 3'):
        run(Lenient, 9, signals={"first": Word("ada")}, at=wrong)
