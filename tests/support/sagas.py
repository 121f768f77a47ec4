"""Small sagas for the project's own tests. What they did stands in ``LOG``."""

from __future__ import annotations

from dataclasses import dataclass

from sagas.authoring.context import Context
from sagas.authoring.policies import Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.errors import Rejected

LOG: list[str] = []
FAIL: dict[str, BaseException | int] = {}
"""By step or undo: an error raised by every attempt, or how many attempts fail before one succeeds."""

_FAST = Retry.constant(max_retries=2, delay=0.0)


@dataclass(frozen=True)
class Order:
    item: str
    count: int = 1


@dataclass(frozen=True)
class Seat:
    number: int


def _act(name: str, ctx: Context) -> None:
    LOG.append(f"{name}:{ctx.attempt}")
    trouble = FAIL.get(name)
    if isinstance(trouble, BaseException):
        raise trouble
    if isinstance(trouble, int) and trouble > 0:
        FAIL[name] = trouble - 1
        raise RuntimeError(f"{name} fails")


class Trip(Saga[Order], name="trip"):
    """Three steps, two of them with an undo."""

    @step(retry=_FAST, timeout=5)
    def book(self, request: Order, ctx: Context) -> Seat:
        _act("book", ctx)
        return Seat(request.count)

    @book.compensate
    def unbook(self, book: Seat, ctx: Context) -> None:
        _act("unbook", ctx)

    @step(retry=_FAST, timeout=5)
    def pay(self, book: Seat, ctx: Context) -> str:
        _act("pay", ctx)
        return f"paid {book.number}"

    @pay.compensate
    def refund(self, pay: str, ctx: Context) -> None:
        _act("refund", ctx)

    @step(retry=_FAST, timeout=5)
    def tell(self, ctx: Context) -> None:
        _act("tell", ctx)


class Stubborn(Saga[Order], name="stubborn"):
    """The second step's exhaustion is an operator's business."""

    @step(retry=_FAST)
    def first(self, ctx: Context) -> str:
        _act("first", ctx)
        return "done"

    @first.compensate
    def undo_first(self, ctx: Context) -> None:
        _act("undo_first", ctx)

    @step(retry=Retry.constant(max_retries=1, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER))
    def second(self, ctx: Context) -> None:
        _act("second", ctx)


class Fatal(Saga[Order], name="fatal"):
    """The second step's exhaustion ends the saga as it is."""

    @step
    def first(self, ctx: Context) -> str:
        _act("first", ctx)
        return "done"

    @first.compensate
    def undo_first(self, ctx: Context) -> None:
        _act("undo_first", ctx)

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.FAIL))
    def second(self, ctx: Context) -> None:
        _act("second", ctx)


REJECTED = Rejected("the card was declined")
