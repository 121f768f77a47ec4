"""``sagas check`` beside the engine: what it says of a change is what becomes of sagas in flight."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from sagas import Retry, Saga, step, wait_for
from sagas.authoring.definition.definition import definition_of
from sagas.lock.changes import changes
from sagas.lock.content import content_of
from tests.engine.changing import deployed
from tests.support.bench import Make
from tests.support.sagas import FAIL, Seat, perform

T = TypeVar("T")

_FAST = Retry.constant(max_retries=1, delay=0.0)


@dataclass(frozen=True)
class Order:
    item: str


class Old(Saga[Order], name="lock"):
    """The last release."""

    @step(retry=_FAST)
    def book(self, request: Order) -> Seat:
        perform("book")
        return Seat(7)

    @book.compensate
    def unbook(self, book: Seat) -> None:
        perform("unbook")

    @step(retry=_FAST)
    def pay(self, book: Seat) -> str:
        perform("pay")
        return "paid"

    @step(retry=_FAST)
    def tell(self, request: Order) -> int:
        perform("tell")
        return 1


@dataclass(frozen=True)
class PricedOrder:
    item: str
    price: int


@dataclass(frozen=True)
class NotedOrder:
    item: str
    note: str = ""


@dataclass(frozen=True)
class NamedSeat:
    number: int
    name: str


class OtherRequest(Saga[T]):
    """Takes another request, and is the same otherwise."""

    @step(retry=_FAST)
    def book(self, request: T) -> Seat:
        perform("book")
        return Seat(7)

    @book.compensate
    def unbook(self, book: Seat) -> None:
        perform("unbook")

    pay = Old.pay

    @step(retry=_FAST)
    def tell(self, request: T) -> int:
        perform("tell")
        return 1


class RequestNeedsMore(OtherRequest[PricedOrder], name="lock"):
    """A new field of the request, without a default."""


class RequestMayHaveMore(OtherRequest[NotedOrder], name="lock"):
    """A new field of the request, with a default."""


class ResultNeedsMore(Saga[Order], name="lock"):
    """A new field of a result that a step and an undo take."""

    @step(retry=_FAST)
    def book(self, request: Order) -> NamedSeat:
        perform("book")
        return NamedSeat(7, "7a")

    @book.compensate
    def unbook(self, book: NamedSeat) -> None:
        perform("unbook")

    @step(retry=_FAST)
    def pay(self, book: NamedSeat) -> str:
        perform("pay")
        return "paid"

    tell = Old.tell


class ResultNobodyTakes(Saga[Order], name="lock"):
    """Another type, which none takes that sagas in flight run."""

    book = Old.book
    unbook = Old.unbook

    @step(retry=_FAST)
    def pay(self, book: Seat) -> int:
        perform("pay")
        return 1

    tell = Old.tell

    @step(retry=_FAST)
    def thank(self, pay: int) -> None:
        perform("thank")


class OnlyTheUndoNeedsMore(Saga[Order], name="lock"):
    """A type that only an undo takes now."""

    book = ResultNeedsMore.book
    unbook = ResultNeedsMore.unbook

    @step(retry=_FAST)
    def pay(self) -> str:
        perform("pay")
        return "paid"

    tell = Old.tell


class Appended(Old, name="lock"):
    """A step more at the end, which takes what was there."""

    @step(retry=_FAST)
    def thank(self, book: Seat) -> None:
        perform("thank")


class TakesWhatIsNew(Saga[Order], name="lock"):
    """An old step takes the result of a new one."""

    book = Old.book
    unbook = Old.unbook

    @step(retry=_FAST)
    def insure(self) -> str:
        perform("insure")
        return "insured"

    @step(retry=_FAST)
    def pay(self, insure: str) -> str:
        perform("pay")
        return insure

    tell = Old.tell


class TakesWhatIsNewIfItIsThere(Saga[Order], name="lock"):
    """The same, and its code can do without."""

    book = Old.book
    unbook = Old.unbook
    insure = TakesWhatIsNew.insure

    @step(retry=_FAST)
    def pay(self, insure: str | None) -> str:
        perform("pay")
        return insure or "not insured"

    @pay.compensate
    def refund(self, insure: str | None) -> None:
        perform("refund")

    tell = Old.tell


class TakesWhatIsNewAsAnything(Saga[Order], name="lock"):
    """The same, and nothing says that it may be missing."""

    book = Old.book
    unbook = Old.unbook
    insure = TakesWhatIsNew.insure

    @step(retry=_FAST)
    def pay(self, insure: object) -> str:
        perform("pay")
        return str(insure)

    tell = Old.tell


class Reordered(Saga[Order], name="lock"):
    """Another order, in which none takes what comes later in the old one."""

    tell = Old.tell
    book = Old.book
    unbook = Old.unbook
    pay = Old.pay


class TakesWhatCameLater(Saga[Order], name="lock"):
    """Another order, in which paying takes what telling returns."""

    book = Old.book
    unbook = Old.unbook
    tell = Old.tell

    @step(retry=_FAST)
    def pay(self, tell: int) -> str:
        perform("pay")
        return str(tell)


class TakesWhatCameLaterIfItIsThere(Saga[Order], name="lock"):
    """The same, and its code can do without."""

    book = Old.book
    unbook = Old.unbook
    tell = Old.tell

    @step(retry=_FAST)
    def pay(self, tell: int | None) -> str:
        perform("pay")
        return str(tell)


class Removed(Saga[Order], name="lock"):
    """A step was removed."""

    book = Old.book
    unbook = Old.unbook
    tell = Old.tell


class Renamed(Saga[Order], name="lock"):
    """A step was renamed."""

    book = Old.book
    unbook = Old.unbook

    @step(retry=_FAST)
    def charge(self, book: Seat) -> str:
        perform("charge")
        return "paid"

    tell = Old.tell


class Retired(Old, name="lock"):
    """A step is retired."""

    @step(retry=_FAST, retired=True)
    def pay(self, book: Seat) -> str:
        perform("pay")
        return "paid"


class WithoutUndo(Saga[Order], name="lock"):
    """An undo was removed."""

    @step(retry=_FAST)
    def book(self, request: Order) -> Seat:
        perform("book")
        return Seat(7)

    pay = Old.pay
    tell = Old.tell


class WithUndo(Old, name="lock"):
    """An undo was added; it takes what was there."""

    @step(retry=_FAST)
    def pay(self, book: Seat) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, request: Order, pay: str, book: Seat) -> None:
        perform("refund")


class Policies(Old, name="lock"):
    """Undone when it was started."""

    @step(retry=_FAST, undo_when="started")
    def pay(self, book: Seat) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str | None) -> None:
        perform("refund")


class PaidByHand(Saga[Order], name="lock"):
    """A step is a wait now, under the same name."""

    book = Old.book
    unbook = Old.unbook

    @wait_for(str, timeout=timedelta(days=1))
    def pay(self, book: Seat) -> None:
        perform("ask")

    tell = Old.tell


def never() -> bool:
    return False


class Skipping(Saga[Order], name="lock"):
    """A step is skipped."""

    book = Old.book
    unbook = Old.unbook

    @step(retry=_FAST, when=never)
    def pay(self, book: Seat) -> str:
        perform("pay")
        return "paid"

    @step(retry=_FAST)
    def tell(self, pay: str | None) -> int:
        perform("tell")
        return 1


class SkippingNoMore(Saga[Order], name="lock"):
    """It runs, and what takes its result still allows None."""

    book = Old.book
    unbook = Old.unbook
    pay = Old.pay
    tell = Skipping.tell


class TakesWhatWasSkipped(Saga[Order], name="lock"):
    """It runs, and its result is taken for granted."""

    book = Old.book
    unbook = Old.unbook
    pay = Old.pay

    @step(retry=_FAST)
    def tell(self, pay: str) -> int:
        perform("tell")
        return 1


VERSIONS = [
    Old,
    RequestNeedsMore,
    RequestMayHaveMore,
    ResultNeedsMore,
    ResultNobodyTakes,
    OnlyTheUndoNeedsMore,
    Appended,
    TakesWhatIsNew,
    TakesWhatIsNewIfItIsThere,
    TakesWhatIsNewAsAnything,
    Reordered,
    TakesWhatCameLater,
    TakesWhatCameLaterIfItIsThere,
    Removed,
    Renamed,
    Retired,
    WithoutUndo,
    WithUndo,
    Policies,
    PaidByHand,
    Skipping,
]
SKIPPING_VERSIONS = [Skipping, SkippingNoMore, TakesWhatWasSkipped]


@pytest.mark.parametrize(
    ("old", "new"), [*((Old, new) for new in VERSIONS), *((Skipping, new) for new in SKIPPING_VERSIONS)]
)
def test_what_is_said_to_stop_sagas_in_flight_does_so_and_nothing_else(
    bench: Make, old: type[Saga[Any]], new: type[Saga[Any]]
) -> None:
    b = bench(old)
    deployed(b, new)
    released = b.engine
    going_on = {False: ("COMPLETED", ""), True: ("COMPENSATED", "RuntimeError")}
    stopped: list[Any] = []
    for done in ((), ("book",), ("book", "pay")):
        for fails, expected in going_on.items():
            deployed(b, old)
            FAIL.clear()
            saga_id = b.start("lock", {"item": "train"})
            for name in done:
                assert b.deliver("lock", name) is not None or (name, old) == ("pay", Skipping)
            b.engine = released
            if fails:
                FAIL["tell"] = RuntimeError()
            b.run()
            saga = b.show(saga_id)
            ended = (saga["status"], saga["error"]["type"] if saga["error"] else "")
            if ended != expected:
                stopped.append((done, fails, ended))
    told = changes(content_of([definition_of(old)]), [definition_of(new)])
    assert any(change.breaks for change in told) == bool(stopped), (told, stopped)
    assert not (told and new is old)


@pytest.mark.parametrize(("new", "result"), [(TakesWhatIsNewIfItIsThere, "not insured"), (Old, "paid")])
def test_a_result_that_the_saga_lacks_is_none(bench: Make, new: type[Saga[Any]], result: str) -> None:
    b = bench(Old)
    saga_id = b.start("lock", {"item": "train"})
    deployed(b, new)
    b.run()
    assert {step["name"]: step["result"] for step in b.show(saga_id)["steps"]} == {
        "book": {"number": 7},
        "pay": result,
        "tell": 1,
    }


def test_a_parameter_that_does_not_say_none_waits_for_the_result(bench: Make) -> None:
    """Its author did not say that the result may be missing."""
    b = bench(Old)
    saga_id = b.start("lock", {"item": "train"})
    deployed(b, TakesWhatIsNewAsAnything)
    b.run()
    saga = b.show(saga_id)
    assert (saga["status"], saga["error"]["type"]) == ("DEAD_LETTERED", "TypeChanged")
    assert "insure" in saga["error"]["message"]
