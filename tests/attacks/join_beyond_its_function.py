"""The results of many children are joined in one go: a join that does not fit its function's time or memory never ends.

`Children._end` reads all results, one S3 object after the other where they are over 16 KB, keeps them, and writes them as one payload
that is held against no limit (a step's own result may have 4,000,000 bytes). It runs in the function `now`, which has 30 seconds and
512 MB by default, and begins from nothing each time. 10,000 children are allowed, each with a result of 4 MB.

- Time: one GET after the other. At 25 ms each, 1,200 children with a result over 16 KB are beyond 30 seconds.
- Memory: about seven times the bytes of the joined result, so some 55 MB of results are beyond 512 MB.

The parent stays WAITING, its children COMPLETED; it is on nobody's list, and the supervisor asks for the same again, in the end every
six hours, for ever. Each try kills the function `now` in the middle of a batch of ten, which ends waits of other sagas.

Played here to scale: 60 children, a GET takes 25 ms, and the function is stopped after one second instead of thirty.

Run: python -W ignore -m tests.attacks.join_beyond_its_function
"""

from __future__ import annotations

import logging
import os
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from botocore.client import BaseClient

from sagas import Saga, children, step
from sagas.engine.children import Children
from tests.support.bench import Bench, Death
from tests.support.dynamodb import aws

LATENCY, LIMIT = 0.025, 1.0


@dataclass(frozen=True)
class Req:
    number: int
    size: int


class Kid(Saga[Req], name="kid"):
    @step
    def one(self, request: Req) -> str:
        return "k" * request.size


class Trip(Saga[Req], name="trip"):
    @children(Kid, concurrency=100)
    def parts(self, request: Req) -> list[Req]:
        return [Req(number, request.size) for number in range(request.number)]

    @step
    def close(self, parts: list[str]) -> int:
        return len(parts)


def main() -> None:
    wire: Any = BaseClient
    joining: Any = Children
    send, end, began, asked = wire._make_api_call, joining._end, [0.0], Counter[str]()

    def slow(self: Any, operation: str, parameters: Any) -> Any:
        if began[0]:
            asked[operation] += 1
        if began[0] and operation == "GetObject":
            time.sleep(LATENCY)
            if time.monotonic() - began[0] > LIMIT:
                raise Death  # Lambda stops the function
        return send(self, operation, parameters)

    def timed(self: Any, *given: Any) -> Any:
        began[0] = time.monotonic()
        try:
            return end(self, *given)
        finally:
            began[0] = 0.0

    wire._make_api_call, joining._end = slow, timed
    with aws():
        bench = Bench(Trip, Kid)
        saga, tries = bench.start("trip", {"number": 60, "size": 20_000}), 0
        for _ in range(40):
            try:
                bench.run()
            except Death:
                tries += 1
            bench.clock.advance(21_600)
            bench.recover()
            if tries == 10 or bench.state(saga).ended:
                break
        kids = Counter(one["status"] for one in bench.engine.reader.children(saga, 100, None)["sagas"])
        print(
            f"time: after {tries} tries: parent {bench.status(saga)}, children {dict(kids)}, of the tries {dict(asked)}"
        )
        print("      on the list of those that need a person:", bench.engine.reader.attention(None, 10, None)["sagas"])
        stuck = bench.status(saga) == "WAITING"

    wire._make_api_call, joining._end = send, end

    def measured(self: Any, *given: Any) -> Any:
        tracemalloc.start()
        try:
            return end(self, *given)
        finally:
            print(f"memory: 20 results of 1 MB joined: {tracemalloc.get_traced_memory()[1] / 1e6:.0f} MB at most")
            tracemalloc.stop()

    joining._end = measured
    from tests.support.aws import HandmadeStack

    with aws():
        bench = Bench(stack=HandmadeStack(Trip, Kid, prefix="large"))
        saga = bench.start("trip", {"number": 20, "size": 1_000_000})
        bench.run()
        state = bench.state(saga)
        entry = bench.engine.journal.entries(saga, [state.steps[0].result_seq]).get(state.steps[0].result_seq)
        size = 0 if entry is None else len(bench.engine.journal.load(entry).payload or "")
        print(f"        and stored as one result of {size:,} bytes, where a step may return 4,000,000")
    joining._end = end
    print("BROKEN: the join never ends" if stuck else "HELD")


main()
