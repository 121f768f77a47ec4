"""Rounds: that each object is counted once, whatever happens to messages and workers."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.engine.sweep.orphans import COUNTS
from sagas.engine.sweep.sweep import SweepRequest, sweeper_of
from sagas.errors import InvalidRequest, NotFound, Unavailable
from sagas.handlers.tasks.sweeping import continue_sweep, sweep
from sagas.messaging.work import Work
from sagas.store.journal.objects import ObjectPage, Objects
from sagas.store.schedule.sweep_rounds import Round, SweepRounds
from sagas.store.tables import unpacked
from tests.engine.sweeping import DAY, Look, Proxy, SweepDesk, Zip
from tests.support.aws import LambdaContext
from tests.support.bench import Death, once

HOUR = 3600.0
KINDS = ("young", "kept", "orphans", "unreferenced", "unknown", "foreign")
ENDS = ("deleted", "handled", "gone", "left", "errors")


def tick(d: SweepDesk) -> list[dict[str, Any]]:
    return sweep({"task": "sweep"}, LambdaContext(), d.engine)["swept"]


def rounds(d: SweepDesk) -> SweepRounds:
    store = d.sweeper.rounds
    assert isinstance(store, SweepRounds)
    return store


def totals(d: SweepDesk, name: str = "zip") -> dict[str, int]:
    """What the last round that ended wrote."""
    key = {"saga_id": {"S": f"sweep#{name}"}}
    item = d.bench.stack.dynamodb.get_item(TableName=d.bench.stack.sagas_table, Key=key)["Item"]
    return unpacked(item["sums"])


def adds_up(sums: dict[str, int]) -> bool:
    found = sums["orphans"] + sums["unreferenced"]
    return sums["listed"] == sum(sums[kind] for kind in KINDS) and found == sum(sums[end] for end in ENDS)


def mixed(d: SweepDesk, count: int, prefix: str = "zips/", name: str = "zip") -> dict[str, int]:
    """Store objects of every kind; return how many there are of each."""
    kinds = [
        ("COMPLETED", "kept"),
        ("CANCELLED", "orphans"),
        ("RUNNING", "kept"),
        ("gone", "unknown"),
        ("x", "foreign"),
    ]
    expected = dict.fromkeys(COUNTS, 0)
    for number in range(count):
        status, kind = kinds[number % len(kinds)]
        if kind == "foreign":
            d.put(f"{prefix}{d.clock.new_id()}/a/b")
        else:
            d.object_of(d.clock.new_id() if kind == "unknown" else d.saga(status, name), prefix)
        expected[kind] += 1
        expected["listed"] += 1
    return expected


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of two objects."""
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)


def test_a_round_writes_its_totals_and_tells_them_once(
    desk: Callable[..., SweepDesk], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], small: None
) -> None:
    d = desk()
    expected = mixed(d, 30)
    with caplog.at_level(logging.INFO):
        tick(d)
        assert d.work_off() == 1
    expected["deleted"] = expected["orphans"]
    assert totals(d) == expected
    assert adds_up(expected)
    (told,) = [vars(record) for record in caplog.records if record.message == "sweep round ended"]
    assert {name: told[name] for name in COUNTS} == expected
    written = [line for line in capsys.readouterr().out.splitlines() if "SweepListed" in line and "_aws" in line]
    assert [json.loads(line)["SweepListed"] for line in written] == [[30.0]]
    assert tick(d) == []


# Two at once


def test_two_schedulers_begin_one_round(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    mixed(d, 10)
    seen = rounds(d).get("zip")
    assert seen == Round("zip")
    begun = Round("zip", 1, d.clock.now(), by="first")
    assert rounds(d).move(seen, begun)
    assert rounds(d).move(seen, begun), "again, after the response was lost"
    assert not rounds(d).move(seen, Round("zip", 1, d.clock.now(), by="second"))
    assert rounds(d).get("zip") == begun
    tick(d)
    assert d.messages() == [{"saga": "zip", "round": 1}]


def test_a_message_that_comes_twice_counts_nothing_twice(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch, small: None
) -> None:
    d = desk()
    expected = mixed(d, 12)
    tick(d)
    (message,) = d.messages()
    again: list[list[dict[str, Any]]] = []
    page = Objects.page

    def deliver_again(self: Objects, prefix: str, start_after: str = "") -> ObjectPage:
        if not again:
            again.append([])
            again[0] = continue_sweep(Work("sweep", message), LambdaContext(), d.engine)
        return page(self, prefix, start_after)

    monkeypatch.setattr(Objects, "page", deliver_again)
    assert continue_sweep(Work("sweep", message), LambdaContext(), d.engine) == []
    assert again == [[]]
    assert totals(d) == expected | {"deleted": expected["orphans"]}
    assert continue_sweep(Work("sweep", message), LambdaContext(), d.engine) == []
    assert totals(d) == expected | {"deleted": expected["orphans"]}


def test_a_worker_that_was_overtaken_writes_nothing_more(desk: Callable[..., SweepDesk], small: None) -> None:
    d = desk(Look)
    expected = mixed(d, 12, "look/", "look")
    tick(d)
    d.messages()
    sweeper = d.sweeper
    taken: list[bool] = []

    def overtake(**_: Any) -> None:
        taken.append(True)
        if len(taken) == 2:
            d.sweeper.work("look", 1, d.clock.now() + 60)

    slow = replace(sweeper, services=replace(sweeper.services, s3=Proxy(d.s3, list_objects_v2=overtake)))
    report, again = slow.work("look", 1, d.clock.now() + 300)
    assert (report.finished, again, len(taken)) == (False, False, 2)
    assert totals(d, "look") == expected | {"left": expected["orphans"]}


# What is lost


def test_the_next_tick_sends_anew_what_nobody_is_at(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    expected = mixed(d, 10)
    tick(d)
    assert len(d.messages()) == 1  # and this one is lost
    tick(d)
    assert d.work_off() == 1
    assert totals(d)["listed"] == expected["listed"]


def test_nothing_is_sent_while_a_worker_is_at_it(desk: Callable[..., SweepDesk], small: None) -> None:
    d = desk()
    mixed(d, 10)
    tick(d)
    (message,) = d.messages()
    assert continue_sweep(Work("sweep", message), LambdaContext(0.0), d.engine) == [message]
    seen = rounds(d).get("zip")
    assert rounds(d).move(seen, replace(seen, moved_at=d.clock.now(), by="me"))
    tick(d)
    assert d.messages() == []
    d.clock.advance(901)
    tick(d)
    assert len(d.messages()) == 1


def test_what_cannot_be_reached_is_tried_again_at_once_and_what_is_wrong_with_the_next_tick(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    d = desk()
    expected = mixed(d, 10)
    tick(d)
    (message,) = d.messages()

    def fail(error: Exception) -> Callable[..., Any]:
        def act(*_: Any) -> Any:
            raise error

        return act

    for error, follows in ((Unavailable("S3: SlowDown"), [message]), (RuntimeError("odd"), [])):
        with monkeypatch.context() as patch:
            patch.setattr(Objects, "page", fail(error))
            assert continue_sweep(Work("sweep", message), LambdaContext(), d.engine) == follows
    tick(d)
    assert d.work_off() == 1
    assert totals(d)["listed"] == expected["listed"]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 20, 21])
def test_a_worker_may_die_at_any_write(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch, small: None, nth: int, before: bool
) -> None:
    """Its message is lost as well. What was counted stays counted once, and the round comes to its end."""
    d = desk(Look)
    expected = mixed(d, 40, "look/", "look")
    once(monkeypatch, SweepRounds, "move", before=before, nth=nth)
    deaths = 0
    for _ in range(4):
        try:
            tick(d)
            d.work_off()
        except Death:
            deaths += 1
        d.messages()
        d.clock.advance(HOUR)
    assert deaths == 1
    assert totals(d, "look") == expected | {"left": expected["orphans"]}
    assert rounds(d).get("look").number == 1


def test_a_worker_that_dies_before_it_writes_deleted_what_no_sum_has(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    d = desk()
    expected = mixed(d, 10)
    once(monkeypatch, SweepRounds, "move", nth=2)
    tick(d)
    with pytest.raises(Death):
        d.work_off()
    d.clock.advance(HOUR)
    tick(d)
    d.work_off()
    assert totals(d) == expected | {"orphans": 0, "deleted": 0, "listed": expected["listed"] - expected["orphans"]}
    assert adds_up(totals(d))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("saga_class", [Look, Zip])
def test_sums_add_up_whatever_happens(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch, small: None, saga_class: type[Any], seed: int
) -> None:
    """Messages are doubled, lost and late; workers die at any write, or are given too little time."""
    chance = random.Random(seed)  # noqa: S311
    d = desk(saga_class)
    prefix, name = ("look/", "look") if saga_class is Look else ("zips/", "zip")
    expected = mixed(d, 45, prefix, name)
    _dying_by_chance(monkeypatch, "move", chance)
    while not rounds(d).get(name).finished_at:
        try:
            tick(d)
            messages = d.messages()
        except Death:
            continue
        while messages:
            chance.shuffle(messages)
            details = messages.pop()
            fate = chance.random()
            messages += [details] if fate < 0.2 else []
            try:
                follow = continue_sweep(Work("sweep", details), LambdaContext(chance.choice([0.5, 60.0])), d.engine)
                messages += follow if fate < 0.9 else []
            except Death:
                d.clock.advance(chance.choice([1.0, 100.0]))
            messages += d.messages()
        d.clock.advance(HOUR)
    sums = totals(d, name)
    assert adds_up(sums)
    if saga_class is Look:
        assert sums == expected | {"left": expected["orphans"]}
    else:
        assert sums == expected | {kind: sums[kind] for kind in ("listed", "orphans", "deleted")}
        assert d.sweep(SweepRequest(dry_run=True)).orphans == 0


def _dying_by_chance(monkeypatch: pytest.MonkeyPatch, write: str, chance: random.Random) -> None:
    original: Callable[..., Any] = getattr(SweepRounds, write)

    def perhaps(*arguments: Any) -> Any:
        if chance.random() < 0.05:
            raise Death
        answer = original(*arguments)
        if chance.random() < 0.05:
            raise Death
        return answer

    monkeypatch.setattr(SweepRounds, write, perhaps)


# What is stored, and what is sent


def test_the_next_round_takes_the_same_items(desk: Callable[..., SweepDesk], small: None) -> None:
    d = desk(Look)
    for number in (1, 2):
        mixed(d, 30, "look/", "look")
        d.clock.advance(3 * DAY)
        tick(d)
        d.work_off()
        current = rounds(d).get("look")
        assert (current.number, current.under_way) == (number, False)
        assert totals(d, "look")["listed"] == 30 * number
    answer = d.bench.stack.dynamodb.scan(TableName=d.bench.stack.sagas_table)["Items"]
    assert len([one for one in answer if one["saga_id"]["S"].startswith("sweep#")]) == 1


@pytest.mark.parametrize("wrong", [{"saga": 1}, {"round": "1"}, {"round": -1}, {"round": True}])
def test_a_message_that_does_not_fit(desk: Callable[..., SweepDesk], wrong: dict[str, Any]) -> None:
    d = desk()
    with pytest.raises(InvalidRequest):
        continue_sweep(Work("sweep", {"saga": "zip", "round": 1, **wrong}), LambdaContext(), d.engine)
    with pytest.raises(NotFound):
        continue_sweep(Work("sweep", {"saga": "no", "round": 1}), LambdaContext(), d.engine)


def test_without_a_queue_the_tick_works_itself(desk: Callable[..., SweepDesk], small: None) -> None:
    d = desk()
    expected = mixed(d, 20)
    sweeper = sweeper_of(d.engine, {**d.bench.stack.environment, "ZIPS_BUCKET": "zips"})
    (report,) = sweeper.run(SweepRequest(), d.clock.now() + 60)
    assert (report.listed, report.finished) == (20, True)
    assert totals(d) == expected | {"deleted": expected["orphans"]}
