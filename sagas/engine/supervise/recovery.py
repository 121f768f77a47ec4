"""Recovering sagas that stall: the supervisor's work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sagas.core import events as ev
from sagas.core.rules import in_wait
from sagas.core.states import SagaState, SagaStatus
from sagas.core.times import epoch, iso
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.engine.operate.pausing import Pausing
from sagas.engine.ports import WorkSender
from sagas.engine.supervise.finding import LOOK_AHEAD
from sagas.engine.supervise.lanes import Lanes
from sagas.engine.supervise.looking import in_time
from sagas.errors import NotFound, Unavailable
from sagas.messaging.queues import Queues
from sagas.messaging.work import NOW, SagasToLookAfter
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import due_at
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.outcomes import Fenced
from sagas.store.schedule.lanes import Watermarks

SUPERVISOR = "supervisor"
_LONGEST_LIST = 10_000
_LONGEST_PAUSE = 900.0
"""Seconds after which a saga is looked at again that may still wait in line."""
_NOWHERE = "~"
"""The place in the index of a saga that was not found by it: after every time."""
_LONGEST_CHILDREN = 6 * 3600.0
"""Seconds after which a saga is looked at again, at the latest, that waits for its children."""
_UNKNOWN_PAUSE = 600.0
"""Seconds after which a saga is looked at again whose type is not deployed: until then it is in nobody's way."""


@dataclass(slots=True)
class RecoveryReport:
    """What a run did, by saga id.

    Args:
        recovered: taken over, sent anew, or given up.
        untouched: they live, or a worker or an operator is at them.
        failed: they could not be looked after.
        left: due sagas for which there was no time.
        overdue: seconds that the longest due saga had been due when the run began; 0 when none was.
        overdue_by_type: the same by saga type, of those that were looked at.
        undeployed: sagas in flight whose type is not deployed.
        by_type: how many of each type were recovered.
    """

    recovered: list[str] = field(default_factory=list[str])
    untouched: int = 0
    failed: list[str] = field(default_factory=list[str])
    left: int = 0
    overdue: float = 0.0
    overdue_by_type: dict[str, float] = field(default_factory=dict[str, float])
    undeployed: int = 0
    by_type: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sagas an operator wants to have recovered.

    Args:
        name: of this type.
        saga_id: this one, due or not. If it does not stall it is left alone all the same.
        max_attempts: that stalled less often than this since their last progress.
    """

    name: str | None = None
    saga_id: str | None = None
    max_attempts: int | None = None

    def takes(self, state: SagaState | None) -> bool:
        """Tell whether a saga is among them."""
        if state is None or self.name not in (None, state.saga):
            return False
        return self.max_attempts is None or state.recovery_attempts < self.max_attempts


@dataclass(frozen=True, slots=True)
class Recovery:
    """Finds due sagas by the index and recovers them, longest due first. Two at once do no harm."""

    advancer: Advancer
    control: ControlItems
    listing: Listing
    queues: Queues
    watermarks: Watermarks
    work: WorkSender
    pausing: Pausing
    look_ahead: float = LOOK_AHEAD

    def get_sagas_for_recovery(
        self,
        limit: int = 100,
        max_recovery_attempts: int | None = None,
        stale_after: float | None = None,
        name: str | None = None,
    ) -> list[SagaState]:
        """Return sagas that are due for recovery, longest due first, by consistent reads. ``stale_after``: seconds of
        silence that count as a stall; each type's own by default."""
        found: list[SagaState] = []
        for found_at in self._due(_LONGEST_LIST, stale_after):
            state = self.control.get(found_at.saga_id)
            if state is None or state.over or name not in (None, state.saga):
                continue
            if max_recovery_attempts is None or state.recovery_attempts < max_recovery_attempts:
                found.append(state)
            if len(found) == limit:
                break
        return found

    def set_recovery_attempts(self, saga_id: str, attempts: int) -> None:
        """Set how often a saga has stalled since its last progress; 0 gives it all its patience back."""
        for _ in range(5):
            state = self.control.get(saga_id)
            if state is None:
                raise NotFound(f"there is no saga {saga_id}")
            if self.control.set_recovery_attempts(state, attempts):
                return
        raise Unavailable(f"saga {saga_id} changes too fast; try again", retry_after=1)

    def run(
        self, budget: float, stale_after: float | None = None, limit: int = 1_000, wanted: Wanted | None = None
    ) -> RecoveryReport:
        """Recover due sagas. One that fails stops no other. ``budget``: seconds the run may take; what is left is for
        the next. ``stale_after``: seconds of silence that count as a stall; each type's own by default."""
        clock, report = self.advancer.services.clock, RecoveryReport()
        lanes = Lanes(self.queues, self.watermarks, clock)
        end = clock.now() + budget
        if wanted is not None and wanted.saga_id is not None:
            # Due or not. Where it stands in the index is not known: that is left alone.
            state = self.control.get(wanted.saga_id)
            if state is None or wanted.name not in (None, state.saga):
                of_type = f" of type {wanted.name}" if wanted.name else ""
                raise NotFound(f"there is no saga {wanted.saga_id}{of_type}")
            due = [IndexPosition(_NOWHERE, wanted.saga_id)]
        else:
            most = limit if wanted is None else _LONGEST_LIST
            waits = self.listing.waits(clock.now() + self.look_ahead, most)
            due = sorted([*self._due(most, stale_after), *waits])[:most]
            report.overdue = max(0.0, clock.now() - epoch(due[0].sort)) if due else 0.0
        for position, found in enumerate(due):
            if limit <= 0:
                break
            if clock.now() >= end:
                report.left = len(due) - position
                break
            limit -= self._attempted(found, stale_after, lanes, report, wanted)
        return report

    def look_after(self, found: Sequence[IndexPosition], budget: float) -> RecoveryReport:
        """Recover sagas that were found to be due. One that fails stops no other, and stays due. ``budget``: seconds it
        may take."""
        clock, report = self.advancer.services.clock, RecoveryReport()
        lanes, end = Lanes(self.queues, self.watermarks, clock, tells=len(found) > 1), clock.now() + budget
        for position, one in enumerate(found):
            if clock.now() >= end:
                report.left = len(found) - position
                break
            self._attempted(one, None, lanes, report)
        return report

    def _attempted(
        self,
        found: IndexPosition,
        stale_after: float | None,
        lanes: Lanes,
        report: RecoveryReport,
        wanted: Wanted | None = None,
    ) -> bool:
        """Recover a saga if it is wanted, whatever is wrong with it; whether it was."""
        try:
            if wanted is not None and not wanted.takes(self.control.get(found.saga_id)):
                return False
            self._recover(found, stale_after, lanes, report)
        except Fenced:
            report.untouched += 1
        except Exception as error:  # noqa: BLE001 - one bad saga must not stop the others, whatever is wrong with it
            fields = {"saga_id": found.saga_id, "error": type(error).__name__}
            self.advancer.services.logger.warning("recovery failed", extra=fields)
            report.failed.append(found.saga_id)
        return True

    def _due(self, limit: int, stale_after: float | None) -> list[IndexPosition]:
        """The index rounds ``due`` up, and what may wait in line is due later still, so an impatient look goes
        beyond it; the saga itself decides."""
        ahead = 0.0
        if stale_after is not None:
            types = (saga.definition.stale_after.total_seconds() for saga in self.advancer.registry)
            ahead = max(2 * max(types, default=0.0), _LONGEST_PAUSE)
        return self.listing.due(self.advancer.services.clock.now() + ahead, limit)

    def _recover(self, found: IndexPosition, stale_after: float | None, lanes: Lanes, report: RecoveryReport) -> None:
        """Take over, send anew or give up; a saga that lives is looked at again later."""
        clock = self.advancer.services.clock
        state = self.control.get(found.saga_id)
        if state is None:
            report.untouched += 1
            return
        if state.saga not in self.advancer.registry:
            self._report_undeployed(state, found, report)
            return
        sent = not state.parked and self._sent_ahead(state, found)
        ended = None if sent else in_time(self.advancer, self.control, state)
        paused = ended is state and self.pausing.seen(state)
        if ended is None or paused or self._children_looked_after(ended, found):
            report.untouched += 1
            return
        state = ended
        postponed_until, backlog = 0.0, ev.Backlog.UNKNOWN
        if state.lease is None:
            postponed_until = max((gate.silent_until(state) for gate in self.advancer.services.gates), default=0.0)
        self._report_overdue(state, found, report)
        patience = self.advancer.plan(state).stale_after
        quiet_for = clock.now() - max(state.updated_at, state.not_before)
        if _owes_message(state) and quiet_for >= (patience if stale_after is None else stale_after):
            backlog = lanes.backlog(state)
        stall = ev.StallNoticed(self.advancer.lease(), stale_after, postponed_until, backlog)
        advanced = self.advancer.advance(state, stall, EntryContext(actor=SUPERVISOR))
        if advanced.state is not state:
            report.recovered.append(found.saga_id)
            report.by_type[state.saga] += 1
            return
        report.untouched += 1
        due = max(due_at(state, patience), postponed_until + patience)
        if backlog is ev.Backlog.WAITING:  # the longer it waits already, the longer it may yet
            due = max(due, clock.now() + min(max(patience, quiet_for), _LONGEST_PAUSE))
        due = state.in_time(due)
        if found.sort <= iso(clock.now()) and due > clock.now() and not state.over:
            self.control.push_due(found.saga_id, found.sort, due)  # on condition that it still is what was seen

    def _report_overdue(self, state: SagaState, found: IndexPosition, report: RecoveryReport) -> None:
        overdue = 0.0 if found.sort == _NOWHERE else self.advancer.services.clock.now() - epoch(found.sort)
        if overdue > report.overdue_by_type.get(state.saga, 0.0):
            report.overdue_by_type[state.saga] = overdue

    def _report_undeployed(self, state: SagaState, found: IndexPosition, report: RecoveryReport) -> None:
        self.advancer.services.logger.error(
            "the type of a saga in flight is not deployed", extra={"saga_id": state.saga_id, "saga": state.saga}
        )
        self.control.push_due(found.saga_id, found.sort, self.advancer.services.clock.now() + _UNKNOWN_PAUSE)
        report.undeployed += 1
        report.failed.append(found.saga_id)

    def _children_looked_after(self, state: SagaState, found: IndexPosition) -> bool:
        """Have a saga looked after that waits for its children, in case a message was lost: ever less often. Whether it
        does.

        First it is made due later, as seen: if that message gets lost too, it is due again.
        """
        if not state.joins or state.lease is not None or (state.cancel_requested_at and not state.undoing):
            return False
        now, patience = self.advancer.services.clock.now(), self.advancer.plan(state).stale_after
        later = state.in_time(now + min(max(patience, now - state.updated_at), _LONGEST_CHILDREN))
        if found.sort == _NOWHERE or self.control.push_due(found.saga_id, found.sort, later):
            self.work.send_work(NOW, [SagasToLookAfter([state.saga_id], thorough=True).work()])
        return True

    def _sent_ahead(self, state: SagaState, found: IndexPosition) -> bool:
        """Send the message of a wait that ends soon, with the rest of it as its delay; whether that is all there is to
        do. First it is made due later, as seen: of two who look, one sends, and if that one dies, it is due again."""
        now = self.advancer.services.clock.now()
        rest = state.not_before - now
        step = state.current
        if state.status is not SagaStatus.WAITING or step is None or rest > self.look_ahead:
            return False
        # The end of a wait is journaled here and now; only its own code can look again.
        ended = rest <= 0 and (in_wait(state) or found.sort > iso(state.not_before))
        ended = ended or 0.0 < state.ends_at <= now
        if ended or state.lease or state.cancel_requested_at or (step.signalled and in_wait(state)):
            return False
        stale_after = self.advancer.plan(state).stale_after
        past = max(stale_after, self.look_ahead)  # until its end it is not seen again
        if self.control.push_due(state.saga_id, found.sort, state.not_before + past):
            self.advancer.send_again(state, 0.0)
        return True


def _owes_message(state: SagaState) -> bool:
    """Whether there must be a message that moves the saga on: nobody works on it, and it neither waits nor rests."""
    at_rest = state.status is SagaStatus.DEAD_LETTERED or in_wait(state) or state.over
    return state.lease is None and not at_rest
