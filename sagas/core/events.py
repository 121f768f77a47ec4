"""Facts: the events of a saga that are journaled.

Each fact becomes a journal entry, under the same name as in the audit trail. Arrivals, which are not journaled, are in
``commands``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from sagas.core.states import DeadMessage, StepStatus
from sagas.errors import TypeChanged

CODE_GONE = "CodeGone"
"""The type of a failure because code is not deployed."""


class Failure(Struct, frozen=True):
    """Why an attempt failed: the class name of the exception and its text."""

    type: str
    message: str = ""

    @property
    def code_missing(self) -> bool:
        """Whether the code was missing."""
        return self.type == CODE_GONE

    @property
    def type_changed(self) -> bool:
        """Whether the code was not called, because a stored value does not fit its types."""
        return self.type == TypeChanged.__name__


LOST = Failure("Lost", "the attempt ended without a report")
HUNG = Failure("TimedOut", "the code had not ended after its timeout when its process ended without a report")
GONE = "is missing from S3, or was changed there"
"""How the text of a TypeChanged ends if the solution is to restore an object, and not to deploy code."""
DEADLINE = "the saga's deadline"
"""The actor of a cancel that the saga's own ``timeout`` causes. No caller's identity has spaces."""


ALWAYS = Meta(extra={"always": True})
"""Marks a field that the entry of a fact always stores. Other fields are omitted if they have their default."""
TIME = Meta(extra={"time": True})
"""Marks a field in epoch seconds that the entry stores as ISO 8601."""


class Reports(StrEnum):
    """How an attempt reports a fact that it could not commit."""

    STEP_SUCCEEDED = "STEP_SUCCEEDED"
    STEP_FAILED = "STEP_FAILED"
    UNDO_SUCCEEDED = "UNDO_SUCCEEDED"
    UNDO_FAILED = "UNDO_FAILED"


class Fact(Struct, frozen=True):
    """A change to journal. Its class declares what other modules need to know about it.

    ``leaves`` is the status in which the fact leaves its step, if that is always the same. ``gives_result``: the entry
    is the step's result for later steps. ``published``: services that publish step events publish the fact under its
    name. ``reports`` is set if an attempt can report the fact, and ``has_payload`` if its entry has a payload. ``why``
    is the failure, if that is always the same.
    """

    leaves: ClassVar[StepStatus | None] = None
    gives_result: ClassVar[bool] = False
    published: ClassVar[bool] = False
    reports: ClassVar[Reports | None] = None
    has_payload: ClassVar[bool] = False
    why: ClassVar[Failure | None] = None

    @property
    def action(self) -> str:
        """The name of the fact in the audit trail."""
        return type(self).__name__


class StepFact(Fact, frozen=True):
    """A fact about one execution of the step at ``index``."""

    index: int
    attempt: int


class StepCompleted(StepFact, frozen=True):
    """The step has completed. Its result is in the entry."""

    leaves = StepStatus.COMPLETED
    gives_result = True
    published = True
    reports = Reports.STEP_SUCCEEDED
    has_payload = True


class StepSkipped(StepFact, frozen=True):
    """The condition of the step is false, so the saga continues without it. If an earlier attempt has begun, the step
    counts as failed instead (rule 21).

    Args:
        attempt: the execution that asked; 0 if the attempt that completed the step before did.
        reason: the condition, and that it is false. It contains no value.
    """

    leaves = StepStatus.SKIPPED
    published = True
    reports = Reports.STEP_SUCCEEDED

    reason: Annotated[str, ALWAYS]


class StepFailed(StepFact, frozen=True):
    """The step raised.

    Args:
        failure: the error.
        permanent: another attempt would make no sense.
        rejected: the step raised ``Rejected``: the business said no.
        retry_at: epoch seconds of the next attempt, if there is one.
        excused: the failure says nothing about the step's dependency, because the step was cancelled or its code never
            began.
        outcome_unknown: the step may have taken effect, because it ended after its deadline, its result was refused, or
            its error says nothing about the effect.
        postponed: the step raised ``NotYet`` in a group with other errors, so it may have begun something.
        timed_out: the step raised ``NotYet`` at the end of its ``within``.
    """

    leaves = StepStatus.FAILED
    published = True
    reports = Reports.STEP_FAILED

    failure: Failure
    permanent: Annotated[bool, ALWAYS] = False
    rejected: Annotated[bool, ALWAYS] = False
    retry_at: Annotated[float, TIME] = field(default=0.0, name="next_attempt_at")
    excused: bool = False
    outcome_unknown: bool = False
    postponed: bool = False
    timed_out: bool = False


class StepLost(StepFact, frozen=True):
    """The lease of the execution expired, and there is no entry of its outcome, which is unknown.

    Args:
        failure: ``TimedOut`` if the code was seen to run beyond its timeout.
    """

    leaves = StepStatus.FAILED
    published = True

    failure: Annotated[Failure, ALWAYS] = LOST


class DeadLetterCause(StrEnum):
    """Why a step waits for an operator."""

    EXHAUSTED = "exhausted"
    """The attempts are used up, and the step's policy is to wait."""
    CODE_MISSING = "code_missing"
    """The deployed code does not have the step."""
    TYPE_CHANGED = "type_changed"
    """The code cannot be called, because a stored value does not fit its types."""
    WAIT_TIMED_OUT = "wait_timed_out"
    """No signal arrived in time."""
    CHILDREN_FAILED = "children_failed"
    """Too many children of the step failed."""
    STALLED = "stalled"
    """The saga stalled too often past its pivot."""
    PIVOT_HOLDS = "pivot_holds"
    """The attempts are used up, and past the pivot the saga can be neither undone nor ended."""

    @property
    def message_dies(self) -> bool:
        """Whether the step's message moves to the dead letters."""
        return self is DeadLetterCause.EXHAUSTED

    @property
    def fails_step(self) -> bool:
        """Whether this cause itself fails the step, without an attempt. Otherwise the step has failed before."""
        return self in (DeadLetterCause.CODE_MISSING, DeadLetterCause.TYPE_CHANGED, DeadLetterCause.STALLED)


class AttentionCode(StrEnum):
    """Why a saga needs an operator, worst first. If its step was dead-lettered, the reason is named like the cause."""

    UNDO_FAILED = "undo_failed"
    UNDO_NOT_CALLED = "undo_not_called"
    EXHAUSTED = "exhausted"
    CHILDREN_FAILED = "children_failed"
    WAIT_TIMED_OUT = "wait_timed_out"
    PIVOT_HOLDS = "pivot_holds"
    STALLED = "stalled"
    IN_DOUBT = "in_doubt"
    CODE_MISSING = "code_missing"
    TYPE_CHANGED = "type_changed"
    FAILED = "failed"
    RECOVERY_EXHAUSTED = "recovery_exhausted"
    NO_RESPONSE = "no_response"
    NO_RIGHT = "no_right"
    INPUTS_UNREACHABLE = "inputs_unreachable"
    DOES_NOT_FIT = "does_not_fit"
    OVERDUE = "overdue"


CONTINUES_BY_ITSELF = (AttentionCode.NO_RIGHT, AttentionCode.INPUTS_UNREACHABLE, AttentionCode.DOES_NOT_FIT)
"""The codes of sagas that are on the attention list although they need no operator yet."""


class StepDeadLettered(Fact, frozen=True):
    """The step waits for an operator.

    Args:
        cause: why the step waits.
        message: the message that moves to the dead letters, if any.
        failure: details of the cause. If the attempts are used up, the entry of the last attempt has the details
            instead.
    """

    leaves = StepStatus.FAILED
    published = True
    reports = Reports.STEP_FAILED

    index: int
    cause: DeadLetterCause
    message: DeadMessage | None = None
    failure: Failure | None = None


class CompensationStarted(Fact, frozen=True):
    """From here on only undos run. ``cause``: failure, cancel, timeout, recovery, operator or parent."""

    cause: str


class StepCompensated(StepFact, frozen=True):
    """The step's undo has completed."""

    leaves = StepStatus.COMPENSATED
    published = True
    reports = Reports.UNDO_SUCCEEDED


class CompensationAttemptFailed(StepFact, frozen=True):
    """The step's undo failed or was lost, and is retried at ``retry_at``."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_FAILED

    failure: Failure
    retry_at: Annotated[float, TIME] = field(default=0.0, name="next_attempt_at")


class CompensationFailed(StepFact, frozen=True):
    """The step's undo failed for good."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_FAILED

    failure: Failure


class WaitStarted(StepFact, frozen=True):
    """The step starts to wait for a signal or a time. ``until``: epoch seconds of the end of the wait."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED

    until: Annotated[float, TIME]


class SignalReceived(Fact, frozen=True):
    """The step at ``index`` has received its signal. The value is in the entry."""

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int


class WaitTimedOut(Fact, frozen=True):
    """No signal arrived in time for the step at ``index``."""

    leaves = StepStatus.FAILED
    why = Failure("WaitTimedOut", "no signal arrived in time")

    index: int


class WaitEnded(Fact, frozen=True):
    """The time for which the step at ``index`` waited has come."""

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int


class ChildrenStarted(StepFact, frozen=True):
    """The step has returned its children's requests, which are in the entry. ``types``: the children's types."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED
    has_payload = True

    children: int
    types: Annotated[tuple[str, ...], ALWAYS] = ()


class ChildrenEnded(Fact, frozen=True):
    """The children of the step at ``index`` have ended. Their results are in the entry.

    Args:
        completed: the number of COMPLETED children.
        failed: the number of children that have ended otherwise.
        failure: why the step has failed, if it has.
    """

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int
    completed: int
    failed: int
    failure: Failure | None = None


RELEASE = "release"
"""Code was not called: the saga waits for a release whose code fits."""
INPUTS = "inputs"
"""Code was not called: the saga waits until its inputs can be read."""
LATE = "late"
"""Code was not called: its lease, or the saga's own deadline, passed before it could begin."""
NOT_OWED = "not_owed"
"""An undo was not called: the step needs none, which was unknown while its code was not deployed."""


class Postponed(StepFact, frozen=True):
    """The step or its undo raised ``NotYet``, or was not called. That is not a failure.

    Args:
        message: what the step waits for.
        after: the seconds until the step wants to poll again.
        retry_at: epoch seconds of the next poll.
        since: epoch seconds of the first poll.
        looks: the number of polls so far.
        because: empty if the code raised ``NotYet``; ``release``, ``inputs`` or ``late`` if it was not called (rules 19
            and 20); ``not_owed`` if an undo was not called because the step needs none, which was unknown while its
            code was not deployed.
        code: with ``inputs``, why they cannot be read, as an :class:`AttentionCode`.
        key: the object that S3 denies and that may be missing; empty if there is none.
        redacted_by: the mark of the type under which the message was redacted; empty if that hid nothing.
    """

    message: str
    after: float
    retry_at: Annotated[float, TIME] = field(name="next_attempt_at")
    since: Annotated[float, TIME]
    looks: Annotated[int, ALWAYS] = 1
    because: str = ""
    code: str = ""
    key: str = ""
    redacted_by: str = ""


class StepPostponed(Postponed, frozen=True):
    """The step raised ``NotYet``, or was not called."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED


class CompensationPostponed(Postponed, frozen=True):
    """The step's undo raised ``NotYet``, or was not called."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_SUCCEEDED


class SagaTimedOut(Fact, frozen=True):
    """The saga's own deadline has passed. The saga is undone; past its pivot it continues, and needs an operator."""

    why = Failure("SagaTimedOut", "the saga's own timeout has passed")


class CancelRequested(Fact, frozen=True):
    """An accepted cancel takes effect, or has come too late, because the pivot has completed."""


class SagaFailed(Fact, frozen=True):
    """The saga ends FAILED. Nothing is undone."""


class MessageResent(Fact, frozen=True):
    """The current message is sent again. ``stall``: the queue showed that the last message was lost, which costs a
    recovery attempt. ``unanswered``: how many messages in a row got no response. ``attention``: so many messages got no
    response that the saga needs an operator."""

    stall: Annotated[bool, ALWAYS] = False
    unanswered: int = 0
    attention: bool = False


class SagaRecovered(MessageResent, frozen=True):
    """The supervisor has revived a saga whose message was lost: the message is sent again."""

    stall: Annotated[bool, ALWAYS] = True


class SagaRecoveryExhausted(Fact, frozen=True):
    """The saga has stalled too often at its current step. It is undone; past its pivot it stops."""

    leaves = StepStatus.COMPENSATION_FAILED


class SagaRetried(Fact, frozen=True):
    """The failed step or undos get a new budget of attempts: from an operator, the parent, or a redrive."""

    reason: Annotated[str, ALWAYS] = ""


class SagaResolved(Fact, frozen=True):
    """An operator has resolved the saga. ``steps`` names the steps that were undone by hand."""

    reason: str
    taken: str = field(name="action")
    steps: Annotated[tuple[str, ...], ALWAYS] = field(default=(), name="undone_by_hand")


FACTS: dict[str, type[Fact]] = {
    kind.__name__: kind
    for kind in (
        StepCompleted,
        StepSkipped,
        StepFailed,
        StepLost,
        StepDeadLettered,
        CompensationStarted,
        StepCompensated,
        CompensationAttemptFailed,
        CompensationFailed,
        CancelRequested,
        SagaFailed,
        MessageResent,
        SagaRecovered,
        SagaRecoveryExhausted,
        SagaRetried,
        SagaResolved,
        WaitStarted,
        SignalReceived,
        WaitTimedOut,
        WaitEnded,
        StepPostponed,
        CompensationPostponed,
        SagaTimedOut,
        ChildrenStarted,
        ChildrenEnded,
    )
}
"""All kinds of facts, by the name of their action."""
