"""Sagas that fail in every way a function can. What each execution did is an item of a table of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from sagas import CircuitBreaker, Context, Exhausted, Rejected, Retry, Saga, step


@dataclass(frozen=True)
class Trial:
    """How the second step behaves: ``mood`` is one word; ``executions`` of it that misbehave before it does not."""

    mood: str = "calm"
    executions: int = 99


RAISES: dict[str, Callable[[], Exception]] = {
    "reject": lambda: Rejected("the business says no"),
    "unanswered": lambda: TimeoutError("the read operation timed out"),
    "several": lambda: ExceptionGroup("both", [ConnectionResetError("reset"), Rejected("the business says no")]),
    "fail": lambda: RuntimeError("as was asked for"),
    "stubborn": lambda: RuntimeError("as was asked for"),
}


class Base(Saga[Trial]):
    """Notes what was executed, and misbehaves as asked."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._executions: list[int] = []

    @classmethod
    def create(cls) -> Self:
        """Take the table from the environment."""
        return cls(os.environ["TRIALS_TABLE"])

    @step(timeout=3)
    def begin(self, ctx: Context) -> str:
        """Do something that can be undone."""
        self.note(ctx, "begin")
        return ctx.idempotency_key

    @begin.compensate(retry=Retry.constant(max_retries=1, delay=0.1))
    def undo_begin(self, request: Trial, begin: str, ctx: Context) -> None:
        """Undo it, unless the undo is what is on trial."""
        self.note(ctx, "undo_begin")
        if request.mood == "stubborn" and ctx.attempt <= request.executions:
            raise RuntimeError("cannot be undone")

    def note(self, ctx: Context, what: str) -> None:
        """Record one execution."""
        item = {
            "saga_id": {"S": ctx.saga_id},
            "what": {"S": f"{what}:{ctx.attempt}"},
            "key": {"S": ctx.idempotency_key},
        }
        ctx.client("dynamodb").put_item(TableName=self._table, Item=item)

    def misbehave(self, request: Trial, ctx: Context) -> None:
        """Fail in the way that is asked for."""
        if ctx.attempt > request.executions:
            return
        if request.mood == "exit":
            os._exit(7)
        if request.mood == "hang":
            while True:
                time.sleep(1)
        if request.mood == "dawdle":
            time.sleep(3)
        if request.mood == "remember":
            self._executions.append(ctx.attempt)
            raise RuntimeError(f"this instance has seen {self._executions}")
        if request.mood in RAISES:
            raise RAISES[request.mood]()


class Compensating(Base, name="compensating"):
    """Exhaustion undoes."""

    @step(retry=Retry.exponential(max_retries=5, base_delay=0.2), timeout=3)
    def act(self, request: Trial, ctx: Context) -> None:
        """Misbehave."""
        self.note(ctx, "act")
        self.misbehave(request, ctx)


class Dying(Base, name="dying", stale_after=timedelta(seconds=30)):
    """Its process dies, or takes too long; two executions are allowed."""

    @step(retry=Retry.constant(max_retries=1, delay=0.0), timeout=2)
    def act(self, request: Trial, ctx: Context) -> None:
        """Misbehave."""
        self.note(ctx, "act")
        self.misbehave(request, ctx)


class Holding(Base, name="holding", lock_expiry=timedelta(seconds=2)):
    """Works for as long as it is let, on a lease that only its heartbeat keeps."""

    @step(retry=Retry.constant(max_retries=2, delay=0.0), timeout=60)
    def act(self, request: Trial, ctx: Context) -> str:
        """Work until cancelled; say which process it is."""
        self.note(ctx, f"act by {os.getpid()}")
        if ctx.attempt <= request.executions:
            while ctx.remaining_time() > 0:
                ctx.raise_if_cancelled()
                time.sleep(0.05)
        return "done"


class Brief(Base, name="brief"):
    """Takes three seconds."""

    @step(retry=Retry.constant(max_retries=2, delay=0.0), timeout=4)
    def act(self, request: Trial, ctx: Context) -> str:
        """Work for three seconds, on the first executions; say which process it is."""
        self.note(ctx, f"act by {os.getpid()}")
        if ctx.attempt <= request.executions:
            time.sleep(3)
        return "done"


class Crowded(Base, name="crowded", stale_after=timedelta(seconds=10)):
    """Two at a time are let in: in a crowd, most wait for far longer than what counts as a stall."""

    @step(timeout=3)
    def act(self, request: Trial, ctx: Context) -> None:
        """Take a while."""
        self.note(ctx, "act")
        time.sleep(0.3)


class Waiting(Base, name="waiting"):
    """Exhaustion waits for an operator."""

    @step(retry=Retry.constant(max_retries=1, delay=0.1, on_exhausted=Exhausted.DEAD_LETTER), timeout=3)
    def act(self, request: Trial, ctx: Context) -> None:
        """Misbehave."""
        self.note(ctx, "act")
        self.misbehave(request, ctx)


class Breaking(Base, name="breaking"):
    """Behind a circuit breaker that opens after two failures."""

    @step(
        retry=Retry.constant(max_retries=3, delay=0.1),
        timeout=3,
        circuit_breaker=CircuitBreaker(failure_threshold=2, open_for=3.0),
    )
    def act(self, request: Trial, ctx: Context) -> None:
        """Misbehave."""
        self.note(ctx, "act")
        self.misbehave(request, ctx)
