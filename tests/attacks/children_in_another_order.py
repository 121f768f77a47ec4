"""`@children(Hotel, Flight)` becomes `@children(Flight, Hotel)`: sagas in flight hand the hotel's result over as the flight's.

What a tuple's places mean is told by the types of the children, and these are in no lock file: where the results have the same type
`sagas check` finds no change at all, and the steps after the join take each other's results.

Run: python -W ignore -m tests.attacks.children_in_another_order
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Saga, children, step
from sagas.authoring.definition.definition import definition_of
from sagas.lock.changes import changes
from sagas.lock.content import content_of
from tests.support.bench import Bench
from tests.support.dynamodb import aws

TAKEN: list[tuple[str, str]] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Hotel(Saga[Req], name="hotel"):
    @step
    def book(self, request: Req) -> str:
        return "a hotel"


class Flight(Saga[Req], name="flight"):
    @step
    def book(self, request: Req) -> str:
        return "a flight"


def release(first: Any, second: Any) -> Any:
    class Trip(Saga[Req], name="trip"):
        @children(first, second)
        def parts(self, request: Req) -> tuple[Req, Req]:
            return request, request

        @step
        def close(self, parts: tuple[str, str]) -> None:
            TAKEN.append(parts)

    return Trip


def main() -> None:
    old, new, kids = release(Hotel, Flight), release(Flight, Hotel), (Hotel, Flight)
    locked = content_of([definition_of(one) for one in (old, *kids)])
    found = changes(locked, [definition_of(one) for one in (new, *kids)])
    print("sagas check finds:", [str(one) for one in found])
    with aws():
        bench = Bench(new, *kids)
        bench.engine = bench.deploy(old, *kids)
        saga = bench.start("trip", {"item": "x"})
        bench.deliver("trip", "parts")
        bench.engine = bench.deploy(new, *kids)
        bench.run()
        print(bench.status(saga), "close, which expects (flight, hotel), was called with", TAKEN)
        silent = not found and TAKEN == [("a hotel", "a flight")]
        print("BROKEN: taken for each other, and no check says so" if silent else "HELD")


main()
