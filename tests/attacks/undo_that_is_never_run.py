"""An undo that returns a generator instead of running: COMPENSATED, and nothing was undone.

What an undo returns is thrown away, whatever it is. An undo that is a generator is refused when the class is created, but not one behind
a decorator (`functools.wraps` hides it), nor one that returns a list of coroutines, or a `concurrent.futures.Future` that fails. A step
of that kind ends with WrongResult, in doubt; its undo is recorded as StepCompensated.

Run: python -W ignore -m tests.attacks.undo_that_is_never_run
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

logging.disable(logging.CRITICAL)

from sagas import Retry, Saga, step
from sagas.testing import run

DID: list[str] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


def traced(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return wrapper


class Trip(Saga[Req], name="trip"):
    @step
    def pay(self, request: Req) -> str:
        DID.append("paid")
        return "p"

    @pay.compensate
    @traced
    def refund(self, pay: str) -> Any:
        DID.append("refunded")
        yield

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def last(self) -> None:
        raise RuntimeError("no")


outcome = run(Trip, Req())
print(outcome.status, DID, outcome.steps)
print("BROKEN: COMPENSATED, and not refunded" if outcome.status == "COMPENSATED" and "refunded" not in DID else "HELD")
