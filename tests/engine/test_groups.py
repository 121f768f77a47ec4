"""Errors in groups, as ``asyncio.TaskGroup`` raises them: each is judged as if it had been raised alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagas import NotYet, PermanentError, Rejected, Retry, Saga, step
from sagas.engine.attempt.failures import leading
from sagas.errors import TimedOut, leaves
from sagas.testing import Outcome, run
from tests.support.bench import Make
from tests.support.sagas import LOG, Order

pytestmark = pytest.mark.usefixtures("clean")
TASKS: list[Exception] = []
"""What the tasks of the step raise."""
UNDO: list[Exception] = []
THRICE = Retry.constant(max_retries=2, delay=0.0)


class Declined(Rejected):
    """A subclass, as authors have."""


class Invalid(NotYet):
    """Sets a field that no ``NotYet`` takes."""

    def __init__(self) -> None:
        self.after = -1.0


class Paying(Saga[Order], name="paying"):
    """A step that polls, with an undo that needs no result."""

    @step(retry=THRICE, within=timedelta(minutes=1))
    async def pay(self) -> str:
        LOG.append("pay")
        async with asyncio.TaskGroup() as tasks:
            for error in TASKS:
                tasks.create_task(_raising(error))
        return "paid"

    @pay.compensate
    def refund(self) -> None:
        LOG.append("refund")
        if UNDO:
            raise ExceptionGroup("undo", [UNDO.pop()])


async def _raising(error: Exception) -> None:
    raise error


def paid(*errors: Exception, refund: Exception | None = None) -> Outcome:
    TASKS[:] = errors
    UNDO[:] = [] if refund is None else [refund]
    return run(Paying, Order("x"))


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", errors)


def test_a_rejection_is_not_retried() -> None:
    outcome = paid(OSError("down"), NotYet(5), Declined("no funds"))
    assert outcome.error is not None
    assert (outcome.status, outcome.error.type) == ("COMPENSATED", "Declined")
    assert outcome.error.message == "no funds (and 2 more: OSError, NotYet)"
    failed = next(entry for entry in outcome.audit if entry.action == "StepFailed")
    assert (failed.details["rejected"], failed.details["permanent"]) == (True, True)
    assert all(name in failed.details["stack_trace"] for name in ("OSError: down", "Declined: no funds"))


def test_a_permanent_error_is_not_retried() -> None:
    outcome = paid(KeyError("a"), PermanentError("no such account"))
    assert (outcome.status, LOG) == ("COMPENSATED", ["pay"])
    assert outcome.error is not None
    assert outcome.error.type == "PermanentError"


def test_another_error_is_a_failed_attempt() -> None:
    outcome = paid(NotYet(5), KeyError("a"))
    assert LOG == ["pay"] * 3 + ["refund"]
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.message) == ("KeyError", "'a' (and 1 more: NotYet)")


def test_a_step_that_raised_not_yet_beside_a_rejection_is_undone() -> None:
    outcome = paid(NotYet(5), Rejected("no"))
    assert (outcome.status, outcome.steps["pay"], outcome.in_doubt) == ("COMPENSATED", "COMPENSATED", ())
    assert LOG == ["pay", "refund"]


def test_without_not_yet_a_failed_step_is_not_undone() -> None:
    assert (paid(Rejected("no")).steps["pay"], LOG) == ("FAILED", ["pay"])


def test_all_not_yet_is_one_with_the_earliest_time(bench: Make) -> None:
    b = bench(Paying)
    TASKS[:] = [NotYet(30, "the bank"), NotYet(20, "the shop")]
    saga_id = b.start("paying")
    b.deliver("paying", "pay")
    shown = b.show(saga_id)
    assert (shown["status"], b.actions(saga_id)[-1]) == ("WAITING", "StepPostponed")
    details = b.entry(saga_id, "StepPostponed")["details"]
    assert (details["after"], details["message"]) == (20.0, "the bank; the shop")


def test_the_first_error_of_an_undo_decides_too() -> None:
    outcome = paid(NotYet(5), Rejected("no"), refund=PermanentError("closed"))
    assert outcome.status == "COMPENSATION_FAILED"
    failed = next(entry for entry in outcome.audit if entry.action == "CompensationFailed")
    assert failed.details["error"] == {"type": "PermanentError", "message": "closed"}


def test_an_undo_that_raises_not_yet_in_a_group_is_called_again() -> None:
    outcome = paid(NotYet(5), Rejected("no"), refund=NotYet(5))
    assert (outcome.status, LOG) == ("COMPENSATED", ["pay", "refund", "refund"])


ANY = Retry.constant(max_retries=2)
NOT_YET = NotYet(7)
REJECTED = Rejected("no")
PERMANENT = PermanentError("never")
ERROR = KeyError("k")
DOWN = OSError("down")


@pytest.mark.parametrize(
    ("error", "retry", "expected"),
    [
        (group(ERROR, PERMANENT, group(group(REJECTED))), ANY, REJECTED),
        (group(NOT_YET, ERROR, group(PERMANENT)), ANY, PERMANENT),
        (group(NOT_YET, group(ERROR)), ANY, ERROR),
        (group(OSError(), ERROR), Retry.constant(give_up_on=[KeyError]), ERROR),
        (group(ERROR, OSError("no")), Retry.constant(retry_on=[OSError]), ERROR),
        (group(NOT_YET, DOWN), Retry.constant(retry_on=[KeyError]), DOWN),
        (group(TimedOut("t"), ERROR), Retry.constant(retry_on=[OSError]), ERROR),
    ],
)
def test_the_error_that_decides(error: Any, retry: Retry, expected: Any) -> None:
    assert leading(error, retry) is expected


@pytest.mark.parametrize("option", ["retry_on", "give_up_on"])
def test_a_policy_that_names_the_group_judges_the_group(option: str) -> None:
    whole = group(ERROR, REJECTED)
    retry = Retry.constant(**{option: [ExceptionGroup]})  # type: ignore[arg-type]
    assert leading(whole, retry) is whole
    assert retry.gives_up(whole) is (option == "give_up_on")
    assert leading(whole, Retry.constant(**{option: [Exception]})) is REJECTED  # type: ignore[arg-type]


def test_one_with_invalid_fields_is_an_error() -> None:
    error = leading(group(NOT_YET, Invalid()), ANY)
    assert (type(error), "after must be" in str(error)) == (ValueError, True)


def test_it_is_steady_only_if_all_are() -> None:
    steady, plain = NotYet(3, "a", steady=True), NotYet(4)
    for errors, expected in (((steady, steady), True), ((steady, plain), False)):
        error = leading(group(*errors), ANY)
        assert isinstance(error, NotYet)
        assert (error.after, error.steady) == (3.0, expected)


def test_late_errors_in_a_group_are_late_but_for_a_permanent_one() -> None:
    gives_up = Retry.constant(give_up_on=[KeyError])
    late = TimedOut("late")
    late.__cause__ = group(OSError(), group(ERROR))
    assert gives_up.gives_up(late)
    assert not ANY.gives_up(late)


class Late(Saga[Order], name="late", step_timeout=0.05):
    """Raises a group when it is cancelled at its deadline."""

    @step(retry=THRICE)
    async def pay(self) -> str:
        LOG.append("pay")
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            raise ExceptionGroup("late", list(TASKS)) from None
        return "paid"


@pytest.mark.parametrize(
    ("errors", "attempts", "type_"), [([DOWN, REJECTED], 1, "Rejected"), ([DOWN, ERROR], 3, "TimedOut")]
)
def test_a_late_group_is_late_unless_one_of_its_errors_is_permanent(
    errors: list[Exception], attempts: int, type_: str
) -> None:
    TASKS[:] = errors
    outcome = run(Late, Order("x"))
    assert outcome.error is not None
    assert (outcome.error.type, LOG) == (type_, ["pay"] * attempts)
    assert outcome.in_doubt == (("pay",) if type_ == "TimedOut" else ())


LEAF = st.sampled_from([NOT_YET, REJECTED, PERMANENT, ERROR])


@given(st.recursive(LEAF, lambda parts: st.lists(parts, min_size=1, max_size=3).map(lambda found: group(*found))))
def test_what_decides_does_not_depend_on_how_the_errors_are_nested(error: Exception) -> None:
    order = [REJECTED, PERMANENT, ERROR]
    found = leading(error, ANY)
    present = [each for each in order if each in leaves(error)]
    assert found is present[0] if present else isinstance(found, NotYet)


def test_a_group_of_any_depth_is_read() -> None:
    error: Exception = REJECTED
    for _ in range(5_000):
        error = group(error)
    assert leading(error, ANY) is REJECTED
