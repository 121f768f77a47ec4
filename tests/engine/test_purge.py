"""Purges: what goes, what readers and operators get afterwards, and who may be at work meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sagas.authoring.policies import OrphanSweep
from sagas.core.commands import Discard
from sagas.core.states import Lease, SagaStatus
from sagas.core.text import iso
from sagas.errors import Conflict, NotFound, Rejected
from sagas.store.journal.entries import Entry
from tests.engine.purges import DAY, HOUR, SECRET, deploy, ended, item, purge, start, stored
from tests.support.bench import Make
from tests.support.sagas import FAIL, Bulky, Fatal, Idle, Order, Trip


class Found(Idle[Order], name="found", find_by={"item": "$.item"}):
    """A caller finds it by its item."""


class Owner(Idle[Order], name="owner", orphans=OrphanSweep("ZIPS_BUCKET", "owner/")):
    """It owns objects."""


# By the supervisor.


def test_retention_ends_everything_of_a_saga_together(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(DAY - 1)
    assert bench.engine.purger.run(60.0).purged == []
    assert SECRET in stored(bench)
    bench.clock.advance(1)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert item(bench, saga_id) is None
    [tombstone] = bench.stack.entries(saga_id)
    assert tombstone["seq"] == 1
    assert tombstone["expires_at"] == round(bench.clock.now() + 30 * DAY)
    assert SECRET not in stored(bench)
    assert "paid" not in stored(bench)
    assert bench.engine.purger.run(60.0).purged == []


def test_large_payloads_go_too(keeping: Make) -> None:
    bench = keeping(Bulky)
    ended(bench, "bulky")
    assert "payloads/" in stored(bench)
    bench.clock.advance(DAY)
    assert len(bench.engine.purger.run(60.0).purged) == 1
    assert "payloads/" not in stored(bench)


def test_a_saga_that_needs_a_person_is_kept_and_then_counts_from_its_settlement(keeping: Make) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = ended(bench, "fatal")
    bench.clock.advance(9 * DAY)
    assert bench.engine.purger.run(60.0).purged == []
    bench.engine.operations.resolve("fatal", saga_id, "settled", "", (), "ann")
    bench.clock.advance(DAY - 1)
    assert bench.engine.purger.run(60.0).purged == []
    bench.clock.advance(1)
    assert bench.engine.purger.run(60.0).purged == [saga_id]


def test_an_operator_who_goes_on_with_a_saga_keeps_it(keeping: Make) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = ended(bench, "fatal")
    bench.engine.operations.resolve("fatal", saga_id, "settled", "", (), "ann")
    bench.clock.advance(2 * DAY)
    bench.engine.operations.compensate("fatal", saga_id, "after all", "ann")
    assert bench.engine.purger.run(60.0).purged == []
    bench.run()
    assert bench.state(saga_id).status is SagaStatus.COMPENSATED
    assert bench.engine.purger.run(60.0).purged == []
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]


def test_sagas_that_own_objects_stay(keeping: Make) -> None:
    bench = keeping(Owner)
    ended(bench, "owner")
    bench.clock.advance(99 * DAY)
    report = bench.engine.purger.run(60.0)
    assert (report.purged, report.untouched) == ([], 0)


def test_without_a_retention_sagas_are_kept_for_good(keeping: Make) -> None:
    bench = keeping(Trip, retention=0)
    saga_id = ended(bench)
    bench.clock.advance(999 * DAY)
    report = bench.engine.purger.run(60.0)
    assert (report.purged, report.untouched) == ([], 0)
    assert bench.state(saga_id).status is SagaStatus.COMPLETED


@pytest.mark.parametrize(("retention", "later"), [(3 * DAY, 2 * DAY), (0.0, 9 * DAY)])
def test_a_retention_that_was_changed_since_holds(keeping: Make, retention: float, later: float) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(DAY)
    deploy(bench, Trip, retention=retention)
    assert bench.engine.purger.run(60.0).untouched == 1
    assert bench.engine.purger.run(60.0).untouched == 0  # looked at later
    bench.clock.advance(later)
    assert bench.engine.purger.run(60.0).purged == ([saga_id] if retention else [])


def test_a_type_that_is_deployed_no_more_is_purged_as_well(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    deploy(bench, Fatal, retention=DAY)
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]


def test_one_that_fails_stops_no_other(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Trip)
    over = [ended(bench, key=None) for _ in range(3)]
    bench.clock.advance(DAY)
    purger, clear = bench.engine.purger, bench.engine.purger.tombstones.clear

    def failing(saga_id: str, seqs: Any, *, aside: bool) -> None:
        if saga_id == over[1]:
            raise RuntimeError("no")
        clear(saga_id, seqs, aside=aside)

    monkeypatch.setattr(purger.tombstones, "clear", failing)
    report = purger.run(60.0)
    assert (sorted(report.purged), report.failed) == (sorted([over[0], over[2]]), [over[1]])
    monkeypatch.undo()
    assert purger.run(60.0).purged == [over[1]]


def test_what_there_is_no_time_for_is_left(keeping: Make) -> None:
    bench = keeping(Trip)
    ended(bench)
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(0.0).remaining == 1


# Reading.


def test_what_is_left_is_shown_without_payloads(keeping: Make) -> None:
    bench = keeping(Trip)
    FAIL["tell"] = Rejected("ann has moved")
    saga_id = ended(bench)
    before, trail = bench.show(saga_id), bench.engine.reader.audit("trip", saga_id, 100, 0)[0]
    bench.clock.advance(HOUR)
    purge(bench, saga_id, "she asked for it")
    after = {**bench.engine.reader.show("trip", saga_id)}
    assert after["purged_at"] == iso(bench.clock.now())
    assert after["purge_reason"] == "she asked for it"
    gone = {"request": None, "key": None, "error": None, "attention": None}
    steps = [{**one, "result": None, "error": None, "took": None} for one in before["steps"]]
    assert after == before | gone | {
        "steps": steps,
        "purged_at": after["purged_at"],
        "purge_reason": after["purge_reason"],
        "objects": [],
        "more_objects": 0,
    }
    entries, more = bench.engine.reader.audit("trip", saga_id, 100, 0)
    assert more is None
    assert [{**one, "details": {}} for one in entries[:-1]] == [
        {**one, "details": {}, "trace_id": None} for one in trail
    ]
    assert (entries[-1]["action"], entries[-1]["actor"]) == ("SagaPurged", "bob")
    assert entries[-1]["details"] == {"reason": "she asked for it"}
    assert SECRET not in json.dumps([after, entries])
    assert "moved" not in json.dumps([after, entries])


def test_its_audit_trail_is_read_page_by_page(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(HOUR)
    purge(bench, saga_id)
    audit = bench.engine.reader.audit
    pages = [audit("trip", saga_id, 2, after) for after in (0, 2, 4)]
    assert [[one["seq"] for one in entries] for entries, _ in pages] == [[1, 2], [3, 4], [5]]
    assert [more for _, more in pages] == [2, 4, None]


def test_it_is_in_no_list_and_of_no_other_type(keeping: Make) -> None:
    bench = keeping(Trip, Fatal)
    saga_id = ended(bench)
    bench.clock.advance(HOUR)
    purge(bench, saga_id)
    assert bench.engine.reader.list(["trip"], None, 20, None)["sagas"] == []
    with pytest.raises(NotFound):
        bench.engine.reader.show("fatal", saga_id)
    with pytest.raises(NotFound):
        purge(bench, saga_id, name="fatal")


# By hand.


def test_a_saga_under_way_is_not_purged(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = start(bench).state.saga_id
    with pytest.raises(Conflict, match="PENDING; only sagas that have ended"):
        purge(bench, saga_id)


def test_a_saga_that_needs_a_person_is_not_purged_by_hand_either(keeping: Make) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = ended(bench, "fatal")
    bench.clock.advance(HOUR)
    with pytest.raises(Conflict, match="FAILED and needs an operator"):
        purge(bench, saga_id, name="fatal")


def test_a_purge_waits_until_nothing_can_be_at_work(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    state = bench.state(saga_id)
    lost = replace(state, token=state.token + 1, lost_until=bench.clock.now() + 900)
    assert bench.engine.control.claim(state, lost, 1.0)
    with pytest.raises(Conflict, match="may still be running"):
        purge(bench, saga_id)
    bench.clock.advance(900)
    assert purge(bench, saga_id).purge.reason == "asked for"
    assert [one["seq"] for one in bench.stack.entries(saga_id)] == [1]


def test_a_saga_is_purged_right_after_its_end_and_its_starter_changes_nothing(keeping: Make) -> None:
    """Who wrote the first entry makes the control item unasked, and what the saga is found by before: for a minute."""
    bench = keeping(Found)
    begun = start(bench, "found").state
    bench.run()
    began = bench.clock.now()
    assert purge(bench, begun.saga_id, name="found").purge.reason == "asked for"
    assert SECRET not in stored(bench)
    assert bench.engine.reader.list(["found"], None, 20, None)["sagas"] == []
    with pytest.raises(Conflict, match="was purged at"):
        bench.engine.operations.retry("found", begun.saga_id, "", "ann")
    bench.engine.search_keys.put(begun, {"item": SECRET})
    assert not bench.engine.control.create(begun, 1.0)
    bench.clock.time = began + 59
    assert bench.engine.purger.run(60.0).purged == []
    bench.clock.time = began + 60
    assert bench.engine.purger.run(60.0).purged == [begun.saga_id]
    assert SECRET not in stored(bench)
    assert item(bench, begun.saga_id) is None
    assert "purge_reason" in bench.engine.reader.show("found", begun.saga_id)


def test_what_a_lost_process_writes_late_is_purged_too(keeping: Make) -> None:
    """It writes into a slot that is empty by then; the longest that it can be at work is what a function may take."""
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(HOUR)
    state, until = bench.state(saga_id), bench.clock.now() + 30
    assert bench.engine.control.claim(state, replace(state, token=9, lease=Lease("he", until, until)), 1.0)
    bench.clock.advance(31)
    assert purge(bench, saga_id).purge.reason == "asked for"
    late = Entry(saga_id, state.seq + 1, until, "trip", "StepCompleted", "RUNNING", 9, payload=f'"{"x" * 20_000}"')
    bench.engine.journal.put(late)
    assert "payloads/" in stored(bench)
    shown = bench.engine.reader.show("trip", saga_id)
    assert (shown.get("purged_at"), shown["request"]) == (iso(bench.clock.now()), None)
    bench.clock.advance(890)
    assert bench.engine.purger.run(60.0).purged == []
    bench.clock.advance(10)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert [one["seq"] for one in bench.stack.entries(saga_id)] == [1]
    assert "payloads/" not in stored(bench)
    assert bench.engine.control.get(saga_id) is None


def test_an_operator_who_died_does_not_keep_a_saga_for_good(keeping: Make) -> None:
    """He had taken the lease and journaled; what he left is in nobody's way when the key starts another saga."""
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(DAY)
    state, until = bench.state(saga_id), bench.clock.now() + 30
    assert bench.engine.control.claim(state, replace(state, token=9, lease=Lease("he", until, until)), 1.0)
    left = Entry(saga_id, state.seq + 1, until, "trip", "CompensationStarted", "COMPENSATING", 9)
    bench.engine.journal.put(left)
    assert bench.engine.purger.run(60.0).untouched == 1
    with pytest.raises(Conflict, match="holds this saga"):
        purge(bench, saga_id)
    bench.clock.advance(31)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert [one["seq"] for one in bench.stack.entries(saga_id)] == [1]
    bench.clock.advance(900)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert bench.engine.control.get(saga_id) is None
    assert [one["action"] for one in bench.engine.reader.audit("trip", saga_id, 9, 0)[0]][-2:] == [
        "StepCompleted",
        "SagaPurged",
    ]


def test_a_second_purge_changes_nothing(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(HOUR)
    first = purge(bench, saga_id, "first")
    bench.clock.advance(HOUR)
    assert purge(bench, saga_id, "second") == first


def test_nothing_can_be_done_to_a_purged_saga(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = ended(bench)
    bench.clock.advance(HOUR)
    purge(bench, saga_id, "gone")
    operations = bench.engine.operations
    asked: list[Callable[[], object]] = [
        lambda: operations.cancel("trip", saga_id, "ann"),
        lambda: operations.retry("trip", saga_id, "", "ann"),
        lambda: operations.compensate("trip", saga_id, "", "ann"),
        lambda: operations.resolve("trip", saga_id, "reason", "", (), "ann"),
    ]
    for ask in asked:
        with pytest.raises(Conflict, match=r"COMPLETED and was purged at .* \(gone\)"):
            ask()


def test_a_saga_that_is_not_there_cannot_be_purged(keeping: Make) -> None:
    bench = keeping(Trip)
    with pytest.raises(NotFound):
        purge(bench, bench.clock.new_id())


# While it is under way.


def test_a_purge_that_was_interrupted_lets_nobody_else_in(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = ended(bench, "fatal")
    bench.engine.operations.resolve("fatal", saga_id, "settled", "", (), "ann")
    bench.clock.advance(HOUR)

    def dying(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.engine.purger.tombstones, "put", dying)
    with pytest.raises(KeyboardInterrupt):
        purge(bench, saga_id, "mine", name="fatal")
    monkeypatch.undo()
    bench.clock.advance(365 * DAY)  # no lease of a purge expires
    with pytest.raises(Conflict, match="was purged at"):
        bench.engine.operations.compensate("fatal", saga_id, "", "ann")
    assert bench.engine.reader.list(["fatal"], None, 20, None)["sagas"] == []
    assert not start(bench, "fatal").created
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    left = bench.engine.reader.show("fatal", saga_id)
    assert (left.get("purge_reason"), left["status"]) == ("mine", "FAILED")


def test_a_message_of_a_purged_saga_is_dropped(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = start(bench).state.saga_id
    [record] = bench.stack.receive("trip", "book")
    bench.handle("trip", "book", record)
    bench.run()
    bench.clock.advance(HOUR)
    purge(bench, saga_id)
    assert isinstance(bench.handle("trip", "book", record), Discard)
    assert item(bench, saga_id) is None
