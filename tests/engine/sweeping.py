"""Sagas that leave objects behind, and a desk to sweep them from, on moto."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from sagas import Context, OrphanedObject, OrphanSweep, Retry, S3Object, Saga, step
from sagas.core.states import SagaState, SagaStatus, StepState
from sagas.engine.sweep.orphans import SweepReport
from sagas.engine.sweep.sweep import Sweeper, SweepRequest, sweeper_of
from sagas.handlers.tasks.sweeping import continue_sweep
from sagas.messaging.work import BULK, Work, parse_work
from tests.support.aws import LambdaContext
from tests.support.bench import Bench, ManualClock
from tests.support.engine import Engine
from tests.support.sagas import Idle
from tests.support.sagas import Order as Request

BUCKET = "zips"
MIN_AGE = timedelta(hours=48)
DAY = 24 * 3600.0


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


class Shelf(Idle[Request], name="shelf", orphans=OrphanSweep("ZIPS_BUCKET", "shelf/", MIN_AGE, action="archive")):
    """Its orphans are archived."""


class Look(Idle[Request], name="look", orphans=OrphanSweep("ZIPS_BUCKET", "look/", MIN_AGE, action="report")):
    """Its orphans are reported."""


class Own(Idle[Request], name="own", orphans=OrphanSweep("ZIPS_BUCKET", "own/", MIN_AGE)):
    """Deals with its orphans itself."""

    seen: list[tuple[list[OrphanedObject], Context]] = []  # noqa: RUF012 - what the tests look at
    error: BaseException | None = None

    def on_orphans(self, orphans: Sequence[OrphanedObject], ctx: Context) -> None:
        type(self).seen.append((list(orphans), ctx))
        if self.error is not None:
            raise self.error


class Slow(Idle[Request], name="slow", orphans=OrphanSweep("ZIPS_BUCKET", "slow/", MIN_AGE)):
    """The same, and takes its time."""

    seen: list[str] = []  # noqa: RUF012 - what the tests look at
    loops: list[asyncio.AbstractEventLoop] = []  # noqa: RUF012 - likewise

    async def on_orphans(self, orphans: Sequence[S3Object], ctx: Context) -> None:
        type(self).seen.extend(one.key for one in orphans)
        type(self).loops.append(asyncio.get_running_loop())


class Astray(Idle[Request], name="astray", orphans=OrphanSweep("NO_SUCH_VARIABLE", "astray/", MIN_AGE)):
    """Its bucket has no name."""


class Gone(Idle[Request], name="gone", orphans=OrphanSweep("GONE_BUCKET", "gone/", MIN_AGE)):
    """Its bucket is not there."""


class Loop(Idle[Request], name="loop", orphans=OrphanSweep("ZIPS_BUCKET", "archive/", MIN_AGE, action="archive")):
    """It archives its own archive."""


@dataclass
class SweepDesk:
    """A bench and its bucket, seen three days later."""

    bench: Bench

    @property
    def clock(self) -> ManualClock:
        return self.bench.clock

    @property
    def engine(self) -> Engine:
        return self.bench.engine

    @property
    def s3(self) -> Any:
        return self.bench.stack.s3

    def saga(self, status: str = "COMPENSATED", name: str = "zip", *, attention: float = 0.0) -> str:
        """Store a saga in that state; return its id."""
        now = self.clock.now()
        steps = (StepState("upload"), StepState("announce"))
        state = SagaState(self.clock.new_id(), name, "1", steps, status=SagaStatus(status), attention=attention)
        state = structs.replace(state, correlation_id=state.saga_id, created_at=now, updated_at=now)
        assert self.engine.control.create(state, 120)
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
        return sweeper_of(self.engine, {**self.bench.stack.environment, **ENVIRONMENT})

    def sweep(self, request: SweepRequest | None = None, *, seconds: float = 60.0, **changes: Any) -> SweepReport:
        """Sweep the one type there is, by hand unless ``request`` says otherwise."""
        sweeper = self.changed(**changes)
        (report,) = sweeper.run(request or SweepRequest(now=True), self.clock.now() + seconds)
        assert not report.error
        return report

    def changed(self, **services: Any) -> Sweeper:
        """The sweeper, working with something else."""
        sweeper = self.sweeper
        return replace(sweeper, services=replace(sweeper.services, **services))

    def ticks(self, sweeper: Sweeper | None = None, seconds: float = 60.0) -> list[SweepReport]:
        return (sweeper or self.sweeper).run(SweepRequest(), self.clock.now() + seconds)

    def messages(self) -> list[dict[str, Any]]:
        """Take what is in the work queue: the details of each message."""
        found: list[dict[str, Any]] = []
        while records := self.bench.stack.receive_from(self.bench.stack.work, 10):
            for record in records:
                self.bench.stack.sqs.delete_message(
                    QueueUrl=self.bench.stack.work, ReceiptHandle=record["receiptHandle"]
                )
                work = parse_work(record)
                assert work.task == "sweep"
                found.append(work.details)
        return found

    def work_off(self, seconds: float = 60.0) -> int:
        """Work on rounds until no message is left; return how many there were."""
        count = 0
        while messages := self.messages():
            for details in messages:
                follow = continue_sweep(Work("sweep", details), LambdaContext(seconds), self.engine)
                self.engine.queues.send_work(BULK, [Work("sweep", one) for one in follow])
                count += 1
        return count


ENVIRONMENT = {"ZIPS_BUCKET": BUCKET, "GONE_BUCKET": "no-such-bucket", "ARCHIVE_BUCKET": "attic"}


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


def taking(d: SweepDesk, seconds: float) -> Callable[..., None]:
    """A call that takes so long."""

    def pass_time(**_: Any) -> None:
        d.clock.advance(seconds)

    return pass_time


def checkpoint(d: SweepDesk, attribute: str = "saga_id") -> Any:
    key = {"saga_id": {"S": "sweep#zip"}}
    item = d.bench.stack.dynamodb.get_item(TableName=d.bench.stack.sagas_table, Key=key).get("Item")
    return item[attribute]["S"] if item else None
