"""A soak that cannot find what is wrong proves nothing: right books, and then each kind of wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.core.states import Attempts, Parent, SagaState, SagaStatus, StepState, StepStatus
from tests.faults.invariants import check_order, check_rest
from tests.faults.world import Began, Entered, Event, Rows
from tests.soak.books import Books, check_books
from tests.soak.findings import Remains, check_child
from tests.soak.sagas import BOOKINGS

SOLD, UNDONE, WAITING = "sold", "undone", "waiting"
INITIALLY = {"book": 10}
REQUEST = {"sku": "book", "quantity": 2, "cents": 1250}

Doctored = Callable[["BookedSagas"], None]


class BookedSagas:
    """Three sagas and their books, all in order: one sold, one undone, one dead-lettered with its stock still held."""

    def __init__(self) -> None:
        self.states = {
            SOLD: _state(SOLD, SagaStatus.COMPLETED, StepStatus.COMPLETED),
            UNDONE: _state(UNDONE, SagaStatus.COMPENSATED, StepStatus.COMPENSATED),
            WAITING: _state(WAITING, SagaStatus.DEAD_LETTERED, StepStatus.COMPLETED),
        }
        self.stock = [
            {"sku": {"S": "book"}, "available": {"N": "6"}},
            _reservation(SOLD, "RESERVED"),
            _reservation(UNDONE, "RELEASED"),
            _reservation(WAITING, "RESERVED"),
        ]
        self.ledger = [
            _entry(f"{SOLD}:charge", "12.50"),
            _entry(f"{UNDONE}:charge", "12.50"),
            _entry(f"{UNDONE}:charge:undo", "-12.50", refunds=f"{UNDONE}:charge"),
            _entry(f"{WAITING}:charge", "12.50"),
        ]

    def check(self) -> list[str]:
        books = Books(tuple(self.stock), tuple(self.ledger))
        requests = dict.fromkeys(self.states, REQUEST)
        return check_books(books, self.states, requests, BOOKINGS, INITIALLY)


def _state(saga_id: str, status: SagaStatus, step: StepStatus) -> SagaState:
    steps = tuple(StepState(name, step, attempts=Attempts(1)) for name in ("reserve", "charge"))
    return SagaState(saga_id, "trade", "1", steps, status=status)


def _reservation(saga_id: str, status: str) -> dict[str, Any]:
    held = {"book": {"N": "2"}}
    return {"sku": {"S": f"reservation#{saga_id}:reserve"}, "status": {"S": status}, "items": {"M": held}}


def _entry(key: str, amount: str, **references: str) -> dict[str, Any]:
    return {"payment_key": {"S": key}, "amount": {"N": amount}} | {k: {"S": v} for k, v in references.items()}


def test_books_in_order_are_left_alone() -> None:
    assert BookedSagas().check() == []


def _refunded_twice(world: BookedSagas) -> None:
    """An undo that books anew on each attempt."""
    world.ledger.append(_entry(f"{UNDONE}:charge:undo:2", "-12.50", refunds=f"{UNDONE}:charge"))


def _not_refunded(world: BookedSagas) -> None:
    del world.ledger[2]


def _refunded_too_little(world: BookedSagas) -> None:
    world.ledger[2] = _entry(f"{UNDONE}:charge:undo", "-2.50", refunds=f"{UNDONE}:charge")


def _refunded_although_sold(world: BookedSagas) -> None:
    world.ledger.append(_entry(f"{SOLD}:charge:undo", "-12.50", refunds=f"{SOLD}:charge"))


def _never_charged(world: BookedSagas) -> None:
    del world.ledger[0]


def _charged_another_amount(world: BookedSagas) -> None:
    world.ledger[0] = _entry(f"{SOLD}:charge", "99.00")


def _released_twice(world: BookedSagas) -> None:
    world.stock[0] = {"sku": {"S": "book"}, "available": {"N": "8"}}


def _released_although_sold(world: BookedSagas) -> None:
    world.stock[0] = {"sku": {"S": "book"}, "available": {"N": "8"}}
    world.stock[1] = _reservation(SOLD, "RELEASED")


def _still_reserved(world: BookedSagas) -> None:
    world.stock[0] = {"sku": {"S": "book"}, "available": {"N": "4"}}
    world.stock[2] = _reservation(UNDONE, "RESERVED")


def _reserved_by_nobody(world: BookedSagas) -> None:
    world.stock[0] = {"sku": {"S": "book"}, "available": {"N": "4"}}
    world.stock.append(_reservation("stranger", "RESERVED"))


def _completed_without_a_step(world: BookedSagas) -> None:
    state = world.states[SOLD]
    world.states[SOLD] = state.with_step(1, replace(state.steps[1], status=StepStatus.FAILED))


@pytest.mark.parametrize(
    "doctor",
    [
        _refunded_twice,
        _not_refunded,
        _refunded_too_little,
        _refunded_although_sold,
        _never_charged,
        _charged_another_amount,
        _released_twice,
        _released_although_sold,
        _still_reserved,
        _reserved_by_nobody,
        _completed_without_a_step,
    ],
    ids=lambda doctor: doctor.__name__.strip("_"),
)
def test_doctored_books_are_found(doctor: Doctored) -> None:
    world = BookedSagas()
    doctor(world)
    assert world.check()


def test_what_is_in_doubt_may_stand_if_the_saga_says_so() -> None:
    world = BookedSagas()
    world.stock[0] = {"sku": {"S": "book"}, "available": {"N": "4"}}
    world.stock[2] = _reservation(UNDONE, "RESERVED")
    failed = StepState("reserve", StepStatus.FAILED, attempts=Attempts(4))
    world.states[UNDONE] = world.states[UNDONE].with_step(0, failed)
    assert world.check()
    world.states[UNDONE] = world.states[UNDONE].with_step(0, replace(failed, outcome_unknown=True))
    assert world.check() == []


@pytest.mark.parametrize(
    ("parent", "child", "right"),
    [
        ("COMPLETED", "COMPLETED", True),
        ("COMPENSATED", "COMPENSATED", True),
        ("CANCELLED", "CANCELLED", True),
        ("COMPLETED", "COMPENSATED", False),
        ("COMPENSATED", "COMPLETED", False),
        ("CANCELLED", "RUNNING", False),
    ],
)
def test_a_child_that_its_parent_has_left_is_found(parent: str, child: str, right: bool) -> None:
    over = _state(SOLD, SagaStatus(parent), StepStatus.COMPLETED)
    part = _state(UNDONE, SagaStatus(child), StepStatus.COMPLETED)
    of_it = replace(part, parent=Parent(SOLD, "fleet", "parts", 0, 0))
    assert (not list(check_child({SOLD: over, UNDONE: of_it}, of_it))) is right


# The same of a saga's journal, and of what its code did.


def _journal() -> Rows:
    actions = (("SagaStarted", "PENDING", None), ("StepCompleted", "RUNNING", "reserve"))
    last = ("StepCompleted", "COMPLETED", "charge")
    same: dict[str, object] = {"attempt": 1, "payload_ref": None, "error": ""}
    return [
        same | {"seq": seq, "token": seq, "action": action, "status": status, "step": step}
        for seq, (action, status, step) in enumerate((*actions, last), start=1)
    ]


def _own(attempts: tuple[int, ...] = (1,)) -> list[Event]:
    def began(name: str, attempt: int, at: float) -> Began:
        key = f"{SOLD}:{name}"
        return Began(name, False, attempt, key, f"{key}:{attempt}", 0, at, at + 9.0, 0, 0)

    reserved = [began("reserve", attempt, 1.0) for attempt in attempts]
    entered = [Entered("", 2, "StepCompleted", "reserve", 1, "RUNNING", 2.0)]
    return [
        *reserved,
        *entered,
        began("charge", 1, 3.0),
        Entered("", 3, "StepCompleted", "charge", 1, "COMPLETED", 4.0),
    ]


def _found(state: SagaState, journal: Rows, own: list[Event]) -> list[str]:
    return [*check_rest(Remains(state, journal, own)), *check_order(own, alone=True)]


def test_a_journal_in_order_is_left_alone() -> None:
    state = replace(_state(SOLD, SagaStatus.COMPLETED, StepStatus.COMPLETED), seq=3)
    assert _found(state, _journal(), _own()) == []


def test_a_gap_a_repetition_and_a_saga_that_is_left_are_found() -> None:
    state = replace(_state(SOLD, SagaStatus.COMPLETED, StepStatus.COMPLETED), seq=3)
    assert _found(state, _journal()[:1] + _journal()[2:], _own())
    assert _found(state, _journal(), _own(attempts=(1, 1)))
    assert _found(state, _journal(), _own(attempts=(1, 2)))
    assert _found(replace(state, status=SagaStatus.RUNNING), _journal(), _own())
    assert _found(state, _journal(), [*_own(), _own()[0]])
