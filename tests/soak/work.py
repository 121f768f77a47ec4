"""What the steps of the soaked sagas have in common: what they are asked for, where they book, how they misbehave."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from functions.ledger import Ledger
from functions.stock import Stock
from sagas import Context, PermanentError, Rejected

SERVICE = "soak"
"""The id of the service, from which the ids of its sagas are made."""
_BULK = 20_000
"""Characters: more than a journal entry keeps."""


@dataclass(frozen=True)
class Order:
    """What a saga is to do, and how it is to misbehave.

    Args:
        number: of the saga in its run.
        sku: what is bought.
        quantity: how many.
        cents: for how much.
        mood: ``calm``, ``fail``, ``permanent``, ``kill`` (the process) or ``hang``.
        at: the step or undo that misbehaves.
        times: how many of its executions do.
        refused: the step to which the business says no.
    """

    number: int
    sku: str
    quantity: int
    cents: int
    mood: str = "calm"
    at: str = ""
    times: int = 0
    refused: str = ""


@dataclass(frozen=True)
class Taken:
    """A booking: its key, and how much was booked."""

    key: str
    amount: int


class Mismatch(PermanentError):
    """A step was given what no other step has returned. Nothing may cause this."""


class Work:
    """One execution of a step: its effects, each under the key that all its attempts share.

    Args:
        ctx: of the execution.
        name: of the step or undo.
        order: the saga's request.
    """

    def __init__(self, ctx: Context, name: str, order: Order) -> None:
        self._ctx = ctx
        self._name = name
        self._order = order
        self._dynamodb: Any = ctx.client("dynamodb")
        self._note()

    def _note(self) -> None:
        """Put the execution on record, under a key that no other execution can have."""
        ctx = self._ctx
        item = {
            "saga_id": {"S": ctx.saga_id},
            "what": {"S": f"{time.time():.6f} {self._name} {os.getpid()}"},
            "step": {"S": ctx.step},
            "undo": {"BOOL": self._name != ctx.step},
            "attempt": {"N": str(ctx.attempt)},
            "key": {"S": ctx.idempotency_key},
            "attempt_key": {"S": ctx.attempt_key},
            "at": {"N": f"{time.time():.6f}"},
            "deadline": {"N": f"{ctx.deadline.timestamp():.6f}"},
        }
        self._dynamodb.put_item(TableName=os.environ["SOAK_EXECUTIONS"], Item=item)

    def reserve(self) -> Taken:
        """Take the ordered items out of stock, and misbehave once that is done."""
        key = self._ctx.idempotency_key
        self._stock.reserve(key, {self._order.sku: self._order.quantity})
        self.misbehave()
        return Taken(key, self._order.quantity)

    def release(self) -> None:
        """Put them back."""
        self._stock.release(self._ctx.forward_key)

    def charge(self) -> Taken:
        """Take the money, and misbehave once that is done."""
        key, amount = self._ctx.idempotency_key, Decimal(self._order.cents).scaleb(-2)
        self._ledger.capture(key, order_id=str(self._order.number), card="tok_visa", amount=amount)
        self.misbehave()
        return Taken(key, self._order.cents)

    def refund(self) -> None:
        """Give it back."""
        self._ledger.refund(self._ctx.idempotency_key, capture_key=self._ctx.forward_key)

    def expect(self, found: object, wanted: object) -> None:
        """Check a result that was handed over."""
        if found != wanted:
            raise Mismatch(f"{self._name} was given another result")

    def expect_taken(self, taken: Taken | None, step: str, amount: int) -> None:
        """Check a booking that was handed over; there is none where its step has no result."""
        if taken is not None:
            self.expect(taken, Taken(f"{self._ctx.saga_id}:{step}", amount))

    def misbehave(self) -> None:
        """Do what the order's mood says, if it is this step's turn."""
        order, ctx = self._order, self._ctx
        if order.refused == self._name:
            raise Rejected("as was asked for")
        if order.at != self._name or ctx.attempt > order.times:
            return
        match order.mood:
            case "fail":
                raise RuntimeError("as was asked for")
            case "permanent":
                raise PermanentError("as was asked for")
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(900)
            case _:
                pass

    @property
    def _stock(self) -> Stock:
        return Stock(self._dynamodb, os.environ["STOCK_TABLE"])

    @property
    def _ledger(self) -> Ledger:
        return Ledger(self._dynamodb, os.environ["LEDGER_TABLE"])


def parts_of(order: Order) -> list[Order]:
    """What an order's children are asked for: three, the second of which misbehaves as the order says of ``part``."""
    calm = Order(order.number, order.sku, 1, order.cents)
    second = replace(calm, mood="permanent", at="charge", times=99) if order.at == "part" else calm
    return [calm, second, calm]


def bulk_of(order: Order) -> str:
    """A result too large for a journal entry, the same on every attempt."""
    line = f"{order.number}:{order.sku};"
    return (line * (_BULK // len(line) + 1))[:_BULK]
