"""Sweeps objects that sagas have left behind in S3, in scheduled rounds, or by hand from a given key.

Concurrent sweeps do no harm: each checks before it deletes, and an object that is missing already counts as deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.core.text import iso
from sagas.engine.composition.core import Core, settings_from
from sagas.engine.read.reports import SweepRoundView
from sagas.engine.sweep.orphans import COUNTS, SweepReport
from sagas.engine.sweep.sweep_pages import PageSweep, SweepServices
from sagas.engine.sweep.sweep_rounds import EndedRound, PartName, RoundSweep
from sagas.errors import NotFound, SagaError, text_of
from sagas.store.index.summaries import SagaSummaries
from sagas.store.journal.journal import Payloads
from sagas.store.journal.objects import connect_s3
from sagas.store.journal.tombstones import Tombstones
from sagas.store.schedule.sweep_rounds import SweepRounds
from sagas.store.tables import tables_for


class SweepRequest(Struct, frozen=True):
    """A sweep that an operator or the schedule requests.

    Args:
        type: sweep only this saga type. Default: all types.
        now: sweep at once, without any effect on the scheduled round.
        dry_run: change nothing. This, too, has no effect on the scheduled round.
        force: whether to continue however many orphans there are.
        start_after: the key after which to begin. Allowed only with ``now`` or ``dry_run``.
    """

    type: str | None = None
    now: bool = False
    dry_run: bool = False
    force: bool = False
    start_after: str = ""


class Sweeper(Struct, frozen=True):
    """Sweeps the saga types that declare ``orphans``, each at its own interval.

    Args:
        definitions: the definitions of all deployed saga types.
        rounds: the stored progress of the schedule.
        services: the services that sweeps use.
        send: the function that sends a part of a round to a worker; ``None`` if there is no queue for parts.
        on_round_ended: called once for each ended round.
    """

    definitions: Sequence[SagaDefinition]
    rounds: SweepRounds
    services: SweepServices
    send: Callable[[PartName], None] | None = None
    on_round_ended: Callable[[EndedRound], None] = lambda ended: None

    def run(self, request: SweepRequest, deadline: float) -> list[SweepReport]:
        """Sweep the types that are due. Each gets an equal share of the time. If one fails, the others continue.
        ``deadline``: epoch seconds at which to stop. Returns a report for each type that was due."""
        types = [(d, d.orphans) for d in self.definitions if d.orphans is not None and request.type in (None, d.name)]
        reports: list[SweepReport] = []
        for position, (definition, policy) in enumerate(types):
            now = self.services.clock.now()
            until = now + (deadline - now) / (len(types) - position)
            report, due = SweepReport(definition.name, definition.prefix, request.dry_run), True
            try:
                if request.now or request.dry_run:
                    self._by_hand(definition, policy, report, request, until)
                else:
                    due = self._rounds_of(definition, policy).tick(until, report)
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

    def work(self, name: PartName, deadline: float, ends_at: float) -> tuple[SweepReport, bool]:
        """Sweep a part of a round until the deadline; see :meth:`RoundSweep.work`. Returns a report of this call, and
        whether to continue with the part at once."""
        definition, policy = self.declared(name.saga)
        report = SweepReport(definition.name, definition.prefix)
        return report, self._rounds_of(definition, policy).work(name, deadline, ends_at, report)

    def standing(self) -> list[SweepRoundView]:
        """Return the progress of the scheduled sweeps of all saga types that declare ``orphans``."""
        views = list[SweepRoundView]()
        for definition in self.definitions:
            if definition.orphans is None:
                continue
            seen = self.rounds.get(definition.name)
            parts = self.rounds.parts(seen)
            views.append(
                {
                    "type": definition.name,
                    "prefix": definition.prefix,
                    "action": definition.orphans.action,
                    "round": seen.number,
                    "began_at": iso(seen.began_at) if seen.began_at else None,
                    "finished_at": iso(seen.finished_at) if seen.finished_at else None,
                    "under_way": seen.under_way,
                    "counts": {count: sum(part.sums.get(count, 0) for part in parts) for count in COUNTS},
                    "stopped": next((part.stopped for part in parts if part.stopped), ""),
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

    def _rounds_of(self, definition: SagaDefinition, policy: OrphanSweep) -> RoundSweep:
        return RoundSweep(self.services, self.rounds, definition, policy, self.send, self.on_round_ended)


def sweeper_of(engine: Core, environment: Mapping[str, str]) -> Sweeper:
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
