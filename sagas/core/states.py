"""The state of one saga: the content of its control item, as immutable values."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class SagaStatus(StrEnum):
    """The status of a saga."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    COMPENSATING = "COMPENSATING"
    DEAD_LETTERED = "DEAD_LETTERED"
    COMPLETED = "COMPLETED"
    COMPENSATED = "COMPENSATED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"


ENDED = frozenset(map(SagaStatus, ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED")))
"""The final statuses: such a saga changes only at someone's request."""


class StepStatus(StrEnum):
    """The status of a step."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"


class Attempts(Struct, frozen=True):
    """How often a step or an undo was executed.

    Args:
        made: executions claimed, never reset.
        at_grant: value of ``made`` when the current budget was granted.
    """

    made: int = 0
    at_grant: int = 0

    @property
    def used(self) -> int:
        """How many of the current budget are used."""
        return self.made - self.at_grant

    def claimed(self) -> Attempts:
        """With one more execution."""
        return Attempts(self.made + 1, self.at_grant)

    def given_back(self) -> Attempts:
        """Without the last execution, whose code could not be called."""
        return Attempts(self.made - 1, self.at_grant)

    def excused(self) -> Attempts:
        """With the last execution, but without a charge to the budget: nothing failed."""
        return Attempts(self.made, self.at_grant + 1)

    def renewed(self) -> Attempts:
        """With a full budget."""
        return Attempts(self.made, self.made)

    def settled(self) -> Attempts:
        """After a success: the budget no longer matters."""
        return Attempts(self.made)


class FanOut(Struct, frozen=True):
    """The children of a step.

    Args:
        children: how many it has.
        handed_out: how many of them were dispatched to be started.
        at_once: how many of them may be under way at a time; 0 for all.
        tolerate: how many of them may fail.
        one_by_one: they are undone one after the other.
        requests_seq: the journal entry that has their requests; 0 before it exists.
        of: the hash of their types, in order; empty before they exist.
    """

    children: int = 0
    handed_out: int = 0
    at_once: int = 0
    tolerate: int = 0
    one_by_one: bool = False
    requests_seq: int = 0
    of: str = ""


class StepState(Struct, frozen=True):
    """One step of one saga.

    Args:
        name: the step's name when the saga started.
        status: its status.
        attempts: its executions.
        undo_attempts: the executions of its undo.
        result_seq: the journal entry that holds its result; 0 if there is none.
        outcome_unknown: an execution's outcome is unknown and no later one completed.
        postponed: an execution raised ``NotYet``, and no later one completed.
        undo: it had an undo when the saga started, and is not undone.
        waits_for: ``signal``, ``time`` or ``children`` if the step is a wait; else empty.
        round: how often an operator restarted its wait, or its failed children.
        signalled: a signal for this round was accepted; its value is in the inbox, or taken.
        timed_out: no signal arrived in time, or too many children failed.
        fan_out: its children.
        pivot: once it has completed, nothing before it is undone.
        result: its result is the saga's, although it is not the last step.
    """

    name: str
    status: StepStatus = StepStatus.PENDING
    attempts: Attempts = Attempts()
    undo_attempts: Attempts = Attempts()
    result_seq: int = 0
    outcome_unknown: bool = False
    undo: bool = False
    waits_for: str = ""
    round: int = 0
    signalled: bool = False
    timed_out: bool = False
    fan_out: FanOut = FanOut()
    postponed: bool = False
    pivot: bool = False
    result: bool = False


class Lease(Struct, frozen=True):
    """The right to change the saga. It is free only after a release, not after it has expired.

    Args:
        owner: a nonce, fresh for each claim.
        expires_at: epoch seconds after which it may be taken over.
        act_until: epoch seconds after which its holder's function can no longer act.
    """

    owner: str
    expires_at: float
    act_until: float


class DeadMessage(Struct, frozen=True):
    """The message that moves to the dead letters. The same dispatch and hops with another id is its redrive."""

    dispatch: int
    hops: int
    message_id: str


class Progress(Struct, frozen=True):
    """The progress that the current execution has reported.

    Args:
        fraction: from 0 to 1.
        message: what it is doing.
        at: epoch seconds of the report.
    """

    fraction: float
    message: str
    at: float


class Polling(Struct, frozen=True):
    """The current step polls: it raised ``NotYet``.

    Args:
        since: epoch seconds of the first poll, from which the step's poll timeout counts; moved on by any time in which
            the saga could not poll.
        looks: the number of polls.
        message: what it waits for.
        after: the seconds it asked for.
        due: epoch seconds at which the next poll is due.
    """

    since: float
    looks: int = 1
    message: str = ""
    after: float = 0.0
    due: float = 0.0


class Purge(Struct, frozen=True):
    """The purge of a saga. Once it has begun, nothing else can change the saga.

    Args:
        at: epoch seconds of its beginning.
        by: ``supervisor``, or the identity of the caller.
        reason: ``retention``, or the caller's reason.
    """

    at: float
    by: str = "supervisor"
    reason: str = "retention"


COUNTERS = 16
"""Most counters of a step's children: an item takes a thousand writes per second, and one transaction at a time."""


class Parent(Struct, frozen=True):
    """The saga that started this one.

    Args:
        saga_id, saga: the parent and its type.
        step: the parent's step.
        position: the position of this child in the step, from 0.
        round: how often the step's failed children had been started again by then.
        counters: the number of counters for the first ends of the step's children.
    """

    saga_id: str
    saga: str
    step: str
    position: int
    round: int = 0
    counters: int = COUNTERS


class Order(Struct, frozen=True):
    """A parent's request to undo a saga that has ended.

    Args:
        number: the number of the undo attempt of the parent's step, from 1.
        open: undoing has not begun.
    """

    number: int
    open: bool = True


class Cancel(Struct, frozen=True):
    """A cancel of a saga.

    Args:
        at: epoch seconds at which the cancel was accepted; 0 without one.
        by: the caller, until it is journaled.
        reason: why, until it is journaled.
        journaled: whether it is journaled.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    journaled: bool = False


class Recovery(Struct, frozen=True):
    """The stalls of a saga.

    Args:
        attempts: stalls since the last progress.
        exhausted: whether there were too many of them.
    """

    attempts: int = 0
    exhausted: bool = False

    def progressed(self) -> Recovery:
        """After progress: earlier stalls no longer count."""
        return Recovery(0, self.exhausted)


class SagaState(Struct, frozen=True):
    """One saga. Times are epoch seconds; 0 means never.

    Args:
        saga_id: a UUID.
        saga: the saga type's name.
        version: the type's version when it started.
        correlation_id: the same in all its messages and log lines; empty if only the first entry has room for it.
        steps: its steps in execution order, as they were when it started.
        cursor: the step to run, or the one to undo.
        seq: the last committed journal entry.
        token: the fencing token; every claim increases it.
        dispatch: the number of the current message.
        lease: the lease that is held, if any.
        not_before: nothing runs before; of a wait, when it ends.
        lost_until: until when a lost execution may still act.
        cancel: the accepted cancel.
        rejected: the failing step was rejected, so the saga is undone whatever the step's policy.
        failed: it counts as a failed saga of its type, whatever happened later.
        cause: why undoing began (``failure``, ``cancel``, ``timeout``, ``recovery``, ``operator``, ``parent``).
        recovery: its stalls.
        unanswered: messages in a row that were sent again without a response.
        dead: the message that moves to the dead letters.
        error_seq: the journal entry of the error that ended the forward way; 0 if there is none.
        error_type: the type of that error, or of the last undo that failed for good; empty if there is none.
        resolution_seq: the journal entry of an operator's resolve.
        unreadable: which part of the request or of a result does not fit the deployed code, and why; without the value.
        digest: of all results so far, each with its entry (``sagas.store.journal.entry_hash``); empty if it is unknown.
        head: the hash of the entry at ``seq``, which covers all before it. See ``sagas.store.journal.entry_hash``.
        attention: since when it needs an operator.
        created_at: when it was started.
        updated_at: when the last change was committed.
        ended_at: when it reached its final status; 0 before.
        progress: the progress of the current execution; removed by the next claim or commit.
        purge: the purge that has begun; its lease is never released.
        polling: the current step raised ``NotYet``.
        deadline: when the saga is cancelled unless it has ended.
        overdue: its deadline passed after its pivot had completed: it continues, and needs an operator.
        parent: the saga that started it.
        order: its parent's request to undo it after its end.
        paused: it waits, without a message, until its type is resumed.
        settling_since: since when it waits for a release, because its next step does not fit the deployed code.
        retrying_undos: only the undos that have failed are run, because they are retried.
    """

    saga_id: str
    saga: str
    version: str
    steps: tuple[StepState, ...]
    correlation_id: str = ""
    status: SagaStatus = SagaStatus.PENDING
    cursor: int = 0
    seq: int = 1
    token: int = 0
    dispatch: int = 1
    lease: Lease | None = None
    not_before: float = 0.0
    lost_until: float = 0.0
    cancel: Cancel = Cancel()
    rejected: bool = False
    failed: bool = False
    cause: str = ""
    recovery: Recovery = Recovery()
    unanswered: int = 0
    dead: DeadMessage | None = None
    error_seq: int = 0
    error_type: str = ""
    resolution_seq: int = 0
    unreadable: str = ""
    digest: str = ""
    head: bytes = b""
    attention: float = 0.0
    created_at: float = 0.0
    updated_at: float = 0.0
    ended_at: float = 0.0
    progress: Progress | None = None
    purge: Purge | None = None
    polling: Polling | None = None
    deadline: float = 0.0
    overdue: bool = False
    parent: Parent | None = None
    order: Order | None = None
    paused: bool = False
    settling_since: float = 0.0
    retrying_undos: bool = False

    @property
    def ended(self) -> bool:
        """Whether the saga has ended."""
        return self.status in ENDED

    @property
    def undoing(self) -> bool:
        """Whether the current work is an undo."""
        return self.status is SagaStatus.COMPENSATING

    @property
    def current(self) -> StepState | None:
        """The step under the cursor, or none past the last."""
        return self.steps[self.cursor] if self.cursor < len(self.steps) else None

    @property
    def result_step(self) -> StepState:
        """The step whose result is the saga's: the one that its type named when it started, else its last."""
        return next((step for step in self.steps if step.result), self.steps[-1])

    @property
    def waiting_for(self) -> str:
        """What the saga waits for: ``signal``, ``time``, ``children`` or ``retry``; empty if it does not wait."""
        step = self.current
        if self.joins:
            return "children"
        if self.status is not SagaStatus.WAITING or step is None:
            return ""
        return "retry" if self.polling is not None else step.waits_for

    @property
    def joins(self) -> bool:
        """Whether it waits for its children: to end, or to be undone."""
        step, waits = self.current, self.status in (SagaStatus.WAITING, SagaStatus.COMPENSATING)
        children = step is not None and step.waits_for == "children" and step.status is StepStatus.WAITING
        return waits and children and self.polling is None

    @property
    def past_pivot(self) -> str:
        """The name of its pivot, if that has completed, or an execution of it may have taken effect; else empty.

        From then on the saga only goes forward, and only an operator can undo it.
        """
        pivots = (s.name for s in self.steps if s.pivot and (s.status is StepStatus.COMPLETED or s.outcome_unknown))
        return next(pivots, "")

    @property
    def ends_at(self) -> float:
        """When the saga's own deadline takes effect; 0 without one, or if the saga is being undone or has ended. Past
        its pivot the deadline only puts the saga on the attention list, unless it is there already."""
        listed = self.past_pivot and (self.overdue or self.status is SagaStatus.DEAD_LETTERED)
        return 0.0 if self.ended or self.undoing or self.cancel.at or listed else self.deadline

    def in_time(self, due: float) -> float:
        """Return when the supervisor looks at the saga: at ``due``, or at the saga's own deadline if that comes first.
        Past the pivot the lease holder handles the deadline. Both are epoch seconds."""
        return due if self.lease and self.past_pivot else min(due, self.ends_at or due)

    @property
    def in_doubt(self) -> tuple[str, ...]:
        """Names of steps in doubt: with an execution of unknown outcome that nothing settles (rule 11)."""
        if not self.undoing and not self.ended:
            return ()
        settled = (StepStatus.COMPLETED, StepStatus.COMPENSATING, StepStatus.COMPENSATED)
        return tuple(s.name for s in self.steps if s.outcome_unknown and s.status not in settled)

    def with_step(self, index: int, step: StepState) -> SagaState:
        """Return the state with one step replaced."""
        return replace(self, steps=(*self.steps[:index], step, *self.steps[index + 1 :]))
