"""A child that is DEAD_LETTERED and is settled by `resolve`: its parent waits for ever, and is on nobody's list.

The runbook offers `sagas resolve NAME ID --reason "why"` for a dead letter that was "settled in another way". Of a child that takes it off
the attention list, and leaves it DEAD_LETTERED: it never ends, so neither does its parent's join. The parent is WAITING, needs no
person by its own account, has no alarm, and is looked at every six hours for ever. Neither it nor its tree is ever purged.
With three levels the same happens to all above (`resolve` of a grandchild).

Run: python -W ignore -m tests.attacks.child_that_was_settled
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Exhausted, Retry, Saga, children, step
from sagas.errors import Conflict
from tests.support.bench import Bench
from tests.support.dynamodb import aws


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Kid(Saga[Req], name="kid"):
    @step(retry=Retry.constant(max_retries=0, delay=0, on_exhausted=Exhausted.DEAD_LETTER))
    def pay(self, request: Req) -> str:
        if request.item == "bad":
            raise RuntimeError("no")
        return "paid"


class Trip(Saga[Req], name="trip"):
    @children(Kid)
    def parts(self, request: Req) -> list[Req]:
        return [Req("good"), Req("bad")]

    @step
    def close(self, parts: list[str]) -> int:
        return len(parts)


def main() -> None:
    with aws():
        bench = Bench(Trip, Kid)
        saga = bench.start("trip", {"item": "x"})
        bench.run()
        page = bench.engine.reader.children(saga, 10, None)["sagas"]
        bad = next(one["saga_id"] for one in page if one["status"] == "DEAD_LETTERED")
        try:
            bench.engine.operations.resolve("kid", bad, "paid by hand", "paid", (), "ada")
        except Conflict as refused:
            print("HELD: refused:", refused)
            return
        for _ in range(90):
            bench.clock.advance(86_400)
            bench.recover()
            bench.run()
        needy = bench.engine.reader.attention(None, 10, None)["sagas"]
        print("90 days later: parent", bench.status(saga), "child", bench.status(bad), "| need a person:", needy)
        print(
            "HELD"
            if bench.status(saga) != "WAITING" or needy
            else "BROKEN: the parent waits for ever, and nobody is told"
        )


main()
