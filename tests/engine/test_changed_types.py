"""Sagas in flight whose stored request or results do not fit the deployed code: they wait for an operator, who is told
what does not fit, and go on with code that does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Exhausted, Retry, Saga, step, wait_for
from sagas.engine.start.starter import KeyReused
from sagas.errors import InvalidRequest
from tests.engine.changing import deployed, why
from tests.support.bench import Bench, Death, Make
from tests.support.sagas import FAIL, LOG, Seat, perform

_FAST = Retry.constant(max_retries=2, delay=0.0)


@dataclass(frozen=True)
class Item:
    """As it was first."""

    name: str


@dataclass(frozen=True)
class Asked:
    """As it was first."""

    item: Item


class First(Saga[Asked], name="typed"):
    """As it was first."""

    @step(retry=_FAST)
    def book(self, request: Asked) -> Seat:
        perform("book")
        return Seat(7)

    @book.compensate
    def unbook(self, book: Seat) -> None:
        perform("unbook")

    @step(retry=_FAST)
    def pay(self, request: Asked, book: Seat) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str) -> None:
        perform("refund")


@dataclass(frozen=True)
class PricedItem:
    """It has a new field, without a default."""

    name: str
    price: int


@dataclass(frozen=True)
class AskedPriced:
    """Likewise, inside."""

    item: PricedItem


class Priced(Saga[AskedPriced], name="typed"):
    """Requests have a price."""

    @step(retry=_FAST)
    def book(self, request: AskedPriced) -> Seat:
        perform("book")
        return Seat(7)

    @book.compensate
    def unbook(self, book: Seat) -> None:
        perform("unbook")

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.FAIL))
    def pay(self, request: AskedPriced, book: Seat) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str) -> None:
        perform("refund")


@dataclass(frozen=True)
class NamedSeat:
    """The number became a text."""

    number: str


class Named(Saga[Asked], name="typed"):
    """Seats have names."""

    @step(retry=_FAST)
    def book(self, request: Asked) -> NamedSeat:
        perform("book")
        return NamedSeat("7a")

    @book.compensate
    def unbook(self, book: NamedSeat) -> None:
        perform("unbook")

    @step(retry=_FAST)
    def pay(self, request: Asked, book: NamedSeat) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str) -> None:
        perform("refund")


class Started(Saga[AskedPriced], name="typed"):
    """Paying is undone whenever it was started."""

    book = Priced.book
    unbook = Priced.unbook

    @step(retry=_FAST, undo_when="started")
    def pay(self, request: AskedPriced, book: Seat) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str | None) -> None:
        perform("refund")


REQUEST = {"item": {"name": "train"}}
PRICE = "the request no longer matches AskedPriced: $.item.price: required field is missing"
NUMBER = "the result of step 'book' no longer matches NamedSeat: $.number is int, expected a string"


def in_flight(bench: Make, *delivered: str) -> tuple[Bench, str]:
    """A saga of the first release."""
    b = bench(First)
    saga_id = b.start("typed", REQUEST)
    for name in delivered:
        assert b.deliver("typed", name) is not None
    return b, saga_id


@pytest.mark.parametrize(("saga_class", "text"), [(Priced, PRICE), (Named, NUMBER), (Started, PRICE)])
def test_what_does_not_fit_waits_for_an_operator_who_is_told(bench: Make, saga_class: type[Any], text: str) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, saga_class)
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["steps"][1]["status"]) == ("DEAD_LETTERED", "FAILED")
    assert saga["error"] == {"step": "pay", "type": "TypeChanged", "message": text}
    assert saga["steps"][1]["error"] == {"type": "TypeChanged", "message": text}
    assert (
        saga["attention"]["reason"]
        == f"{text}: step pay was not called; deploy code that fits and retry, or compensate"
    )
    assert why(b) == [saga["attention"]["reason"]]
    assert saga["steps"][1]["attempts"] == 0
    assert saga["in_doubt"] == []
    assert b.actions(saga_id)[1:] == ["StepCompleted", "StepDeadLettered"]
    assert LOG == ["book"]
    assert b.dead_letters("typed") == 0


def test_nothing_happens_to_it_by_itself(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, Named)
    b.run()
    for _ in range(3):
        b.clock.advance(3_600)
        assert b.recover() == []
        b.run()
    assert b.actions(saga_id)[1:] == ["StepCompleted", "StepDeadLettered"]


def test_with_code_that_fits_a_retry_goes_on(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, Named)
    b.run()
    b.engine.operations.retry("typed", saga_id, "too early", "ann")
    b.run()
    assert b.status(saga_id) == "DEAD_LETTERED"
    deployed(b, First)
    b.engine.operations.retry("typed", saga_id, "it fits again", "ann")
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"], saga["steps"][1]["attempts"]) == ("COMPLETED", None, 1)
    assert LOG == ["book", "pay"]
    assert why(b) == []


def test_no_attempt_is_used_up(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    FAIL["pay"] = Death()
    with pytest.raises(Death):
        b.run()
    deployed(b, Named)
    b.run()
    assert b.actions(saga_id)[-2:] == ["StepLost", "StepDeadLettered"]
    assert (b.status(saga_id), b.step(saga_id)["attempts"]) == ("DEAD_LETTERED", 1)
    deployed(b, First)
    FAIL.clear()
    b.engine.operations.retry("typed", saga_id, "it fits again", "ann")
    b.run()
    assert (b.status(saga_id), b.step(saga_id)["attempts"]) == ("COMPLETED", 2)


@pytest.mark.parametrize("saga_class", [Priced, Started])
def test_it_can_be_undone_where_the_undos_can_be_read(bench: Make, saga_class: type[Any]) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, saga_class)
    b.run()
    b.engine.operations.compensate("typed", saga_id, "no more", "ann")
    b.run()
    assert b.show(saga_id)["status"] == "COMPENSATED"
    assert LOG == ["book", "unbook"]
    assert why(b) == []


def test_it_can_be_cancelled(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, Priced)
    b.run()
    b.engine.operations.cancel("typed", saga_id, "ann")
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["book", "unbook"])


def test_a_cancel_that_comes_first_wins(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, Priced)
    b.engine.operations.cancel("typed", saga_id, "ann")
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["book", "unbook"])


def test_an_undo_that_cannot_read_its_input_fails_and_waits(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    FAIL["pay"] = RuntimeError()
    deployed(b, First)
    while b.status(saga_id) != "COMPENSATING":
        b.deliver("typed", "pay")
    deployed(b, Named)
    b.run()
    saga = b.show(saga_id)
    assert saga["status"] == "COMPENSATION_FAILED"
    assert saga["steps"][0]["error"] == {"type": "TypeChanged", "message": NUMBER}
    assert saga["steps"][0]["undo_attempts"] == 0
    told = "the undo of book was not called; deploy code that fits and retry, or undo it by hand"
    assert why(b) == [f"{NUMBER}: {told}"]
    assert b.entry(saga_id, "CompensationFailed")["details"]["attempts"] == 0
    assert "unbook" not in LOG
    deployed(b, First)
    b.engine.operations.retry("typed", saga_id, "it fits again", "ann")
    b.run()
    assert (b.status(saga_id), LOG[-1], why(b)) == ("COMPENSATED", "unbook", [])


def test_one_undo_that_cannot_read_its_input_stops_no_other(bench: Make) -> None:
    b, saga_id = in_flight(bench, "book")
    deployed(b, Named)
    b.run()
    b.engine.operations.compensate("typed", saga_id, "no more", "ann")
    b.run()
    assert b.status(saga_id) == "COMPENSATION_FAILED"
    b.engine.operations.resolve("typed", saga_id, "by hand", "unbooked", ("book",), "ann")
    assert why(b) == []


def test_who_dies_before_saying_so_leaves_it_in_doubt_no_longer_than_needed(bench: Make) -> None:
    """A death after the claim counts as an attempt, as any does: nobody knows that no code ran."""
    b, saga_id = in_flight(bench, "book")
    deployed(b, Named)
    committer: Any = b.engine.services.committer

    def dying(*_: object, **__: object) -> None:
        raise Death

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(committer, "_write", dying)
        with pytest.raises(Death):
            b.deliver("typed", "pay")
    b.clock.advance(3_600)
    b.recover()
    b.run()
    assert (b.status(saga_id), b.show(saga_id)["error"]["type"]) == ("DEAD_LETTERED", "TypeChanged")


class Lookalike(Saga[Asked], name="lookalike"):
    """Its own error has the name of ours."""

    @step(retry=_FAST)
    def book(self, request: Asked) -> None:
        raise type("TypeChanged", (Exception,), {})("mine")


def test_an_error_of_the_authors_own_is_told_apart(bench: Make) -> None:
    b = bench(Lookalike)
    saga_id = b.start("lookalike", REQUEST)
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["steps"][0]["attempts"]) == ("COMPENSATED", 3)
    assert saga["error"]["type"] == f"{__name__}.TypeChanged"


class Asking(Saga[Asked], name="typed"):
    """Booking is a wait now: a person books."""

    @wait_for(Seat, timeout=timedelta(days=1))
    def book(self, request: Asked) -> None:
        perform("ask")

    @book.compensate
    def unbook(self, book: Seat) -> None:
        perform("unbook")

    pay = First.pay
    refund = First.refund


def test_a_step_that_is_a_wait_now_is_not_taken_for_done(bench: Make) -> None:
    b = bench(First)
    saga_id = b.start("typed", {"item": {"name": "train"}})
    deployed(b, Asking)
    b.run()
    told = "step 'book' is a wait for a signal now, and was a step when the saga started"
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"]["type"], saga["error"]["message"]) == ("DEAD_LETTERED", "TypeChanged", told)
    assert why(b) == ["the code of step book is missing: deploy it again and retry, or compensate"]
    assert LOG == []
    deployed(b, First)
    b.engine.operations.retry("typed", saga_id, "ada", "the step is back")
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert LOG == ["book", "pay"]


def test_a_start_that_is_repeated_after_its_type_changed_finds_its_saga(bench: Make) -> None:
    b = bench(First)
    request = {"item": {"name": "train"}}
    saga_id = b.start("typed", request, key="once")
    b.run()
    deployed(b, Priced)
    again = b.engine.starter.start("typed", request, key="once")
    assert (again.state.saga_id, again.created, b.status(saga_id)) == (saga_id, False, "COMPLETED")
    with pytest.raises(KeyReused):
        b.engine.starter.start("typed", {"item": {"name": "boat"}}, key="once")
    for key in (None, "another"):
        with pytest.raises(InvalidRequest):
            b.engine.starter.start("typed", request, key=key)
