"""Results across releases: a saga keeps the step that gives its result, whatever is deployed when somebody asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sagas import Exhausted, Saga, children, step
from sagas.core.events import GONE
from sagas.core.ids import child_id
from tests.support.bench import Bench, Make
from tests.support.sagas import LOG, Order, act

REQUEST = {"item": "train"}
PRICE = "1" * 20_000
"""A result that is stored in S3."""


class First(Saga[Order], name="quote", result="price"):
    """The first release: its result is that of a step in the middle."""

    @step
    def draft(self, request: Order) -> str:
        return "draft"

    @step
    def price(self, request: Order) -> str:
        return PRICE

    @step
    def tell(self, request: Order) -> str:
        return "told"


class Second(Saga[Order], name="quote"):
    """The second: its result is that of the last step, which is new."""

    draft = First.draft
    price = First.price
    tell = First.tell

    @step
    def archive(self, request: Order) -> str:
        return "archived"


class Ordering(Saga[Order], name="ordering"):
    """It waits for two quotes."""

    @children(First, on_failed=Exhausted.CONTINUE)
    def quotes(self, request: Order) -> list[Order]:
        return [request, request]

    @step
    def close(self, quotes: list[str | None], ctx: Any) -> str:
        act("close", ctx)
        return " and ".join(map(str, quotes))


def started(b: Bench) -> str:
    """An ordering whose quotes have begun."""
    saga_id = b.start("ordering", REQUEST)
    b.deliver("ordering", "quotes")
    b.end_waits()
    return saga_id


def test_a_saga_shows_the_result_of_the_step_that_its_own_release_named(bench: Make) -> None:
    b = bench(Second)
    b.engine = b.deploy(First)
    old = b.start("quote", REQUEST)
    b.run()
    b.engine = b.deploy(Second)
    new = b.start("quote", REQUEST)
    b.run()
    assert [b.show(saga_id)["result"] for saga_id in (old, new)] == [PRICE, "archived"]
    assert [b.state(saga_id).result_step.name for saga_id in (old, new)] == ["price", "archive"]


def test_children_are_joined_by_the_step_that_their_own_release_named(bench: Make) -> None:
    b = bench(Ordering, Second)
    b.engine = b.deploy(Ordering, First)
    saga_id = started(b)
    b.engine = b.deploy(Ordering, Second)
    b.run()
    assert b.show(saga_id)["result"] == f"{PRICE} and {PRICE}"


class Offer(Saga[Order], name="offer"):
    """Its result is that of its last step."""

    @step
    def draft(self, request: Order) -> str:
        return "draft price"

    @step
    def final(self, request: Order) -> str:
        return "final price"


class Gained(Saga[Order], name="offer"):
    """It has another last step."""

    draft = Offer.draft
    final = Offer.final

    @step
    def archive(self, request: Order) -> str:
        return "archived"


class Moved(Saga[Order], name="offer"):
    """Its steps have another order."""

    final = Offer.final
    draft = Offer.draft


class Retired(Saga[Order], name="offer"):
    """Its last step is retired."""

    draft = Offer.draft

    @step(retired=True)
    def final(self, request: Order) -> str:
        return "final price"


class Buying(Saga[Order], name="buying"):
    """It waits for an offer, which may not be null."""

    @children(Offer)
    def offers(self, request: Order) -> list[Order]:
        return [request]

    @step
    def close(self, offers: list[str]) -> str:
        return offers[0]


@pytest.mark.parametrize("later", [Gained, Moved, Retired])
def test_a_child_that_ended_before_a_release_keeps_the_result_of_its_own_last_step(
    bench: Make, later: type[Any]
) -> None:
    b = bench(Buying, Offer)
    alone, parent = b.start("offer", REQUEST), b.start("buying", REQUEST)
    b.deliver("buying", "offers")
    b.end_waits()
    for name in ("draft", "final"):
        while b.deliver("offer", name) is not None:
            pass
    assert b.status(parent) == "WAITING"
    b.engine = b.deploy(Buying, later)
    b.run()
    assert [b.show(saga_id)["result"] for saga_id in (alone, parent)] == ["final price"] * 2


def _without(b: Bench, table: str, key: dict[str, Any]) -> Callable[[], object]:
    item = b.stack.dynamodb.get_item(TableName=table, Key=key)["Item"]
    b.stack.dynamodb.delete_item(TableName=table, Key=key)
    return lambda: b.stack.dynamodb.put_item(TableName=table, Item=item)


def _without_control_item(b: Bench, child: str) -> Callable[[], object]:
    return _without(b, b.stack.sagas_table, {"saga_id": {"S": child}})


def _without_entry(b: Bench, child: str) -> Callable[[], object]:
    return _without(b, b.stack.audit_table, {"saga_id": {"S": child}, "seq": {"N": "3"}})


def _without_object(b: Bench, child: str) -> Callable[[], object]:
    objects = b.stack.s3.list_objects_v2(Bucket=b.stack.bucket)["Contents"]
    place = {"Bucket": b.stack.bucket, "Key": next(one["Key"] for one in objects if f"{child}/3" in one["Key"])}
    body = b.stack.s3.get_object(**place)["Body"].read()
    b.stack.s3.delete_object(**place)
    return lambda: b.stack.s3.put_object(**place, Body=body)


@pytest.mark.parametrize(
    ("lose", "why"),
    [(_without_control_item, "is missing"), (_without_entry, "is missing"), (_without_object, GONE)],
)
def test_a_result_of_a_completed_child_that_cannot_be_read_is_not_null(
    bench: Make, lose: Callable[[Bench, str], Callable[[], object]], why: str
) -> None:
    """The parent waits for an operator, whatever its step says. Once the result is back, a retry joins again."""
    b = bench(Ordering, First)
    saga_id = started(b)
    for name in ("draft", "price", "tell"):
        while b.deliver("quote", name) is not None:
            pass
    child = child_id(saga_id, "quotes", 1)
    put_back = lose(b, child)
    b.run()
    shown = b.show(saga_id)
    text = f"the result of child quotes[1], saga {child}, {why}"
    assert (shown["status"], LOG) == ("DEAD_LETTERED", [])
    assert shown["error"] == {"step": "quotes", "type": "TypeChanged", "message": text}
    assert shown["steps"][0]["error"] == {"type": "TypeChanged", "message": text}
    assert shown["attention"]["reason"] == f"{text}: restore it and retry, or compensate"
    put_back()
    b.engine.operations.retry("ordering", saga_id, "restored", "ann")
    b.run()
    assert (b.status(saga_id), b.actions(child).count("StepCompleted")) == ("COMPLETED", 3)
    assert b.show(saga_id)["result"] == " and ".join([PRICE] * 2)


class Hotel(Saga[Order], name="hotel"):
    """A child."""

    @step
    def book(self, request: Order) -> str:
        return "a hotel"


class Flight(Saga[Order], name="flight"):
    """Another, whose result has the same type."""

    @step
    def book(self, request: Order) -> str:
        return "a flight"


def trip(first: Any, second: Any) -> Any:
    """A parent of both, in this order."""

    class Parts(Saga[Order], name="parts"):
        @step
        def hold(self, request: Order) -> None: ...

        @children(first, second)
        def parts(self, request: Order) -> tuple[Order, Order]:
            return request, request

        @step
        def close(self, parts: tuple[str, str], ctx: Any) -> str:
            act("close", ctx)
            return " and ".join(parts)

    return Parts


def test_children_in_another_order_do_not_take_each_others_places(bench: Make) -> None:
    old, new = (trip(Hotel, Flight), Hotel, Flight), (trip(Flight, Hotel), Hotel, Flight)
    b = bench(*new)
    b.engine = b.deploy(*old)
    saga_id = b.start("parts", REQUEST)
    b.deliver("parts", "hold")
    b.deliver("parts", "parts")
    b.engine = b.deploy(*new)
    b.run()
    shown = b.show(saga_id)
    change = "its children have other types now, or another order"
    text = f"the result of step 'parts' no longer matches tuple[str, str]: {change}"
    assert (shown["status"], LOG) == ("DEAD_LETTERED", [])
    assert shown["error"] == {"step": "close", "type": "TypeChanged", "message": text}
    assert shown["steps"][2]["attempts"] == 0
    b.engine = b.deploy(*old)
    b.engine.operations.retry("parts", saga_id, "rolled back", "ann")
    b.run()
    assert b.show(saga_id)["result"] == "a hotel and a flight"


def test_a_new_saga_takes_them_in_the_new_order(bench: Make) -> None:
    b = bench(trip(Flight, Hotel), Hotel, Flight)
    saga_id = b.start("parts", REQUEST)
    b.run()
    assert b.show(saga_id)["result"] == "a flight and a hotel"
