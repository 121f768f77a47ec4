"""A step of children became a plain step under its old name, and its effect was not undone in a COMPENSATED saga.

The saga reached `mid` after the deployment and ran it as the plain step that it is now, such as a charge. A later step failed. Undoing
went by the old kind: a step of children that has started none has nothing to undo. So the charge stayed, the saga was COMPENSATED, and
no list named it.

Run: python -W ignore -m tests.attacks.undo_of_children_that_became_a_step
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Retry, Saga, children, step
from sagas.authoring.definition.definition import definition_of
from sagas.lock.changes import changes
from sagas.lock.content import content_of
from tests.support.bench import Bench
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


class Other(Saga[Req], name="other"):
    """Some saga of the service has children still."""

    @children(Kid)
    def kids(self, request: Req) -> list[Req]:
        return []

    @step
    def end(self) -> None: ...


def before() -> Any:
    class Trip(Saga[Req], name="trip"):
        @step
        def zero(self, request: Req) -> str:
            return "z"

        @children(Kid)
        def mid(self, request: Req) -> list[Req]:
            return [request]

        @step(retry=ONCE)
        def last(self) -> None:
            raise RuntimeError("no")

    return Trip


def after() -> Any:
    class Trip(Saga[Req], name="trip"):
        @step
        def zero(self, request: Req) -> str:
            return "z"

        @step(retry=ONCE)
        def mid(self, request: Req) -> str:
            DID.append("charged")
            return "charge-1"

        @mid.compensate
        def unmid(self) -> None:
            DID.append("refunded")

        @step(retry=ONCE)
        def last(self) -> None:
            raise RuntimeError("no")

    return Trip


def main() -> None:
    old, new = before(), after()
    for one in changes(content_of([definition_of(old), definition_of(Kid)]), [definition_of(new), definition_of(Kid)]):
        print("sagas check:", "STOPS" if one.breaks else "fits ", one)
    with aws():
        bench = Bench(new, Kid, Other)
        bench.engine = bench.deploy(old, Kid, Other)
        saga = bench.start("trip", {"item": "x"})
        bench.deliver("trip", "zero")
        bench.engine = bench.deploy(new, Kid, Other)
        bench.run()
        state = bench.state(saga)
        print(state.status, "did", DID, "steps", [(one.name, one.status.value) for one in state.steps])
        print("in doubt", state.in_doubt, "needs a person", bool(state.attention), "|", bench.actions(saga))
        print("HELD" if DID.count("charged") == DID.count("refunded") else "BROKEN: COMPENSATED, and the charge stands")


main()
