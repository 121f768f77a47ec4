"""The steps of a child type changed their order, or its last step retired, and the parent got another step's result.

The cause is that of result_of_a_child_that_gained_a_step.py: the join asked the deployed type which step has a child's result. Children
that had started earlier ended with their own last step. The join took what an earlier step had returned, if it had the same type.

Run: python -W ignore -m tests.attacks.result_of_a_child_whose_steps_moved
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
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench
from tests.support.dynamodb import aws


@dataclass(frozen=True)
class Req:
    item: str = "x"


def release(what: str) -> tuple[Any, Any]:
    if what == "moved":

        class Quote(Saga[Req], name="quote"):  # pyright: ignore[reportRedeclaration]
            @step
            def final(self, request: Req) -> str:
                return "final price"

            @step
            def draft(self, request: Req) -> str:
                return "draft price"
    else:

        class Quote(Saga[Req], name="quote"):
            @step
            def draft(self, request: Req) -> str:
                return "draft price"

            @step(retired=what == "retired")
            def final(self, request: Req) -> str:
                return "final price"

    class Order(Saga[Req], name="order"):
        @children(Quote)
        def quotes(self, request: Req) -> list[Req]:
            return [Req("a")]

        @step
        def close(self, quotes: list[str]) -> str:
            return quotes[0]

    return Order, Quote


def main() -> None:
    old, broken = release("first"), False
    for what in ("moved", "retired"):
        new = release(what)
        for one in changes(content_of(map(definition_of, old)), list(map(definition_of, new))):
            print("sagas check:", "STOPS" if one.breaks else "fits ", one)
        with aws():
            bench = Bench(stack=HandmadeStack(*old, prefix=what))
            order = bench.start("order", {"item": "x"})
            bench.deliver("order", "quotes")
            bench.end_waits()
            bench.deliver("quote", "draft")
            bench.deliver("quote", "final")  # the child is COMPLETED; its parent is looked after a moment later
            bench.engine = bench.deploy(*new)
            bench.run()
            shown = bench.show(order)
            print(
                f"{what}: {shown['status']}, the child's last step returned 'final price', the parent was given",
                shown["result"],
            )
            broken = broken or shown["result"] != "final price"
    print("BROKEN: another step's result was joined" if broken else "HELD")


main()
