"""Sweeping: objects that sagas left behind in S3; by schedule in rounds, or by hand from a key on.

Two sweeps at once do no harm: each asks before it deletes, and what is gone already counts as deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.policies import OrphanSweep
from sagas.core.text import iso
from sagas.engine.engine import Engine, settings_from
from sagas.engine.read.answers import SweepRoundView
from sagas.engine.sweep.orphans import COUNTS, SweepReport
from sagas.engine.sweep.sweep_pages import PageSweep, SweepServices
from sagas.engine.sweep.sweep_rounds import EndedRound, PartName, RoundSweep
from sagas.errors import NotFound, SagaError, text_of
from sagas.store.index.summaries import SagaSummaries
from sagas.store.journal.objects import connect_s3
from sagas.store.journal.payloads import Payloads
from sagas.store.journal.tombstones import Tombstones
from sagas.store.schedule.sweep_rounds import SweepRounds
from sagas.store.tables import tables_for


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What an operator, or the schedule, wants swept.

    Args:
        saga: only this type; all by default.
        now: whatever the schedule says, whose round stays as it is.
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
        rounds: where the schedule stands.
        services: what it works with.
        send: sends a part of a round to be worked on; ``None`` where there is no queue for it.
        tell: told of a round that has ended, once.
    """

    definitions: Sequence[SagaDefinition]
    rounds: SweepRounds
    services: SweepServices
    send: Callable[[PartName], None] | None = None
    tell: Callable[[EndedRound], None] = lambda ended: None

    def run(self, request: SweepRequest, deadline: float) -> list[SweepReport]:
        """Sweep what is due. Each type gets its share of the time; one that fails stops no other. ``deadline``: epoch
        seconds at which to stop. Returns a report for each type that was due, of what was done here."""
        wanted = [(d, d.orphans) for d in self.definitions if d.orphans is not None and request.saga in (None, d.name)]
        reports: list[SweepReport] = []
        for position, (definition, policy) in enumerate(wanted):
            now = self.services.clock.now()
            until = now + (deadline - now) / (len(wanted) - position)
            report, due = SweepReport(definition.name, definition.prefix, request.dry_run), True
            try:
                if request.now or request.dry_run:
                    self._by_hand(definition, policy, report, request, until)
                else:
                    due = self._rounds_of(definition, policy).tick(until, report)
            except Exception as error:  # noqa: BLE001 - whatever happens here must not keep the other types from their turn
                report.error = text_of(error) if isinstance(error, SagaError) else type(error).__name__
            reports += [report] if due else []
        return reports

    def _by_hand(
        self, definition: SagaDefinition, policy: OrphanSweep, report: SweepReport, request: SweepRequest, until: float
    ) -> None:
        """Sweep page by page, from the key that is asked for to the end or as long as there is time."""
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
        """Work on a part of a round for a while; see :meth:`RoundSweep.work`. Returns what was seen and done here, and
        whether to go on with the part at once."""
        definition, policy = self.declared(name.saga)
        report = SweepReport(definition.name, definition.prefix)
        return report, self._rounds_of(definition, policy).work(name, deadline, ends_at, report)

    def standing(self) -> list[SweepRoundView]:
        """Return how the sweeps by schedule stand, of all saga types that declare ``orphans``."""
        stands = list[SweepRoundView]()
        for definition in self.definitions:
            if definition.orphans is None:
                continue
            seen = self.rounds.get(definition.name)
            parts = self.rounds.parts(seen)
            stands.append(
                {
                    "saga": definition.name,
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
        return stands

    def declared(self, saga: str) -> tuple[SagaDefinition, OrphanSweep]:
        """Return the saga type of that name, and its ``orphans``."""
        found = next((one for one in self.definitions if one.name == saga), None)
        if found is None:
            raise NotFound(f"there is no saga named {saga!r} here")
        if found.orphans is None:
            raise NotFound(f"saga {saga!r} declares no orphans to sweep")
        return found, found.orphans

    def _rounds_of(self, definition: SagaDefinition, policy: OrphanSweep) -> RoundSweep:
        return RoundSweep(self.services, self.rounds, definition, policy, self.send, self.tell)


def sweeper_of(engine: Engine, environment: Mapping[str, str]) -> Sweeper:
    """Return the sweeper of an engine."""
    settings = settings_from(environment)
    tables = tables_for(settings)
    summaries = SagaSummaries(tables, settings, Tombstones(tables, settings, Payloads(settings)))
    services = SweepServices(
        summaries,
        engine.journal,
        connect_s3(settings),
        engine.clock,
        engine.services.logger,
        environment,
        engine.services.connect,
    )
    definitions = [saga_type.definition for saga_type in engine.registry]
    return Sweeper(definitions, SweepRounds(tables, settings), services)
