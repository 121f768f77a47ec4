"""A pause outlasts the patience of a step that raises `NotYet`. Once the type is resumed, the saga looks once and is undone.

docs/operations/pause.md promises that a parked saga uses up nothing. But the step's patience ran on while nobody could look: a pause
of eight hours undid every saga whose step had six, though the bank would have answered ten minutes later.

Run: python -W ignore -m tests.attacks.patience_runs_out_in_a_pause
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from datetime import timedelta

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import NotYet, Saga, step
from tests.support.bench import Bench
from tests.support.dynamodb import aws

DID: list[str] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Trip(Saga[Req], name="trip"):
    @step
    def book(self, request: Req) -> None:
        DID.append("book")

    @book.compensate
    def unbook(self) -> None:
        DID.append("unbook")

    @step(poll_timeout=timedelta(hours=6))
    def pay(self, request: Req) -> None:
        DID.append("look")
        raise NotYet(after=1_800, message="the bank")


def main() -> None:
    with aws():
        bench = Bench(Trip)
        saga = bench.start("trip", {"item": "x"})
        bench.deliver("trip", "book")
        bench.deliver("trip", "pay")
        bench.engine.pausing.pause("trip", "ada", "the bank is down")
        for _ in range(16):
            bench.clock.advance(1_860)
            bench.recover()
            bench.deliver("trip", "pay")
        print("paused for eight hours:", bench.status(saga), DID, "parked:", bench.state(saga).paused)
        bench.engine.pausing.resume("trip", "ada")
        for _ in range(6):
            bench.clock.advance(10)
            bench.deliver("trip", "pay")
            bench.deliver("trip", "book")
        print("resumed:", bench.status(saga), DID, bench.show(saga)["error"])
        print("BROKEN: undone for the time of the pause" if "unbook" in DID else "HELD")


main()
