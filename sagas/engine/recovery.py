"""Recovering sagas that stall: the supervisor's work."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from sagas.core.states import SagaState
from sagas.core.times import epoch, iso
from sagas.engine.clock import Clock
from sagas.engine.registry import Registry
from sagas.engine.rescue import Rescue
from sagas.errors import NotFound, SagaError
from sagas.store.control import ControlItems
from sagas.store.listing import IndexPosition, Listing
from sagas.store.mapping import due_at
from sagas.store.outcomes import Fenced

SUPERVISOR = "supervisor"
_LONGEST_LIST = 10_000
_UNKNOWN_PAUSE = 600.0
"""Seconds after which a saga is looked at again whose type is not deployed: until then it is in nobody's way."""


@dataclass(slots=True)
class RecoveryReport:
    """What a run did, by saga id.

    Args:
        recovered: taken over, sent anew, or given up.
        untouched: they live, or somebody else is at them.
        failed: they could not be looked after.
        left: due sagas for which there was no time.
        overdue: seconds that the longest due saga had been due when the run began; 0 when none was.
        undeployed: sagas in flight whose type is not deployed.
    """

    recovered: list[str] = field(default_factory=list[str])
    untouched: int = 0
    failed: list[str] = field(default_factory=list[str])
    left: int = 0
    overdue: float = 0.0
    undeployed: int = 0


@dataclass(frozen=True, slots=True)
class Recovery:
    """Finds due sagas by the index and recovers them, longest due first. Two at once do no harm."""

    registry: Registry
    control: ControlItems
    listing: Listing
    rescue: Rescue
    clock: Clock
    logger: logging.Logger

    def get_sagas_for_recovery(
        self,
        limit: int = 100,
        max_recovery_attempts: int | None = None,
        stale_after: float | None = None,
        name: str | None = None,
    ) -> list[SagaState]:
        """Return sagas that are due for recovery, longest due first, by consistent reads.

        Args:
            limit: how many at most.
            max_recovery_attempts: leave out those that stalled this often or more.
            stale_after: seconds of silence that count as a stall; each type's own by default.
            name: only sagas of this type.
        """
        found: list[SagaState] = []
        for place in self._places(_LONGEST_LIST, stale_after):
            state = self.control.get(place.saga_id)
            if state is None or state.over or name not in (None, state.saga):
                continue
            if max_recovery_attempts is None or state.recovery_attempts < max_recovery_attempts:
                found.append(state)
            if len(found) == limit:
                break
        return found

    def set_recovery_attempts(self, saga_id: str, attempts: int) -> None:
        """Set how often a saga has stalled since its last progress; 0 gives it all its patience back.

        Raises:
            NotFound: there is no such saga.
            SagaError: it changes too fast.
        """
        for _ in range(5):
            state = self.control.get(saga_id)
            if state is None:
                raise NotFound(f"there is no saga {saga_id}")
            if self.control.set_recovery_attempts(state, attempts):
                return
        raise SagaError(f"saga {saga_id} changes too fast")

    def run(self, budget: float, stale_after: float | None = None, limit: int = 1_000) -> RecoveryReport:
        """Recover due sagas. One that fails stops no other.

        Args:
            budget: seconds the run may take; what is left is for the next.
            stale_after: seconds of silence that count as a stall; each type's own by default.
            limit: how many sagas at most.
        """
        report, end = RecoveryReport(), self.clock.now() + budget
        places = self._places(limit, stale_after)
        report.overdue = max(0.0, self.clock.now() - epoch(places[0].sort)) if places else 0.0
        for position, place in enumerate(places):
            if self.clock.now() >= end:
                report.left = len(places) - position
                break
            self._recover(place, stale_after, report)
        return report

    def _places(self, limit: int, stale_after: float | None) -> list[IndexPosition]:
        """The index rounds ``due`` up, so an impatient look must go beyond it; the saga itself decides."""
        ahead = 0.0
        if stale_after is not None:
            longest = max((saga.definition.stale_after.total_seconds() for saga in self.registry), default=0.0)
            ahead = 2 * longest
        return self.listing.due(self.clock.now() + ahead, limit)

    def _recover(self, place: IndexPosition, stale_after: float | None, report: RecoveryReport) -> None:
        try:
            state = self.control.get(place.saga_id)
            if state is None:
                report.untouched += 1
                return
            if not self._deployed(place, state):
                report.undeployed += 1
                report.failed.append(place.saga_id)
                return
            after = self.rescue.look_after(state, SUPERVISOR, stale_after)
            if after is None or after is state:
                self._push(place, state)
                report.untouched += 1
                return
            report.recovered.append(place.saga_id)
        except Fenced:
            report.untouched += 1
        except Exception as error:  # noqa: BLE001 - one bad saga must not stop the others, whatever is wrong with it
            self.logger.warning("recovery failed", extra={"saga_id": place.saga_id, "error": type(error).__name__})
            report.failed.append(place.saga_id)

    def _deployed(self, place: IndexPosition, state: SagaState) -> bool:
        """Whether the saga's type is deployed; if not, nobody can say what to do with it."""
        if state.saga in self.registry:
            return True
        fields = {"saga_id": state.saga_id, "saga": state.saga}
        self.logger.error("the type of a saga in flight is not deployed", extra=fields)
        self.control.push_due(place.saga_id, place.sort, self.clock.now() + _UNKNOWN_PAUSE)
        return False

    def _push(self, place: IndexPosition, state: SagaState) -> None:
        """A saga that lives is looked at again later, on condition that it still is what was seen."""
        plan = self.rescue.plan(state)
        due = max(due_at(state, plan.stale_after), self.rescue.postponed_until(state) + plan.stale_after)
        if place.sort <= iso(self.clock.now()) and due > self.clock.now() and not state.over:
            self.control.push_due(place.saga_id, place.sort, due)
