"""What is said of a call for one saga of a job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sagas.client.answers import ambiguous
from sagas.client.operate.outcomes import Report, outcome_of
from sagas.client.operate.selection import Chosen
from sagas.errors import Ambiguous, Conflict, InvalidRequest, NotFound, SagaError, Unavailable

IN_DOUBT = "; the request may or may not have taken effect"


def settled(*answers: str | Exception) -> tuple[str, str, str, list[float]]:
    """The outcome, its message, the new saga and the pauses of a call for ``a`` with these answers, one after the
    other."""
    left, pauses = iter(answers), list[float]()

    def call(_saga_id: str) -> str:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    outcome = outcome_of("a", call, pauses.append)
    assert [*left] == []
    return outcome.outcome, outcome.message, outcome.new, pauses


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (Conflict("it is RUNNING"), "refused", "it is RUNNING"),
        (NotFound("gone"), "refused", "gone"),
        (InvalidRequest("too long"), "refused", "too long"),
        (SagaError("access denied"), "failed", "access denied"),
        (ambiguous("no answer"), "failed", "no answer" + IN_DOUBT),
        (KeyError("saga_id"), "failed", "KeyError: 'saga_id'" + IN_DOUBT),
    ],
)
def test_an_error_is_an_outcome_and_is_not_tried_again(error: Exception, kind: str, message: str) -> None:
    assert settled(error) == (kind, message, "", [])


def test_a_call_that_reached_nobody_is_made_three_times() -> None:
    away = Unavailable("away", 3)
    assert settled(away, away, "a") == ("done", "", "", [3, 3])
    assert settled(away, away, away) == ("failed", "away", "", [3, 3])
    assert settled(Unavailable("away", 900), Conflict("over")) == ("refused", "over", "", [10])


def test_a_saga_that_was_started_is_named() -> None:
    assert settled("b") == ("done", "", "b", [])


def test_a_report_adds_up() -> None:
    errors: Iterator[SagaError] = iter([Conflict("over"), Ambiguous("no answer")])

    def call(_saga_id: str) -> str:
        raise next(errors)

    report = Report("j1", {name: Chosen("trip", name, 1) for name in "abc"})
    assert [report.settle(outcome_of(saga_id, call)) for saga_id in "ab"] == [False, True]
    assert [report.count(kind) for kind in ("done", "refused", "failed")] == [0, 1, 1]
    assert (report.remaining, report.unfinished) == (["c"], ["b", "c"])
