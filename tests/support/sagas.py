"""Small sagas for the project's own tests. What they did stands in ``LOG``.

Those with a type variable are bases, one for each shape. A test derives from them with a name and, in the keywords of
the class, the policies that it is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from sagas.authoring.context import Context
from sagas.authoring.policies import CircuitBreaker, Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.authoring.waits import sleep, wait_for
from sagas.errors import Rejected

T = TypeVar("T")
LOG: list[str] = []
FAIL: dict[str, BaseException | int] = {}
"""By step or undo: an error raised by every attempt, or how many attempts fail before one succeeds."""

_FAST = Retry.constant(max_retries=2, delay=0.0)
ONCE = Retry.constant(max_retries=0, delay=0.0)
PARK = Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER)
"""A step that fails waits for an operator at once."""


@dataclass(frozen=True)
class Order:
    item: str
    count: int = 1


@dataclass(frozen=True)
class Seat:
    number: int


@dataclass(frozen=True)
class Parcel:
    """The request of a child."""

    number: int


def act(name: str, ctx: Context) -> None:
    """Note in ``LOG`` what is executed, with its attempt, and fail as ``FAIL`` says."""
    perform(f"{name}:{ctx.attempt}", name)


def perform(what: str, name: str = "") -> None:
    """Note ``what`` in ``LOG``, and fail as ``FAIL`` says of ``name``; of ``what``, if it has no other name."""
    LOG.append(what)
    name = name or what
    trouble = FAIL.get(name)
    if isinstance(trouble, BaseException):
        raise trouble
    if isinstance(trouble, int) and trouble > 0:
        FAIL[name] = trouble - 1
        raise RuntimeError(f"{name} fails")


class Idle(Saga[T]):
    """One step, which does nothing."""

    @step
    def work(self) -> None: ...


class Single(Saga[T]):
    """One step."""

    @step
    def call(self, ctx: Context) -> str:
        act("call", ctx)
        return "called"


class Answered(Saga[T]):
    """Waits for an answer, for a day at most, and ends with it."""

    answer = wait_for(str, timeout=timedelta(days=1))

    @step
    def end(self, answer: str, ctx: Context) -> str:
        act("end", ctx)
        return answer


class Trip(Saga[Order], name="trip"):
    """Three steps, two of them with an undo."""

    @step(retry=_FAST, timeout=5)
    def book(self, request: Order, ctx: Context) -> Seat:
        act("book", ctx)
        return Seat(request.count)

    @book.compensate
    def unbook(self, book: Seat, ctx: Context) -> None:
        act("unbook", ctx)

    @step(retry=_FAST, timeout=5)
    def pay(self, book: Seat, ctx: Context) -> str:
        act("pay", ctx)
        return f"paid {book.number}"

    @pay.compensate
    def refund(self, pay: str, ctx: Context) -> None:
        act("refund", ctx)

    @step(retry=_FAST, timeout=5)
    def tell(self, ctx: Context) -> None:
        act("tell", ctx)


class Booked(Saga[Order], name="booked"):
    """A seat that is booked in one attempt, and can be given back: the beginning of further sagas."""

    @step(retry=ONCE)
    def book(self) -> str:
        perform("book")
        return "seat"

    @book.compensate
    def unbook(self, book: str) -> None:
        perform("unbook")


class Stubborn(Saga[Order], name="stubborn"):
    """The second step's exhaustion is an operator's business."""

    @step(retry=_FAST)
    def first(self, ctx: Context) -> str:
        act("first", ctx)
        return "done"

    @first.compensate
    def undo_first(self, ctx: Context) -> None:
        act("undo_first", ctx)

    @step(retry=Retry.constant(max_retries=1, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER))
    def second(self, ctx: Context) -> None:
        act("second", ctx)


class Fatal(Saga[Order], name="fatal"):
    """The second step's exhaustion ends the saga as it is."""

    @step
    def first(self, ctx: Context) -> str:
        act("first", ctx)
        return "done"

    @first.compensate
    def undo_first(self, ctx: Context) -> None:
        act("undo_first", ctx)

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.FAIL))
    def second(self, ctx: Context) -> None:
        act("second", ctx)


def an_hour_on(ctx: Context) -> datetime:
    """An hour from now, by the saga's clock."""
    return ctx.now + timedelta(hours=1)


class Reminded(Saga[Order], name="reminded"):
    """Sleeps, and an hour more, and says when it ended."""

    cooling = sleep(timedelta(days=14))
    reminder = sleep(until=an_hour_on)

    @step
    def end(self, ctx: Context) -> datetime:
        return ctx.now


class Bulky(Saga[Order], name="bulky"):
    """The result of its first step is stored in S3."""

    @step
    def write(self) -> str:
        return "x" * 20_000

    @step
    def read(self, write: str) -> int:
        return len(write)


class Held(Saga[Order], name="held"):
    """Its step is held back after one failure."""

    @step(retry=Retry.constant(max_retries=1, delay=60), circuit_breaker=CircuitBreaker(1, 30))
    def call(self, ctx: Context) -> None:
        """Fail."""
        raise RuntimeError("out of reach")


REJECTED = Rejected("the card was declined")
