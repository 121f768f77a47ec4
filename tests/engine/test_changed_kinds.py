"""A step that a release made another kind of step under its old name, while its sagas were in flight."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sagas import Retry, Saga, children, step
from tests.support.bench import Bench
from tests.support.sagas import FAIL, LOG, Order, perform

Make = Callable[..., Bench]


class Kid(Saga[Order], name="kid"):
    """A child."""

    @step
    def one(self) -> None:
        perform("kid")


class Plain(Saga[Order], name="kinds"):
    """The step in the middle is a plain one, with an undo."""

    @step
    def book(self) -> None:
        perform("book")

    @book.compensate
    def unbook(self) -> None:
        perform("unbook")

    @step
    def charge(self) -> None:
        perform("charge")

    @charge.compensate
    def refund(self) -> None:
        perform("refund")

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def last(self) -> None:
        perform("last")


class WithChildren(Saga[Order], name="kinds"):
    """The step in the middle has children."""

    book = Plain.book
    unbook = Plain.unbook

    @children(Kid)
    def charge(self, request: Order) -> list[Order]:
        return [request]

    last = Plain.last


@pytest.fixture
def made(bench: Make) -> Bench:
    """A bench with what both releases need. The last step fails."""
    FAIL["last"] = RuntimeError("no")
    return bench(WithChildren, Kid)


def test_a_plain_step_that_has_children_now_leaves_its_undo_to_an_operator(made: Bench) -> None:
    """Its undo neither ran nor failed: the saga stayed COMPENSATING for weeks, and was on nobody's list."""
    made.engine = made.deploy(Plain, Kid)
    saga_id = made.start("kinds")
    made.deliver("kinds", "book")
    made.deliver("kinds", "charge")
    made.engine = made.deploy(WithChildren, Kid)
    made.run()
    assert (made.status(saga_id), LOG) == ("COMPENSATION_FAILED", ["book", "charge", "last", "unbook"])
    assert made.state(saga_id).attention
    made.engine = made.deploy(Plain, Kid)
    made.engine.operations.retry("kinds", saga_id, "the undo is back", "ada")
    made.run()
    assert (made.status(saga_id), LOG[-1]) == ("COMPENSATED", "refund")


def test_a_step_of_children_that_is_a_plain_step_now_is_not_run(made: Bench) -> None:
    """It ran, and was not undone: undoing went by the old kind, and no children had started."""
    made.engine = made.deploy(WithChildren, Kid)
    saga_id = made.start("kinds")
    made.deliver("kinds", "book")
    made.engine = made.deploy(Plain, Kid)
    made.run()
    assert (made.status(saga_id), LOG) == ("DEAD_LETTERED", ["book"])
    assert made.show(saga_id)["error"]["type"] == "TypeChanged"
    assert made.state(saga_id).attention
    made.engine.operations.compensate("kinds", saga_id, "no more", "ada")
    made.run()
    assert (made.status(saga_id), LOG) == ("COMPENSATED", ["book", "unbook"])
