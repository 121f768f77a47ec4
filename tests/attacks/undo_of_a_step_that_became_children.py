"""A plain step became a step of children under its old name, and a saga past it stayed COMPENSATING for weeks.

The saga ran `mid` as a plain step with an undo. After the deployment a later step failed. One place said that `mid` has an undo, another
that it has none, so the undo neither ran nor failed. Each delivery read the saga 200 times and changed nothing, and the undos of the
earlier steps did not begin. The supervisor counted no stall, because the queue held the message.

Run: python -W ignore -m tests.attacks.undo_of_a_step_that_became_children
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

import pytest
from botocore.client import BaseClient

from sagas import Retry, Saga, children, step
from sagas.authoring.definition.definition import definition_of
from sagas.lock.changes import changes
from sagas.lock.content import content_of
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench, deploy_functions
from tests.support.dynamodb import aws

ONCE = Retry.constant(max_retries=0, delay=0)
DID: list[str] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Kid(Saga[Req], name="kid"):
    @step
    def one(self, request: Req) -> str:
        return "k"


def before() -> Any:
    class Trip(Saga[Req], name="trip"):
        @step
        def book(self, request: Req) -> str:
            DID.append("book")
            return "b"

        @book.compensate
        def unbook(self) -> None:
            DID.append("unbook")

        @step
        def mid(self, request: Req) -> str:
            DID.append("mid")
            return "m"

        @mid.compensate
        def unmid(self) -> None:
            DID.append("unmid")

        @step(retry=ONCE)
        def last(self) -> None:
            raise RuntimeError("no")

    return Trip


def after() -> Any:
    class Trip(Saga[Req], name="trip"):
        @step
        def book(self, request: Req) -> str:
            DID.append("book")
            return "b"

        @book.compensate
        def unbook(self) -> None:
            DID.append("unbook")

        @children(Kid)
        def mid(self, request: Req) -> list[Req]:
            return [request]

        @step(retry=ONCE)
        def last(self) -> None:
            raise RuntimeError("no")

    return Trip


def main() -> None:
    old, new = before(), after()
    for one in changes(content_of([definition_of(old), definition_of(Kid)]), [definition_of(new), definition_of(Kid)]):
        print("sagas check:", "STOPS" if one.breaks else "fits ", one)
    asked: Counter[str] = Counter()
    client: Any = BaseClient
    send = client._make_api_call

    def listening(self: Any, operation: str, parameters: Any) -> Any:
        asked[operation] += 1
        return send(self, operation, parameters)

    client._make_api_call = listening
    globals().update(OLD=old, NEW=new)
    old.__qualname__, new.__qualname__, old.__module__, new.__module__ = "OLD", "NEW", __name__, __name__
    with aws():
        stack = HandmadeStack(new, Kid)
        stack.classes = (old, Kid)
        limits = {"SAGAS_MAX_RECEIVES": str(stack.max_receives["trip/mid"])}  # as the construct sets it
        with pytest.MonkeyPatch.context() as patch:
            bench = deploy_functions(patch, stack, Bench, **limits)
            saga = bench.start("trip", {"item": "x"})
            bench.invoke("trip", "book")
            bench.invoke("trip", "mid")
        stack.classes = (new, Kid)
        with pytest.MonkeyPatch.context() as patch:  # the deployment
            bench = deploy_functions(patch, stack, Bench, **limits)
            bench.invoke("trip", "last")
            deliveries, minutes, minute = 0, 24 * 60, 0
            for minute in range(minutes):  # of those that come each second, one in five minutes is played
                if minute % 5 == 0:
                    asked.clear()
                    deliveries += bench.invoke("trip", "mid") + bench.invoke("trip", "book")
                bench.clock.advance(60)
                bench.recover()
                if bench.state(saga).ended:
                    break
            state = bench.state(saga)
            print("the last delivery and five looks of the supervisor asked for", dict(asked))
            print(
                f"{minute + 1} minutes later: {state.status}, {deliveries} deliveries, stalls {state.recovery.attempts}"
            )
            print("did", DID, "| needs a person:", bool(state.attention), "| dead letters:", bench.dead_letters("trip"))
            print("audit trail:", bench.actions(saga))
        held = state.ended or bool(state.attention)
        print("HELD" if held else "BROKEN: neither over nor on the list of those that need a person")


main()
