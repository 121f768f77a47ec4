"""What is known of one saga: the content of its control item, as immutable values."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class SagaStatus(StrEnum):
    """Where a saga stands."""

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


OVER = frozenset(map(SagaStatus, ("COMPLETED", "COMPENSATED", "CANCELLED", "FAILED", "COMPENSATION_FAILED")))
"""The terminal states: nothing happens to such a saga by itself."""


class StepStatus(StrEnum):
    """Where a step stands."""

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
    """How often something was executed.

    Args:
        made: executions claimed, never reset.
        at_grant: value of ``made`` when the current budget was granted.
    """

    made: int = 0
    at_grant: int = 0

    @property
    def used(self) -> int:
        """How many of the current budget are used up."""
        return self.made - self.at_grant

    def claimed(self) -> Attempts:
        """With one more execution."""
        return Attempts(self.made + 1, self.at_grant)

    def given_back(self) -> Attempts:
        """Without the last execution, whose code could not be called."""
        return Attempts(self.made - 1, self.at_grant)

    def excused(self) -> Attempts:
        """With the last execution, but not at the expense of the budget: nothing failed."""
        return Attempts(self.made, self.at_grant + 1)

    def granted_anew(self) -> Attempts:
        """With a whole budget."""
        return Attempts(self.made, self.made)

    def settled(self) -> Attempts:
        """Once they succeeded: no budget is asked for any more."""
        return Attempts(self.made)


class FanOut(Struct, frozen=True):
    """The children of a step.

    Args:
        children: how many it has.
        handed_out: how many of them were handed out to be started.
        at_once: how many of them may be under way at a time; 0 where that is all.
        tolerate: how many of them may fail.
        one_by_one: they are undone one after the other.
        requests_seq: the journal entry that has their requests; 0 before.
    """

    children: int = 0
    handed_out: int = 0
    at_once: int = 0
    tolerate: int = 0
    one_by_one: bool = False
    requests_seq: int = 0


class StepState(Struct, frozen=True):
    """One step of one saga.

    Args:
        name: the step's name when the saga started.
        status: where it stands.
        attempts: its executions.
        undo_attempts: those of its undo.
        result_seq: the journal entry that holds its result; 0 when there is none.
        outcome_unknown: an execution's outcome is unknown and no later one completed.
        postponed: an execution said that it is not yet time, and no later one completed.
        undo: it had an undo when the saga started, and is not undone.
        waits_for: ``signal``, ``time`` or ``children``, where the step is a wait.
        round: how often an operator had it wait anew, or its failed children started anew.
        signalled: a signal for this round was accepted; its value is in the inbox, or taken.
        timed_out: it waited in vain: no signal came, or too many children failed.
        fan_out: its children.
        pivot: once it has completed, nothing before it is undone.
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


class Lease(Struct, frozen=True):
    """Who may act on the saga. It is free only when it was released, not when it expired.

    Args:
        owner: a nonce, fresh for each claim.
        expires_at: epoch seconds after which it may be taken over.
        act_until: epoch seconds after which its holder's function cannot act any more.
    """

    owner: str
    expires_at: float
    act_until: float


class DeadLetter(Struct, frozen=True):
    """The message that is dying: the same dispatch and hops under another id is that message redriven."""

    dispatch: int
    hops: int
    message_id: str


class Progress(Struct, frozen=True):
    """How far the current execution says it is.

    Args:
        fraction: from 0 to 1.
        message: what it is at.
        at: epoch seconds at which it said so.
    """

    fraction: float
    message: str
    at: float


class Polling(Struct, frozen=True):
    """That the current step looks again and again for something that is not there yet.

    Args:
        since: epoch seconds of the first such look, from which the step's poll timeout counts; later by the time in
            which the saga could not look.
        looks: how many there were.
        message: what it said it waits for.
        after: seconds that it asked for.
        due: epoch seconds at which the next look is due.
    """

    since: float
    looks: int = 1
    message: str = ""
    after: float = 0.0
    due: float = 0.0


class Purge(Struct, frozen=True):
    """That a saga is being purged, for good: nothing but its purge goes on.

    Args:
        at: epoch seconds.
        by: ``supervisor``, or the identity of who asked.
        reason: ``retention``, or a person's reason.
    """

    at: float
    by: str = "supervisor"
    reason: str = "retention"


COUNTERS = 16
"""Counters of a step's children at most: an item takes a thousand writes a second, and one transaction at a time."""


class Parent(Struct, frozen=True):
    """Which saga started this one.

    Args:
        saga_id, saga: the parent and its type.
        step: its step.
        position: which child of the step this is, from 0.
        round: how often the step's failed children had been started anew by then.
        counters: how many there are in which the first ends of the step's children are counted.
    """

    saga_id: str
    saga: str
    step: str
    position: int
    round: int = 0
    counters: int = COUNTERS


class Order(Struct, frozen=True):
    """That a saga's parent wants it undone, though it is over.

    Args:
        number: which undoing of the parent's step it is for, from 1.
        open: it has not begun.
    """

    number: int
    open: bool = True


class Cancel(Struct, frozen=True):
    """That a saga is to be cancelled.

    Args:
        at: epoch seconds at which the cancel was accepted; 0 if none was.
        by: who asked for it, until that is journaled.
        reason: why, until that is journaled.
        journaled: the cancel was journaled.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    journaled: bool = False


class Recovery(Struct, frozen=True):
    """How well a saga recovers.

    Args:
        attempts: stalls since the last progress.
        exhausted: too many of them: given up.
    """

    attempts: int = 0
    exhausted: bool = False

    def progressed(self) -> Recovery:
        """After progress: no stall counts any more."""
        return Recovery(0, self.exhausted)


class SagaState(Struct, frozen=True):
    """One saga. Times are epoch seconds; 0 means never.

    Args:
        saga_id: a UUID.
        saga: the saga type's name.
        version: the type's version when it started.
        correlation_id: the same in every message and log line of it; empty when only the first entry has room for it.
        steps: in execution order, as they were when it started.
        cursor: the step to run, or the one whose undo is to run.
        seq: the last committed journal entry.
        token: the fencing token: rises with every claim.
        dispatch: the number of the current message.
        lease: who holds the saga, if anyone.
        not_before: nothing runs before; of a wait, when it ends.
        lost_until: a lost execution may act until then.
        cancel: the cancel that was accepted.
        rejected: the failing step was rejected: undo, whatever its policy says.
        failed: it counts among the failed sagas of its type, whatever became of it since.
        cause: why undoing began (``failure``, ``cancel``, ``timeout``, ``recovery``, ``operator``, ``parent``).
        recovery: its stalls.
        unanswered: messages sent anew in a row of which no queue showed what became of them.
        dead: the message that is dying.
        error_seq: the journal entry of the error that ended the forward way; 0 when there is none.
        error_type: the type of that error, or of the last undo that failed for good; empty when there is none.
        resolution_seq: the journal entry by which an operator settled it.
        unreadable: what of the request or of a result does not fit the deployed code, and why; no value is in it.
        digest: of all results so far, each with its entry (``sagas.store.journal.entry_hash``); empty if it is unknown.
        head: the hash of the entry at ``seq``, which covers all before it. See ``sagas.store.journal.entry_hash``.
        attention: needs a person, since when.
        created_at: start.
        updated_at: last committed change.
        ended_at: when it came into the terminal state that it is in; 0 while it is in none.
        progress: of the current execution, for people; gone with the next claim or commit.
        purge: it is being purged; the lease that goes with it is never given back.
        polling: the current step said that it is not yet time.
        deadline: when the saga is to be cancelled, if it is not over by then.
        overdue: its deadline passed after its pivot had completed: it goes on, and needs a person.
        parent: the saga that started it.
        order: its parent's, to undo what is over.
        parked: it waits, without a message, until its type is no longer paused.
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
    dead: DeadLetter | None = None
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
    parked: bool = False

    @property
    def over(self) -> bool:
        """Whether the saga is in a terminal state."""
        return self.status in OVER

    @property
    def undoing(self) -> bool:
        """Whether the current work is an undo."""
        return self.status is SagaStatus.COMPENSATING

    @property
    def current(self) -> StepState | None:
        """The step under the cursor, or none past the last."""
        return self.steps[self.cursor] if self.cursor < len(self.steps) else None

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
        step, at_it = self.current, self.status in (SagaStatus.WAITING, SagaStatus.COMPENSATING)
        children = step is not None and step.waits_for == "children" and step.status is StepStatus.WAITING
        return at_it and children and self.polling is None

    @property
    def past_pivot(self) -> str:
        """The name of its pivot, if that has completed, or an execution of it may have taken effect; else empty.

        From then on the saga only goes forward: nothing but an operator has it undone.
        """
        done = (s.name for s in self.steps if s.pivot and (s.status is StepStatus.COMPLETED or s.outcome_unknown))
        return next(done, "")

    @property
    def ends_at(self) -> float:
        """When the saga's own deadline takes effect; 0 where it has none, or where it is being undone or over. Past its
        pivot the deadline ends nothing: of one that waits for an operator it would say nothing new."""
        listed = self.past_pivot and (self.overdue or self.status is SagaStatus.DEAD_LETTERED)
        return 0.0 if self.over or self.undoing or self.cancel.at or listed else self.deadline

    def in_time(self, due: float) -> float:
        """Return when the supervisor is to look at the saga that would do so at ``due``: at its own deadline, if that
        comes first. Past its pivot the holder of the lease sees to that. Both are epoch seconds."""
        return due if self.lease and self.past_pivot else min(due, self.ends_at or due)

    @property
    def in_doubt(self) -> tuple[str, ...]:
        """Names of steps with an execution of unknown outcome that nothing accounts for (rule 11)."""
        if not self.undoing and not self.over:
            return ()
        settled = (StepStatus.COMPLETED, StepStatus.COMPENSATING, StepStatus.COMPENSATED)
        return tuple(s.name for s in self.steps if s.outcome_unknown and s.status not in settled)

    def with_step(self, index: int, step: StepState) -> SagaState:
        """Return the state with one step replaced."""
        return replace(self, steps=(*self.steps[:index], step, *self.steps[index + 1 :]))
