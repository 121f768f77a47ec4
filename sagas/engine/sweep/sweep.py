"""Sweeps objects that sagas have left behind in S3, in scheduled rounds, or by hand from a given key.

A round is one chain of messages per saga type. A worker sweeps page after page from the stored key on, and sends the
next message when its time is up. If a message is lost, the next tick sends another. If two workers meet, the first to
write a page goes on, and the other stops. Concurrent sweeps do no harm: each checks before it deletes, and an object
that is missing already counts as deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.core.text import iso
from sagas.engine.engine import Engine, settings_from
from sagas.engine.read.reports import SweepRoundView
from sagas.engine.sweep.orphans import COUNTS, SweepReport
from sagas.engine.sweep.sweep_pages import PageSweep, SweepServices
from sagas.errors import NotFound, SagaError, Unavailable, text_of
from sagas.store.index.summaries import SagaSummaries
from sagas.store.journal.journal import Payloads
from sagas.store.journal.objects import connect_s3
from sagas.store.journal.tombstones import Tombstones
from sagas.store.schedule.sweep_rounds import Round, SweepRounds
from sagas.store.tables import tables_for

_SLACK = 300.0
"""Seconds by which a round may begin early. Otherwise a sweep every six hours would often begin a tick too late."""
_IDLE = 900.0
"""Seconds after which no worker is at a round that has not moved: the longest time of a function."""


class SweepRequest(Struct, frozen=True):
    """A sweep that an operator or the schedule requests.

    Args:
        type: sweep only this saga type. Default: all types.
        now: sweep at once, without any effect on the scheduled round.
        dry_run: change nothing. This, too, has no effect on the scheduled round.
        force: whether to continue however many orphans there are.
        start_after: the key after which to begin, as S3 can have it. Allowed only with ``now`` or ``dry_run``.
    """

    type: str | None = None
    now: bool = False
    dry_run: bool = False
    force: bool = False
    start_after: Annotated[str, Meta(max_length=1024, pattern=r"^[^\ud800-\udfff]*\Z")] = ""


class Sweeper(Struct, frozen=True):
    """Sweeps the saga types that declare ``orphans``, each at its own interval.

    Args:
        definitions: the definitions of all deployed saga types.
        rounds: the stored progress of the schedule.
        services: the services that sweeps use.
        send: sends a round, by type and number, to a worker; ``None`` if there is no queue, and the tick sweeps itself.
        on_round_ended: called once for each ended round.
    """

    definitions: Sequence[SagaDefinition]
    rounds: SweepRounds
    services: SweepServices
    send: Callable[[str, int], None] | None = None
    on_round_ended: Callable[[Round], None] = lambda ended: None

    def run(self, request: SweepRequest, deadline: float) -> list[SweepReport]:
        """Sweep the types that are due. Each gets an equal share of the time. If one fails, the others continue.
        ``deadline``: epoch seconds at which to stop. Returns a report for each type that was due."""
        types = [(d, d.orphans) for d in self.definitions if d.orphans is not None and request.type in (None, d.name)]
        reports: list[SweepReport] = []
        for position, (definition, policy) in enumerate(types):
            now = self.services.clock.now()
            until = now + (deadline - now) / (len(types) - position)
            report = SweepReport(definition.name, definition.prefix, request.dry_run)
            due = True
            try:
                if request.now or request.dry_run:
                    self._by_hand(definition, policy, report, request, until)
                else:
                    due = self._tick(definition, policy, report, until)
            except Exception as error:  # noqa: BLE001 - no failure may keep the other types from their turn
                report.error = text_of(error) if isinstance(error, SagaError) else type(error).__name__
            reports += [report] if due else []
        return reports

    def _by_hand(
        self, definition: SagaDefinition, policy: OrphanSweep, report: SweepReport, request: SweepRequest, until: float
    ) -> None:
        """Sweep page by page, from the requested key to the end, or until time runs out."""
        prefix = definition.prefix
        report.start_after = request.start_after if request.start_after.startswith(prefix) else ""
        pages = PageSweep(self.services, definition, policy, report, until, force=request.force)
        while not report.finished and pages.in_time:
            reached = pages.page(report.start_after)
            if reached.held:
                return
            report.finished = reached.finished
            report.start_after = "" if reached.finished else reached.after

    def _tick(self, definition: SagaDefinition, policy: OrphanSweep, report: SweepReport, until: float) -> bool:
        """Begin a round if one is due, and send it to a worker unless one is at it, or sweep it here. Return whether a
        round was due or in progress."""
        now = self.services.clock.now()
        seen = self.rounds.get(definition.name)
        if not seen.under_way:
            if now < seen.began_at + policy.every.total_seconds() - _SLACK:
                return False
            by = self.services.clock.new_owner()
            begun = Round(definition.name, seen.number + 1, now, seen.finished_at, by=by)
            if not self.rounds.move(seen, begun):
                return False  # another supervisor has begun the round
            seen = begun
        if self.send is None:
            self._sweep(definition, policy, seen, report, until)
        elif now >= seen.moved_at + _IDLE:
            self.send(definition.name, seen.number)
        return True

    def work(self, saga: str, number: int, deadline: float) -> tuple[SweepReport, bool]:
        """Sweep a round until ``deadline`` (epoch seconds), unless the round has ended. Returns a report of this call,
        and whether to continue at once."""
        definition, policy = self.declared(saga)
        report = SweepReport(definition.name, definition.prefix)
        at = self.rounds.get(saga)
        if at.number != number or not at.under_way:
            return report, False
        try:
            return report, self._sweep(definition, policy, at, report, deadline)
        except Exception as error:  # noqa: BLE001 - the round keeps its place for the next visit
            report.error = text_of(error) if isinstance(error, SagaError) else type(error).__name__
            return report, isinstance(error, Unavailable)  # after any other error, only the next tick tries again

    def _sweep(
        self, definition: SagaDefinition, policy: OrphanSweep, at: Round, report: SweepReport, deadline: float
    ) -> bool:
        """Sweep page after page, from the round's last key on. Return whether to continue."""
        clock = self.services.clock
        before = at.sums
        report.start_after = at.after
        pages = PageSweep(self.services, definition, policy, report, deadline)
        while pages.in_time:
            reached = pages.page(at.after)
            now = clock.now()
            counts = report.counts()
            moved = replace(
                at,
                finished_at=max(now, at.began_at) if reached.finished else at.finished_at,
                moved_at=now,
                after=reached.after,
                sums=at.sums if reached.held else {name: before.get(name, 0) + counts[name] for name in COUNTS},
                stopped=report.stopped,
                by=clock.new_owner(),
            )
            if not self.rounds.move(at, moved) or reached.held:
                return False  # another worker is at it, or too many objects are orphans
            at = moved
            report.start_after = at.after
            if reached.finished:
                report.start_after = ""
                report.finished = True
                self.on_round_ended(at)
                return False
        return True

    def standing(self) -> list[SweepRoundView]:
        """Return the progress of the scheduled sweeps of all saga types that declare ``orphans``."""
        views = list[SweepRoundView]()
        for definition in self.definitions:
            if definition.orphans is None:
                continue
            seen = self.rounds.get(definition.name)
            views.append(
                {
                    "type": definition.name,
                    "prefix": definition.prefix,
                    "action": definition.orphans.action,
                    "round": seen.number,
                    "began_at": iso(seen.began_at) if seen.began_at else None,
                    "finished_at": iso(seen.finished_at) if seen.finished_at else None,
                    "under_way": seen.under_way,
                    "counts": {count: seen.sums.get(count, 0) for count in COUNTS},
                    "stopped": seen.stopped,
                }
            )
        return views

    def declared(self, saga: str) -> tuple[SagaDefinition, OrphanSweep]:
        """Return a saga type's definition and its ``orphans``."""
        definition = next((item for item in self.definitions if item.name == saga), None)
        if definition is None:
            names = ", ".join(item.name for item in self.definitions)
            raise NotFound(f"this service has no saga type {saga!r}; it has {names}")
        if definition.orphans is None:
            raise NotFound(f"saga type {saga!r} has no orphans= policy, so there is nothing to sweep")
        return definition, definition.orphans


def sweeper_of(engine: Engine, environment: Mapping[str, str]) -> Sweeper:
    """Return a sweeper with the parts of an engine."""
    settings = settings_from(environment)
    tables = tables_for(settings)
    summaries = SagaSummaries(tables, settings, Tombstones(tables, settings, Payloads(settings)))
    services = SweepServices(
        summaries,
        engine.journal,
        connect_s3(settings),
        engine.clock,
        engine.logger,
        environment,
        engine.clients,
    )
    definitions = [saga_type.definition for saga_type in engine.registry]
    return Sweeper(definitions, SweepRounds(tables, settings), services)
