"""Sweeping: objects that undone sagas left behind in S3.

Page by page: a listing of up to 1,000 objects, consistent reads of up to 100 sagas each, one deletion. That is at most
12 requests, and never more than one page in memory. Two sweeps at once do no harm: each asks before it deletes, and
what is gone already counts as deleted.
"""

from __future__ import annotations

import asyncio
import inspect as inspection
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, cast

from sagas.authoring.context import S3Object
from sagas.authoring.definition import SagaDefinition
from sagas.authoring.saga import Saga
from sagas.engine.clock import Clock
from sagas.engine.context import StepContext
from sagas.engine.engine import Engine, settings_from
from sagas.engine.orphans import SummaryStore, SweepReport, inspect, too_many
from sagas.errors import SagaError
from sagas.store.checkpoints import Checkpoint, Checkpoints, SagaSummaries
from sagas.store.objects import GONE, Listed, Objects, connect_s3
from sagas.store.tables import tables_for

ARCHIVE = "archive/"
"""What an archived object's key begins with, before its own. The CDK construct permits it by the same name."""

_OWN = "on_orphans"
_SLACK = 300.0
"""Seconds. Ticks come a little early or late: without it, a sweep every six hours would wait for the seventh tick."""


class CheckpointStore(Protocol):
    """How far sweeps got; see ``sagas.store.checkpoints.Checkpoints``."""

    def get(self, saga: str) -> Checkpoint: ...
    def put(self, saga: str, checkpoint: Checkpoint) -> None: ...


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What somebody wants swept.

    Args:
        saga: only this type; all by default.
        now: whatever the schedule says, whose checkpoint is neither read nor written.
        dry_run: look, and touch nothing. Like ``now``, apart from the schedule.
        force: go on however many orphans there are.
        start_after: apart from the schedule, the key after which to begin.
    """

    saga: str | None = None
    now: bool = False
    dry_run: bool = False
    force: bool = False
    start_after: str = ""


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Sweeps the saga types that declare ``orphans``, each at its own time.

    Args:
        definitions: of all saga types deployed.
        checkpoints: where the schedule stands.
        summaries: how sagas stand.
        s3: a client of S3.
        clock: tells the time.
        logger: given to ``on_orphans``, and told when it fails.
        environment: holds the buckets' names.
        connect: makes the clients of ``ctx.client``.
    """

    definitions: Sequence[SagaDefinition]
    checkpoints: CheckpointStore
    summaries: SummaryStore
    s3: Any
    clock: Clock
    logger: logging.Logger
    environment: Mapping[str, str]
    connect: Callable[[str], Any] | None = None

    def run(self, request: SweepRequest, deadline: float) -> list[SweepReport]:
        """Sweep what is due. Each type gets its share of the time; one that fails stops no other.

        Args:
            order: what is to be swept.
            deadline: epoch seconds at which to stop.

        Returns:
            A report for each type that was due.
        """
        wanted = [d for d in self.definitions if d.orphans is not None and request.saga in (None, d.name)]
        reports: list[SweepReport] = []
        for position, definition in enumerate(wanted):
            now = self.clock.now()
            end = now + (deadline - now) / (len(wanted) - position)
            report = SweepReport(definition.name, definition.prefix, request.dry_run)
            if self._sweep(definition, request, report, end):
                reports.append(report)
        return reports

    def _sweep(self, definition: SagaDefinition, request: SweepRequest, report: SweepReport, deadline: float) -> bool:
        """Sweep one type; tell whether it was due."""
        try:
            if not (request.now or request.dry_run):
                return self._scheduled(definition, request, report, deadline)
            self._pages(definition, request, report, request.start_after, deadline)
        except Exception as error:  # noqa: BLE001 - whatever happens here must not keep the other types from their turn
            report.error = str(error) if isinstance(error, SagaError) else type(error).__name__
        return True

    def _scheduled(
        self, definition: SagaDefinition, request: SweepRequest, report: SweepReport, deadline: float
    ) -> bool:
        """Go on where the last run ended, or begin anew when it is time; remember how far it got, whatever happens."""
        last, now = self.checkpoints.get(definition.name), self.clock.now()
        unfinished = last.began_at > last.finished_at
        if not unfinished and now < last.began_at + _every(definition) - _SLACK:
            return False
        report.start_after = last.start_after
        began_at = last.began_at if unfinished else now
        try:
            self._pages(definition, request, report, last.start_after, deadline)
        finally:
            finished_at = max(self.clock.now(), began_at) if report.finished else last.finished_at
            self.checkpoints.put(definition.name, Checkpoint(report.start_after, began_at, finished_at))
        return True

    def _pages(
        self, definition: SagaDefinition, request: SweepRequest, report: SweepReport, start_after: str, deadline: float
    ) -> None:
        report.start_after = start_after if start_after.startswith(definition.prefix) else ""
        run = self._prepared(definition, request, report, deadline)
        while not report.finished and self.clock.now() < deadline:
            page = run.objects.page(definition.prefix, report.start_after)
            if not run.page(page.objects):
                return
            report.finished = page.last or not page.objects
            report.start_after = "" if report.finished else page.objects[-1].key

    def _prepared(
        self, definition: SagaDefinition, request: SweepRequest, report: SweepReport, deadline: float
    ) -> _Run:
        policy = definition.orphans
        if policy is None:
            raise SagaError(f"saga {definition.name!r} declares no orphans to sweep")
        saga_class: type[Saga[Any]] = definition.saga_class
        own = saga_class.on_orphans is not cast("type[Saga[Any]]", Saga).on_orphans
        report.action = _OWN if own else policy.action
        report.bucket = self.environment.get(policy.bucket_env, "")
        if not report.bucket:
            raise SagaError(f"the environment lacks {policy.bucket_env}")
        if report.action == "archive" and f"{ARCHIVE}{policy.prefix}".startswith(policy.prefix):
            raise SagaError(f"what is archived under {ARCHIVE} would be swept again with {policy.prefix}")
        return _Run(self, definition, request, report, Objects(self.s3, report.bucket), policy.min_age, deadline)


def _every(definition: SagaDefinition) -> float:
    return definition.orphans.every.total_seconds() if definition.orphans else 0.0


@dataclass(slots=True)
class _Run:
    """One run over one type's prefix. ``deadline`` in epoch seconds."""

    sweeper: Sweeper
    definition: SagaDefinition
    request: SweepRequest
    report: SweepReport
    objects: Objects
    min_age: timedelta
    deadline: float
    instance: Any = None

    def page(self, listed: Sequence[Listed]) -> bool:
        """Deal with the objects of one page; tell whether to go on after it."""
        before = self.sweeper.clock.now() - self.min_age.total_seconds()
        orphans = inspect(self.report, listed, before, self.sweeper.summaries)
        idle = self.request.dry_run or self.report.action == "report"
        if not self.request.force and too_many(len(orphans), len(listed)):
            self.report.stopped = (
                self.report.stopped or f"{len(orphans)} of {len(listed)} objects on a page are orphans"
            )
            return idle
        if idle or not orphans:
            return True
        return {"delete": self._delete, "archive": self._archive, _OWN: self._hand_over}[self.report.action](orphans)

    def _delete(self, orphans: Sequence[Listed]) -> bool:
        errors = self.objects.delete([orphan.key for orphan in orphans])
        self.report.deleted += len(orphans) - len(errors)
        self.report.fail(errors)
        return True

    def _archive(self, orphans: Sequence[Listed]) -> bool:
        """Copy, and delete what was copied. A page for which there is no time is gone on with in the next run."""
        copied: list[Listed] = []
        done = 0
        for orphan in orphans:
            if self.sweeper.clock.now() >= self.deadline:
                break
            error = self.objects.archive(orphan, ARCHIVE)
            if not error:
                copied.append(orphan)
            elif error not in GONE:
                self.report.fail({orphan.key: error})
            done += 1
        self.report.archived += len(copied)
        return (not copied or self._delete(copied)) and done == len(orphans)

    def _hand_over(self, orphans: Sequence[Listed]) -> bool:
        found = [S3Object(self.objects.bucket, one.key, one.size, one.etag) for one in orphans]
        try:
            if self.instance is None:
                self.instance = self.definition.saga_class.create()
            _finish(self.instance.on_orphans(found, self._context()))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code; the next page may fare better
            # The error's text may quote anything: its type must do.
            self.sweeper.logger.error("on_orphans failed: %s", type(error).__name__)  # noqa: TRY400
            self.report.fail({one.key: type(error).__name__ for one in orphans})
            return True
        self.report.handled += len(orphans)
        return True

    def _context(self) -> StepContext:
        sweeper, prefix = self.sweeper, self.definition.prefix
        context = StepContext(
            "", self.definition.name, _OWN, 1, False, prefix, self.deadline, sweeper.clock, sweeper.logger
        )
        if sweeper.connect is not None:
            context.connect = sweeper.connect
        return context


def _finish(result: Any) -> None:
    if inspection.isawaitable(result):
        asyncio.run(_awaited(result))


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def sweeper_of(engine: Engine, environment: Mapping[str, str]) -> Sweeper:
    """Return the sweeper of a engine.

    Args:
        engine: the parts at work.
        environment: says where the store is, and holds the buckets' names.

    Raises:
        SagaError: a variable of the store is missing.
    """
    settings = settings_from(environment)
    tables = tables_for(settings)
    return Sweeper(
        [saga_type.definition for saga_type in engine.registry],
        Checkpoints(tables),
        SagaSummaries(tables),
        connect_s3(settings),
        engine.clock,
        engine.services.logger,
        environment,
        engine.services.connect,
    )
