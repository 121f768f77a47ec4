"""Sweeps at once, one after the other, and in the time they have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sagas.core.text import epoch
from sagas.engine.sweep.orphans import SweepReport
from sagas.engine.sweep.sweep import SweepRequest
from tests.engine.sweeping import Astray, Gone, Look, Proxy, Shelf, SweepDesk, Zip, checkpoint, taking

NO_BUCKET = "S3 ListObjectsV2: NoSuchBucket"

# Several at once


def test_errors_of_single_keys_are_counted(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    keys = d.orphans(3)

    def answer(**_: Any) -> Any:
        return {"Errors": [{"Key": keys[1], "Code": "AccessDenied"}]}

    report = d.sweep(s3=Proxy(d.s3, delete_objects=answer))
    assert (report.deleted, report.errors) == (2, 1)
    assert report.sample["errors"] == [f"{keys[1]}: AccessDenied"]


@pytest.mark.parametrize(("saga_class", "call"), [(Zip, "delete_objects"), (Shelf, "copy_object")])
def test_two_at_once_do_no_harm(desk: Callable[..., SweepDesk], saga_class: type[Any], call: str) -> None:
    """The second sweeps everything while the first is about to act."""
    d = desk(saga_class)
    prefix, name = ("zips/", "zip") if saga_class is Zip else ("shelf/", "shelf")
    kept = d.object_of(d.saga("COMPLETED", name), prefix)
    orphans = d.orphans(3, prefix, name)
    done: list[SweepReport] = []

    def overtake(**_: Any) -> None:
        if not done:
            done.append(d.sweep())

    report = d.sweep(s3=Proxy(d.s3, **{call: overtake}))
    assert not report.errors
    assert done[0].deleted == 3
    assert d.keys() == ([kept] if saga_class is Zip else [*(f"archive/{key}" for key in orphans), kept])


@pytest.mark.parametrize("bad", [Astray, Gone])
def test_one_types_failing_sweep_stops_no_other(desk: Callable[..., SweepDesk], bad: type[Any]) -> None:
    d = desk(bad, Zip)
    d.orphans(1)
    failed, swept = d.ticks()
    assert failed.error in ("the environment lacks NO_SUCH_VARIABLE", NO_BUCKET)
    assert (swept.type, swept.deleted, swept.error) == ("zip", 1, "")


def test_each_type_gets_its_share_of_the_time(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Look, Zip)
    d.orphans(1)
    slow = Proxy(d.s3, list_objects_v2=taking(d, 25))
    first, second = d.ticks(d.changed(s3=slow))
    assert (first.finished, second.finished, second.deleted) == (True, True, 1)


# The schedule


def test_each_type_at_its_own_time(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    assert d.ticks()[0].finished
    assert d.ticks() == []
    d.clock.advance(5 * 3600)
    assert d.ticks() == []
    d.clock.advance(3600 - 60)
    assert d.ticks()[0].finished
    assert d.ticks() == []


def test_the_next_run_goes_on_where_the_time_was_up(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    d = desk()
    d.owned(4)
    keys = d.orphans(1)
    listed: list[str] = []

    def note(**arguments: Any) -> None:
        listed.append(arguments.get("StartAfter", ""))
        d.clock.advance(40)

    slow = d.changed(s3=Proxy(d.s3, list_objects_v2=note))
    (first,) = d.ticks(slow)
    assert (first.listed, first.finished) == (4, False)
    assert first.start_after == d.keys()[3]
    began_at = epoch(checkpoint(d, "began_at"))
    (second,) = d.ticks(slow)
    assert (second.listed, second.finished, second.start_after) == (1, True, "")
    assert listed == ["", d.keys()[1], d.keys()[3]]
    assert not set(keys) & set(d.keys())
    assert epoch(checkpoint(d, "began_at")) == began_at < epoch(checkpoint(d, "finished_at"))
    assert d.ticks() == []


def test_a_failure_keeps_the_place(desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    d = desk()
    d.owned(5)
    second = d.keys()[1]

    def break_down(**arguments: Any) -> None:
        if arguments.get("StartAfter") == second:
            d.s3.list_objects_v2(Bucket="no-such-bucket")

    (report,) = d.ticks(d.changed(s3=Proxy(d.s3, list_objects_v2=break_down)))
    assert (report.listed, report.error) == (2, NO_BUCKET)
    (report,) = d.ticks()
    assert (report.listed, report.finished) == (3, True)


def test_a_place_under_another_prefix_is_forgotten(desk: Callable[..., SweepDesk]) -> None:
    d = desk()
    d.orphans(1)
    assert d.sweep(SweepRequest(now=True, start_after="zzz/elsewhere")).deleted == 1


def test_by_hand_the_schedule_stays_as_it_is(desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    d = desk()
    d.owned(3)
    report = d.sweep(seconds=0.0)
    assert (report.listed, report.finished) == (0, False)
    report = d.sweep(SweepRequest(now=True, start_after=d.keys()[1]))
    assert (report.listed, report.finished) == (1, True)
    assert checkpoint(d) is None
