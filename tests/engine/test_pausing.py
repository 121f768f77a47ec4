"""Pauses under two hands at once, releases and lost writes: no pause disappears, and what a pause stopped is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.units import item_size
from sagas import Saga, step
from sagas.core.gates import Scope
from sagas.core.ids import LONGEST_REASON
from sagas.engine.operate import pausing
from sagas.engine.operate.pausing import HOUR
from sagas.errors import Conflict, InvalidRequest, Unavailable
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.work import DueSagas, parse_work
from sagas.store.connection import Contended, Refused
from sagas.store.control.control import ControlItems
from sagas.store.index.listing import IndexPosition
from sagas.store.pauses import Pauses
from tests.support.bench import Bench, Death, once
from tests.support.engine import Engine
from tests.support.sagas import Order

Make = Callable[..., Bench]
DAY = 86_400.0


class Trip(Saga[Order], name="trip"):
    @step
    def one(self, request: Order) -> str:
        return request.item

    @one.compensate
    def undo_one(self, one: str) -> None: ...

    @step
    def two(self, one: str) -> str:
        return one

    @step
    def three(self, two: str) -> str:
        return two


class Shorter(Saga[Order], name="trip"):
    """The next release: the step ``two`` is gone."""

    @step
    def one(self, request: Order) -> str:
        return request.item

    @one.compensate
    def undo_one(self, one: str) -> None: ...

    @step
    def three(self, one: str) -> str:
        return one


class Other(Saga[Order], name="other"):
    @step
    def one(self, request: Order) -> str:
        return request.item


@pytest.fixture(autouse=True)
def _sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have messages arrive without a delay, since SQS does not go by the clock of the test."""
    send = Queues.send

    def sending(self: Queues, message: Message, delay: float = 0.0) -> None:
        send(self, message)

    monkeypatch.setattr(Queues, "send", sending)


def pause(b: Bench, name: str = "trip", **scope: Any) -> None:
    b.engine.pausing.pause(name, "ann", "maintenance", **scope)


def resume(b: Bench, name: str = "trip", **scope: Any) -> int:
    return b.engine.pausing.resume(name, "ann", **scope)


def stopped(b: Bench, *scopes: dict[str, Any], number: int = 1) -> list[str]:
    """Sagas that pauses of these scopes stop before their step ``two``."""
    ids = [b.start("trip") for _ in range(number)]
    for _ in ids:
        b.deliver("trip", "one")
    for scope in scopes:
        pause(b, **scope)
    b.clock.advance(6)  # by now each environment knows of the pauses
    for _ in ids:
        b.deliver("trip", "two")
    assert all(b.state(saga_id).paused for saga_id in ids)
    return ids


def lose(b: Bench, scope: str) -> None:
    """Somebody deletes a pause from the table."""
    key = {"TableName": b.stack.sagas_table, "Key": {"saga_id": {"S": "pauses"}}}
    names = {"#scope": f"of:{scope}"}
    b.stack.dynamodb.update_item(**key, UpdateExpression="REMOVE #scope", ExpressionAttributeNames=names)


def tick(b: Bench, bulk: Engine | None = None, *, seconds: float = 60) -> int:
    """Soon the supervisor visits, and the function behind ``bulk`` handles what it hands out: how many."""
    b.clock.advance(seconds)
    b.engine.finder.run("recover", 50.0)
    handed_out = 0
    while records := b.stack.receive_from(b.stack.work, 10):
        for record in records:
            due = DueSagas.of(parse_work(record))
            handed_out += len(due.sagas)
            (bulk or b.engine).recovery.recover_due([IndexPosition(*position) for position in due.sagas], 50.0)
            b.stack.sqs.delete_message(QueueUrl=b.stack.work, ReceiptHandle=record["receiptHandle"])
    return handed_out


def goes_on(b: Bench, saga_id: str, *, ticks: int = 1) -> None:
    for _ in range(ticks):
        tick(b)
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Have somebody act between the read and the write of the next call that changes a pause."""
    put = Pauses.put

    def racing(self: Pauses, scope: Scope, its: Any) -> None:
        monkeypatch.setattr(Pauses, "put", put)
        act()
        put(self, scope, its)

    monkeypatch.setattr(Pauses, "put", racing)


# At once


def test_a_pause_is_not_removed_by_one_of_another_type(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write removed pauses that had ended a day ago, as read before: also one that somebody had just stored."""
    b = bench(Trip, Other)
    bob, worker = b.deploy(), b.deploy()
    pause(b)
    resume(b)
    b.clock.advance(DAY + 60)
    saga_id = b.start("trip")
    b.deliver("trip", "one", worker)

    def ann() -> None:
        pause(b)
        b.clock.advance(6)
        b.deliver("trip", "two", worker)

    between(monkeypatch, ann)
    bob.pausing.pause("other", "bob", "unrelated")
    assert b.state(saga_id).paused
    assert set(b.deploy().pauses.all(fresh=True)) == {Scope("trip"), Scope("other")}
    resume(b)
    goes_on(b, saga_id)


@pytest.mark.parametrize("first", ["pause", "narrower", "resume"])
@pytest.mark.parametrize("second", ["pause", "resume"])
def test_two_calls_for_one_scope_leave_what_one_after_the_other_would(
    bench: Make, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    """A resume ends the pause that it has read, and never one that somebody stores at the same time."""
    b = bench(Trip)
    b.engine.pausing.pause("trip", "eve", "an old one", undos=True)
    began, bob = b.engine.pauses.get(Scope("trip")).at, b.deploy()
    b.clock.advance(9)
    calls: dict[str, Callable[[Any, str], Any]] = {
        "pause": lambda engine, who: engine.pausing.pause("trip", who, f"for {who}", undos=True),
        "narrower": lambda engine, who: engine.pausing.pause("trip", who, f"for {who}"),
        "resume": lambda engine, who: engine.pausing.resume("trip", who),
    }
    between(monkeypatch, lambda: calls[first](b.engine, "ann"))
    calls[second](bob, "bob")
    stored = b.deploy().pauses.listed().get(Scope("trip"))
    if second == "pause":
        assert stored is not None
        assert (stored.by, stored.reason, stored.undos) == ("bob", "for bob", True)
        assert (stored.at == began) is (first != "resume")
    elif first == "resume":
        assert stored is None
    else:
        assert stored is not None
        assert (stored.by, stored.reason, stored.at) == ("ann", "for ann", began)


def test_a_pause_that_meets_another_write_is_stored_all_the_same(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    b, put, left = bench(Trip), Pauses.put, [Contended("a transaction"), Refused("changed", {}), Contended("a write")]

    def contended(self: Pauses, scope: Scope, its: Any) -> None:
        if left:
            raise left.pop()
        put(self, scope, its)

    monkeypatch.setattr(Pauses, "put", contended)
    pause(b)
    assert b.deploy().pauses.get(Scope("trip")).on
    left.extend([Contended("a transaction")] * 99)
    with pytest.raises(Unavailable, match="try again"):
        resume(b)
    assert b.deploy().pauses.get(Scope("trip")).on


# The hourly look


@pytest.mark.parametrize("others", [{}, {"step": "three"}, {"starts_only": True}])
def test_what_a_pause_marked_goes_on_when_no_pause_holds_it(bench: Make, others: dict[str, Any]) -> None:
    """Whatever has become of the pause. Another one of the type may hold other sagas."""
    b = bench(Trip)
    [saga_id] = stopped(b, {"step": "two"}, *([others] if others else []))
    tick(b)
    lose(b, "trip/two")
    b.clock.advance(HOUR)
    tick(b)
    b.run()
    assert not b.state(saga_id).paused or b.state(saga_id).cursor == 2
    resume(b, step="three")
    b.run()
    assert b.status(saga_id) == "COMPLETED"


def test_a_saga_that_was_marked_after_the_end_of_its_pause_goes_on_within_an_hour(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies between its mark and its second look at the pauses, and the supervisor has already been there."""
    b = bench(Trip)
    worker, saga_id = b.deploy(), b.start("trip")
    pause(b)
    believed = b.engine.pauses.all()
    tick(b)
    resume(b)
    for seconds in (0, HOUR):
        b.clock.advance(seconds)
        tick(b)
    worker.pauses.cache(believed)
    once(monkeypatch, ControlItems, "mark_paused", before=False)
    with pytest.raises(Death):
        b.deliver("trip", "one", worker)
    b.lose_messages()
    tick(b)
    assert b.state(saga_id).paused
    b.clock.advance(HOUR)
    goes_on(b, saga_id)


def test_each_type_is_looked_at_once_an_hour_whatever_is_paused(bench: Make, wire: Any) -> None:
    b = bench(Trip, Other)
    looks = list[int]()
    for minute in range(121):
        wire.requests.clear()
        tick(b)
        keys = [str(asked.get("ExpressionAttributeValues", {}).get(":shard")) for _, asked in wire.requests]
        if any("paused#" in key for key in keys):
            looks.append(minute)
            assert sum("paused#trip#" in key for key in keys) == sum("paused#other#" in key for key in keys) == 4
    assert looks == [0, 60, 120]


def test_a_new_environment_of_the_supervisor_looks_at_its_first_visit(bench: Make) -> None:
    b = bench(Trip)
    [saga_id] = stopped(b, {})
    lose(b, "trip")
    b.engine = b.deploy()
    goes_on(b, saga_id)


# What it costs


COMBINED: list[tuple[list[dict[str, Any]], dict[str, Any] | None]] = [
    ([{}], None),
    ([{"step": "two"}], None),
    ([{"step": "two"}, {"starts_only": True}], None),
    ([{"step": "two"}, {"step": "one"}], {"step": "one"}),
    ([{"step": "two"}, {"step": "three"}], None),
    ([{"step": "two"}, {"undos": True}], {}),
]
"""Pauses, and which of them ends."""


@pytest.mark.parametrize(("scopes", "resumed"), COMBINED)
def test_what_stays_paused_is_not_handed_out_each_minute(
    bench: Make, scopes: list[dict[str, Any]], resumed: dict[str, Any] | None
) -> None:
    b = bench(Trip)
    ids = stopped(b, *scopes, number=2)
    if resumed is not None:
        resume(b, **resumed)
    assert sum(tick(b) for _ in range(62)) <= 2 * len(ids), "once after a change, and once an hour"
    assert all(b.state(saga_id).paused for saga_id in ids)
    for step_name in ("", "two", "three"):
        resume(b, step=step_name)
    b.run()
    assert {b.status(saga_id) for saga_id in ids} == {"COMPLETED"}


def test_a_resume_under_another_pause_hands_out_what_it_has_left(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the supervisor has just gone through all of them."""
    monkeypatch.setattr(pausing, "_BUDGET", 0.0)
    b = bench(Trip)
    ids = stopped(b, {"step": "two"}, {"step": "three"}, number=3)
    assert tick(b) == 3
    assert tick(b) == 0
    assert resume(b, step="two") == 0
    assert tick(b) + tick(b) == 3
    b.run()
    assert [b.state(saga_id).paused for saga_id in ids] == [True] * 3
    assert {b.state(saga_id).current.name for saga_id in ids} == {"three"}  # pyright: ignore[reportOptionalMemberAccess]


def test_a_function_that_believes_in_the_ended_pause_leaves_no_saga_for_an_hour(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pausing, "_BUDGET", 0.0)
    b = bench(Trip)
    ids = stopped(b, {"step": "two"}, {"step": "three"}, number=2)
    bulk, believed = b.deploy(), b.engine.pauses.all()
    tick(b)
    resume(b, step="two")
    bulk.pauses.cache(believed)
    tick(b, bulk, seconds=1)
    for _ in range(2):
        tick(b, bulk)
    assert not any(b.state(saga_id).paused for saga_id in ids)


def test_a_paused_saga_whose_type_was_gone_is_due_no_more(bench: Make) -> None:
    b = bench(Trip, Other)
    [saga_id] = stopped(b, {"step": "two"})
    whole, b.engine = b.engine, b.deploy(Other)
    assert tick(b) == 1  # and its type is not deployed
    b.engine = whole
    pause(b)
    b.clock.advance(900)
    assert sum(tick(b) for _ in range(20)) == 0
    resume(b, step="two")
    resume(b)
    b.run()
    assert b.status(saga_id) == "COMPLETED"


# Steps that a release removes


def test_a_step_that_a_release_removed_is_resumed(bench: Make) -> None:
    b = bench(Trip)
    [saga_id] = stopped(b, {"step": "two"})
    b.engine = b.deploy(Shorter)
    with pytest.raises(InvalidRequest, match="unknown step"):
        pause(b, step="two")
    assert b.show(saga_id)["pause"]["step"] == "two"
    assert resume(b, step="two") == 1
    assert not b.show(saga_id)["paused"]
    assert b.deploy().pauses.all(fresh=True) == {}
    assert resume(b, step="two") == 0  # a repeated call is answered as the first
    b.engine = b.deploy(Trip)
    b.run()
    assert b.status(saga_id) == "COMPLETED"


@pytest.mark.parametrize("name", ["four", "two ", "two#x", "two/x", "t" * 3000, "\ud800", "zwölf"])
def test_a_step_that_no_pause_names_is_unknown(bench: Make, name: str) -> None:
    b = bench(Trip)
    pause(b, step="two")
    b.engine = b.deploy(Shorter)
    with pytest.raises(InvalidRequest, match="unknown step") as raised:
        resume(b, step=name)
    assert [problem.path for problem in raised.value.problems] == ["$.step"]


# Room


def test_pauses_that_have_ended_take_no_room(bench: Make) -> None:
    """Reasons of those that had ended within a day were in the one item that all environments read."""
    b, reason = bench(Trip), "ü" * LONGEST_REASON
    saga_id = b.start("trip")
    for _ in range(30):
        b.engine.pausing.pause("trip", "ann", reason, saga_id=saga_id)
        b.engine.pausing.pause("trip", "ann", reason, step="two")
        b.engine.pausing.pause("trip", "ann", reason, undos=True)
        held = b.stack.control("pauses")
        assert item_size(held) < 600
        for scope in ({"saga_id": saga_id}, {"step": "two"}, {}):
            resume(b, **scope)
    stored = b.stack.dynamodb.scan(TableName=b.stack.sagas_table)["Items"]
    names = {item["saga_id"]["S"] for item in stored if item["saga_id"]["S"].startswith("pause")}
    assert names == {"pauses", "pause#trip", "pause#trip/two"}
    assert set(b.stack.control("pauses")) == {"saga_id", "service"}


def test_a_type_can_be_paused_when_no_further_saga_and_step_can(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pausing, "_MOST_SAGAS", 1)
    monkeypatch.setattr(pausing, "_MOST_STEPS", 1)
    b, reason = bench(Trip, Other), "ü" * LONGEST_REASON
    ids = [b.start("trip") for _ in range(2)]
    b.engine.pausing.pause("trip", "ann", reason, saga_id=ids[0])
    b.engine.pausing.pause("trip", "ann", reason, step="one")
    b.engine.pausing.pause("trip", "ann", reason, step="one", undos=True)  # once more is no other one
    with pytest.raises(Conflict, match="1 sagas are paused singly, which is the limit; pause a step or the type"):
        pause(b, saga_id=ids[1])
    with pytest.raises(Conflict, match="1 steps are paused, which is the limit; pause the type instead"):
        pause(b, step="two")
    for name in ("trip", "other"):
        b.engine.pausing.pause(name, "ann", reason)
        assert b.deploy().pauses.listed()[Scope(name)].reason == reason


def test_the_largest_common_item_has_room_for_each_type(bench: Make) -> None:
    b = bench(Trip)
    name, step_name, stamp = "t" * 40, "s" * 40, b.clock.new_owner()
    one: dict[str, Any] = {"M": {"at": {"S": "2026-11-27T15:38:00.000Z"}, "revision": {"S": stamp}}}
    one["M"] |= {kind: {"BOOL": True} for kind in ("starts_only", "starts", "undos")}
    sizes = [item_size({f"of:{scope.text}": one}) for scope in (
        Scope(name), Scope(name, step_name), Scope(name, saga_id="019aa59c-fb80-7c1e-9b52-4f6d0a3e8b17"),
    )]  # fmt: skip
    whole, of_step, of_saga = sizes
    largest = 400 * 1024
    narrower = pausing._MOST_STEPS * of_step + pausing._MOST_SAGAS * of_saga  # pyright: ignore[reportPrivateUsage]
    assert largest - narrower >= 2_000 * whole
