"""A saga whose code changes from version to version, and what deploys them."""

from __future__ import annotations

from typing import Any

from sagas import Retry, Saga, step
from sagas.client.read.next_action import reason_of
from tests.support.bench import Bench
from tests.support.sagas import Order, perform

REQUEST = {"item": "train"}
_FAST = Retry.constant(max_retries=2, delay=0.0)


class First(Saga[Order], name="change", version="1"):
    """As it was first."""

    @step(retry=_FAST)
    def book(self) -> str:
        perform("book")
        return "seat"

    @book.compensate
    def unbook(self, book: str) -> None:
        perform("unbook")

    @step(retry=_FAST)
    def pay(self) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str) -> None:
        perform("refund")

    @step(retry=_FAST)
    def tell(self) -> None:
        perform("tell")


class Reordered(Saga[Order], name="change", version="2"):
    """Other order, one step more; what is told takes what another step returned."""

    pay = First.pay
    refund = First.refund

    @step(retry=_FAST)
    def insure(self) -> None:
        perform("insure")

    book = First.book
    unbook = First.unbook
    tell = First.tell


class WithoutPay(Saga[Order], name="change", version="3"):
    """The step in the middle was removed."""

    book = First.book
    unbook = First.unbook
    tell = First.tell


class WithoutUndo(Saga[Order], name="change", version="4"):
    """Paying cannot be undone any more."""

    book = First.book
    unbook = First.unbook

    @step(retry=_FAST)
    def pay(self) -> str:
        perform("pay")
        return "paid"

    tell = First.tell


class Retired(Saga[Order], name="change", version="5"):
    """New sagas are not paid for."""

    book = First.book
    unbook = First.unbook

    @step(retry=_FAST, retired=True)
    def pay(self) -> str:
        perform("pay")
        return "paid"

    @pay.compensate
    def refund(self, pay: str) -> None:
        perform("refund")

    tell = First.tell


class Demanding(Saga[Order], name="change", version="6"):
    """Paying needs what telling returns, which comes first now."""

    book = First.book
    unbook = First.unbook

    @step(retry=_FAST)
    def tell(self) -> str:
        perform("tell")
        return "told"

    @step(retry=_FAST)
    def pay(self, tell: str) -> str:
        perform("pay")
        return tell


def in_flight(b: Bench, *delivered: str) -> str:
    """A saga of the first version, some of its steps done."""
    saga_id = b.start("change", REQUEST)
    for name in delivered:
        assert b.deliver("change", name) is not None
    return saga_id


def deployed(b: Bench, saga_class: type[Any]) -> None:
    b.engine = b.deploy(saga_class)


def names(b: Bench, saga_id: str) -> list[str]:
    return [step.name for step in b.state(saga_id).steps]


def why(b: Bench) -> list[str]:
    return [reason_of(saga) for saga in b.engine.reader.attention(None, 10, None)["sagas"]]
