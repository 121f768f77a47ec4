"""Sagas in flight whose stored values have an older shape, which the deployed code reads by ``upcast=``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from sagas import Retry, Saga, children, step, wait_for
from sagas.errors import InvalidRequest
from tests.engine.changing import deployed
from tests.support.bench import Bench, Death, Make, once
from tests.support.sagas import FAIL, LOG, perform

_FAST = Retry.constant(max_retries=0, delay=0.0)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Cents:
    """The old request."""

    item: str
    cents: int


@dataclass(frozen=True)
class Order:
    """The new one."""

    item: str
    price: float


@dataclass(frozen=True)
class Seat:
    """The new result; the old one was a number."""

    code: str


def order_of(old: dict[str, Any]) -> Order:
    """Read an old request."""
    return Order(old["item"], old["cents"] / 100)


def seat_of(old: int) -> Seat:
    """Read an old result, unless a test makes it fail."""
    perform(f"upcast {old}", "upcast")
    return Seat(f"{old}a")


class Hotel(Saga[Cents], name="hotel"):
    """A child, as it was."""

    go = wait_for(int, timeout=DAY)

    @step(retry=_FAST)
    def rent(self, request: Cents, go: int) -> int:
        perform(f"rent {request.cents}")
        return request.cents


class Old(Saga[Cents], name="trip", find_by={"item": "$.item"}):
    """As it was."""

    @step(retry=_FAST)
    def book(self, request: Cents) -> int:
        perform("book")
        return 7

    @book.compensate
    def unbook(self, book: int) -> None:
        perform(f"unbook {book}")

    consent = wait_for(int, timeout=DAY)

    @children(Hotel)
    def lodge(self, request: Cents) -> list[Cents]:
        return [request, request]

    @step(retry=_FAST)
    def pay(self, request: Cents, book: int, consent: int, lodge: list[int]) -> str:
        perform("pay")
        return "paid"


class NewHotel(Saga[Order], name="hotel", upcast={"request": order_of}):
    """The child reads its own request. That its result changed is its parent's concern."""

    go = wait_for(int, timeout=DAY)

    @step(retry=_FAST)
    def rent(self, request: Order, go: int) -> Seat:
        perform(f"rent {request.price}")
        return Seat("new")


def _rooms(old: list[Any]) -> list[Seat]:
    LOG.append(f"rooms {old}")
    return [Seat(str(one) if isinstance(one, int) else one["code"]) for one in old]


class New(
    Saga[Order],
    name="trip",
    find_by={"item": "$.item"},
    upcast={"request": order_of, "book": seat_of, "consent": lambda old: f"yes {old}", "lodge": _rooms},
):
    """Every value has another type."""

    @step(retry=_FAST)
    def book(self, request: Order) -> Seat:
        perform("book")
        return Seat("1b")

    @book.compensate
    def unbook(self, book: Seat) -> None:
        perform(f"unbook {book.code}")

    consent = wait_for(str, timeout=DAY)

    @children(NewHotel)
    def lodge(self, request: Order) -> list[Order]:
        return [request]

    @step(retry=_FAST)
    def pay(self, request: Order, book: Seat, consent: str, lodge: list[Seat]) -> str:
        perform(f"pay {request.price} {book.code} {consent} {[one.code for one in lodge]}")
        return "paid"


REQUEST = {"item": "train", "cents": 250}


def started(b: Bench, **options: Any) -> str:
    """A saga of the old type that has booked and waits for consent."""
    saga_id = b.start("trip", REQUEST, **options)
    b.run()
    assert b.status(saga_id) == "WAITING"
    return saga_id


def signalled(b: Bench, saga_id: str, value: object, name: str = "trip", step: str = "consent") -> None:
    b.engine.signals.send(name, saga_id, step, value, "ada")
    b.run()


def test_request_result_signal_and_children_are_read_in_their_old_shape(bench: Make) -> None:
    b = bench(Old, Hotel)
    saga_id = started(b)
    signalled(b, saga_id, 3)
    second, first = (one["saga_id"] for one in b.engine.reader.list(["hotel"], None, 10, None)["sagas"])
    signalled(b, first, 1, "hotel", "go")
    b.engine = b.deploy(New, NewHotel)
    LOG.clear()
    signalled(b, second, 1, "hotel", "go")
    assert b.status(saga_id) == "COMPLETED"
    mixed = [250, {"code": "new"}]
    assert ["rent 2.5", "upcast 7", f"rooms {mixed}", "pay 2.5 7a yes 3 ['250', 'new']"] == LOG
    shown = b.show(saga_id)
    assert (shown["request"], shown["steps"][0]["result"], shown["steps"][2]["result"]) == (REQUEST, 7, mixed)


def test_an_undo_reads_its_input_by_the_upcast_too(bench: Make) -> None:
    b = bench(Old, Hotel)
    saga_id = started(b)
    b.engine = b.deploy(New, NewHotel)
    b.engine.operations.cancel("trip", saga_id, "ann")
    b.run()
    assert (b.status(saga_id), LOG) == ("CANCELLED", ["book", "upcast 7", "unbook 7a"])


def test_an_undo_whose_upcast_fails_waits_for_an_operator(bench: Make) -> None:
    b = bench(Old, Hotel)
    saga_id = started(b)
    b.engine = b.deploy(New, NewHotel)
    FAIL["upcast"] = KeyError("code")
    b.engine.operations.cancel("trip", saga_id, "ann")
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["steps"][0]["error"]["type"]) == ("COMPENSATION_FAILED", "TypeChanged")
    assert saga["steps"][0]["undo_attempts"] == 0
    FAIL.clear()
    b.engine.operations.retry("trip", saga_id, "the upcast is fixed", "ann")
    b.run()
    assert (b.status(saga_id), LOG[-1]) == ("CANCELLED", "unbook 7a")


class Plain(Saga[Cents], name="plain"):
    """Two steps, as they were."""

    book = Old.book

    @step(retry=_FAST)
    def pay(self, book: int) -> str:
        perform("pay")
        return "paid"


class NewPlain(Saga[Order], name="plain", upcast={"request": order_of, "book": seat_of}):
    """The types changed."""

    book = New.book

    @step(retry=_FAST)
    def pay(self, book: Seat) -> str:
        perform(f"pay {book.code}")
        return "paid"


def test_an_upcast_that_fails_uses_no_attempt_and_waits_for_an_operator(bench: Make) -> None:
    b = bench(Plain)
    saga_id = b.start("plain", REQUEST)
    b.deliver("plain", "book")
    deployed(b, NewPlain)
    FAIL["upcast"] = KeyError("code")
    b.run()
    saga = b.show(saga_id)
    misfit = "the result of step 'book' no longer matches Seat: $ is int, expected an object (Seat)"
    text = f"{misfit}; its upcast raised KeyError"
    assert (saga["status"], saga["error"]) == ("DEAD_LETTERED", {"step": "pay", "type": "TypeChanged", "message": text})
    assert (saga["steps"][1]["attempts"], LOG) == (0, ["book", "upcast 7"])
    [trace] = [
        entry.details["stack_trace"] for entry in b.engine.journal.history(saga_id) if "stack_trace" in entry.details
    ]
    assert "KeyError: 'code'" in trace
    FAIL.clear()
    b.engine.operations.retry("plain", saga_id, "the upcast is fixed", "ann")
    b.run()
    assert (b.status(saga_id), b.step(saga_id)["attempts"], LOG[-1]) == ("COMPLETED", 1, "pay 7a")


def test_the_request_of_a_start_never_passes_through_it(bench: Make) -> None:
    b = bench(NewPlain)
    with pytest.raises(InvalidRequest):
        b.start("plain", REQUEST)
    saga_id = b.start("plain", {"item": "train", "price": 2.5})
    b.run()
    assert (b.status(saga_id), LOG) == ("COMPLETED", ["book", "pay 1b"])


def test_a_start_that_a_deployment_interrupted_keeps_its_search_keys(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Old, Hotel)
    once(monkeypatch, b.engine.search_keys, "put")
    with pytest.raises(Death):
        b.start("trip", REQUEST, key="once")
    b.engine = b.deploy(New, NewHotel)
    started_again = b.engine.starter.start("trip", REQUEST, key="once").state
    found = b.engine.reader.list(["trip"], None, 10, None, values={"item": "train"})["sagas"]
    assert [one["saga_id"] for one in found] == [started_again.saga_id]
