"""What a step of children asked for cannot wait out an outage: its message is refused as malformed, the attempt is lost, the saga undone.

"A finished step's outcome waits in its queue and is committed later, without running the step again." For ChildrenStarted the worker
sends that message, but `parse_record` refuses it: `pending_commit._SUCCESSES` does not know the action, and no payload is allowed but for
StepCompleted. So after an outage of DynamoDB of some seconds each such message goes to the dead letters ("the message is not valid:
$.commit.action"), of a saga that is RUNNING; redriving it is refused again. The supervisor finds the lease expired and journals StepLost:
an attempt is used up, the code asks once more, and where no attempt is left the saga is undone.

Run: python -W ignore -m tests.attacks.outcome_of_children_in_an_outage
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Retry, Saga, children, step
from sagas.errors import InvalidRequest, Unavailable
from tests.support.bench import Bench
from tests.support.dynamodb import aws

DID: list[str] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Kid(Saga[Req], name="kid"):
    @step
    def one(self, request: Req) -> str:
        return "k"


class Trip(Saga[Req], name="trip"):
    @step
    def pack(self, request: Req) -> None:
        DID.append("pack")

    @pack.compensate
    def unpack(self) -> None:
        DID.append("unpack")

    @children(Kid, retry=Retry.constant(max_retries=0, delay=0))
    def parts(self, request: Req) -> list[Req]:
        DID.append("parts asked")
        return [request, request]

    @step
    def close(self, parts: list[str]) -> int:
        return len(parts)


def main() -> None:
    with aws():
        bench = Bench(Trip, Kid)
        saga = bench.start("trip", {"item": "x"})
        bench.deliver("trip", "pack")
        journal, runner = type(bench.engine.journal), type(bench.engine.services.runner)
        put, run, down = journal.put, runner.run, [False]

        def failing(self: Any, entry: Any) -> Any:
            if down[0]:
                raise Unavailable("DynamoDB is out of reach")
            return put(self, entry)

        def running(self: Any, *given: Any, **named: Any) -> Any:
            result = run(self, *given, **named)
            down[0] = True
            return result

        journal.put, runner.run = failing, running
        print("the outcome cannot be committed:", bench.deliver("trip", "parts"))
        down[0], journal.put, runner.run = False, put, run
        refused = None
        try:
            bench.deliver("trip", "parts")
        except InvalidRequest as error:
            refused = error
            print("DynamoDB is back, the message comes:", refused)
        for _ in range(3):
            bench.clock.advance(600)
            bench.recover()
            while bench.deliver("trip", "pack"):
                pass
        print(bench.status(saga), DID, bench.actions(saga))
        print(
            "HELD" if refused is None else "BROKEN: the outcome was lost, and a letter is dead that nobody can redrive"
        )


main()
