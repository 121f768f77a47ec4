"""Sweeping S3, on moto: what goes, and above all what stays."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.client import BaseClient
from typer.testing import CliRunner, Result

from sagas import Context, OrphanSweep, Retry, S3Object, Saga, step
from sagas.cli.main import app
from sagas.core.states import SagaState, SagaStatus, StepState
from sagas.core.times import epoch
from sagas.engine.assembly import Deployment
from sagas.engine.clock import SystemClock
from sagas.engine.orphans import SweepReport
from sagas.engine.sweep import Order, Sweeper, sweeper_of
from sagas.errors import InvalidRequest, NotFound, SagaError
from sagas.handlers.sweeping import sweep
from sagas.store.objects import Objects, Page
from tests.engine.conftest import World
from tests.support.aws import REGION, LambdaContext
from tests.support.sagas import Order as Request
from tests.support.sagas import Trip

Make = Callable[..., World]
Run = Callable[..., Result]
BUCKET = "zips"
MIN_AGE = timedelta(hours=48)
DAY = 24 * 3600.0
IN_FLIGHT = ("PENDING", "RUNNING", "WAITING", "COMPENSATING", "DEAD_LETTERED")


class Zip(Saga[Request], name="zip", orphans=OrphanSweep("ZIPS_BUCKET", "zips/", MIN_AGE)):
    """Leaves a file behind when it fails."""

    @step
    def upload(self, ctx: Context) -> str:
        ctx.client("s3").put_object(Bucket=BUCKET, Key=ctx.s3_key("file"), Body=b"")
        return ctx.s3_key("file")

    @step(retry=Retry.constant(max_retries=0, delay=0))
    def announce(self, request: Request) -> None:
        if request.count == 0:
            raise RuntimeError("nothing to announce")


class Shelf(Saga[Request], name="shelf", orphans=OrphanSweep("ZIPS_BUCKET", "shelf/", MIN_AGE, action="archive")):
    @step
    def put(self) -> None: ...


class Look(Saga[Request], name="look", orphans=OrphanSweep("ZIPS_BUCKET", "look/", MIN_AGE, action="report")):
    @step
    def see(self) -> None: ...


class Own(Saga[Request], name="own", orphans=OrphanSweep("ZIPS_BUCKET", "own/", MIN_AGE)):
    """Deals with its orphans itself."""

    seen: list[tuple[list[S3Object], Context]] = []  # noqa: RUF012 - what the tests look at
    error: BaseException | None = None

    @step
    def make(self) -> None: ...

    def on_orphans(self, orphans: Sequence[S3Object], ctx: Context) -> None:
        type(self).seen.append((list(orphans), ctx))
        if self.error is not None:
            raise self.error


class Slow(Saga[Request], name="slow", orphans=OrphanSweep("ZIPS_BUCKET", "slow/", MIN_AGE)):
    """The same, and takes its time."""

    seen: list[str] = []  # noqa: RUF012 - what the tests look at

    @step
    def make(self) -> None: ...

    async def on_orphans(self, orphans: Sequence[S3Object], ctx: Context) -> None:
        type(self).seen.extend(one.key for one in orphans)


class Astray(Saga[Request], name="astray", orphans=OrphanSweep("NO_SUCH_VARIABLE", "astray/", MIN_AGE)):
    @step
    def make(self) -> None: ...


class Gone(Saga[Request], name="gone", orphans=OrphanSweep("GONE_BUCKET", "gone/", MIN_AGE)):
    @step
    def make(self) -> None: ...


class Loop(Saga[Request], name="loop", orphans=OrphanSweep("ZIPS_BUCKET", "archive/", MIN_AGE, action="archive")):
    @step
    def make(self) -> None: ...


@dataclass
class Later(SystemClock):
    """A clock that is ahead by so many seconds, so that what was stored just now is old."""

    ahead: float = 3 * DAY

    def now(self) -> float:
        return super().now() + self.ahead


@dataclass
class Desk:
    """A deployment, its bucket and a clock three days ahead."""

    world: World
    clock: Later = field(default_factory=Later)

    @property
    def deployment(self) -> Deployment:
        return replace(self.world.deployment, clock=self.clock)

    @property
    def s3(self) -> Any:
        return self.world.stack.s3

    def saga(self, status: str = "COMPENSATED", name: str = "zip", *, attention: float = 0.0) -> str:
        """Store a saga in that state; return its id."""
        now = self.clock.now()
        steps = (StepState("upload"), StepState("announce"))
        state = SagaState(self.clock.new_id(), name, "1", steps, status=SagaStatus(status), attention=attention)
        state = replace(state, correlation_id=state.saga_id, created_at=now, updated_at=now)
        assert self.deployment.control.create(state, 120)
        return state.saga_id

    def put(self, key: str) -> str:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=b"content")
        return key

    def object_of(self, saga_id: str, prefix: str = "zips/", filename: str = "file") -> str:
        return self.put(f"{prefix}{saga_id}/{filename}")

    def orphans(self, count: int, prefix: str = "zips/", name: str = "zip") -> list[str]:
        return sorted(self.object_of(self.saga(name=name), prefix) for _ in range(count))

    def owned(self, count: int) -> list[str]:
        return sorted(self.object_of(self.saga("COMPLETED")) for _ in range(count))

    def keys(self) -> list[str]:
        return [item["Key"] for item in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    @property
    def sweeper(self) -> Sweeper:
        return sweeper_of(self.deployment, {**self.world.stack.environment, **ENVIRONMENT})

    def sweep(self, order: Order | None = None, *, seconds: float = 60.0, **changes: Any) -> SweepReport:
        """Sweep the one type there is, by hand unless ``order`` says otherwise."""
        sweeper = replace(self.sweeper, **changes)
        (report,) = sweeper.run(order or Order(now=True), self.clock.now() + seconds)
        assert not report.error
        return report

    def ticks(self, sweeper: Sweeper | None = None, seconds: float = 60.0) -> list[SweepReport]:
        return (sweeper or self.sweeper).run(Order(), self.clock.now() + seconds)


ENVIRONMENT = {"ZIPS_BUCKET": BUCKET, "GONE_BUCKET": "no-such-bucket"}


@pytest.fixture
def desk(world: Make) -> Callable[..., Desk]:
    """Make a desk for some saga classes; :class:`Zip` by default."""

    def make(*classes: type[Any]) -> Desk:
        made = Desk(world(*(classes or (Zip,)), **ENVIRONMENT))
        made.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        return made

    return make


@pytest.fixture(autouse=True)
def _clean() -> None:
    Own.seen.clear()
    Slow.seen.clear()
    Own.error = None


class Proxy:
    """A client of S3 that counts, and lets a test act before a call or answer in its place."""

    def __init__(self, client: Any, **before: Callable[..., Any]) -> None:
        self.calls: Counter[str] = Counter()
        self._client = client
        self._before = before

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls[name] += 1
            answer = self._before[name](**arguments) if name in self._before else None
            return getattr(self._client, name)(**arguments) if answer is None else answer

        return call


# What goes


@pytest.mark.parametrize("status", ["COMPENSATED", "CANCELLED", "COMPENSATION_FAILED"])
def test_what_undone_sagas_left_is_deleted(desk: Callable[..., Desk], status: str) -> None:
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


def test_a_whole_saga_that_fails_and_leaves_its_file(desk: Callable[..., Desk]) -> None:
    d = desk()
    good, bad = (d.world.start("zip", {"item": "x", "count": count}) for count in (1, 0))
    d.world.run()
    assert d.world.show("zip", bad)["status"] == "COMPENSATED"
    assert len(d.keys()) == 2
    assert d.sweep().deleted == 1
    assert d.keys() == [f"zips/{good}/file"]


# What stays


@pytest.mark.parametrize("status", [*IN_FLIGHT, "COMPLETED", "FAILED"])
def test_what_belongs_to_a_saga_stays(desk: Callable[..., Desk], status: str) -> None:
    d = desk()
    key = d.object_of(d.saga(status))
    report = d.sweep(Order(now=True, force=True))
    assert d.keys() == [key]
    assert (report.listed, report.orphans, report.unknown, report.foreign) == (1, 0, 0, 0)


@pytest.mark.parametrize("status", ["COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED"])
def test_what_a_person_must_look_at_stays(desk: Callable[..., Desk], status: str) -> None:
    d = desk()
    key = d.object_of(d.saga(status, attention=1_795_000_000.0))
    assert d.sweep().orphans == 0
    assert d.keys() == [key]


def test_an_empty_table_empties_no_bucket(desk: Callable[..., Desk]) -> None:
    d = desk()
    ids = [d.saga(status) for status in ("COMPENSATED", "COMPLETED", "CANCELLED")]
    keys = sorted(d.object_of(saga_id) for saga_id in ids)
    for saga_id in ids:
        d.world.stack.dynamodb.delete_item(TableName=d.world.stack.sagas_table, Key={"saga_id": {"S": saga_id}})
    report = d.sweep(Order(now=True, force=True))
    assert d.keys() == keys
    assert (report.unknown, report.orphans, report.deleted) == (3, 0, 0)
    assert report.sample["unknown"] == keys


def test_a_table_that_is_gone_empties_no_bucket(desk: Callable[..., Desk]) -> None:
    d = desk()
    keys = d.orphans(2)
    d.world.stack.dynamodb.delete_table(TableName=d.world.stack.sagas_table)
    (report,) = d.sweeper.run(Order(now=True), d.clock.now() + 60)
    assert report.error
    assert d.keys() == keys


def test_what_cannot_be_attributed_stays(desk: Callable[..., Desk]) -> None:
    d = desk()
    undone, other = d.saga(), d.saga(name="trip")
    for key in ("", "readme.txt", f"{undone}", f"{undone}/", f"{undone}/a/b", f"{undone.upper()}/a", f"x/{undone}/a"):
        d.put(f"zips/{key}")
    d.object_of(other)
    d.put(f"zipsy/{undone}/file")
    before = d.keys()
    report = d.sweep(Order(now=True, force=True))
    assert d.keys() == before
    assert (report.listed, report.foreign, report.orphans, report.unknown) == (8, 8, 0, 0)


def test_nothing_younger_than_min_age_goes(desk: Callable[..., Desk]) -> None:
    d = desk()
    keys = d.orphans(2)
    d.clock.ahead = MIN_AGE.total_seconds() - 60
    report = d.sweep(Order(now=True, force=True))
    assert d.keys() == keys
    assert (report.listed, report.orphans) == (2, 0)


def test_a_dry_run_touches_nothing(desk: Callable[..., Desk]) -> None:
    d = desk()
    keys = d.orphans(2)
    report = d.sweep(Order(dry_run=True))
    assert d.keys() == keys
    assert (report.orphans, report.deleted, report.dry_run) == (2, 0, True)
    assert report.sample["orphans"] == keys
    assert _checkpoint(d) is None


# Too many


def test_mostly_orphans_stop_the_sweep(desk: Callable[..., Desk]) -> None:
    d = desk()
    keys = sorted(d.orphans(11) + d.owned(9))
    report = d.sweep()
    assert d.keys() == keys
    assert (report.orphans, report.deleted, report.finished) == (11, 0, False)
    assert report.stopped == "11 of 20 objects on a page are orphans"
    assert d.sweep(Order(dry_run=True)).stopped
    assert d.sweep(Order(now=True, force=True)).deleted == 11
    assert len(d.keys()) == 9


def test_half_a_page_is_not_too_many(desk: Callable[..., Desk]) -> None:
    d = desk()
    d.orphans(10)
    kept = d.owned(10)
    assert not d.sweep().stopped
    assert d.keys() == kept


def test_the_schedule_tries_the_stopping_page_again(desk: Callable[..., Desk]) -> None:
    d = desk()
    keys = d.orphans(20)
    (report,) = d.ticks()
    assert report.stopped
    d.clock.ahead += 3600
    (report,) = d.ticks()
    assert report.stopped
    assert d.keys() == keys


# The other actions


def test_archived_before_deleted(desk: Callable[..., Desk]) -> None:
    d = desk(Shelf)
    keys = d.orphans(3, "shelf/", "shelf")
    report = d.sweep()
    assert d.keys() == [f"archive/{key}" for key in keys]
    assert d.s3.get_object(Bucket=BUCKET, Key=f"archive/{keys[0]}")["Body"].read() == b"content"
    assert (report.archived, report.deleted, report.errors) == (3, 3, 0)
    assert d.sweep().listed == 0


def test_what_was_not_copied_is_not_deleted(desk: Callable[..., Desk]) -> None:
    d = desk(Shelf)
    keys = d.orphans(2, "shelf/", "shelf")

    def break_first(**arguments: Any) -> None:
        if arguments["CopySource"]["Key"] == keys[0]:
            d.s3.copy_object(CopySource={"Bucket": "no-such-bucket", "Key": "x"}, Bucket=BUCKET, Key="y")

    report = d.sweep(s3=Proxy(d.s3, copy_object=break_first))
    assert d.keys() == [f"archive/{keys[1]}", keys[0]]
    assert (report.archived, report.deleted, report.errors) == (1, 1, 1)
    assert report.sample["errors"] == [f"{keys[0]}: NoSuchBucket"]


def test_archiving_goes_on_in_the_next_run_when_the_time_is_up(desk: Callable[..., Desk]) -> None:
    d = desk(Shelf)
    keys = d.orphans(3, "shelf/", "shelf")
    slow = Proxy(d.s3, copy_object=_taking(d, 40))
    (report,) = d.ticks(replace(d.sweeper, s3=slow))
    assert (report.archived, report.deleted, report.finished) == (2, 2, False)
    assert d.keys() == [f"archive/{keys[0]}", f"archive/{keys[1]}", keys[2]]
    (report,) = d.ticks()
    assert (report.archived, report.finished) == (1, True)
    assert d.keys() == [f"archive/{key}" for key in keys]


def test_an_archive_inside_what_is_swept_is_refused(desk: Callable[..., Desk]) -> None:
    d = desk(Loop)
    keys = d.orphans(1, "archive/", "loop")
    (report,) = d.sweeper.run(Order(now=True), d.clock.now() + 60)
    assert "archive/" in report.error
    assert d.keys() == keys


def test_reporting_touches_nothing(desk: Callable[..., Desk]) -> None:
    d = desk(Look)
    keys = d.orphans(21, "look/", "look")
    report = d.sweep()
    assert d.keys() == keys
    assert (report.orphans, report.deleted, report.finished) == (21, 0, True)
    assert report.stopped


def test_a_class_may_deal_with_them_itself(desk: Callable[..., Desk]) -> None:
    d = desk(Own)
    keys = d.orphans(2, "own/", "own")
    assert d.sweep(Order(dry_run=True)).orphans == 2
    assert Own.seen == []
    report = d.sweep()
    assert d.keys() == keys
    ((orphans, ctx),) = Own.seen
    assert [(one.bucket, one.key, one.size) for one in orphans] == [(BUCKET, key, 7) for key in keys]
    assert (ctx.saga, ctx.step, ctx.saga_id, ctx.cancelled) == ("own", "on_orphans", "", False)
    assert ctx.client("s3").list_buckets()["Buckets"]
    assert 0 < ctx.remaining_time() <= 60
    assert (report.action, report.handled, report.deleted) == ("on_orphans", 2, 0)


def test_it_may_be_async(desk: Callable[..., Desk]) -> None:
    d = desk(Slow)
    keys = d.orphans(2, "slow/", "slow")
    assert d.sweep().handled == 2
    assert Slow.seen == keys


def test_its_failure_is_counted_and_not_quoted(desk: Callable[..., Desk], caplog: pytest.LogCaptureFixture) -> None:
    d = desk(Own)
    keys = d.orphans(2, "own/", "own")
    Own.error = ValueError("secret")
    with caplog.at_level(logging.INFO):
        report = d.sweep(logger=logging.getLogger("sweep"))
    assert (report.errors, report.handled, report.finished) == (2, 0, True)
    assert report.sample["errors"] == [f"{key}: ValueError" for key in keys]
    assert "on_orphans failed: ValueError" in caplog.text
    assert "secret" not in caplog.text


# Several at once


def test_errors_of_single_keys_are_counted(desk: Callable[..., Desk]) -> None:
    d = desk()
    keys = d.orphans(3)

    def answer(**_: Any) -> Any:
        return {"Errors": [{"Key": keys[1], "Code": "AccessDenied"}]}

    report = d.sweep(s3=Proxy(d.s3, delete_objects=answer))
    assert (report.deleted, report.errors) == (2, 1)
    assert report.sample["errors"] == [f"{keys[1]}: AccessDenied"]


@pytest.mark.parametrize(("saga_class", "call"), [(Zip, "delete_objects"), (Shelf, "copy_object")])
def test_two_at_once_do_no_harm(desk: Callable[..., Desk], saga_class: type[Any], call: str) -> None:
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
def test_one_types_failing_sweep_stops_no_other(desk: Callable[..., Desk], bad: type[Any]) -> None:
    d = desk(bad, Zip)
    d.orphans(1)
    failed, swept = d.ticks()
    assert failed.error in ("the environment lacks NO_SUCH_VARIABLE", "AWS answered NoSuchBucket")
    assert (swept.saga, swept.deleted, swept.error) == ("zip", 1, "")


def test_each_type_gets_its_share_of_the_time(desk: Callable[..., Desk]) -> None:
    d = desk(Look, Zip)
    d.orphans(1)
    slow = Proxy(d.s3, list_objects_v2=_taking(d, 25))
    first, second = d.ticks(replace(d.sweeper, s3=slow))
    assert (first.finished, second.finished, second.deleted) == (True, True, 1)


# The schedule


def test_each_type_at_its_own_time(desk: Callable[..., Desk]) -> None:
    d = desk()
    assert d.ticks()[0].finished
    assert d.ticks() == []
    d.clock.ahead += 5 * 3600
    assert d.ticks() == []
    d.clock.ahead += 3600 - 60
    assert d.ticks()[0].finished
    assert d.ticks() == []


def test_the_next_run_goes_on_where_the_time_was_up(desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.objects.PAGE", 2)
    d = desk()
    d.owned(4)
    keys = d.orphans(1)
    listed: list[str] = []

    def note(**arguments: Any) -> None:
        listed.append(arguments.get("StartAfter", ""))
        d.clock.ahead += 40

    slow = replace(d.sweeper, s3=Proxy(d.s3, list_objects_v2=note))
    (first,) = d.ticks(slow)
    assert (first.listed, first.finished) == (4, False)
    assert first.start_after == d.keys()[3]
    began_at = epoch(_checkpoint(d, "began_at"))
    (second,) = d.ticks(slow)
    assert (second.listed, second.finished, second.start_after) == (1, True, "")
    assert listed == ["", d.keys()[1], d.keys()[3]]
    assert not set(keys) & set(d.keys())
    assert epoch(_checkpoint(d, "began_at")) == began_at < epoch(_checkpoint(d, "finished_at"))
    assert d.ticks() == []


def test_a_failure_keeps_the_place(desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.objects.PAGE", 2)
    d = desk()
    d.owned(5)
    second = d.keys()[1]

    def break_down(**arguments: Any) -> None:
        if arguments.get("StartAfter") == second:
            d.s3.list_objects_v2(Bucket="no-such-bucket")

    (report,) = d.ticks(replace(d.sweeper, s3=Proxy(d.s3, list_objects_v2=break_down)))
    assert (report.listed, report.error) == (2, "AWS answered NoSuchBucket")
    (report,) = d.ticks()
    assert (report.listed, report.finished) == (3, True)


def test_a_place_under_another_prefix_is_forgotten(desk: Callable[..., Desk]) -> None:
    d = desk()
    d.orphans(1)
    assert d.sweep(Order(now=True, start_after="zzz/elsewhere")).deleted == 1


def test_by_hand_the_schedule_stays_as_it_is(desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagas.store.objects.PAGE", 2)
    d = desk()
    d.owned(3)
    report = d.sweep(seconds=0.0)
    assert (report.listed, report.finished) == (0, False)
    report = d.sweep(Order(now=True, start_after=d.keys()[1]))
    assert (report.listed, report.finished) == (1, True)
    assert _checkpoint(d) is None


# What it costs


def test_at_most_twelve_requests_for_a_thousand_objects(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dearest thousand there is: each of another saga, half of them orphans."""
    d = desk()
    states = [d.deployment.clock.new_id() for _ in range(1_000)]
    _store_many(d, states)
    calls: Counter[str] = Counter()
    real: Any = cast("Any", BaseClient)._make_api_call

    def count(self: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        calls[operation] += 1
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", count)
    report = d.sweep()
    assert (report.listed, report.deleted, report.finished) == (1_000, 500, True)
    assert calls == {"ListObjectsV2": 1, "BatchGetItem": 10, "DeleteObjects": 1}
    assert sum(calls.values()) <= 12


def test_a_tick_costs_two_more(desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    d = desk()
    saga_id = d.saga()
    for number in range(15):
        d.object_of(saga_id, filename=str(number))
    calls: Counter[str] = Counter()
    real: Any = cast("Any", BaseClient)._make_api_call

    def count(self: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        calls[operation] += 1
        return real(self, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", count)
    assert d.ticks()[0].deleted == 15
    assert calls == {"GetItem": 1, "ListObjectsV2": 1, "BatchGetItem": 1, "DeleteObjects": 1, "PutItem": 1}


# The supervisor's task


def test_the_task_sweeps_what_is_due(desk: Callable[..., Desk]) -> None:
    d = desk(Zip, Trip)
    d.orphans(1)
    answer = sweep({"task": "sweep"}, LambdaContext(), d.deployment)
    (report,) = answer["swept"]
    assert (report["saga"], report["deleted"], report["finished"]) == ("zip", 1, True)
    assert sweep({"task": "sweep"}, LambdaContext(), d.deployment) == {"swept": []}


def test_the_task_sweeps_what_it_is_told(desk: Callable[..., Desk], caplog: pytest.LogCaptureFixture) -> None:
    d = desk(Zip, Look)
    keys = d.orphans(1)
    event = {"task": "sweep", "saga": "zip", "now": True, "dry_run": True}
    (report,) = sweep(event, LambdaContext(), d.deployment)["swept"]
    assert (report["orphans"], report["deleted"], report["dry_run"]) == (1, 0, True)
    assert report["sample"] == {"orphans": keys}
    with caplog.at_level(logging.INFO):
        (report,) = sweep(event | {"dry_run": False}, LambdaContext(), d.deployment)["swept"]
    assert (report["saga"], report["deleted"]) == ("zip", 1)
    logged = vars(caplog.records[-1])
    assert (logged["saga"], logged["deleted"]) == ("zip", 1)
    assert keys[0] not in str(logged)


def test_the_task_counts_what_a_person_should_see(
    desk: Callable[..., Desk], capsys: pytest.CaptureFixture[str]
) -> None:
    d = desk(Zip, Gone)
    d.orphans(20)
    sweep({"task": "sweep", "dry_run": True}, LambdaContext(), d.deployment)
    assert "SweepStopped" not in capsys.readouterr().out
    sweep({"task": "sweep"}, LambdaContext(), d.deployment)
    out = capsys.readouterr().out
    assert "SweepStopped" in out
    assert "SweepFailed" in out


@pytest.mark.parametrize(("name", "message"), [("nothing", "no saga named 'nothing'"), ("trip", "declares no orphans")])
def test_the_task_refuses_what_it_cannot_sweep(desk: Callable[..., Desk], name: str, message: str) -> None:
    d = desk(Zip, Trip)
    with pytest.raises(NotFound, match=message):
        sweep({"task": "sweep", "saga": name, "now": True}, LambdaContext(), d.deployment)


@pytest.mark.parametrize(
    "wrong",
    [{"saga": 1}, {"now": "yes"}, {"dry_run": 1}, {"force": []}, {"start_after": 5}, {"seconds": 0}, {"seconds": "1"}],
)
def test_the_task_refuses_what_does_not_fit(desk: Callable[..., Desk], wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sweep({"task": "sweep", **wrong}, LambdaContext(), desk().deployment)
    assert [problem.path for problem in caught.value.problems] == [f"$.{next(iter(wrong))}"]


# The command


class Lambda:
    """Lambda with one function, the supervisor of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def invoke(self, FunctionName: str, Payload: bytes) -> dict[str, Any]:
        """Call the function as Lambda does: what it raises is part of the answer."""
        event = json.loads(Payload)
        assert (FunctionName, event["task"]) == ("the-supervisor", "sweep")
        try:
            answer = sweep(event, LambdaContext(), self._desk.deployment)
        except SagaError as error:
            raised = {"errorType": type(error).__name__, "errorMessage": str(error)}
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(raised).encode())}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


@pytest.fixture
def command(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Desk, Run]]:
    """Make a desk, and ``sagas sweep`` that calls its supervisor, found as the local stack's is."""
    where = {"api_url": "http://127.0.0.1/v1", "region": REGION, "endpoint_url": None, "supervisor": "the-supervisor"}
    (tmp_path / ".sagas").mkdir()
    (tmp_path / ".sagas" / "local.json").write_text(json.dumps({**where, "queues": {}, "dead_letter_queues": {}}))
    monkeypatch.chdir(tmp_path)

    def make(*classes: type[Any]) -> tuple[Desk, Run]:
        d = desk(*classes)

        def connect(*_: object) -> Lambda:
            return Lambda(d)

        monkeypatch.setattr("sagas.client.client.connect_lambda", connect)
        return d, lambda *options: CliRunner().invoke(app, ["sweep", *options])

    return make


def test_the_command_shows_and_then_does(command: Callable[..., tuple[Desk, Run]]) -> None:
    d, run = command()
    orphans, stranger = d.orphans(2), d.put("zips/readme.txt")
    shown = run("zip", "--dry-run")
    assert shown.exit_code == 0
    assert "zip: 3 objects under zips/ in zips" in shown.output
    assert "2  left by sagas that were undone; would be deleted" in shown.output
    assert all(key in shown.output for key in (*orphans, stranger))
    assert len(d.keys()) == 3
    done = run("zip")
    assert (done.exit_code, d.keys()) == (0, [stranger])
    assert "2 deleted" in done.output


def test_the_command_goes_on_until_the_end(
    command: Callable[..., tuple[Desk, Run]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagas.store.objects.PAGE", 2)
    d, run = command()
    page = Objects.page

    def take_time(self: Objects, prefix: str, start_after: str = "") -> Page:
        d.clock.ahead += 16
        return page(self, prefix, start_after)

    monkeypatch.setattr(Objects, "page", take_time)
    d.owned(3)
    d.orphans(2)
    done = run("zip", "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (report["listed"], report["orphans"], report["deleted"], report["finished"]) == (5, 2, 2, True)
    assert len(d.keys()) == 3


def test_the_command_stops_and_can_be_forced(command: Callable[..., tuple[Desk, Run]]) -> None:
    d, run = command()
    d.orphans(20)
    shown = run("zip", "--dry-run")
    assert (shown.exit_code, "would stop" in shown.output) == (0, True)
    stopped = run("zip")
    assert (stopped.exit_code, len(d.keys())) == (1, 20)
    assert "20 of 20 objects" in stopped.output
    assert "--force" in stopped.output
    assert run("zip", "--force").exit_code == 0
    assert d.keys() == []


@pytest.mark.parametrize(("name", "message"), [("trip", "declares no orphans"), ("gone", "NoSuchBucket")])
def test_the_command_fails_in_one_line(command: Callable[..., tuple[Desk, Run]], name: str, message: str) -> None:
    _, run = command(Zip, Gone, Trip)
    failed = run(name)
    assert failed.exit_code == 1
    assert message in failed.stderr
    assert failed.stderr.startswith("sagas: ")
    assert failed.stderr.count("\n") == 1


def test_the_command_needs_a_local_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    failed = CliRunner().invoke(app, ["sweep", "zip"])
    assert (failed.exit_code, "no local stack" in failed.output) == (1, True)


def _taking(d: Desk, seconds: float) -> Callable[..., None]:
    """A call that takes so long."""

    def pass_time(**_: Any) -> None:
        d.clock.ahead += seconds

    return pass_time


def _checkpoint(d: Desk, attribute: str = "saga_id") -> Any:
    key = {"saga_id": {"S": "sweep#zip"}}
    item = d.world.stack.dynamodb.get_item(TableName=d.world.stack.sagas_table, Key=key).get("Item")
    return item[attribute]["S"] if item else None


def _store_many(d: Desk, ids: list[str]) -> None:
    """Store sagas as copies of one, half of them undone, and an object for each."""
    items = [d.world.stack.control(d.saga(status)) for status in ("COMPLETED", "COMPENSATED")]
    table = d.world.stack.sagas_table
    for start in range(0, len(ids), 25):
        puts = [
            {"PutRequest": {"Item": items[(start + n) % 2] | {"saga_id": {"S": saga_id}}}}
            for n, saga_id in enumerate(ids[start : start + 25])
        ]
        d.world.stack.dynamodb.batch_write_item(RequestItems={table: puts})
    for saga_id in ids:
        d.object_of(saga_id)
