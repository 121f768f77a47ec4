"""Objects of sagas that have succeeded, which none of what they stored names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sagas import Context, OrphanSweep, Retry, Saga, step
from sagas.core.text import iso
from sagas.engine.sweep.sweep import SweepRequest
from sagas.errors import DefinitionError
from sagas.store.journal.journal import Journal
from tests.engine.sweeping import BUCKET, DAY, MIN_AGE, Own, Proxy, SweepDesk
from tests.support.sagas import Idle
from tests.support.sagas import Order as Request

RETRY = Retry.constant(max_retries=1, delay=0)


class Attempts(Saga[Request]):
    """Stores a file for each attempt, and loses the first; its result names the other, among ``padding``."""

    padding = ""

    @step(retry=RETRY)
    def upload(self, ctx: Context) -> dict[str, str]:
        key = ctx.s3_key(f"file-{ctx.attempt}")
        ctx.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"")
        if ctx.attempt == 1:
            raise RuntimeError("lost")
        return {"key": key, "padding": self.padding}

    @step
    def tell(self) -> None: ...


class Reported(Attempts, name="reported", orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE)):
    """The default."""


class Cleaned(Attempts, name="cleaned", orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE, unreferenced="delete")):
    """Cleans them, too."""


class Kept(Attempts, name="kept", orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE, unreferenced="keep")):
    """Looks for none."""


class Large(Cleaned, name="large", orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE, unreferenced="delete")):
    """Its result is stored aside."""

    padding = "x" * 20_000


def over(d: SweepDesk, name: str, count: int = 1) -> list[str]:
    """Run such sagas; three days later."""
    ids = [d.bench.start(name, {"item": "x", "count": 1}) for _ in range(count)]
    d.bench.run()
    assert all(d.bench.show(saga_id)["status"] == "COMPLETED" for saga_id in ids)
    d.clock.advance(3 * DAY)
    return ids


def test_it_is_reported_and_stays(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Reported)
    (saga_id,) = over(d, "reported")
    report = d.sweep()
    assert d.keys() == [f"zips/{saga_id}/file-1", f"zips/{saga_id}/file-2"]
    assert (report.listed, report.kept, report.unreferenced, report.left, report.deleted) == (2, 1, 1, 1, 0)
    assert report.sample == {"unreferenced": [f"zips/{saga_id}/file-1"]}


@pytest.mark.parametrize("saga_class", [Cleaned, Large])
def test_it_is_cleaned_where_the_author_says_so(desk: Callable[..., SweepDesk], saga_class: type[Any]) -> None:
    d = desk(saga_class)
    (saga_id,) = over(d, saga_class.__name__.lower())
    assert d.sweep(SweepRequest(dry_run=True)).unreferenced == 1
    report = d.sweep()
    assert d.keys() == [f"zips/{saga_id}/file-2"]
    assert (report.kept, report.unreferenced, report.deleted, report.left) == (1, 1, 1, 0)


def test_nothing_is_read_where_none_is_looked_for(desk: Callable[..., SweepDesk], wire: Any) -> None:
    d = desk(Kept)
    over(d, "kept")
    wire.requests.clear()
    report = d.sweep()
    assert (report.kept, report.unreferenced) == (2, 0)
    assert [operation for operation, _ in wire.requests] == ["ListObjectsV2", "BatchGetItem"]


def test_the_grace_period_counts_from_the_end_of_the_saga_too(desk: Callable[..., SweepDesk]) -> None:
    """The object is old, but only yesterday did the saga end, or an attempt of it get lost."""
    d = desk(Cleaned)
    (saga_id,) = over(d, "cleaned")
    assert d.sweep(SweepRequest(dry_run=True)).unreferenced == 1
    table, key = d.bench.stack.sagas_table, {"saga_id": {"S": saga_id}}

    for attribute in ("lost_until", "updated_at"):
        d.bench.stack.dynamodb.update_item(
            TableName=table,
            Key=key,
            UpdateExpression="SET #a = :a",
            ExpressionAttributeNames={"#a": attribute},
            ExpressionAttributeValues={":a": {"S": iso(d.clock.now() - DAY)}},
        )
        report = d.sweep()
        assert (report.unreferenced, report.kept) == (0, 2)


def test_an_entry_that_is_missing_names_everything(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Cleaned)
    (saga_id,) = over(d, "cleaned")
    seq = next(one.result_seq for one in d.bench.state(saga_id).steps)
    key = {"saga_id": {"S": saga_id}, "seq": {"N": str(seq)}}
    d.bench.stack.dynamodb.delete_item(TableName=d.bench.stack.audit_table, Key=key)
    report = d.sweep()
    assert (report.unreferenced, report.kept, len(d.keys())) == (0, 2, 2)


def test_a_purged_saga_keeps_what_it_had(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Cleaned)
    (saga_id,) = over(d, "cleaned")
    d.engine.purger.purge("cleaned", saga_id, "asked for", "ann")
    report = d.sweep()
    assert (report.unreferenced, report.kept) == (0, 2)


def test_a_payload_out_of_reach_stops_the_page(desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch) -> None:
    d = desk(Large)
    over(d, "large")
    d.s3.delete_object(
        Bucket=d.bench.stack.bucket, Key=d.s3.list_objects_v2(Bucket=d.bench.stack.bucket)["Contents"][0]["Key"]
    )
    (report,) = d.sweeper.run(SweepRequest(now=True), d.clock.now() + 60)
    assert "is missing, was changed" in report.error
    assert len(d.keys()) == 2


def test_where_the_time_is_up_the_page_ends_at_the_last_saga_looked_into(
    desk: Callable[..., SweepDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    d = desk(Large)
    ids = sorted(over(d, "large", 3))
    load = Journal.load

    def slowly(self: Journal, entry: Any) -> Any:
        d.clock.advance(30)
        return load(self, entry)

    monkeypatch.setattr(Journal, "load", slowly)
    report = d.sweep(seconds=80)
    assert (report.listed, report.unreferenced, report.deleted, report.finished) == (2, 1, 1, False)
    assert report.start_after == f"zips/{ids[0]}/file-2"
    report = d.sweep(SweepRequest(now=True, start_after=report.start_after), seconds=600)
    assert (report.listed, report.deleted, report.finished) == (4, 2, True)
    assert d.keys() == [f"zips/{saga_id}/file-2" for saga_id in ids]


def test_many_of_them_stop_the_sweep_as_well(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Cleaned)
    for saga_id in over(d, "cleaned", 10):
        d.object_of(saga_id, filename="more")
    d.clock.advance(3 * DAY)
    report = d.sweep()
    assert report.stopped == "20 of 30 objects on a page are orphans"
    assert (report.left, len(d.keys())) == (20, 30)


# What else on_orphans and the archive get


def test_on_orphans_is_told_size_and_age(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Own)
    d.orphans(1, "own/", "own")
    d.sweep()
    (((orphan,), _),) = Own.seen
    (listed,) = d.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert (orphan.size, orphan.last_modified) == (listed["Size"], listed["LastModified"])


class Elsewhere(
    Idle[Request],
    name="elsewhere",
    orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE, action="archive", archive_bucket_env="ARCHIVE_BUCKET"),
):
    """Its archive is another bucket."""


class Inward(
    Idle[Request],
    name="inward",
    orphans=OrphanSweep("ZIPS_BUCKET", "archive/", MIN_AGE, action="archive", archive_bucket_env="ARCHIVE_BUCKET"),
):
    """Likewise; it sweeps what would be its archive here."""


@pytest.mark.parametrize(("saga_class", "prefix"), [(Elsewhere, "zips/"), (Inward, "archive/")])
def test_archived_to_another_bucket(desk: Callable[..., SweepDesk], saga_class: type[Any], prefix: str) -> None:
    d = desk(saga_class)
    d.s3.create_bucket(Bucket="attic", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    keys = d.orphans(2, prefix, saga_class.__name__.lower())
    report = d.sweep()
    assert d.keys() == []
    assert [one["Key"] for one in d.s3.list_objects_v2(Bucket="attic")["Contents"]] == [f"archive/{k}" for k in keys]
    assert (report.archived, report.deleted, report.errors) == (2, 2, 0)


def test_an_archive_that_is_not_there_loses_nothing(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Elsewhere)
    keys = d.orphans(2, name="elsewhere")
    report = d.sweep()
    assert d.keys() == keys
    assert (report.archived, report.deleted, report.errors) == (0, 0, 2)


def test_what_another_sweep_archived_meanwhile_is_gone(desk: Callable[..., SweepDesk]) -> None:
    d = desk(Elsewhere)
    d.s3.create_bucket(Bucket="attic", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    keys = d.orphans(2, name="elsewhere")

    def overtake(**arguments: Any) -> None:
        d.s3.delete_object(Bucket=BUCKET, Key=keys[0])

    report = d.sweep(s3=Proxy(d.s3, copy_object=overtake))
    assert (report.orphans, report.gone, report.deleted, report.errors) == (2, 1, 1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"unreferenced": "burn"},
        {"unreferenced": "delete", "action": "report"},
        {"archive_bucket_env": "ATTIC"},
        {"archive_bucket_env": "A B", "action": "archive"},
    ],
)
def test_what_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=next(iter(wrong))):
        OrphanSweep("BUCKET", "x/", **wrong)
