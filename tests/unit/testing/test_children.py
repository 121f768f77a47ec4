"""Children in process: all of them, with failures by their positions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sagas import Exhausted, PermanentError, Saga, children, step
from sagas.testing import run
from tests.support.sagas import ONCE, Answered, Parcel

LOG: list[str] = []


@dataclass(frozen=True)
class Basket:
    parcels: int


class Shipment(Saga[Parcel], name="shipment"):
    @step
    def book(self, request: Parcel) -> str:
        LOG.append(f"book {request.number}")
        return f"label {request.number}"

    @book.compensate
    def unbook(self, request: Parcel) -> None:
        LOG.append(f"unbook {request.number}")

    @step(retry=ONCE)
    def send(self, book: str) -> str:
        return book


class Order(Saga[Basket], name="order"):
    @children(Shipment, concurrency=3)
    def shipments(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    @step(retry=ONCE)
    def close(self, shipments: list[str]) -> list[str]:
        return shipments


class Lenient(Saga[Basket], name="lenient"):
    @children(Shipment, tolerate=1)
    def shipments(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    @step
    def close(self, shipments: list[str | None]) -> int:
        return sum(one is not None for one in shipments)


class GoingOn(Saga[Basket], name="going-on"):
    @children(Shipment, on_failed=Exhausted.CONTINUE)
    def shipments(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    close = Lenient.close


class Parked(Saga[Basket], name="parked"):
    @children(Shipment, on_failed=Exhausted.DEAD_LETTER)
    def shipments(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    close = Order.close


class Reversed(Saga[Basket], name="reversed"):
    @children(Shipment, undo="reverse", concurrency=1)
    def shipments(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    close = Order.close


class Trip(Saga[Basket], name="trip"):
    @children(Shipment, Order)
    def branches(self, request: Basket) -> tuple[Parcel, Basket]:
        return Parcel(9), request

    @step
    def close(self, branches: tuple[str, list[str]]) -> tuple[str, list[str]]:
        return branches


class Asked(Answered[Parcel], name="asked"):
    """Waits for a person."""


class Asking(Saga[Basket], name="asking"):
    @children(Asked)
    def asked(self, request: Basket) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]


@pytest.fixture(autouse=True)
def clean() -> None:
    LOG.clear()


@pytest.mark.parametrize("parcels", [0, 1, 3, 40])
def test_each_child_runs_once_and_results_keep_their_order(parcels: int) -> None:
    outcome = run(Order, Basket(parcels))
    assert outcome.status == "COMPLETED"
    assert outcome.result == [f"label {number}" for number in range(parcels)]
    assert sorted(LOG) == sorted(f"book {number}" for number in range(parcels))
    assert [one.status for one in outcome.children["shipments"]] == ["COMPLETED"] * parcels
    assert [entry.action for entry in outcome.audit] == [
        *("SagaStarted", "ChildrenStarted", "ChildrenEnded", "StepCompleted")
    ]


def test_branches_have_types_of_their_own() -> None:
    outcome = run(Trip, Basket(2))
    assert outcome.result == ("label 9", ["label 0", "label 1"])


def test_what_a_child_did_is_undone_when_its_parent_is() -> None:
    outcome = run(Order, Basket(5), fail={"close": RuntimeError("no")})
    assert outcome.status == "COMPENSATED"
    assert sorted(LOG) == sorted(f"{verb} {number}" for verb in ("book", "unbook") for number in range(5))
    assert {one.status for one in outcome.children["shipments"]} == {"COMPENSATED"}


def test_children_are_undone_in_reverse_where_that_is_asked_for() -> None:
    run(Reversed, Basket(4), fail={"close": RuntimeError("no")})
    assert LOG[4:] == ["unbook 3", "unbook 2", "unbook 1", "unbook 0"]


def test_one_failed_child_fails_the_step_and_all_are_undone() -> None:
    outcome = run(Order, Basket(5), fail={"shipments[2].send": PermanentError("no van")})
    assert outcome.status == "COMPENSATED"
    assert outcome.error is not None
    assert outcome.error.type == "ChildrenFailed"
    assert "shipments[2] failed and was undone (PermanentError)" in outcome.error.message
    booked = [line.removeprefix("book ") for line in LOG if line.startswith("book")]
    unbooked = [line.removeprefix("unbook ") for line in LOG if line.startswith("unbook")]
    assert sorted(booked) == sorted(unbooked)
    assert not {one.status for one in outcome.children["shipments"]} & {"COMPLETED", "RUNNING", "PENDING"}


def test_tolerated_failures_leave_a_gap() -> None:
    outcome = run(Lenient, Basket(4), fail={"shipments[1].send": RuntimeError})
    assert (outcome.status, outcome.result) == ("COMPLETED", 3)
    assert outcome.results["shipments"] == ["label 0", None, "label 2", "label 3"]
    assert run(Lenient, Basket(4), fail={f"shipments[{n}].send": RuntimeError for n in (1, 2)}).status == "COMPENSATED"


def test_with_continue_the_saga_goes_on_with_gaps() -> None:
    outcome = run(GoingOn, Basket(3), fail={"shipments[0].send": RuntimeError})
    assert outcome.status == "COMPLETED"
    assert outcome.results["shipments"][0] is None


def test_with_dead_letter_it_waits_for_an_operator() -> None:
    outcome = run(Parked, Basket(2), fail={"shipments[0].send": RuntimeError})
    assert outcome.status == "DEAD_LETTERED"


def test_a_child_that_cannot_be_undone_makes_the_parent_so() -> None:
    outcome = run(Order, Basket(3), fail={"close": RuntimeError, "shipments[1].unbook": PermanentError("gone")})
    assert outcome.status == "COMPENSATION_FAILED"
    assert outcome.steps["shipments"] == "COMPENSATION_FAILED"
    assert [one.status for one in outcome.children["shipments"]] == [
        "COMPENSATED",
        "COMPENSATION_FAILED",
        "COMPENSATED",
    ]


def test_failures_reach_children_of_children() -> None:
    outcome = run(Trip, Basket(2), fail={"branches[1].shipments[0].send": RuntimeError})
    assert outcome.status == "COMPENSATED"
    assert sorted(LOG) == sorted(["book 9", "unbook 9", *(f"{v} {n}" for v in ("book", "unbook") for n in (0, 1))])


def test_retries_of_a_child_are_its_own() -> None:
    outcome = run(Order, Basket(2), fail={"shipments[1].book": [RuntimeError("once"), None]})
    assert outcome.status == "COMPLETED"


def test_signals_reach_children() -> None:
    signals = {f"asked[{number}].answer": f"yes {number}" for number in range(2)}
    assert run(Asking, Basket(2), signals=signals).result == ["yes 0", "yes 1"]
    assert run(Asking, Basket(2), signals={"asked[0].answer": "yes"}).status == "COMPENSATED"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("shipments[0].nothing", 'shipment has no step or undo "nothing"'),
        ("close[0].book", 'order has no step "close" with children'),
        ("parcels[0].book", 'order has no step "parcels" with children'),
    ],
)
def test_a_path_that_leads_nowhere_is_told(path: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        run(Order, Basket(1), fail={path: RuntimeError})


def test_a_branch_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match='"branches" has 2 children'):
        run(Trip, Basket(1), fail={"branches[2].book": RuntimeError})


def test_a_child_that_there_was_not_is_told() -> None:
    with pytest.raises(ValueError, match=r'fail: "shipments\[2\].send": the step "shipments" had 2 children, counted'):
        run(Order, Basket(2), fail={"shipments[2].send": RuntimeError})
    signals = {f"asked[{number}].answer": "yes" for number in range(3)}
    with pytest.raises(ValueError, match=r'signals: "asked\[2\].answer": the step "asked" had 2 children'):
        run(Asking, Basket(2), signals=signals)
    # one whose turn did not come is meant all the same
    failing = {"shipments[0].send": RuntimeError, "shipments[8].send": RuntimeError}
    assert run(Order, Basket(9), fail=failing).status == "COMPENSATED"


def test_the_saga_may_be_called_anything() -> None:
    assert run(Order, Basket(2), saga_id="order-1").status == "COMPLETED"
