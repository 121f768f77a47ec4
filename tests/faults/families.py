"""Small sagas that start sagas, and those that they start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sagas.authoring.children import children
from sagas.authoring.context import Context
from sagas.authoring.policies import Exhausted, Retry
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from tests.faults.sagas import STAGE, Order

_NOW = Retry.constant(max_retries=1, delay=0.0)
_ONCE = Retry.constant(max_retries=0, delay=0.0)


@dataclass(frozen=True)
class Task:
    number: int


_TASKS = [Task(0), Task(1)]


class Child(Saga[Task], name="child"):
    """What it books is to be undone, what it sends is not."""

    @step(retry=_NOW, timeout=5)
    def book(self, request: Task, ctx: Context) -> int:
        STAGE.act(f"book {request.number}", ctx)
        return request.number

    @book.compensate(retry=_NOW)
    def unbook(self, request: Task, ctx: Context) -> None:
        STAGE.act(f"unbook {request.number}", ctx)

    @step(retry=_NOW, timeout=5)
    def send(self, book: int, ctx: Context) -> int:
        STAGE.act(f"send {book}", ctx)
        return book


class Family(Saga[Order], name="family"):
    """Has two children, between two steps of its own."""

    @step(retry=_NOW, timeout=5)
    def first(self, request: Order, ctx: Context) -> str:
        STAGE.act("first", ctx)
        return request.item

    @first.compensate(retry=_NOW)
    def undo_first(self, first: str, ctx: Context) -> None:
        STAGE.act("undo_first", ctx)

    @children(Child, retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS

    @step(retry=_NOW, timeout=5)
    def last(self, born: list[int], ctx: Context) -> int:
        STAGE.act("last", ctx)
        return len(born)


class Tolerant(Saga[Order], name="tolerant"):
    """One of two may fail."""

    @children(Child, tolerate=1, retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS


class Orderly(Saga[Order], name="orderly"):
    """Its children come one after the other, and are undone so."""

    @children(Child, concurrency=1, undo="reverse", retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS

    @step(retry=_NOW, timeout=5)
    def last(self, born: list[int], ctx: Context) -> int:
        STAGE.act("last", ctx)
        return len(born)


class Insistent(Saga[Order], name="insistent"):
    """That one of its children failed is an operator's business."""

    @children(Child, on_failed=Exhausted.DEAD_LETTER, retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS


class Stubborn(Saga[Task], name="stubborn"):
    """A child that ends FAILED, with what it booked."""

    book = Child.book
    unbook = Child.unbook

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.FAIL), timeout=5)
    def send(self, book: int, ctx: Context) -> int:
        STAGE.act(f"send {book}", ctx)
        return book


class Stuck(Saga[Task], name="stuck"):
    """A child that waits for an operator when its step failed twice."""

    @step(retry=Retry.constant(max_retries=1, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER), timeout=5)
    def send(self, request: Task, ctx: Context) -> int:
        STAGE.act(f"send {request.number}", ctx)
        return request.number


class Patient(Saga[Order], name="patient"):
    """Waits for children that may wait for an operator."""

    @children(Stuck, retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS


class Mixed(Saga[Order], name="mixed"):
    """Children of two types."""

    @children(Child, Stubborn, retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> tuple[Task, Task]:
        STAGE.act("born", ctx)
        return Task(0), Task(1)


class Only(Saga[Task], name="only", lock_expiry=timedelta(seconds=10)):
    """One step, tried once, under a lease that can be taken from one that only pauses."""

    @step(retry=_ONCE, timeout=5)
    def book(self, request: Task, ctx: Context) -> int:
        STAGE.act(f"book {request.number}", ctx)
        return request.number

    @book.compensate(retry=_ONCE)
    def unbook(self, request: Task, ctx: Context) -> None:
        STAGE.act(f"unbook {request.number}", ctx)


class Pairs(Saga[Order], name="pairs", lock_expiry=timedelta(seconds=10)):
    """Two of these, and nothing else."""

    @children(Only, retry=_ONCE, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS


class PairsAndLast(Saga[Order], name="pairs-and-last", lock_expiry=timedelta(seconds=10)):
    """Likewise, and a step that can be refused."""

    born = Pairs.born

    @step(retry=_ONCE, timeout=5)
    def last(self, born: list[int], ctx: Context) -> int:
        STAGE.act("last", ctx)
        return len(born)


class OnlyParked(Saga[Task], name="only-parked", lock_expiry=timedelta(seconds=10)):
    """Likewise, and an operator's business when it fails."""

    @step(retry=Retry.constant(max_retries=0, delay=0.0, on_exhausted=Exhausted.DEAD_LETTER), timeout=5)
    def book(self, request: Task, ctx: Context) -> int:
        STAGE.act(f"book {request.number}", ctx)
        return request.number


class OneParked(Saga[Order], name="one-parked", lock_expiry=timedelta(seconds=10)):
    """One of these."""

    @children(OnlyParked, retry=_ONCE, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS[:1]


class PivotChild(Saga[Task], name="pivot-child"):
    """What it sends cannot be taken back."""

    book = Child.book
    unbook = Child.unbook

    @step(retry=_NOW, timeout=5, pivot=True)
    def send(self, book: int, ctx: Context) -> int:
        STAGE.act(f"send {book}", ctx)
        return book

    @step(retry=_NOW, timeout=5)
    def note(self, send: int, ctx: Context) -> int:
        STAGE.act(f"note {send}", ctx)
        return send


class PivotFamily(Saga[Order], name="pivot-family"):
    """Its children have pivots."""

    first = Family.first
    undo_first = Family.undo_first

    @children(PivotChild, retry=_NOW, step_timeout=5)
    def born(self, request: Order, ctx: Context) -> list[Task]:
        STAGE.act("born", ctx)
        return _TASKS

    last = Family.last


FAMILIES: tuple[type[Saga[Order]] | type[Saga[Task]], ...] = (
    *(Child, Stubborn, Stuck, Family, Tolerant, Orderly, Insistent, Patient, Mixed, PivotChild, PivotFamily),
)
