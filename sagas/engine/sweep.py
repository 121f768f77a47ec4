"""Sweeping: objects that undone sagas left behind in S3.

Page by page: a listing of up to 1,000 objects, consistent reads of up to 100 sagas each, and of the tombstones of those
that are not there, one deletion. That is at most 22 requests, and never more than one page in memory. Two sweeps at
once do no harm: each asks before it deletes, and what is gone already counts as deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from sagas.authoring.context import S3Object
from sagas.authoring.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.authoring.saga import Saga
from sagas.engine.clock import Clock
from sagas.engine.context import StepContext
from sagas.engine.coroutines import awaited
from sagas.engine.engine import Engine, settings_from
from sagas.engine.orphans import SummaryStore, SweepReport, inspect, too_many
from sagas.errors import SagaError
from sagas.store.checkpoints import Checkpoint, Checkpoints, SagaSummaries
from sagas.store.objects import GONE, Listed, Objects, connect_s3
from sagas.store.payloads import Payloads
from sagas.store.tables import tables_for
from sagas.store.tombstones import Tombstones

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
    """What an operator, or the schedule, wants swept.

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
            request: what is to be swept.
            deadline: epoch seconds at which to stop.

        Returns:
            A report for each type that was due.
        """
        wanted = [(d, d.orphans) for d in self.definitions if d.orphans is not None and request.saga in (None, d.name)]
        reports: list[SweepReport] = []
        for position, (definition, policy) in enumerate(wanted):
            now = self.clock.now()
            report = SweepReport(definition.name, definition.prefix, request.dry_run)
            run = _Run(self, definition, policy, request, report, now + (deadline - now) / (len(wanted) - position))
            try:
                if request.now or request.dry_run:
                    run.pages(request.start_after)
                elif not self._on_schedule(run, policy.every.total_seconds()):
                    continue
            except Exception as error:  # noqa: BLE001 - whatever happens here must not keep the other types from their turn
                report.error = str(error) if isinstance(error, SagaError) else type(error).__name__
            reports.append(report)
        return reports

    def _on_schedule(self, run: _Run, every: float) -> bool:
        """Go on where the last run ended, or begin anew when it is time; remember how far it got, whatever happens.

        Returns:
            Whether it was due.
        """
        report, now = run.report, self.clock.now()
        last = self.checkpoints.get(report.saga)
        unfinished = last.began_at > last.finished_at
        if not unfinished and now < last.began_at + every - _SLACK:
            return False
        report.start_after = last.start_after
        began_at = last.began_at if unfinished else now
        try:
            run.pages(last.start_after)
        finally:
            finished_at = max(self.clock.now(), began_at) if report.finished else last.finished_at
            self.checkpoints.put(report.saga, Checkpoint(report.start_after, began_at, finished_at))
        return True


@dataclass(slots=True)
class _Run:
    """One run over one type's prefix. ``deadline`` in epoch seconds."""

    sweeper: Sweeper
    definition: SagaDefinition
    policy: OrphanSweep
    request: SweepRequest
    report: SweepReport
    deadline: float
    objects: Objects = field(init=False)
    instance: Any = None

    def pages(self, start_after: str) -> None:
        """Sweep page by page, from the key after ``start_after`` to the end or as long as there is time.

        Raises:
            SagaError: the environment does not name the bucket, or what is archived would be swept again.
        """
        report, prefix = self.report, self.definition.prefix
        report.start_after = start_after if start_after.startswith(prefix) else ""
        saga_class: type[Saga[Any]] = self.definition.saga_class
        own = saga_class.on_orphans is not cast("type[Saga[Any]]", Saga).on_orphans
        report.action = _OWN if own else self.policy.action
        report.bucket = self.sweeper.environment.get(self.policy.bucket_env, "")
        if not report.bucket:
            raise SagaError(f"the environment lacks {self.policy.bucket_env}")
        if report.action == "archive" and f"{ARCHIVE}{self.policy.prefix}".startswith(self.policy.prefix):
            raise SagaError(f"what is archived under {ARCHIVE} would be swept again with {self.policy.prefix}")
        self.objects = Objects(self.sweeper.s3, report.bucket)
        idle = self.request.dry_run or report.action == "report"
        actions = {"delete": self._delete, "archive": self._archive, _OWN: self._hand_over}
        while not report.finished and self.sweeper.clock.now() < self.deadline:
            page = self.objects.page(prefix, report.start_after)
            before = self.sweeper.clock.now() - self.policy.min_age.total_seconds()
            orphans = inspect(report, page.objects, before, self.sweeper.summaries)
            if not self.request.force and too_many(len(orphans), len(page.objects)):
                seen = f"{len(orphans)} of {len(page.objects)} objects on a page are orphans"
                report.stopped = report.stopped or seen
                if not idle:
                    return
            elif orphans and not idle and not actions[report.action](orphans):
                return
            report.finished = page.last or not page.objects
            report.start_after = "" if report.finished else page.objects[-1].key

    # Each deals with the orphans of a page, and tells whether to go on after it.

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
        sweeper, name, prefix = self.sweeper, self.definition.name, self.definition.prefix
        found = [S3Object(self.objects.bucket, one.key, one.size, one.etag) for one in orphans]
        context = StepContext("", name, _OWN, 1, False, prefix, self.deadline, sweeper.clock, sweeper.logger)
        if sweeper.connect is not None:
            context.connect = sweeper.connect
        try:
            if self.instance is None:
                self.instance = self.definition.saga_class.create()
            awaited(self.instance.on_orphans(found, context))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code; the next page may fare better
            # The error's text may quote anything: its type must do.
            sweeper.logger.error("on_orphans failed: %s", type(error).__name__)  # noqa: TRY400
            self.report.fail({one.key: type(error).__name__ for one in orphans})
            return True
        self.report.handled += len(orphans)
        return True


def sweeper_of(engine: Engine, environment: Mapping[str, str]) -> Sweeper:
    """Return the sweeper of an engine.

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
        SagaSummaries(tables, Tombstones(tables, settings, Payloads(settings))),
        connect_s3(settings),
        engine.clock,
        engine.services.logger,
        environment,
        engine.services.connect,
    )
