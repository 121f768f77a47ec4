"""Facts: the events of a saga that are journaled.

Each is one committed journal entry, under the name that the audit trail shows. Arrivals, which are not journaled, are
in ``commands``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from sagas.core.states import DeadMessage, StepStatus
from sagas.errors import TypeChanged


class Failure(Struct, frozen=True):
    """Why an attempt failed: the class name of the exception and its text."""

    type: str
    message: str = ""

    @property
    def code_missing(self) -> bool:
        """Whether the code was missing."""
        return self.type == "CodeGone"

    @property
    def type_changed(self) -> bool:
        """Whether the code could not be called because a stored value does not fit its types."""
        return self.type == TypeChanged.__name__


LOST = Failure("Lost", "the attempt ended without a report")
GONE = "is missing from S3, or was changed there"
"""End of the text of a TypeChanged that new code does not fix: an object must be restored."""
DEADLINE = "the saga's deadline"
"""The actor of a cancel by the saga's own ``timeout``. No caller's identity has spaces."""


ALWAYS = Meta(extra={"always": True})
"""Marks a field of a fact that its entry stores even if it has its default. Others are omitted then."""
TIME = Meta(extra={"time": True})
"""Marks a field in epoch seconds that is stored as ISO 8601."""


class Reports(StrEnum):
    """How an attempt reports a fact that it could not commit."""

    STEP_SUCCEEDED = "STEP_SUCCEEDED"
    STEP_FAILED = "STEP_FAILED"
    UNDO_SUCCEEDED = "UNDO_SUCCEEDED"
    UNDO_FAILED = "UNDO_FAILED"


class Fact(Struct, frozen=True):
    """A journaled change. Its class declares what other parts need to know about it.

    ``action`` is its name in the audit trail. ``leaves`` is the status in which it leaves its step, if that is always
    the same. ``gives_result``: later steps take its payload, or what it stands for, as the step's result.
    ``published``: services that publish steps publish it under its name. ``reports`` is set if an attempt can report
    it, and ``has_payload`` if its entry has a payload. ``why`` is its failure, if that is always the same.
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
    """The step ran to its end; its result is in the entry."""

    leaves = StepStatus.COMPLETED
    gives_result = True
    published = True
    reports = Reports.STEP_SUCCEEDED
    has_payload = True


class StepFailed(StepFact, frozen=True):
    """The step raised.

    Args:
        failure: what it raised.
        permanent: no further attempt makes sense.
        rejected: the business said no.
        retry_at: epoch seconds of the next attempt, if there is one.
        excused: the failure says nothing about the step's dependency: it was cancelled, or its code never began.
        outcome_unknown: it may have taken effect: it ended after its deadline, or its result was refused.
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


class StepLost(StepFact, frozen=True):
    """The execution's lease expired and it left no entry: its outcome is unknown."""

    leaves = StepStatus.FAILED
    published = True

    why = LOST


class DeadLetterCause(StrEnum):
    """Why a step waits for an operator."""

    EXHAUSTED = "exhausted"
    """Its attempts are used up, and its policy is to wait."""
    CODE_MISSING = "code_missing"
    """The deployed code does not have it."""
    TYPE_CHANGED = "type_changed"
    """Its code cannot be called with what is stored."""
    WAIT_TIMED_OUT = "wait_timed_out"
    """No signal arrived in time."""
    CHILDREN_FAILED = "children_failed"
    """Too many of its children failed."""
    STALLED = "stalled"
    """The saga stalled too often past its pivot."""
    PIVOT_HOLDS = "pivot_holds"
    """Its attempts are used up, and the pivot keeps the saga from being undone or from ending."""

    @property
    def message_dies(self) -> bool:
        """Whether the step's message moves to the dead letters."""
        return self is DeadLetterCause.EXHAUSTED

    @property
    def fails_step(self) -> bool:
        """Whether this cause itself fails the step, without an attempt. With the others the step had already failed."""
        return self in (DeadLetterCause.CODE_MISSING, DeadLetterCause.TYPE_CHANGED, DeadLetterCause.STALLED)


class AttentionCode(StrEnum):
    """Why a saga needs an operator, the worst first. Where its step was dead-lettered, it has the cause's name."""

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
    OVERDUE = "overdue"


class StepDeadLettered(Fact, frozen=True):
    """The step waits for an operator; ``cause`` says why.

    Args:
        cause: why.
        message: the message that moves to the dead letters, if one does.
        failure: the cause in detail; if the attempts are used up, the entry of the last attempt has it.
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
    """The step's undo ran to its end."""

    leaves = StepStatus.COMPENSATED
    published = True
    reports = Reports.UNDO_SUCCEEDED


class CompensationAttemptFailed(StepFact, frozen=True):
    """The step's undo raised or was lost; it will be tried again at ``retry_at``."""

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
    """The step starts to wait for a signal or for a time. ``until``: epoch seconds of the end."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED

    until: Annotated[float, TIME]


class SignalReceived(Fact, frozen=True):
    """The signal for the step at ``index`` arrived; its value is in the entry."""

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int


class WaitTimedOut(Fact, frozen=True):
    """No signal arrived in time for the step at ``index``."""

    leaves = StepStatus.FAILED
    why = Failure("WaitTimedOut", "no signal arrived in time")

    index: int


class WaitEnded(Fact, frozen=True):
    """The time that the step at ``index`` waited for has come."""

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int


class ChildrenStarted(StepFact, frozen=True):
    """The step returned the requests of its children, which are in the entry; ``types`` are the children's types."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED
    has_payload = True

    children: int
    types: Annotated[tuple[str, ...], ALWAYS] = ()


class ChildrenEnded(Fact, frozen=True):
    """The children of the step at ``index`` have ended; their results are in the entry.

    Args:
        completed: how many are COMPLETED.
        failed: how many are not.
        failure: why the step has failed, if it has.
    """

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int
    completed: int
    failed: int
    failure: Failure | None = None


class Postponed(StepFact, frozen=True):
    """The step or its undo raised ``NotYet``: nothing failed.

    Args:
        message: what it waits for.
        after: the seconds it asked for.
        retry_at: epoch seconds of the next poll.
        since: epoch seconds of the first poll.
        looks: the number of polls.
    """

    message: str
    after: float
    retry_at: Annotated[float, TIME] = field(name="next_attempt_at")
    since: Annotated[float, TIME]
    looks: Annotated[int, ALWAYS] = 1


class StepPostponed(Postponed, frozen=True):
    """The step raised ``NotYet``: nothing failed. ``settling``: it was not called, because a stored value does not fit
    the deployed code, and the saga waits for a release."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED

    settling: bool = False


class CompensationPostponed(Postponed, frozen=True):
    """The step's undo raised ``NotYet``: nothing failed."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_SUCCEEDED


class SagaTimedOut(Fact, frozen=True):
    """The saga's own deadline has passed: it is undone; past its pivot it continues, and needs an operator."""

    why = Failure("SagaTimedOut", "the saga's own timeout has passed")


class CancelRequested(Fact, frozen=True):
    """An accepted cancel takes effect; or it came too late, because the pivot has completed."""


class SagaFailed(Fact, frozen=True):
    """The saga ends FAILED: nothing is undone."""


class SagaRecovered(Fact, frozen=True):
    """The current message is sent again. ``stall``: its queue showed that the last one was lost, which uses up a
    recovery attempt. ``unanswered``: how many messages in a row got no response. ``attention``: so many that the saga
    needs an operator."""

    stall: Annotated[bool, ALWAYS] = True
    unanswered: int = 0
    attention: bool = False


class SagaRecoveryExhausted(Fact, frozen=True):
    """The saga stalled too often at its current step: it is undone, or stops past its pivot."""

    leaves = StepStatus.COMPENSATION_FAILED


class SagaRetried(Fact, frozen=True):
    """The failed step or undos got a new budget of attempts: from an operator, the parent, or a redrive."""

    reason: Annotated[str, ALWAYS] = ""


class SagaResolved(Fact, frozen=True):
    """An operator resolved the saga; ``steps`` (by name) were undone by hand."""

    reason: str
    taken: str = field(name="action")
    steps: Annotated[tuple[str, ...], ALWAYS] = field(default=(), name="undone_by_hand")


FACTS: dict[str, type[Fact]] = {
    kind.__name__: kind
    for kind in (
        StepCompleted,
        StepFailed,
        StepLost,
        StepDeadLettered,
        CompensationStarted,
        StepCompensated,
        CompensationAttemptFailed,
        CompensationFailed,
        CancelRequested,
        SagaFailed,
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
"""Each fact by the name of its action."""
