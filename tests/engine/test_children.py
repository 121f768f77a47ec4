"""Sagas with children, over real tables and queues."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from threading import Barrier
from time import monotonic
from typing import Any

import pytest

from sagas import Context, Exhausted, Saga, children, step
from sagas.core.commands import Discard
from sagas.core.ids import child_id
from sagas.core.states import SagaStatus
from sagas.engine import children as looking_after
from sagas.errors import Conflict
from sagas.store.journal.entries import NEVER_STARTED, Entry
from sagas.store.journal.journal import Journal
from tests.engine.outages import Begin
from tests.support.bench import Bench, Death, Make, once
from tests.support.dynamodb import aws
from tests.support.sagas import FAIL, LOG, ONCE, PARK, Answered, Idle, Parcel, Single, act


@dataclass(frozen=True)
class Basket:
    """How many parcels."""

    parcels: int
    note: str = ""


class Shipment(Saga[Parcel], name="shipment", result="book"):
    """Three steps, of which the first is undone."""

    @step(retry=ONCE)
    def book(self, request: Parcel, ctx: Context) -> str:
        act(f"book {request.number}", ctx)
        return f"label {request.number}"

    @book.compensate(retry=ONCE)
    def unbook(self, request: Parcel, ctx: Context) -> None:
        act(f"unbook {request.number}", ctx)

    @step(retry=ONCE)
    def send(self, request: Parcel, ctx: Context) -> None:
        act(f"send {request.number}", ctx)

    @step
    def tell(self, ctx: Context) -> None: ...


class Basketful(Saga[Basket], name="basketful"):
    """A basket by several carriers."""

    @step
    def pack(self, request: Basket, ctx: Context) -> None:
        act("pack", ctx)

    @pack.compensate
    def unpack(self, ctx: Context) -> None:
        act("unpack", ctx)

    @children(Shipment, concurrency=4)
    def shipments(self, request: Basket, ctx: Context) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    @step(retry=ONCE)
    def close(self, shipments: list[str], ctx: Context) -> int:
        act("close", ctx)
        return len(shipments)


class Parked(Saga[Basket], name="parked-basket"):
    """Waits for an operator when one is lost."""

    @children(Shipment, on_failed=Exhausted.DEAD_LETTER)
    def shipments(self, request: Basket, ctx: Context) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    @step
    def close(self, shipments: list[str], ctx: Context) -> list[str]:
        return shipments


class Waiting(Answered[Parcel], name="waiting-child"):
    """Waits for a person."""


class Asking(Saga[Basket], name="asking"):
    """Its children wait."""

    @children(Waiting)
    def asked(self, request: Basket, ctx: Context) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]

    @step
    def close(self, asked: list[str], ctx: Context) -> None: ...


class Findable(Idle[Parcel], name="findable", find_by={"number": "$.number"}):
    """Found by its number."""


class Finding(Saga[Basket], name="finding"):
    """Its children are found by their numbers."""

    @children(Findable)
    def found(self, request: Basket, ctx: Context) -> list[Parcel]:
        return [Parcel(number) for number in range(request.parcels)]


def all_of(b: Bench, saga_id: str) -> list[dict[str, Any]]:
    """A saga's children, as they are listed."""
    return [dict(one) for one in b.engine.reader.children(saga_id, 100, None)["sagas"]]


def statuses(b: Bench, saga_id: str) -> Counter[str]:
    return Counter(one["status"] for one in all_of(b, saga_id))


def test_all_run_and_their_results_come_in_order(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 10})
    b.run()
    shown = b.show(saga_id)
    assert (shown["status"], shown["result"]) == ("COMPLETED", 10)
    assert shown["steps"][1]["result"] == [f"label {number}" for number in range(10)]
    found = shown["steps"][1]["children"]
    assert found == {
        "total": 10,
        "started": 10,
        "completed": 10,
        "failed": 0,
        "finished": 1.0,
        "failures": [],
        "href": f"/sagas?parent={saga_id}",
    }
    listed = all_of(b, saga_id)
    assert [one["parent"]["position"] for one in listed] == list(range(10))
    assert listed[3]["parent"] == {"type": "basketful", "saga_id": saga_id, "step": "shipments", "position": 3}
    assert LOG.count("pack:1") == 1
    assert b.actions(saga_id) == [
        *("SagaStarted", "StepCompleted", "ChildrenStarted", "ChildrenEnded", "StepCompleted"),
    ]


def test_no_more_are_under_way_than_it_says(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 11})
    most, deadline = 0, monotonic() + 60
    while b.state(saga_id).status is not SagaStatus.COMPLETED and monotonic() < deadline:
        open_ = statuses(b, saga_id)
        most = max(most, open_["PENDING"] + open_["RUNNING"])
        b._round()  # pyright: ignore[reportPrivateUsage] -- between the rounds is looked
    assert b.status(saga_id) == "COMPLETED"
    assert 0 < most <= 4


def test_a_parent_cancelled_in_the_middle_leaves_nothing(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 9})
    for _ in range(7):
        b._round()  # pyright: ignore[reportPrivateUsage] -- in the middle
    assert b.status(saga_id) == "WAITING"
    b.engine.operations.cancel("basketful", saga_id, "ann")
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert not set(statuses(b, saga_id)) & {"PENDING", "RUNNING", "COMPENSATING", "COMPLETED"}
    did = Counter(line.partition(" ")[2] for line in LOG if line.startswith("book "))
    undid = Counter(line.partition(" ")[2] for line in LOG if line.startswith("unbook "))
    assert did == undid
    assert set(did.values()) == {1}
    assert LOG[-1] == "unpack:1"


def test_one_that_fails_stops_the_rest_and_is_named(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    FAIL["send 1"] = RuntimeError("no van")
    saga_id = b.start("basketful", {"parcels": 4})
    b.run()
    shown = b.show(saga_id)
    assert shown["status"] == "COMPENSATED"
    assert shown["error"]["type"] == "ChildrenFailed"
    assert shown["steps"][1]["error"]["type"] == "ChildrenFailed"
    failure = shown["steps"][1]["children"]["failures"][0]
    assert (failure["position"], failure["error"]) == (1, {"type": "RuntimeError", "message": "no van"})
    assert not [one for one in b.engine.reader.attention(None, 20, None)["sagas"] if one["type"] == "shipment"]


def test_completed_children_are_undone_with_their_parent(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    FAIL["close"] = RuntimeError("no")
    saga_id = b.start("basketful", {"parcels": 3})
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert statuses(b, saga_id) == {"COMPENSATED": 3}
    child = child_id(saga_id, "shipments", 0)
    assert b.entry(child, "CompensationStarted")["details"]["cause"] == "parent"


def test_a_stuck_child_makes_the_parent_so_and_a_retry_tries_it_again(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    FAIL.update({"close": RuntimeError("no"), "unbook 1": RuntimeError("gone")})
    saga_id = b.start("basketful", {"parcels": 3})
    b.run()
    assert b.status(saga_id) == "COMPENSATION_FAILED"
    assert statuses(b, saga_id) == {"COMPENSATED": 2, "COMPENSATION_FAILED": 1}
    FAIL.clear()
    b.engine.operations.retry("basketful", saga_id, "", "ann")
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert statuses(b, saga_id) == {"COMPENSATED": 3}


def test_settling_the_step_settles_its_children(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    FAIL.update({"close": RuntimeError("no"), "unbook 1": RuntimeError("gone")})
    saga_id = b.start("basketful", {"parcels": 2})
    b.run()
    b.engine.operations.resolve("basketful", saga_id, "by phone", "", ("shipments",), "ann")
    assert b.engine.reader.attention(None, 20, None)["sagas"] == []
    child = child_id(saga_id, "shipments", 1)
    assert b.entry(child, "SagaResolved")["details"]["reason"] == "by phone"


def test_so_it_does_with_those_that_failed_a_moment_ago(bench: Make) -> None:
    """Which a read that is not consistent does not tell yet."""
    b = bench(Basketful, Shipment)
    with aws() as tables:
        tables.memory.now, tables.memory.lag = b.clock.now, 1.0
    FAIL.update({"close": RuntimeError("no"), "unbook 1": RuntimeError("gone")})
    saga_id = b.start("basketful", {"parcels": 2})
    b.run()
    b.engine.operations.resolve("basketful", saga_id, "by phone", "", ("shipments",), "ann")
    b.clock.advance(1.0)
    assert b.engine.reader.attention(None, 20, None)["sagas"] == []


def test_a_retry_starts_the_failed_ones_anew(bench: Make) -> None:
    b = bench(Parked, Shipment)
    FAIL["send 1"] = RuntimeError("no van")
    saga_id = b.start("parked-basket", {"parcels": 3})
    b.run()
    assert b.status(saga_id) == "DEAD_LETTERED"
    assert b.step(saga_id, 0)["error"]["type"] == "ChildrenFailed"
    FAIL.clear()
    b.engine.operations.retry("parked-basket", saga_id, "", "ann")
    assert (b.step(saga_id, 0)["status"], b.step(saga_id, 0)["error"]) == ("WAITING", None)
    b.run()
    shown = b.show(saga_id)
    assert shown["status"] == "COMPLETED"
    assert shown["steps"][0]["result"] == ["label 0", "label 1", "label 2"]
    assert b.status(child_id(saga_id, "shipments", 1, 1)) == "COMPLETED"


def test_a_child_is_cancelled_alone_only_with_force(bench: Make) -> None:
    b = bench(Asking, Waiting)
    saga_id = b.start("asking", {"parcels": 2})
    b.run()
    child = child_id(saga_id, "asked", 0)
    assert b.step(saga_id, 0)["waiting_for"] == "children"
    with pytest.raises(Conflict, match="this is a child of asking"):
        b.engine.operations.cancel("waiting-child", child, "ann")
    b.engine.operations.cancel("waiting-child", child, "ann", force=True)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert statuses(b, saga_id) == {"CANCELLED": 2}


def test_a_completed_saga_is_undone_with_force_only(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 2})
    b.run()
    with pytest.raises(Conflict, match="only with force"):
        b.engine.operations.compensate("basketful", saga_id, "", "ann")
    b.engine.operations.compensate("basketful", saga_id, "", "ann", force=True)
    b.run()
    assert b.status(saga_id) == "COMPENSATED"
    assert statuses(b, saga_id) == {"COMPENSATED": 2}


def run_past_a_death(b: Bench) -> None:
    """A function dies, its messages are lost, and the supervisor has another go on."""
    with pytest.raises(Death):
        b.run()
    b.lose_messages()
    b.clock.advance(300)
    b.recover()
    b.run()


def test_a_starter_that_dies_is_followed_by_another(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 3})
    b.deliver("basketful", "pack")
    once(monkeypatch, type(b.engine.control), "create")
    run_past_a_death(b)
    assert b.status(saga_id) == "COMPLETED"
    assert LOG.count("book 0:1") == 1


def found(b: Bench, number: int) -> list[str]:
    page = b.engine.reader.list(["findable"], None, 20, None, values={"number": str(number)})
    return [one["saga_id"] for one in page["sagas"]]


def test_children_are_found_by_their_values(bench: Make) -> None:
    b = bench(Finding, Findable)
    saga_id = b.start("finding", {"parcels": 2})
    b.run()
    assert [found(b, number) for number in range(3)] == [*([one["saga_id"]] for one in all_of(b, saga_id)), []]
    b.clock.advance(3_600)
    b.engine.purger.purge("finding", saga_id, "", "ann")
    assert found(b, 0) == []
    items = b.stack.dynamodb.scan(TableName=b.stack.sagas_table)["Items"]
    kinds = [item["saga_id"]["S"].partition("#")[0] for item in items]
    assert sorted(kinds) == ["blueprint", "blueprint", "definition", "definition", "pauses"]


def test_so_is_one_whose_starter_died(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Finding, Findable)
    saga_id = b.start("finding", {"parcels": 1})
    once(monkeypatch, type(b.engine.search_keys), "put")
    run_past_a_death(b)
    assert b.status(saga_id) == "COMPLETED"
    assert found(b, 0) == [child_id(saga_id, "found", 0)]


def test_what_was_never_started_is_closed(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 3})
    b.deliver("basketful", "pack")

    def dying(*given: Any) -> None:
        raise Death

    with monkeypatch.context() as patched:
        patched.setattr(type(b.engine.children), "start", dying)
        with pytest.raises(Death):
            b.run()
    b.engine.operations.cancel("basketful", saga_id, "ann")
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert all_of(b, saga_id) == []
    assert [entry["action"] for entry in b.stack.entries(child_id(saga_id, "shipments", 0))] == [NEVER_STARTED]
    parent = b.state(saga_id).steps[1]
    assert parent.fan_out.handed_out == 3


def test_an_interrupted_start_is_completed_and_cancelled(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others, of which nothing is stored, never start."""
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 3})
    b.deliver("basketful", "pack")
    once(monkeypatch, type(b.engine.control), "create")
    with pytest.raises(Death):
        b.run()
    b.engine.operations.cancel("basketful", saga_id, "ann")
    b.run()
    assert b.status(saga_id) == "CANCELLED"
    assert statuses(b, saga_id) == {"CANCELLED": 1}
    assert "book 0:1" not in LOG


def test_a_tree_is_purged_as_one(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 2})
    b.run()
    b.clock.advance(3_600)
    child = child_id(saga_id, "shipments", 0)
    with pytest.raises(Conflict, match="purge the parent"):
        b.engine.purger.purge("shipment", child, "", "ann")
    b.engine.purger.purge("basketful", saga_id, "", "ann")
    assert b.engine.control.get(child) is None
    assert b.engine.control.get(saga_id) is None
    assert b.stack.dynamodb.scan(TableName=b.stack.joins_table)["Count"] == 0


def test_a_tree_is_purged_at_once_and_its_children_stay_closed_while_one_may_be_started(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 2})
    b.clock.advance(300)
    b.run()
    left = b.engine.purger.purge("basketful", saga_id, "", "ann")
    assert left.purge is not None
    assert b.engine.reader.children(saga_id, 10, None)["sagas"] == []
    first = child_id(saga_id, "shipments", 0)
    for one in (saga_id, first):
        state = b.engine.control.get(one)
        assert state is not None
        assert state.purge is not None
    b.clock.advance(60)
    assert saga_id in b.engine.purger.run(60.0).purged
    assert b.engine.control.get(saga_id) is None
    assert b.engine.control.get(first) is None


def test_a_child_that_needs_a_person_keeps_its_parent(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    FAIL.update({"close": RuntimeError("no"), "unbook 1": RuntimeError("gone")})
    saga_id = b.start("basketful", {"parcels": 2})
    b.run()
    b.engine.operations.resolve("basketful", saga_id, "seen", "", (), "ann")
    b.clock.advance(3_600)
    child = child_id(saga_id, "shipments", 1)
    with pytest.raises(Conflict, match=f"its child shipment/{child} is COMPENSATION_FAILED and needs an operator"):
        b.engine.purger.purge("basketful", saga_id, "", "ann")
    b.engine.operations.resolve("shipment", child, "by phone", "", ("book",), "ann")
    b.engine.purger.purge("basketful", saga_id, "", "ann")
    assert b.engine.control.get(child) is None


class Settled(Single[Parcel], name="settled-child", retry=PARK):
    """Waits for an operator when its step fails."""


class Invoice(Saga[Basket], name="invoice"):
    """Has one child."""

    @children(Settled)
    def payments(self, request: Basket) -> list[Parcel]:
        return [Parcel(0)]

    @step
    def close(self, payments: list[str]) -> str:
        return payments[0]


def test_a_child_is_not_settled_while_its_parent_waits_for_its_end(bench: Make) -> None:
    b = bench(Invoice, Settled)
    FAIL.update({"call": RuntimeError("no")})
    saga_id = b.start("invoice", {"parcels": 1})
    b.run()
    child = child_id(saga_id, "payments", 0)
    told = (
        f"this is a child of invoice/{saga_id}, which waits for it: retry it, compensate it, or cancel it with --force"
    )
    with pytest.raises(Conflict, match=told):
        b.engine.operations.resolve("settled-child", child, "paid by hand", "paid", (), "ann")
    FAIL.clear()
    b.engine.operations.retry("settled-child", child, "again", "ann")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_what_a_step_asks_for_waits_out_an_outage(bench: Make, outage: Begin) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 2})
    b.deliver("basketful", "pack")
    gone = outage(b)
    assert b.deliver("basketful", "shipments") == Discard()
    assert gone.lasting
    gone.lasting = False
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.actions(saga_id) == [
        *("SagaStarted", "StepCompleted", "ChildrenStarted", "ChildrenEnded", "StepCompleted"),
    ]


def test_results_are_read_at_the_same_time(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be an object in S3. One after the other, those of many children would take longer than a function has,
    and the join would never end."""
    b = bench(Basketful, Shipment)
    others = Barrier(4)
    load = Journal.load

    def with_others(journal: Journal, entry: Entry) -> Entry:
        if entry.step == "book":
            others.wait(5)
        return load(journal, entry)

    monkeypatch.setattr(Journal, "load", with_others)
    saga_id = b.start("basketful", {"parcels": 4})
    b.run()
    assert (b.status(saga_id), b.show(saga_id)["result"]) == ("COMPLETED", 4)


def test_results_that_are_too_large_together_fail_the_step(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking_after, "LARGEST_RESULT", len('["label 0","label 1"]'))
    b = bench(Basketful, Shipment)
    fits, large = b.start("basketful", {"parcels": 2}), b.start("basketful", {"parcels": 3})
    b.run()
    assert b.status(fits) == "COMPLETED"
    assert b.status(large) == "COMPENSATED"
    error = b.show(large)["steps"][1]["error"]
    assert error["type"] == "WrongResult"
    assert "bytes of JSON together" in error["message"]


def test_a_parent_whose_children_cannot_be_joined_is_listed_until_they_are(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 2})
    with monkeypatch.context() as patched:
        patched.setattr(looking_after.Children, "_joined_results", _killed)
        for _ in range(8):
            with suppress(Death):
                b.run()
        assert b.status(saga_id) == "WAITING"
        [listed] = b.engine.reader.attention(None, 10, None)["sagas"]
        assert listed["saga_id"] == saga_id
        assert b.actions(saga_id).count("MessageResent") == 1
    b.run()
    assert b.status(saga_id) == "COMPLETED"
    assert b.engine.reader.attention(None, 10, None)["sagas"] == []


def _killed(*given: Any) -> None:
    raise Death


def test_control_items_stay_under_a_kilobyte(bench: Make) -> None:
    b = bench(Basketful, Shipment)
    saga_id = b.start("basketful", {"parcels": 12})
    for _ in range(9):
        b._round()  # pyright: ignore[reportPrivateUsage] -- in the middle
    for one in (saga_id, child_id(saga_id, "shipments", 0)):
        assert len(str(b.stack.control(one))) < 2_500
