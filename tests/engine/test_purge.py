"""Purges: what goes, what a saga's key, its readers and its operators get afterwards, and that it never runs again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagas.authoring.context import S3Object
from sagas.authoring.policies import OrphanSweep
from sagas.authoring.redaction import Secret
from sagas.authoring.saga import Saga
from sagas.authoring.steps import step
from sagas.core.states import Lease, SagaState, SagaStatus
from sagas.core.times import iso
from sagas.engine.engine import build_engine, settings_from
from sagas.engine.outcome import Done
from sagas.engine.registry import Registry
from sagas.engine.starter import KeyReused, Started
from sagas.errors import Conflict, NotFound, Rejected, Unavailable
from sagas.messaging.routes import Routes
from sagas.store.entries import Entry
from tests.support.bench import Bench
from tests.support.sagas import FAIL, LOG, Fatal, Order, Trip

HOUR, DAY = 3_600.0, 86_400.0
SECRET = "a book for ann"
REQUEST = {"item": SECRET}
Make = Callable[..., Bench]


class Bulky(Saga[Order], name="bulky"):
    @step
    def write(self) -> str:
        return "x" * 20_000


class Found(Saga[Order], name="found", find_by={"item": "$.item"}):
    @step
    def make(self) -> None: ...


@dataclass
class Pages:
    title: str
    first: S3Object
    others: list[S3Object]
    hidden: Secret[str]
    draft: Secret[S3Object]


class Book(Saga[Order], name="book"):
    @step
    def scan(self) -> S3Object:
        return S3Object("books", "books/1/scan.pdf", 12)

    @step
    def bind(self, scan: S3Object, request: Order) -> Pages:
        parts = [S3Object("books", f"books/1/{number}.pdf") for number in range(int(request.item))]
        return Pages("x" * 20_000, scan, parts, "s3cret", S3Object("books", "books/1/draft.pdf"))


class Owner(Saga[Order], name="owner", orphans=OrphanSweep("ZIPS_BUCKET", "owner/")):
    @step
    def make(self) -> None: ...


@pytest.fixture
def keeping(bench: Make) -> Make:
    """Make a bench whose sagas are kept for a day, unless it is told otherwise, and their keys for 30 more."""

    def make(*classes: type[Any], retention: float = DAY) -> Bench:
        made = bench(*classes)
        _deploy(made, *classes, retention=retention)
        return made

    return make


def _deploy(bench: Bench, *classes: type[Any], retention: float) -> None:
    environment = bench.stack.environment
    settings = replace(settings_from(environment), retention=retention)
    routes = Routes.parse(environment["SAGAS_QUEUES"])
    bench.engine = build_engine(Registry(classes), settings, routes, clock=bench.clock)


def _start(bench: Bench, name: str = "trip", request: Any = REQUEST, key: str | None = "key") -> Started:
    return bench.engine.starter.start(name, request, key=key, actor="ann")


def _ended(bench: Bench, name: str = "trip", key: str | None = "key") -> str:
    """A saga that has run to its end."""
    saga_id = _start(bench, name, key=key).state.saga_id
    bench.run()
    return saga_id


def _item(bench: Bench, saga_id: str) -> dict[str, Any] | None:
    key = {"saga_id": {"S": saga_id}}
    return bench.stack.dynamodb.get_item(TableName=bench.stack.sagas_table, Key=key).get("Item")


def _expire(bench: Bench, saga_id: str, seq: int | None = None) -> None:
    """DynamoDB deletes an item by its time to live: the control item, or an entry."""
    key: dict[str, Any] = {"saga_id": {"S": saga_id}} | ({"seq": {"N": str(seq)}} if seq else {})
    table = bench.stack.audit_table if seq else bench.stack.sagas_table
    bench.stack.dynamodb.delete_item(TableName=table, Key=key)


def _stored(bench: Bench) -> str:
    """Everything there is in both tables, and the keys in the bucket."""
    tables = (bench.stack.sagas_table, bench.stack.audit_table)
    items = [bench.stack.dynamodb.scan(TableName=table)["Items"] for table in tables]
    return json.dumps(
        [items, bench.stack.s3.list_objects_v2(Bucket=bench.stack.bucket).get("Contents", [])], default=str
    )


def _purge(bench: Bench, saga_id: str, note: str = "asked for", name: str = "trip") -> Any:
    return bench.engine.purger.purge(name, saga_id, note, "bob")


# By the supervisor.


def test_retention_ends_everything_of_a_saga_together(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _ended(bench)
    bench.clock.advance(DAY - 1)
    assert bench.engine.purger.run(60.0).purged == []
    assert SECRET in _stored(bench)
    bench.clock.advance(1)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert _item(bench, saga_id) is None
    [tombstone] = bench.stack.entries(saga_id)
    assert tombstone["seq"] == 1
    assert tombstone["expires_at"] == round(bench.clock.now() + 30 * DAY)
    assert SECRET not in _stored(bench)
    assert "paid" not in _stored(bench)
    assert bench.engine.purger.run(60.0).purged == []


def test_large_payloads_go_too(keeping: Make) -> None:
    bench = keeping(Bulky)
    _ended(bench, "bulky")
    assert "payloads/" in _stored(bench)
    bench.clock.advance(DAY)
    assert len(bench.engine.purger.run(60.0).purged) == 1
    assert "payloads/" not in _stored(bench)


def test_a_saga_that_needs_a_person_is_kept_and_then_counts_from_its_settlement(keeping: Make) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = _ended(bench, "fatal")
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
    saga_id = _ended(bench, "fatal")
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
    _ended(bench, "owner")
    bench.clock.advance(99 * DAY)
    report = bench.engine.purger.run(60.0)
    assert (report.purged, report.untouched) == ([], 0)


def test_without_a_retention_sagas_are_kept_for_good(keeping: Make) -> None:
    bench = keeping(Trip, retention=0)
    saga_id = _ended(bench)
    bench.clock.advance(999 * DAY)
    report = bench.engine.purger.run(60.0)
    assert (report.purged, report.untouched) == ([], 0)
    assert bench.state(saga_id).status is SagaStatus.COMPLETED


@pytest.mark.parametrize(("retention", "later"), [(3 * DAY, 2 * DAY), (0.0, 9 * DAY)])
def test_a_retention_that_was_changed_since_holds(keeping: Make, retention: float, later: float) -> None:
    bench = keeping(Trip)
    saga_id = _ended(bench)
    bench.clock.advance(DAY)
    _deploy(bench, Trip, retention=retention)
    assert bench.engine.purger.run(60.0).untouched == 1
    assert bench.engine.purger.run(60.0).untouched == 0  # looked at later
    bench.clock.advance(later)
    assert bench.engine.purger.run(60.0).purged == ([saga_id] if retention else [])


def test_a_type_that_is_deployed_no_more_is_purged_as_well(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _ended(bench)
    _deploy(bench, Fatal, retention=DAY)
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]


def test_one_that_fails_stops_no_other(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Trip)
    ended = [_ended(bench, key=None) for _ in range(3)]
    bench.clock.advance(DAY)
    purger, clear = bench.engine.purger, bench.engine.purger.tombstones.clear

    def failing(saga_id: str, seqs: Any, *, aside: bool) -> None:
        if saga_id == ended[1]:
            raise RuntimeError("no")
        clear(saga_id, seqs, aside=aside)

    monkeypatch.setattr(purger.tombstones, "clear", failing)
    report = purger.run(60.0)
    assert (sorted(report.purged), report.failed) == (sorted([ended[0], ended[2]]), [ended[1]])
    monkeypatch.undo()
    assert purger.run(60.0).purged == [ended[1]]


def test_what_there_is_no_time_for_is_left(keeping: Make) -> None:
    bench = keeping(Trip)
    _ended(bench)
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(0.0).left == 1


# The key.


@pytest.mark.parametrize("trouble", [None, "pay"])
def test_a_key_answers_with_its_purged_saga_and_runs_nothing(keeping: Make, trouble: str | None) -> None:
    bench = keeping(Trip)
    FAIL.update({trouble: Rejected("no")} if trouble else {})
    saga_id = _ended(bench)
    before, executed = bench.show(saga_id), list(LOG)
    bench.clock.advance(DAY)
    bench.engine.purger.run(60.0)
    FAIL.clear()
    for _ in range(2):
        again = _start(bench)
        assert (again.created, again.state.saga_id, again.state.status.value) == (False, saga_id, before["status"])
        bench.run()
        bench.clock.advance(DAY)
        bench.recover()
    assert executed == LOG
    assert _item(bench, saga_id) is None
    with pytest.raises(KeyReused):
        _start(bench, request={"item": "another"})


def test_a_key_starts_anew_once_its_tombstone_is_gone(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _ended(bench)
    bench.clock.advance(DAY)
    bench.engine.purger.run(60.0)
    _expire(bench, saga_id, 1)
    with pytest.raises(NotFound):
        bench.engine.reader.show("trip", saga_id)
    assert _start(bench).created
    bench.run()
    assert [line.split(":")[0] for line in LOG] == ["book", "pay", "tell"] * 2
    assert bench.actions(saga_id) == ["SagaStarted", "StepCompleted", "StepCompleted", "StepCompleted"]


@pytest.mark.parametrize("trouble", [None, "pay"])
def test_a_saga_whose_control_item_expired_under_an_earlier_version_never_runs_again(
    bench: Make, trouble: str | None
) -> None:
    made = bench(Trip)
    FAIL.update({trouble: Rejected("no")} if trouble else {})
    saga_id = _ended(made)
    before, trail, executed = made.show(saga_id), made.engine.reader.audit("trip", saga_id, 100, 0), list(LOG)
    _expire(made, saga_id)
    FAIL.clear()
    again = _start(made)
    assert (again.created, again.state.status.value) == (False, before["status"])
    made.run()
    assert executed == LOG
    assert _item(made, saga_id) is None
    assert made.engine.reader.audit("trip", saga_id, 100, 0) == trail
    left = {**made.engine.reader.show("trip", saga_id)}
    assert {name: left[name] for name in before if name != "updated_at"} == {
        name: before[name] for name in before if name != "updated_at"
    }
    with pytest.raises(Conflict, match="has expired"):
        made.engine.operations.compensate("trip", saga_id, "", "ann")


def test_what_expired_under_an_earlier_version_can_be_purged(bench: Make) -> None:
    made = bench(Trip)
    saga_id = _ended(made)
    _expire(made, saga_id)
    assert _purge(made, saga_id).purge.by == "bob"
    assert SECRET not in _stored(made)
    assert not _start(made).created
    assert _item(made, saga_id) is None


def test_a_start_that_was_left_half_done_is_finished(bench: Make) -> None:
    made = bench(Trip)
    saga_id = _start(made).state.saga_id
    made.lose_messages()
    _expire(made, saga_id)  # it was never created
    again = _start(made)
    assert not again.created
    made.run()
    assert made.state(saga_id).status is SagaStatus.COMPLETED


def test_a_start_that_is_overtaken_by_a_purge_creates_nothing(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had seen the first entry unmarked and no control item; all else happens before it creates one."""
    bench = keeping(Trip)
    saga_id = _start(bench).state.saga_id
    bench.lose_messages()
    _expire(bench, saga_id)
    control = bench.engine.control
    again = control.create_again

    def overtaken(state: SagaState, stale_after: float, journal: Any, found_by: Any) -> bool:
        monkeypatch.undo()
        assert _start(bench).state.saga_id == saga_id
        bench.run()
        bench.clock.advance(DAY)
        assert bench.engine.purger.run(60.0).purged == [saga_id]
        return again(state, stale_after, journal, found_by)

    monkeypatch.setattr(control, "create_again", overtaken)
    answer = _start(bench)
    assert (answer.created, answer.state.status) == (False, SagaStatus.COMPLETED)
    assert _item(bench, saga_id) is None
    bench.run()
    assert len(LOG) == 3


# What it leaves to the sweep.


def _left(bench: Bench, saga_id: str) -> tuple[list[str], int]:
    """The keys that the answer names, and how many more there were."""
    shown = bench.engine.reader.show("book", saga_id)
    assert {one["bucket"] for one in shown.get("objects", [])} <= {"books"}
    return [one["key"] for one in shown.get("objects", [])], shown.get("more_objects", -1)


def _bound(bench: Bench, parts: str = "2") -> str:
    saga_id = _start(bench, "book", {"item": parts}).state.saga_id
    bench.run()
    assert bench.show(saga_id)["status"] == "COMPLETED"
    assert "objects" not in bench.engine.reader.show("book", saga_id)
    bench.clock.advance(HOUR)
    return saga_id


def test_objects_that_the_results_named_are_named_once_by_what_is_left(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    left = _purge(bench, saga_id, name="book")
    expected = ("books/1/scan.pdf", "books/1/0.pdf", "books/1/1.pdf")
    assert (left.objects, left.more_objects) == (tuple(("books", key) for key in expected), 0)
    assert _left(bench, saga_id) == ([*expected], 0)
    _purge(bench, saga_id, name="book")
    assert _left(bench, saga_id) == ([*expected], 0)
    assert "draft" not in _stored(bench)


def test_a_purge_by_retention_names_them_too(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench, "0")
    bench.clock.advance(DAY)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert _left(bench, saga_id) == (["books/1/scan.pdf"], 0)


def test_a_hundred_are_named_and_the_others_counted(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench, "150")
    _purge(bench, saga_id, name="book")
    keys, more = _left(bench, saga_id)
    assert (len(keys), keys[-1], more) == (100, "books/1/98.pdf", 51)


def test_long_names_leave_room_for_the_rest_of_a_tombstone(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.engine.purge._MOST_BYTES", 50)
    bench = keeping(Book)
    saga_id = _bound(bench)
    _purge(bench, saga_id, name="book")
    assert _left(bench, saga_id) == (["books/1/scan.pdf", "books/1/0.pdf"], 1)


def test_a_purge_that_is_interrupted_still_names_them(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    tombstones = bench.engine.purger.tombstones
    for method in ("put", "clear"):
        with monkeypatch.context() as patched:
            patched.setattr(tombstones, method, _away)
            with pytest.raises(Unavailable):
                _purge(bench, saga_id, name="book")
    _purge(bench, saga_id, name="book")
    assert len(_left(bench, saga_id)[0]) == 3


def _away(*_: object, **__: object) -> None:
    raise Unavailable("DynamoDB is out of reach")


def test_a_payload_that_is_gone_stops_no_purge(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    for one in bench.stack.s3.list_objects_v2(Bucket=bench.stack.bucket)["Contents"]:
        bench.stack.s3.delete_object(Bucket=bench.stack.bucket, Key=one["Key"])
    _purge(bench, saga_id, name="book")
    assert _left(bench, saga_id) == (["books/1/scan.pdf"], 0)


def test_what_an_earlier_version_left_names_none(keeping: Make) -> None:
    bench = keeping(Book)
    saga_id = _bound(bench)
    _purge(bench, saga_id, name="book")
    update = "REMOVE purge.objects, purge.more_objects"
    key = {"saga_id": {"S": saga_id}, "seq": {"N": "1"}}
    bench.stack.dynamodb.update_item(TableName=bench.stack.audit_table, Key=key, UpdateExpression=update)
    assert _left(bench, saga_id) == ([], 0)


# Reading.


def test_what_is_left_is_shown_without_payloads(keeping: Make) -> None:
    bench = keeping(Trip)
    FAIL["tell"] = Rejected("ann has moved")
    saga_id = _ended(bench)
    before, trail = bench.show(saga_id), bench.engine.reader.audit("trip", saga_id, 100, 0)[0]
    bench.clock.advance(HOUR)
    _purge(bench, saga_id, "she asked for it")
    after = {**bench.engine.reader.show("trip", saga_id)}
    assert after["purged_at"] == iso(bench.clock.now())
    assert after["purge_reason"] == "she asked for it"
    gone = {"request": None, "error": None, "fault": None}
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
    saga_id = _ended(bench)
    bench.clock.advance(HOUR)
    _purge(bench, saga_id)
    audit = bench.engine.reader.audit
    pages = [audit("trip", saga_id, 2, after) for after in (0, 2, 4)]
    assert [[one["seq"] for one in entries] for entries, _ in pages] == [[1, 2], [3, 4], [5]]
    assert [more for _, more in pages] == [2, 4, None]


def test_it_is_in_no_list_and_of_no_other_type(keeping: Make) -> None:
    bench = keeping(Trip, Fatal)
    saga_id = _ended(bench)
    bench.clock.advance(HOUR)
    _purge(bench, saga_id)
    assert bench.engine.reader.list(["trip"], None, 20, None)["sagas"] == []
    with pytest.raises(NotFound):
        bench.engine.reader.show("fatal", saga_id)
    with pytest.raises(NotFound):
        _purge(bench, saga_id, name="fatal")


# By hand.


def test_a_saga_under_way_is_not_purged(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _start(bench).state.saga_id
    with pytest.raises(Conflict, match="PENDING; only one that is over"):
        _purge(bench, saga_id)


def test_a_saga_that_needs_a_person_is_not_purged_by_hand_either(keeping: Make) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = _ended(bench, "fatal")
    bench.clock.advance(HOUR)
    with pytest.raises(Conflict, match="FAILED and needs a person"):
        _purge(bench, saga_id, name="fatal")


def test_a_purge_waits_until_nothing_can_be_at_work(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _ended(bench)
    state = bench.state(saga_id)
    lost = replace(state, token=state.token + 1, lost_until=bench.clock.now() + 900)
    assert bench.engine.control.claim(state, lost, 1.0)
    with pytest.raises(Conflict, match="may still be at work"):
        _purge(bench, saga_id)
    bench.clock.advance(900)
    assert _purge(bench, saga_id).purge.reason == "asked for"
    assert [one["seq"] for one in bench.stack.entries(saga_id)] == [1]


def test_a_saga_is_purged_right_after_its_end_and_its_starter_changes_nothing(keeping: Make) -> None:
    """Who wrote the first entry makes the control item unasked, and what the saga is found by before: for a minute."""
    bench = keeping(Found)
    begun = _start(bench, "found").state
    bench.run()
    began = bench.clock.now()
    assert _purge(bench, begun.saga_id, name="found").purge.reason == "asked for"
    assert SECRET not in _stored(bench)
    assert bench.engine.reader.list(["found"], None, 20, None)["sagas"] == []
    with pytest.raises(Conflict, match="was purged at"):
        bench.engine.operations.retry("found", begun.saga_id, "", "ann")
    bench.engine.findings.put(begun, {"item": SECRET})
    assert not bench.engine.control.create(begun, 1.0)
    bench.clock.time = began + 59
    assert bench.engine.purger.run(60.0).purged == []
    bench.clock.time = began + 60
    assert bench.engine.purger.run(60.0).purged == [begun.saga_id]
    assert SECRET not in _stored(bench)
    assert _item(bench, begun.saga_id) is None
    assert "purge_reason" in bench.engine.reader.show("found", begun.saga_id)


def test_what_a_lost_process_writes_late_is_purged_too(keeping: Make) -> None:
    """It writes into a slot that is empty by then; the longest that it can be at work is what a function may take."""
    bench = keeping(Trip)
    saga_id = _ended(bench)
    bench.clock.advance(HOUR)
    state, until = bench.state(saga_id), bench.clock.now() + 30
    assert bench.engine.control.claim(state, replace(state, token=9, lease=Lease("he", until, until)), 1.0)
    bench.clock.advance(31)
    assert _purge(bench, saga_id).purge.reason == "asked for"
    late = Entry(saga_id, state.seq + 1, until, "trip", "StepCompleted", "RUNNING", 9, payload=f'"{"x" * 20_000}"')
    bench.engine.journal.put(late)
    assert "payloads/" in _stored(bench)
    shown = bench.engine.reader.show("trip", saga_id)
    assert (shown.get("purged_at"), shown["request"]) == (iso(bench.clock.now()), None)
    bench.clock.advance(890)
    assert bench.engine.purger.run(60.0).purged == []
    bench.clock.advance(10)
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    assert [one["seq"] for one in bench.stack.entries(saga_id)] == [1]
    assert "payloads/" not in _stored(bench)
    assert bench.engine.control.get(saga_id) is None


def test_an_operator_who_died_does_not_keep_a_saga_for_good(keeping: Make) -> None:
    """He had taken the lease and journaled; what he left is in nobody's way when the key starts another saga."""
    bench = keeping(Trip)
    saga_id = _ended(bench)
    bench.clock.advance(DAY)
    state, until = bench.state(saga_id), bench.clock.now() + 30
    assert bench.engine.control.claim(state, replace(state, token=9, lease=Lease("he", until, until)), 1.0)
    left = Entry(saga_id, state.seq + 1, until, "trip", "CompensationStarted", "COMPENSATING", 9)
    bench.engine.journal.put(left)
    assert bench.engine.purger.run(60.0).untouched == 1
    with pytest.raises(Conflict, match="at work on this saga"):
        _purge(bench, saga_id)
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
    saga_id = _ended(bench)
    bench.clock.advance(HOUR)
    first = _purge(bench, saga_id, "first")
    bench.clock.advance(HOUR)
    assert _purge(bench, saga_id, "second") == first


def test_nothing_can_be_done_to_a_purged_saga(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _ended(bench)
    bench.clock.advance(HOUR)
    _purge(bench, saga_id, "gone")
    operations = bench.engine.operations
    asked: list[Callable[[], object]] = [
        lambda: operations.cancel("trip", saga_id, "ann"),
        lambda: operations.retry("trip", saga_id, "", "ann"),
        lambda: operations.compensate("trip", saga_id, "", "ann"),
        lambda: operations.resolve("trip", saga_id, "note", "", (), "ann"),
    ]
    for ask in asked:
        with pytest.raises(Conflict, match=r"COMPLETED and was purged at .* \(gone\)"):
            ask()


def test_a_saga_that_is_not_there_cannot_be_purged(keeping: Make) -> None:
    bench = keeping(Trip)
    with pytest.raises(NotFound):
        _purge(bench, bench.clock.new_id())


# While it is under way.


def test_a_purge_that_was_interrupted_lets_nobody_else_in(keeping: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = keeping(Fatal)
    FAIL["second"] = 1
    saga_id = _ended(bench, "fatal")
    bench.engine.operations.resolve("fatal", saga_id, "settled", "", (), "ann")
    bench.clock.advance(HOUR)

    def dying(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench.engine.purger.tombstones, "put", dying)
    with pytest.raises(KeyboardInterrupt):
        _purge(bench, saga_id, "mine", name="fatal")
    monkeypatch.undo()
    bench.clock.advance(365 * DAY)  # no lease of a purge expires
    with pytest.raises(Conflict, match="was purged at"):
        bench.engine.operations.compensate("fatal", saga_id, "", "ann")
    assert bench.engine.reader.list(["fatal"], None, 20, None)["sagas"] == []
    assert not _start(bench, "fatal").created
    assert bench.engine.purger.run(60.0).purged == [saga_id]
    left = bench.engine.reader.show("fatal", saga_id)
    assert (left.get("purge_reason"), left["status"]) == ("mine", "FAILED")


def test_a_message_of_a_purged_saga_is_dropped(keeping: Make) -> None:
    bench = keeping(Trip)
    saga_id = _start(bench).state.saga_id
    [record] = bench.stack.receive("trip", "book")
    bench.handle("trip", "book", record)
    bench.run()
    bench.clock.advance(HOUR)
    _purge(bench, saga_id)
    assert isinstance(bench.handle("trip", "book", record), Done)
    assert _item(bench, saga_id) is None
