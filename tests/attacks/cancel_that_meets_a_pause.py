"""A cancel that is accepted while a worker parks its saga is carried out by nobody until the type is resumed.

A caller's cancel reads the saga; a worker that believes in a pause parks it, and deletes its message; then the cancel's flag is written.
The write's condition knows no parking, and as the saga was not parked when it was read, the flag does not bring it back into the index
of what is due. If the API's process ends there (its 29 seconds are over, DynamoDB fails from then on), nobody looks at the saga: "an
accepted cancel is carried out even if the process that took it dies" holds for every other state. It lasts as long as the pause.

Run: python -W ignore -m tests.attacks.cancel_that_meets_a_pause
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Saga, step
from tests.support.bench import Bench, Death
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

    @step
    def pay(self, request: Req) -> None:
        DID.append("pay")


def main() -> None:
    with aws():
        bench = Bench(Trip)
        saga = bench.start("trip", {"item": "x"})
        bench.deliver("trip", "book")
        bench.engine.pausing.pause("trip", "ada", "an incident")
        bench.clock.advance(10)
        control = type(bench.engine.control)
        request_cancel = control.request_cancel

        def racing(self: Any, before: Any, after: Any) -> bool:
            control.request_cancel = request_cancel
            bench.deliver("trip", "pay")  # a worker parks it
            print("the cancel is accepted:", request_cancel(self, before, after))
            raise Death

        control.request_cancel = racing
        try:
            bench.engine.operations.cancel("trip", saga, "eve")
        except Death:
            print("and the process that accepted it dies")
        for _ in range(30):
            bench.clock.advance(86_400)
            bench.recover()
            bench.run()
        state = bench.state(saga)
        print(f"30 days later: {state.status}, cancel accepted: {state.cancel.at > 0}, parked: {state.paused}, {DID}")
        print("BROKEN: the accepted cancel was forgotten" if not state.ended else "HELD")


main()
