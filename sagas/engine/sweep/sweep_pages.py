"""Sweeps a page: lists, classifies and handles up to 1,000 objects.

This takes one request to list, one per 100 sagas, one per 100 entries of COMPLETED sagas, and one to delete. For
missing sagas, tombstones are read, too. Only one page is held in memory.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field

from sagas.authoring.context import OrphanedObject
from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.authoring.saga import Saga
from sagas.aws import S3_NO_SUCH_KEY
from sagas.engine.attempt.context import StepContext
from sagas.engine.clock import Clock
from sagas.engine.sweep.orphans import Judge, Kind, SweepReport, Verdict, too_many
from sagas.errors import SagaError
from sagas.store.index.summaries import SagaSummaries
from sagas.store.journal.journal import Journal
from sagas.store.journal.objects import Listed, Objects

if TYPE_CHECKING:
    from sagas.engine.attempt.coroutines import EventLoop

ARCHIVE = "archive/"
"""Prefix that is added to the keys of archived objects. The CDK construct grants access to it."""

_AT_ONCE = 10
"""Number of objects that are copied at the same time: as many as the client has connections."""
_OWN = "on_orphans"


class SweepServices(Struct, frozen=True):
    """The services that a sweep uses.

    Args:
        summaries: the sagas' statuses.
        entries: the sagas' requests and results.
        s3: an S3 client.
        clock: the current time.
        logger: the logger, which is passed to ``on_orphans`` and logs failures of this method.
        environment: the environment variables, which name the buckets.
        connect: creates the clients of ``ctx.client``.
    """

    summaries: SagaSummaries
    entries: Journal
    s3: Any
    clock: Clock
    logger: logging.Logger
    environment: Mapping[str, str]
    connect: Callable[[str], Any] | None = None

    def variable(self, name: str) -> str:
        """Return the value of an environment variable."""
        value = self.environment.get(name, "")
        if not value:
            raise SagaError(f"the environment lacks {name}")
        return value


class Reached(Struct, frozen=True):
    """Where the sweep of a page ended.

    Args:
        after: the last key that the sweep has dealt with.
        finished: whether no more keys follow in the range.
        held: whether nothing was changed, because too many objects of the page are orphans.
    """

    after: str
    finished: bool = False
    held: bool = False


class _Done(Struct):
    """Outcome of handling the first ``reached`` orphans of a page."""

    reached: int
    deleted: int = 0
    archived: int = 0
    handled: int = 0
    gone: int = 0
    errors: dict[str, str] = field(default_factory=dict[str, str])


class PageSweep:
    """Sweeps pages of one saga type's objects.

    Args:
        services: the services that the sweep uses.
        definition: the saga type's definition.
        policy: its ``orphans``.
        report: the report to which the sweep adds its counts. It has the ``dry_run`` flag.
        deadline: epoch seconds at which to stop.
        force: whether to continue however many orphans there are.

    Raises:
        SagaError: the environment does not name a bucket, or the archive is among the objects to sweep.
    """

    def __init__(
        self,
        services: SweepServices,
        definition: SagaDefinition,
        policy: OrphanSweep,
        report: SweepReport,
        deadline: float,
        *,
        force: bool = False,
    ) -> None:
        self.report = report
        self.deadline = deadline
        self._services = services
        self._definition = definition
        self._policy = policy
        self._force = force
        self._instance: Any = None
        self._loop: EventLoop | None = None
        saga_class: type[Saga[Any]] = definition.saga_class
        own = saga_class.on_orphans is not cast("type[Saga[Any]]", Saga).on_orphans
        report.action = _OWN if own else policy.action
        report.bucket = services.variable(policy.bucket_env)
        self._archive_to = services.variable(policy.archive_bucket_env or policy.bucket_env)
        self.objects = Objects(services.s3, report.bucket)
        nested = self._archive_to == report.bucket and f"{ARCHIVE}{policy.prefix}".startswith(policy.prefix)
        if report.action == "archive" and nested:
            text = f"the sweep of {policy.prefix} would include its own archive under {ARCHIVE}"
            raise SagaError(f"{text}: archive to another bucket")
        entries = None if policy.unreferenced == "keep" else services.entries
        self._judge = Judge(report.type, definition.prefix, services.summaries, entries)
        self._idle = report.dry_run or report.action == "report"
        self._ours = (Kind.ORPHAN, Kind.UNREFERENCED) if policy.unreferenced == "delete" else (Kind.ORPHAN,)

    @property
    def in_time(self) -> bool:
        """Whether there is time left before the deadline."""
        return self._services.clock.now() < self.deadline

    def page(self, after: str) -> Reached:
        """Sweep the page after a key. The report counts only objects up to the returned key."""
        page = self.objects.page(self._definition.prefix, after)
        listed = page.objects
        last = page.last or not listed
        before = self._services.clock.now() - self._policy.min_age.total_seconds()
        verdicts = self._judge.judge(listed, before, lambda: self.in_time)
        ours = [number for number, verdict in enumerate(verdicts) if verdict.kind in self._ours]
        report = self.report
        if not self._force and too_many(len(ours), len(verdicts)):
            report.stopped = report.stopped or f"{len(ours)} of {len(verdicts)} objects on a page are orphans"
            if not self._idle:
                self._count(verdicts, _Done(0))
                return Reached(after, held=True)
        done = self._act([verdicts[number].listed for number in ours])
        if not self._idle and done.reached < len(ours):
            verdicts = verdicts[: ours[done.reached]]
        self._count(verdicts, done)
        finished = last and len(verdicts) == len(listed)
        return Reached(verdicts[-1].listed.key if verdicts else after, finished)

    def _act(self, orphans: Sequence[Listed]) -> _Done:
        """Perform the sweep's action on orphans."""
        if self._idle or not orphans:
            return _Done(0)
        if self.report.action == "archive":
            return self._archive(orphans)
        return self._delete(orphans) if self.report.action == "delete" else self._hand_over(orphans)

    def _count(self, verdicts: Sequence[Verdict], done: _Done) -> None:
        report = self.report
        for listed, kind in verdicts:
            report.count(kind, listed.key)
        report.deleted += done.deleted
        report.archived += done.archived
        report.handled += done.handled
        report.gone += done.gone
        report.fail(done.errors)
        orphans = sum(kind in (Kind.ORPHAN, Kind.UNREFERENCED) for _, kind in verdicts)
        report.left += orphans - done.deleted - done.handled - done.gone - len(done.errors)

    def _delete(self, orphans: Sequence[Listed]) -> _Done:
        errors = self.objects.delete([orphan.key for orphan in orphans])
        return _Done(len(orphans), deleted=len(orphans) - len(errors), errors=errors)

    def _archive(self, orphans: Sequence[Listed]) -> _Done:
        """Copy orphans, many at once, and delete the copied ones. If time runs out, the next run handles the others."""
        copied = list[Listed]()
        done = _Done(0)
        with ThreadPoolExecutor(_AT_ONCE, "archiving") as pool:
            errors = list(pool.map(self._copy, orphans))
        for orphan, error in zip(orphans, errors, strict=True):
            if error is None:
                break  # time ran out, for all that follow, too
            if not error:
                copied.append(orphan)
            elif error in S3_NO_SUCH_KEY:
                done.gone += 1
            else:
                done.errors[orphan.key] = error
            done.reached += 1
        done.archived = len(copied)
        if copied:
            deleted = self._delete(copied)
            done.deleted = deleted.deleted
            done.errors |= deleted.errors
        return done

    def _copy(self, orphan: Listed) -> str | None:
        """Copy an orphan to the archive. Returns S3's error code; ``None`` if no time was left."""
        return self.objects.archive(orphan, ARCHIVE, self._archive_to) if self.in_time else None

    def _hand_over(self, orphans: Sequence[Listed]) -> _Done:
        services = self._services
        name = self._definition.name
        prefix = self._definition.prefix
        objects = [
            OrphanedObject(
                self.objects.bucket, item.key, item.size, item.etag, datetime.fromtimestamp(item.modified_at, UTC)
            )
            for item in orphans
        ]
        context = StepContext("", name, _OWN, 1, False, prefix, self.deadline, services.clock, services.logger)
        if services.connect is not None:
            context.connect = services.connect
        try:
            if self._instance is None:
                self._instance = self._definition.saga_class.create()
            result = self._instance.on_orphans(objects, context)
            if inspect.isawaitable(result):
                from sagas.engine.attempt.coroutines import EventLoop

                self._loop = self._loop or EventLoop()
                self._loop.run(result, context)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user code; the next page may succeed
            # Only the error's type is logged, because its text and traceback may quote any data.
            services.logger.error("on_orphans failed: %s", type(error).__name__)  # noqa: TRY400
            return _Done(len(orphans), errors={orphan.key: type(error).__name__ for orphan in orphans})
        return _Done(len(orphans), handled=len(orphans))
