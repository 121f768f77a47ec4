"""Recovers stalled sagas, which is the supervisor's main task."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.core.commands import Backlog, Visited
from sagas.core.rules import in_wait, misfit, next_look, settles
from sagas.core.states import SagaState, SagaStatus
from sagas.core.text import epoch, iso
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.engine.operate.pausing import Pausing
from sagas.engine.ports import WorkSender
from sagas.engine.step_queues import StepQueues
from sagas.engine.supervise.due_scan import LOOK_AHEAD
from sagas.errors import NotFound, SagaError, Unavailable
from sagas.messaging.queues import Queues
from sagas.messaging.work import NOW, SagasToAdvance
from sagas.store.connection import Fenced
from sagas.store.control.control import ControlItems
from sagas.store.control.mapping import due_at
from sagas.store.index.listing import IndexPosition, Listing
from sagas.store.watermarks import Watermarks

SUPERVISOR = "supervisor"
_LONGEST_LIST = 10_000
_LONGEST_PAUSE = 900.0
"""Maximum seconds until the next look at a saga whose message may still wait in line."""
_NOWHERE = "~"
"""The position of a saga that the index does not contain. It sorts after all times."""
_LONGEST_CHILDREN = 6 * 3600.0
"""Maximum seconds until the next look at a saga that waits for its children."""


class RecoveryReport(Struct):
    """Result of one run. Lists have the ids of sagas.

    Args:
        recovered: sagas that were taken over or sent again.
        given_up: sagas that stalled too often.
        untouched: sagas that have not stalled, or that a worker or operator holds.
        failed: sagas whose recovery failed.
        remaining: due sagas that the run had no time for.
        overdue: seconds since the longest overdue saga became due, at the beginning of the run; 0 if no saga was due.
        overdue_by_type: the same number by saga type, for sagas that the run reached.
        undeployed: sagas in flight whose type is not deployed.
        waiting: seconds for which a message has waited in its queue at the longest, beyond the delays of its step.
    """

    recovered: list[str] = field(default_factory=list[str])
    given_up: list[str] = field(default_factory=list[str])
    untouched: int = 0
    failed: list[str] = field(default_factory=list[str])
    remaining: int = 0
    overdue: float = 0.0
    overdue_by_type: dict[str, float] = field(default_factory=dict[str, float])
    undeployed: int = 0
    waiting: float = 0.0


class RecoveryFilter(Struct, frozen=True):
    """The sagas that an operator wants to recover.

    Args:
        name: only sagas of this type.
        saga_id: only this saga, even if it is not due. Nothing happens unless this saga has stalled.
        max_attempts: only sagas that have stalled less often than this since their last progress.
    """

    name: str | None = None
    saga_id: str | None = None
    max_attempts: int | None = None

    def takes(self, state: SagaState | None) -> bool:
        """Return whether the request includes a saga."""
        if state is None or self.name not in (None, state.saga):
            return False
        return self.max_attempts is None or state.recovery.attempts < self.max_attempts


class RecoveryRun(Struct, frozen=True):
    """Finds due sagas in the index and recovers them, longest overdue first. Concurrent runs do no harm."""

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
        saga_id: str | None = None,
    ) -> list[SagaState]:
        """Return sagas that are due for recovery, longest overdue first, by consistent reads. ``stale_after`` is the
        number of seconds without a write after which a saga has stalled. Default: the number of each type."""
        sagas: list[SagaState] = []
        for position in self._due(_LONGEST_LIST, stale_after):
            if saga_id not in (None, position.saga_id):
                continue
            state = self.control.get(position.saga_id)
            if state is None or state.ended or name not in (None, state.saga):
                continue
            if max_recovery_attempts is None or state.recovery.attempts < max_recovery_attempts:
                sagas.append(state)
            if len(sagas) == limit:
                break
        return sagas

    def set_recovery_attempts(self, saga_id: str, attempts: int) -> None:
        """Set how often a saga has stalled since its last progress. 0 restores all recovery attempts."""
        for _ in range(5):
            state = self.control.get(saga_id)
            if state is None:
                raise NotFound(f"no saga with id {saga_id}")
            if self.control.set_recovery_attempts(state, attempts):
                return
        raise Unavailable(f"saga {saga_id} was changed by others five times in a row; try again", retry_after=1)

    def run(
        self,
        budget: float,
        stale_after: float | None = None,
        limit: int = 1_000,
        requested: RecoveryFilter | None = None,
    ) -> RecoveryReport:
        """Recover due sagas. If one fails, the others continue. ``budget``: seconds the run may take. The next run
        handles the remaining sagas. ``stale_after``: as for :meth:`get_sagas_for_recovery`."""
        self.pausing.pauses.claim_tables()
        clock = self.advancer.services.clock
        report = RecoveryReport()
        step_queues = StepQueues(self.queues, self.watermarks, clock)
        end = clock.now() + budget
        if requested is not None and requested.saga_id is not None:
            # The saga's position in the index is unknown, and stays unchanged.
            state = self.control.get(requested.saga_id)
            if state is None or requested.name not in (None, state.saga):
                of_type = f" (type {requested.name})" if requested.name else ""
                raise NotFound(f"no saga with id {requested.saga_id}{of_type}")
            due = [IndexPosition(_NOWHERE, requested.saga_id)]
        else:
            most = limit if requested is None else _LONGEST_LIST
            waits = self.listing.waits(clock.now() + self.look_ahead, most)
            due = sorted([*self._due(most, stale_after), *waits])[:most]
            report.overdue = max(0.0, clock.now() - epoch(due[0].sort)) if due else 0.0
        for count, position in enumerate(due):
            if limit <= 0:
                break
            if clock.now() >= end:
                report.remaining = len(due) - count
                break
            limit -= self._attempted(position, stale_after, step_queues, report, requested)
        return report

    def recover_due(self, due: Sequence[IndexPosition], budget: float) -> RecoveryReport:
        """Recover these due sagas. If one fails, it stays due, and the others continue. ``budget``: maximum seconds."""
        clock = self.advancer.services.clock
        report = RecoveryReport()
        step_queues = StepQueues(self.queues, self.watermarks, clock, notes_empty=len(due) > 1)
        end = clock.now() + budget
        for count, position in enumerate(due):
            if clock.now() >= end:
                report.remaining = len(due) - count
                break
            self._attempted(position, None, step_queues, report)
        return report

    def _attempted(
        self,
        position: IndexPosition,
        stale_after: float | None,
        step_queues: StepQueues,
        report: RecoveryReport,
        requested: RecoveryFilter | None = None,
    ) -> bool:
        """Recover a saga if the request includes it, and report any failure. Return whether the request includes it."""
        try:
            if requested is not None and not requested.takes(self.control.get(position.saga_id)):
                return False
            self._recover(position, stale_after, step_queues, report)
        except Fenced:
            report.untouched += 1
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one saga must not stop the others
            fields = {"saga_id": position.saga_id, "error": type(error).__name__}
            self.advancer.services.logger.warning("recovery failed", extra=fields)
            report.failed.append(position.saga_id)
        return True

    def _due(self, limit: int, stale_after: float | None) -> list[IndexPosition]:
        """Return the sagas to look at. With an explicit ``stale_after``, these include sagas that become due later. The
        index rounds ``due`` up, and a saga whose message may wait in line is due even later. Whether a saga is
        recovered depends on its own state."""
        ahead = 0.0
        if stale_after is not None:
            types = (saga.definition.stale_after.total_seconds() for saga in self.advancer.registry)
            ahead = max(2 * max(types, default=0.0), _LONGEST_PAUSE)
        return self.listing.due(self.advancer.services.clock.now() + ahead, limit)

    def _recover(
        self, position: IndexPosition, stale_after: float | None, step_queues: StepQueues, report: RecoveryReport
    ) -> None:
        """Take over, send again or give up a saga that has stalled. Make any other saga due again later."""
        clock = self.advancer.services.clock
        state = self.control.get(position.saga_id)
        if state is None:
            report.untouched += 1
            return
        if state.saga not in self.advancer.registry:
            self._report_undeployed(state, report)
        if self._sent_ahead(state, position) or (
            not state.out_of_time(clock.now())
            and (self.pausing.seen(state) or self._looked_for(state) or self._waits_for_children(state, position))
        ):
            report.untouched += 1
            return
        backlog = Backlog.UNKNOWN
        postponed_until = 0.0 if state.lease else self._silent_until(state)
        self._report_overdue(state, position, report)
        own_stale_after = self.advancer.plan(state).stale_after
        quiet_for = clock.now() - max(state.updated_at, state.not_before)
        if _owes_message(state) and quiet_for >= (own_stale_after if stale_after is None else stale_after):
            backlog = step_queues.backlog(state)
        asked = position.sort == _NOWHERE
        stall = Visited(self.advancer.lease(), stale_after, postponed_until, backlog, asked)
        advanced = self.advancer.advance(state, stall, EntryContext(actor=SUPERVISOR))
        if advanced.state is not state:
            goes_on = advanced.state.recovery.exhausted == state.recovery.exhausted
            (report.recovered if goes_on else report.given_up).append(position.saga_id)
            return
        report.untouched += 1
        due = max(due_at(state, own_stale_after), postponed_until + own_stale_after)
        if backlog is Backlog.WAITING and postponed_until <= clock.now():
            report.waiting = max(report.waiting, quiet_for)
        if backlog is Backlog.WAITING:  # the longer the saga has waited, the later the next look
            due = max(due, clock.now() + min(max(own_stale_after, quiet_for), _LONGEST_PAUSE))
        due = state.in_time(max(due, self._release_due(state)))
        if position.sort <= iso(clock.now()) and due > clock.now() and not state.ended:
            self.control.push_due(position.saga_id, position.sort, due)  # this is refused if the position has changed

    def _silent_until(self, state: SagaState) -> float:
        """Return until when the gates of the next step let nothing be heard of it; 0 if none does."""
        return max((gate.silent_until(state) for gate in self.advancer.services.gates), default=0.0)

    def _looked_for(self, state: SagaState) -> bool:
        """If S3 denies an input of a saga to its step, find out whether the input is missing, because a step may not
        list the bucket. Returns whether that was found out."""
        unread = state.unread
        if unread is None or not unread.key or unread.gone or state.lease is not None:
            return False
        try:
            missing = self.advancer.services.journal.lacks(unread.key)
        except SagaError as error:
            fields = {"saga_id": state.saga_id, "error": str(error)}
            self.advancer.services.logger.warning("cannot find out whether an input is missing", extra=fields)
            return False
        known = replace(unread, code="gone", listed=False) if missing else replace(unread, key="")
        after = replace(state, unread=known)
        return self.control.mark_unread(state, after, self.advancer.plan(state).stale_after)

    def _release_due(self, state: SagaState) -> float:
        """Return when to check for a new release, if the saga waits for a release; else 0."""
        plan = self.advancer.plan(state)
        now = self.advancer.services.clock.now()
        waits = misfit(plan, state, now) or (state.joins and state.settling_since)
        return next_look(plan, state, now) if waits and settles(plan, state, now) else 0.0

    def _report_overdue(self, state: SagaState, position: IndexPosition, report: RecoveryReport) -> None:
        overdue = 0.0 if position.sort == _NOWHERE else self.advancer.services.clock.now() - epoch(position.sort)
        if overdue > report.overdue_by_type.get(state.saga, 0.0):
            report.overdue_by_type[state.saga] = overdue

    def _report_undeployed(self, state: SagaState, report: RecoveryReport) -> None:
        self.advancer.services.logger.error(
            "the type of a saga in flight is not deployed", extra={"saga_id": state.saga_id, "saga": state.saga}
        )
        report.undeployed += 1

    def _waits_for_children(self, state: SagaState, position: IndexPosition) -> bool:
        """Wake a saga that waits for its children, at growing intervals, in case a message was lost. Returns whether it
        waits for children. Before that, the saga is made due again later, in case this message is lost, too."""
        if not state.joins or state.lease is not None or (state.cancel.at and not state.undoing):
            return False
        now = self.advancer.services.clock.now()
        stale_after = self.advancer.plan(state).stale_after
        later = now + min(max(stale_after, now - state.updated_at), _LONGEST_CHILDREN)
        later = state.in_time(self._release_due(state) or later)
        if position.sort == _NOWHERE or self.control.push_due(position.saga_id, position.sort, later):
            try:
                self.work.send_work(NOW, [SagasToAdvance([state.saga_id], thorough=True).work()])
            except SagaError:  # nobody will look before then, so look again soon
                self.control.make_due(state.saga_id, min(later, now + stale_after))
                raise
        return True

    def _sent_ahead(self, state: SagaState, position: IndexPosition) -> bool:
        """Send the message of a wait that ends soon, delayed by the remaining time. Return whether there is nothing
        else to do. Before sending, the run makes the saga due again later. So only one run sends, and nothing is lost
        if it dies."""
        now = self.advancer.services.clock.now()
        remaining = state.not_before - now
        step = state.current
        if state.status is not SagaStatus.WAITING or step is None or state.joins or state.paused:
            return False
        if remaining > self.look_ahead:
            return False
        # If a wait has ended, the caller journals that. A step that polls needs its message.
        ended = remaining <= 0 and (in_wait(state) or position.sort > iso(state.not_before))
        ended = ended or state.out_of_time(now)
        if ended or state.lease or state.cancel.at or (step.signalled and in_wait(state)):
            return False
        stale_after = self.advancer.plan(state).stale_after
        past = max(stale_after, self.look_ahead)  # with this, the saga is not due again before the wait ends
        if self.control.push_due(state.saga_id, position.sort, state.not_before + past):
            self.advancer.send_again(state, 0.0)
        return True


def _owes_message(state: SagaState) -> bool:
    """Whether the saga needs a message: no worker holds it, and it neither waits nor has stopped."""
    at_rest = state.status is SagaStatus.DEAD_LETTERED or in_wait(state) or state.ended
    return state.lease is None and not at_rest
