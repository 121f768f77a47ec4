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
"""The final statuses. A saga with such a status only changes on request."""


class StepStatus(StrEnum):
    """The status of a step."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    COMPENSATING = "COMPENSATING"
    COMPENSATED = "COMPENSATED"
    COMPENSATION_FAILED = "COMPENSATION_FAILED"


class Attempts(Struct, frozen=True):
    """How often a step or an undo was executed.

    Args:
        made: the number of claimed executions, in all.
        at_grant: the value of ``made`` when the current budget was granted.
    """

    made: int = 0
    at_grant: int = 0

    @property
    def used(self) -> int:
        """The number of executions of the current budget that are used."""
        return self.made - self.at_grant

    def claimed(self) -> Attempts:
        """The counts with one more execution."""
        return Attempts(self.made + 1, self.at_grant)

    def given_back(self) -> Attempts:
        """The counts without the last execution, because its code could not be called."""
        return Attempts(self.made - 1, self.at_grant)

    def excused(self) -> Attempts:
        """The counts with the last execution, but not charged to the budget, because nothing failed."""
        return Attempts(self.made, self.at_grant + 1)

    def renewed(self) -> Attempts:
        """The counts with a full budget."""
        return Attempts(self.made, self.made)

    def settled(self) -> Attempts:
        """The counts after a success, when the budget no longer matters."""
        return Attempts(self.made)


class FanOut(Struct, frozen=True):
    """The children of a step.

    Args:
        children: the number of children that the step has.
        handed_out: the number of children that were handed out to be started.
        at_once: the number of children that may be in flight at a time; 0 for all.
        tolerate: the number of children that may fail.
        one_by_one: whether children are undone one after the other.
        requests_seq: the number of the journal entry with the children's requests; 0 before the entry exists.
        of: a hash of the children's types, in order; empty before the entry exists.
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
        undo_attempts: the executions of the step's undo.
        result_seq: the number of the journal entry with its result; 0 if there is none.
        outcome_unknown: the outcome of an execution is unknown, and no later execution completed.
        postponed: an execution raised ``NotYet``, and no later execution completed.
        undo: the step had an undo when the saga started, and is not undone.
        waits_for: ``signal``, ``time`` or ``children`` if the step is a wait; else empty.
        round: how often an operator has restarted the step's wait or its failed children.
        signalled: a signal for this round was accepted. The signal's value is in the inbox, or was taken from there.
        timed_out: no signal arrived in time, too many children failed, or the step raised its last ``NotYet``.
        fan_out: its children.
        pivot: once the step has completed, nothing before it is undone.
        result: the step's result is the saga's result, although the step is not the last one.
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
    """The right to change the saga. An expired lease is still held until another worker takes it over.

    Args:
        owner: a nonce, different for each claim.
        expires_at: epoch seconds after which the lease may be taken over.
        act_until: epoch seconds after which the holder's function can no longer act.
    """

    owner: str
    expires_at: float
    act_until: float


class DeadMessage(Struct, frozen=True):
    """The message that moves to the dead letters. After a redrive it has the same dispatch and hops, but a new id."""

    dispatch: int
    hops: int
    message_id: str


class Progress(Struct, frozen=True):
    """The progress that the current execution has reported.

    Args:
        fraction: from 0 to 1.
        message: what the execution is doing.
        at: epoch seconds of the report.
        late: whether the library has reported that the code has not ended after its timeout.
        redacted_by: the mark of the type under which the message was redacted; empty if that hid nothing.
    """

    fraction: float
    message: str
    at: float
    late: bool = False
    redacted_by: str = ""


class Polling(Struct, frozen=True):
    """The polling of the current step, which has raised ``NotYet``.

    Args:
        since: epoch seconds from which the step's ``within`` counts: the first poll, plus any time in which the saga
            could not poll.
        looks: the number of polls so far.
        message: what the step waits for.
        after: the seconds until the step wants to poll again.
        due: epoch seconds at which the next poll is due.
        redacted_by: the mark of the type under which the message was redacted; empty if that hid nothing.
    """

    since: float
    looks: int = 1
    message: str = ""
    after: float = 0.0
    due: float = 0.0
    redacted_by: str = ""


class Unread(Struct, frozen=True):
    """The inputs of the current step or undo cannot be read. The saga waits, and nothing is counted (rule 19).

    Args:
        since: epoch seconds of the first look.
        code: ``no_right``, ``inputs_unreachable``, or ``gone`` if the object that S3 denied is missing.
        error: the missing right and its resource, or the error of AWS.
        listed: whether the saga is on the attention list for it.
        key: the object that S3 denied, until it is known to exist.
    """

    since: float
    code: str
    error: str
    listed: bool = False
    key: str = ""

    @property
    def gone(self) -> bool:
        """Whether the input is missing, so there is nothing to wait for."""
        return self.code == "gone"


class Purge(Struct, frozen=True):
    """The purge of a saga. From its beginning on, nothing else can change the saga.

    Args:
        at: epoch seconds at which the purge began.
        by: ``supervisor``, or the identity of the caller.
        reason: ``retention``, or the caller's reason.
    """

    at: float
    by: str = "supervisor"
    reason: str = "retention"

    @property
    def requested(self) -> bool:
        """Whether a caller requested it. Otherwise the saga's retention has expired."""
        return self.by != "supervisor"


COUNTERS = 16
"""Maximum counters per step. An item takes a thousand writes per second, and one transaction at a time."""


class Parent(Struct, frozen=True):
    """The saga that started this one.

    Args:
        saga_id, saga: the parent and its type.
        step: the parent's step.
        position: this child's position in the step, from 0.
        round: how often the step's failed children had been started again before this child's start.
        counters: the number of counters that count the step's children when they end for the first time.
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
        number: the number of the parent step's undo attempt, from 1.
        open: whether undoing has not begun yet.
    """

    number: int
    open: bool = True


class Cancel(Struct, frozen=True):
    """A cancel of a saga.

    Args:
        at: epoch seconds at which the cancel was accepted; 0 if there is none.
        by: the caller; empty once the cancel is journaled.
        reason: the caller's reason; empty once the cancel is journaled.
        journaled: whether the cancel is journaled.
    """

    at: float = 0.0
    by: str = ""
    reason: str = ""
    journaled: bool = False


class Recovery(Struct, frozen=True):
    """The stalls of a saga.

    Args:
        attempts: the number of stalls since the last progress.
        exhausted: whether there were too many stalls.
    """

    attempts: int = 0
    exhausted: bool = False

    def progressed(self) -> Recovery:
        """The stalls after progress: earlier ones no longer count."""
        return Recovery(0, self.exhausted)


class SagaState(Struct, frozen=True):
    """One saga. Times are epoch seconds; 0 means never.

    Args:
        saga_id: a UUID.
        saga: the saga type's name.
        version: the type's version when the saga started.
        correlation_id: the id in all its messages and log lines; empty if only the first entry has room for it.
        steps: its steps in order of execution, as they were when it started.
        cursor: the position of the step to run or undo.
        seq: the number of the last committed journal entry.
        token: the fencing token; every claim increases it.
        dispatch: the number of the current message.
        lease: the lease, if it is held.
        not_before: when the next execution may begin, or a wait ends.
        lost_until: the time until which a lost execution may still act.
        cancel: the accepted cancel.
        rejected: the failed step raised ``Rejected``, so the saga is undone whatever the step's policy is.
        failed: whether the saga counts as a failed saga of its type, whatever has happened since.
        cause: why undoing began (``failure``, ``cancel``, ``timeout``, ``recovery``, ``operator``, ``parent``).
        recovery: its stalls.
        unanswered: how many messages in a row were sent again without a response.
        dead: the message that moves to the dead letters.
        error_seq: the number of the journal entry with the error that ended the forward phase; 0 if there is none.
        error_type: the type of this error, or of the error of the last undo that failed for good; empty if there is
            none.
        resolution_seq: the number of the journal entry of an operator's resolve.
        unreadable: the part of the request or a result that does not fit the deployed code, and why. It contains no
            value.
        digest: a digest of all results so far (see ``sagas.store.journal.entries``); empty if it is unknown.
        head: the hash of the entry ``seq``, which covers all earlier entries. See ``sagas.store.journal.entries``.
        attention: when the saga began to need an operator.
        created_at: when the saga was started.
        updated_at: when the last change was committed.
        ended_at: when the saga reached its final status.
        progress: the progress of the current execution. The next claim or commit removes it.
        purge: the purge that has begun. Its lease is never released.
        polling: set if the current step has raised ``NotYet``.
        deadline: when the saga is cancelled if it has not ended.
        overdue: the deadline has passed after the pivot. The saga continues, and needs an operator.
        parent: the saga that started this saga.
        order: the parent's request to undo the saga after its end.
        paused: whether a pause has stopped the saga. It has no message until it is resumed.
        settling_since: when the saga began to wait for a release, because the deployed code does not fit its next step.
        unread: set if the inputs of what the saga does next could not be read at the last look.
        retrying_undos: whether a retry is running, of only the undos that had failed.
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
    unread: Unread | None = None
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
        """The step under the cursor; ``None`` past the last step."""
        return self.steps[self.cursor] if self.cursor < len(self.steps) else None

    @property
    def result_step(self) -> StepState:
        """The step whose result is the saga's result: the step that the type declared when the saga started, else the
        last."""
        return next((step for step in self.steps if step.result), self.steps[-1])

    @property
    def waiting_for(self) -> str:
        """The kind of the saga's wait: ``signal``, ``time``, ``children`` or ``retry``; empty if the saga does not
        wait."""
        step = self.current
        if self.joins:
            return "children"
        if self.status is not SagaStatus.WAITING or step is None:
            return ""
        return "retry" if self.polling is not None else step.waits_for

    @property
    def joins(self) -> bool:
        """Whether the saga waits for its children to end or to be undone."""
        step = self.current
        waits = self.status in (SagaStatus.WAITING, SagaStatus.COMPENSATING)
        children = step is not None and step.waits_for == "children" and step.status is StepStatus.WAITING
        return waits and children and self.polling is None

    @property
    def past_pivot(self) -> str:
        """The name of the pivot if it has completed or may have taken effect; else empty.

        From then on the saga only goes forward, and only an operator can undo it.
        """
        pivots = (s.name for s in self.steps if s.pivot and (s.status is StepStatus.COMPLETED or s.outcome_unknown))
        return next(pivots, "")

    @property
    def ends_at(self) -> float:
        """When the saga's own deadline takes effect; 0 if there is none, or if the saga is being undone or has ended.
        Past the pivot, the deadline only puts the saga on the attention list, unless the list already contains the
        saga."""
        listed = self.past_pivot and (self.overdue or self.status is SagaStatus.DEAD_LETTERED)
        return 0.0 if self.ended or self.undoing or self.cancel.at or listed else self.deadline

    def out_of_time(self, now: float) -> bool:
        """Whether the saga's own deadline has passed, and nothing has acted on it yet. ``now``: epoch seconds."""
        return 0.0 < self.ends_at <= now

    def in_time(self, due: float) -> float:
        """Return when the supervisor looks at the saga: at ``due``, or earlier at the saga's own deadline. A lease
        holder handles the deadline itself. All times are epoch seconds."""
        return due if self.lease else min(due, self.ends_at or due)

    @property
    def in_doubt(self) -> tuple[str, ...]:
        """The names of steps in doubt: the outcome of an execution is unknown, and nothing will settle it (rule 11)."""
        if not self.undoing and not self.ended:
            return ()
        settled = (StepStatus.COMPLETED, StepStatus.COMPENSATING, StepStatus.COMPENSATED)
        return tuple(s.name for s in self.steps if s.outcome_unknown and s.status not in settled)

    def with_step(self, index: int, step: StepState) -> SagaState:
        """Return the state with one step replaced."""
        return replace(self, steps=(*self.steps[:index], step, *self.steps[index + 1 :]))
