"""Sweeping S3, on moto: what goes, and above all what stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from sagas.engine.sweep.sweep import SweepRequest
from tests.engine.metering import Wire
from tests.engine.sweeping import DAY, MIN_AGE, SweepDesk, checkpoint

IN_FLIGHT = ("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED")


# What goes


@pytest.mark.parametrize("status", ["COMPENSATED", "CANCELLED", "COMPENSATION_FAILED"])
def test_what_undone_sagas_left_is_deleted(desk: Callable[..., SweepDesk], status: str) -> None:
    d = desk()
    orphan = d.saga(status)
    d.object_of(orphan)
    d.object_of(orphan, filename="other")
    kept = d.owned(1)
    report = d.sweep()
    assert d.keys() == kept
    assert (report.listed, report.orphans, report.deleted, report.unknown, report.foreign) == (3, 2, 2, 0, 0)
    assert report.finished
    assert len(report.sample["orphans"]) == 2


def test_a_whole_saga_that_fails_and_leaves_its_file(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    good, bad = (d.bench.start("zip", {"item": "x", "count": count}) for count in (1, 0))
    d.bench.run()
    assert d.bench.show(bad)["status"] == "COMPENSATED"
    assert len(d.keys()) == 2
    assert d.sweep().deleted == 1
    assert d.keys() == [f"zips/{good}/file"]


# What stays


@pytest.mark.parametrize("status", [*IN_FLIGHT, "COMPLETED", "FAILED"])
def test_what_belongs_to_a_saga_stays(desk: Callable[..., SweepDesk], status: str) -> None:
    d = desk()
    key = d.object_of(d.saga(status))
    report = d.sweep(SweepRequest(now=True, force=True))
    assert d.keys() == [key]
    assert (report.listed, report.orphans, report.unknown, report.foreign) == (1, 0, 0, 0)


@pytest.mark.parametrize("status", ["COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"])
def test_what_a_person_must_look_at_stays(desk: Callable[..., SweepDesk], status: str) -> None:
    d = desk()
    key = d.object_of(d.saga(status, attention=1_795_000_000.0))
    assert d.sweep().orphans == 0
    assert d.keys() == [key]


def test_an_empty_table_empties_no_bucket(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    ids = [d.saga(status) for status in ("COMPENSATED", "COMPLETED", "CANCELLED")]
    keys = sorted(d.object_of(saga_id) for saga_id in ids)
    for saga_id in ids:
        d.bench.stack.dynamodb.delete_item(TableName=d.bench.stack.sagas_table, Key={"saga_id": {"S": saga_id}})
    report = d.sweep(SweepRequest(now=True, force=True))
    assert d.keys() == keys
    assert (report.unknown, report.orphans, report.deleted) == (3, 0, 0)
    assert report.sample["unknown"] == keys


def test_a_table_that_is_gone_empties_no_bucket(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    keys = d.orphans(2)
    d.bench.stack.dynamodb.delete_table(TableName=d.bench.stack.sagas_table)
    (report,) = d.sweeper.run(SweepRequest(now=True), d.clock.now() + 60)
    assert report.error
    assert d.keys() == keys


def test_what_cannot_be_attributed_stays(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    undone, other = d.saga(), d.saga(name="trip")
    for key in ("", "readme.txt", f"{undone}", f"{undone}/", f"{undone}/a/b", f"{undone.upper()}/a", f"x/{undone}/a"):
        d.put(f"zips/{key}")
    d.object_of(other)
    d.put(f"zipsy/{undone}/file")
    before = d.keys()
    report = d.sweep(SweepRequest(now=True, force=True))
    assert d.keys() == before
    assert (report.listed, report.foreign, report.orphans, report.unknown) == (8, 8, 0, 0)


def test_nothing_younger_than_min_age_goes(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    keys = d.orphans(2)
    d.clock.advance(MIN_AGE.total_seconds() - 60 - 3 * DAY)
    report = d.sweep(SweepRequest(now=True, force=True))
    assert d.keys() == keys
    assert (report.listed, report.orphans) == (2, 0)


def test_a_dry_run_touches_nothing(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    keys = d.orphans(2)
    report = d.sweep(SweepRequest(dry_run=True))
    assert d.keys() == keys
    assert (report.orphans, report.deleted, report.dry_run) == (2, 0, True)
    assert report.sample["orphans"] == keys
    assert checkpoint(d) is None


# Too many


def test_mostly_orphans_stop_the_sweep(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    keys = sorted(d.orphans(11) + d.owned(9))
    report = d.sweep()
    assert d.keys() == keys
    assert (report.orphans, report.deleted, report.finished) == (11, 0, False)
    assert report.stopped == "11 of 20 objects on a page are orphans"
    assert d.sweep(SweepRequest(dry_run=True)).stopped
    assert d.sweep(SweepRequest(now=True, force=True)).deleted == 11
    assert len(d.keys()) == 9


def test_half_a_page_is_not_too_many(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    d.orphans(10)
    kept = d.owned(10)
    assert not d.sweep().stopped
    assert d.keys() == kept


def test_the_schedule_tries_the_stopping_page_again(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    keys = d.orphans(20)
    (report,) = d.ticks()
    assert report.stopped
    d.clock.advance(3600)
    (report,) = d.ticks()
    assert report.stopped
    assert d.keys() == keys


# What it costs


@pytest.mark.slow
def test_at_most_twelve_requests_for_a_thousand_objects(desk: Callable[..., SweepDesk], wire: Wire) -> None:
    """The dearest thousand there is: each of another saga, half of them orphans.

    It takes one more for each hundred entries of COMPLETED sagas that are old enough: here each has but one.
    """
    d = desk()
    states = [d.engine.clock.new_id() for _ in range(1_000)]
    _store_many(d, states)
    wire.requests.clear()
    report = d.sweep()
    assert (report.listed, report.deleted, report.finished) == (1_000, 500, True)
    assert Counter(wire.names()) == {"ListObjectsV2": 1, "BatchGetItem": 10, "DeleteObjects": 1}
    assert len(wire.requests) <= 12
    d.clock.advance(3 * DAY)
    wire.requests.clear()
    assert d.sweep().listed == 500
    assert Counter(wire.names()) == {"ListObjectsV2": 1, "BatchGetItem": 5 + 5}


def test_a_round_costs_three_more(desk: Callable[..., SweepDesk], wire: Wire) -> None:
    d = desk()
    saga_id = d.saga()
    for number in range(15):
        d.object_of(saga_id, filename=str(number))
    wire.requests.clear()
    assert d.ticks()[0].deleted == 15
    page = {"ListObjectsV2": 1, "BatchGetItem": 1, "DeleteObjects": 1}
    # to begin it and to end it
    more = {"GetItem": 1, "UpdateItem": 2}
    assert Counter(wire.names()) == Counter(page) + Counter(more)


def _store_many(d: SweepDesk, ids: list[str]) -> None:
    """Store sagas as copies of one, half of them undone, and an object for each."""
    items = [d.bench.stack.control(d.saga(status)) for status in ("COMPLETED", "COMPENSATED")]
    table = d.bench.stack.sagas_table
    for start in range(0, len(ids), 25):
        puts = [
            {"PutRequest": {"Item": items[(start + n) % 2] | {"saga_id": {"S": saga_id}}}}
            for n, saga_id in enumerate(ids[start : start + 25])
        ]
        d.bench.stack.dynamodb.batch_write_item(RequestItems={table: puts})
    for saga_id in ids:
        d.object_of(saga_id)
