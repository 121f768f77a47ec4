"""`@children(Hotel, Flight)` became `@children(Flight, Hotel)`, and sagas in flight passed the hotel's result on as the flight's.

The types of the children say what each place of the tuple means. Nothing recorded them, so if both results had the same type, the next
step took each for the other, and `sagas check` found no change.

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
