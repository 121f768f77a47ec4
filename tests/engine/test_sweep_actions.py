"""What becomes of orphans: archived, reported, or handed to the class."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from sagas.engine.sweep.sweep import SweepRequest
from tests.engine.sweeping import BUCKET, Look, Loop, Own, Proxy, Shelf, Slow, SweepDesk, taking


def test_archived_before_deleted(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Shelf)
    keys = d.orphans(3, "shelf/", "shelf")
    report = d.sweep()
    assert d.keys() == [f"archive/{key}" for key in keys]
    assert d.s3.get_object(Bucket=BUCKET, Key=f"archive/{keys[0]}")["Body"].read() == b"content"
    assert (report.archived, report.deleted, report.errors) == (3, 3, 0)
    assert d.sweep().listed == 0


def test_what_was_not_copied_is_not_deleted(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Shelf)
    keys = d.orphans(2, "shelf/", "shelf")

    def break_first(**arguments: Any) -> None:
        if arguments["CopySource"]["Key"] == keys[0]:
            d.s3.copy_object(CopySource={"Bucket": "no-such-bucket", "Key": "x"}, Bucket=BUCKET, Key="y")

    report = d.sweep(s3=Proxy(d.s3, copy_object=break_first))
    assert d.keys() == [f"archive/{keys[1]}", keys[0]]
    assert (report.archived, report.deleted, report.errors) == (1, 1, 1)
    assert report.sample["errors"] == [f"{keys[0]}: NoSuchBucket"]


def test_archiving_goes_on_in_the_next_run_when_the_time_is_up(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Shelf)
    keys = d.orphans(18, "shelf/", "shelf")
    slow = Proxy(d.s3, copy_object=taking(d, 40))
    (report,) = d.ticks(d.changed(s3=slow))
    done = report.archived
    assert 0 < done < 18
    assert (report.deleted, report.finished) == (done, False)
    left = [key for key in keys if key in set(d.keys())]
    assert len(left) == 18 - done
    (report,) = d.ticks()
    assert (report.archived, report.finished) == (18 - done, True)
    assert d.keys() == [f"archive/{key}" for key in keys]


def test_an_archive_inside_what_is_swept_is_refused(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Loop)
    keys = d.orphans(1, "archive/", "loop")
    (report,) = d.sweeper.run(SweepRequest(now=True), d.clock.now() + 60)
    assert "archive/" in report.error
    assert d.keys() == keys


def test_reporting_touches_nothing(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Look)
    keys = d.orphans(21, "look/", "look")
    report = d.sweep()
    assert d.keys() == keys
    assert (report.orphans, report.deleted, report.finished) == (21, 0, True)
    assert report.stopped


def test_a_class_may_deal_with_them_itself(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Own)
    keys = d.orphans(2, "own/", "own")
    assert d.sweep(SweepRequest(dry_run=True)).orphans == 2
    assert Own.seen == []
    report = d.sweep()
    assert d.keys() == keys
    ((orphans, ctx),) = Own.seen
    assert [(one.bucket, one.key, one.size) for one in orphans] == [(BUCKET, key, 7) for key in keys]
    assert (ctx.saga, ctx.step, ctx.saga_id, ctx.cancelled) == ("own", "on_orphans", "", False)
    assert ctx.client("s3").list_buckets()["Buckets"]
    assert 0 < ctx.remaining_time() <= 60
    assert (report.action, report.handled, report.deleted) == ("on_orphans", 2, 0)


def test_it_may_be_async(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Slow)
    keys = d.orphans(2, "slow/", "slow")
    assert d.sweep().handled == 2
    assert Slow.seen == keys


def test_its_pages_share_an_event_loop(desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.journal.objects.PAGE", 2)
    d = desk(Slow)
    d.orphans(3, "slow/", "slow")
    assert d.sweep().handled == 3
    assert len(Slow.loops) == 2
    assert len(set(Slow.loops)) == 1


def test_its_failure_is_counted_and_not_quoted(
    desk: Callable[..., SweepDesk], caplog: pytest.LogCaptureFixture
) -> None:
    d = desk(Own)
    keys = d.orphans(2, "own/", "own")
    Own.error = ValueError("secret")
    with caplog.at_level(logging.INFO):
        report = d.sweep(logger=logging.getLogger("sweep"))
    assert (report.errors, report.handled, report.finished) == (2, 0, True)
    assert report.sample["errors"] == [f"{key}: ValueError" for key in keys]
    assert "on_orphans failed: ValueError" in caplog.text
    assert "secret" not in caplog.text
