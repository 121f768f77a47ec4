"""A child type gained a last step, and the results of children in flight became null in their parent's journal for good.

The parent's join asked the deployed type which step has a child's result. Children that had started earlier did not have that step, so
their results were joined as null although they were COMPLETED. The parent's next step was refused (TypeChanged). The nulls were in the
journal, so neither a retry nor the old code helped. If the type of the results allowed None, the next step took these children for
failed ones. A saga that had COMPLETED long before showed `"result": null` after the deployment, too.

Run: python -W ignore -m tests.attacks.result_of_a_child_that_gained_a_step
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Exhausted, Retry, Saga, children, step
from sagas.authoring.definition.definition import definition_of
from sagas.errors import Conflict
from sagas.lock.changes import changes
from sagas.lock.content import content_of
from tests.support.bench import Bench
from tests.support.dynamodb import aws

TAKEN: list[Any] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


def release(number: int) -> tuple[Any, Any, Any]:
    if number == 1:

        class Parcel(Saga[Req], name="parcel"):  # pyright: ignore[reportRedeclaration]
            @step
            def book(self, request: Req) -> str:
                return f"label {request.item}"
    else:

        class Parcel(Saga[Req], name="parcel"):
            @step
            def book(self, request: Req) -> str:
                return f"label {request.item}"

            @step
            def tell(self, book: str) -> str:
                return f"told of {book}"

    class Delivery(Saga[Req], name="delivery"):
        @children(Parcel)
        def parcels(self, request: Req) -> list[Req]:
            return [Req("a"), Req("b")]

        @step
        def close(self, parcels: list[str]) -> str:
            TAKEN.append(parcels)
            return ", ".join(parcels)

    class Lenient(Saga[Req], name="lenient"):
        @children(Parcel, tolerate=1, on_failed=Exhausted.CONTINUE)
        def parcels(self, request: Req) -> list[Req]:
            return [Req("a"), Req("b")]

        @step(retry=Retry.constant(max_retries=0, delay=0))
        def close(self, parcels: list[str | None]) -> int:
            TAKEN.append(parcels)
            return len([one for one in parcels if one is not None])

    return Delivery, Lenient, Parcel


def main() -> None:
    old, new = release(1), release(2)
    for one in changes(content_of(map(definition_of, old)), list(map(definition_of, new))):
        print("sagas check:", "STOPS" if one.breaks else "fits ", one)
    with aws():
        bench = Bench(*new)
        bench.engine = bench.deploy(*old)
        alone = bench.start("parcel", {"item": "alone"})
        strict, lenient = bench.start("delivery", {"item": "x"}), bench.start("lenient", {"item": "x"})
        bench.deliver("delivery", "parcels")
        bench.deliver("lenient", "parcels")
        bench.end_waits()
        while bench.deliver("parcel", "book"):
            pass
        print("before the deployment, a parcel of its own:", bench.show(alone)["status"], bench.show(alone)["result"])
        bench.engine = bench.deploy(*new)
        bench.run()
        print("after it:", bench.show(alone)["status"], bench.show(alone)["result"])
        for saga in (strict, lenient):
            kids = [one["status"] for one in bench.engine.reader.children(saga, 10, None)["sagas"]]
            shown = bench.show(saga)
            print(
                shown["type"],
                shown["status"],
                "children",
                kids,
                "joined as",
                shown["steps"][0]["result"],
                shown["error"],
            )
        print("close was called with", TAKEN)
        bench.engine = bench.deploy(*old)  # back to the old code, which fits
        with suppress(Conflict):  # it has completed
            bench.engine.operations.retry("delivery", strict, "rolled back", "me")
        bench.run()
        print("rolled back and retried:", bench.status(strict))
        lost = bench.show(strict)["steps"][0]["result"] == [None, None]
        print("BROKEN: results of completed children are lost" if lost else "HELD")


main()
