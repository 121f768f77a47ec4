"""What can happen to a saga, in the past tense.

*Facts* are journaled: one committed journal entry each, under the name the audit trail shows. *Arrivals* are not: a
message, the supervisor, an operator or a caller turned up, and the automaton says what there is to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from sagas.core.states import DeadLetter, StepStatus
from sagas.errors import TypeChanged


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: the exception's class name and its text."""

    type: str
    message: str = ""

    @classmethod
    def code_missing_failure(cls, what: str, saga: str) -> Failure:
        """The failure of something that the deployed code does not have (any more)."""
        return cls("CodeGone", f"{what} of saga {saga!r} is not in the deployed code")

    @property
    def code_missing(self) -> bool:
        """Whether there was no code to attempt it with."""
        return self.type == "CodeGone"

    @property
    def type_changed(self) -> bool:
        """Whether the code that was claimed could not be called: what is stored does not fit its types."""
        return self.type == TypeChanged.__name__


LOST = Failure("Lost", "the attempt ended without a report")
GONE = "is gone from S3, or was changed there"
"""What ends the text of a TypeChanged whose cure is no code: what the step would take is to be restored."""
DEADLINE = "the saga's deadline"
"""Who asks for a cancel where it is the saga's own ``timeout``. No caller's identity has spaces."""


def _kept(name: str = "", *, always: bool = False, time: bool = False, **default: Any) -> Any:
    """A field of a fact, and how its entry keeps it. One that has its default is left out. ``time``: it is epoch
    seconds, and kept as ISO 8601."""
    return field(metadata={"name": name, "always": always, "time": time}, **default)


class Reports(StrEnum):
    """What a fact is, where an attempt may report it after its outcome could not be committed."""

    STEP_SUCCEEDED = "STEP_SUCCEEDED"
    STEP_FAILED = "STEP_FAILED"
    UNDO_SUCCEEDED = "UNDO_SUCCEEDED"
    UNDO_FAILED = "UNDO_FAILED"


@dataclass(frozen=True, slots=True)
class Fact:
    """A journaled change. Its class says all that others have to know of it.

    ``action`` is its name in the audit trail. ``leaves`` is the status in which it leaves its step, if that can be told
    from it alone. ``gives_result``: later steps take its payload, or what it stands for, as the step's result.
    ``published``: services that publish steps publish it under its name. ``reports`` is set where an attempt reports
    it, and ``has_payload`` where its entry has a payload. ``why`` is its failure, where that is always the same.
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


@dataclass(frozen=True, slots=True)
class StepFact(Fact):
    """A fact about one execution of the step at ``index``."""

    index: int
    attempt: int


@dataclass(frozen=True, slots=True)
class StepCompleted(StepFact):
    """The step ran to its end; its result is in the entry."""

    leaves = StepStatus.COMPLETED
    gives_result = True
    published = True
    reports = Reports.STEP_SUCCEEDED
    has_payload = True


@dataclass(frozen=True, slots=True)
class StepFailed(StepFact):
    """The step raised.

    Args:
        failure: what it raised.
        permanent: no further attempt makes sense.
        rejected: the business said no.
        retry_at: epoch seconds of the next attempt, if there is one.
        excused: it says nothing of what the step depends on: it was told of a cancel, or its code never began.
        outcome_unknown: it may have taken effect all the same: it ended after its deadline, or what it returned was
            refused.
    """

    leaves = StepStatus.FAILED
    published = True
    reports = Reports.STEP_FAILED

    failure: Failure
    permanent: bool = _kept(always=True, default=False)
    rejected: bool = _kept(always=True, default=False)
    retry_at: float = _kept("next_attempt_at", time=True, default=0.0)
    excused: bool = False
    outcome_unknown: bool = False


@dataclass(frozen=True, slots=True)
class StepLost(StepFact):
    """The execution's lease expired and it left no entry: its outcome is unknown."""

    leaves = StepStatus.FAILED
    published = True

    why = LOST


class DeadLetterCause(StrEnum):
    """Why a step waits for an operator."""

    EXHAUSTED = "exhausted"
    """Its attempts are used up, and its policy says so."""
    CODE_MISSING = "code_missing"
    """The deployed code does not have it."""
    TYPE_CHANGED = "type_changed"
    """Its code cannot be called with what is stored."""
    WAIT_TIMED_OUT = "wait_timed_out"
    """No signal came in time."""
    CHILDREN_FAILED = "children_failed"
    """Too many of its children failed."""
    STALLED = "stalled"
    """The saga stalled too often behind its pivot."""
    PIVOT_HOLDS = "pivot_holds"
    """Its attempts are used up, and the pivot keeps the saga from being undone or from ending."""

    @property
    def message_dies(self) -> bool:
        """Whether the step's message moves to the dead letters."""
        return self is DeadLetterCause.EXHAUSTED

    @property
    def fails_step(self) -> bool:
        """Whether the step fails by it, without an attempt. By the other causes it had failed before."""
        return self in (DeadLetterCause.CODE_MISSING, DeadLetterCause.TYPE_CHANGED, DeadLetterCause.STALLED)


@dataclass(frozen=True, slots=True)
class StepDeadLettered(Fact):
    """The step waits for an operator; ``cause`` says why.

    Args:
        cause: why.
        message: what is dying, if a message is.
        failure: what the cause says in detail; the entry of the last attempt does where its attempts are used up.
    """

    leaves = StepStatus.FAILED
    published = True
    reports = Reports.STEP_FAILED

    index: int
    cause: DeadLetterCause
    message: DeadLetter | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class CompensationStarted(Fact):
    """From here on only undos run. ``cause``: failure, cancel, timeout, recovery, operator or parent."""

    cause: str


@dataclass(frozen=True, slots=True)
class StepCompensated(StepFact):
    """The step's undo ran to its end."""

    leaves = StepStatus.COMPENSATED
    published = True
    reports = Reports.UNDO_SUCCEEDED


@dataclass(frozen=True, slots=True)
class CompensationAttemptFailed(StepFact):
    """The step's undo raised or was lost; it will be tried again at ``retry_at``."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_FAILED

    failure: Failure
    retry_at: float = _kept("next_attempt_at", time=True, default=0.0)


@dataclass(frozen=True, slots=True)
class CompensationFailed(StepFact):
    """The step's undo failed for good."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_FAILED

    failure: Failure


@dataclass(frozen=True, slots=True)
class WaitStarted(StepFact):
    """The step waits from here on, for a signal or for a time; ``until``: epoch seconds of its end."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED

    until: float = _kept(time=True)


@dataclass(frozen=True, slots=True)
class SignalReceived(Fact):
    """The signal that the step at ``index`` waits for came; its value is in the entry."""

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int


@dataclass(frozen=True, slots=True)
class WaitTimedOut(Fact):
    """The step at ``index`` waited in vain."""

    leaves = StepStatus.FAILED
    why = Failure("WaitTimedOut", "no signal came in time")

    index: int


@dataclass(frozen=True, slots=True)
class WaitEnded(Fact):
    """The time came that the step at ``index`` waited for."""

    leaves = StepStatus.COMPLETED
    gives_result = True

    index: int


@dataclass(frozen=True, slots=True)
class ChildrenStarted(StepFact):
    """The step has said which children there are to be; their requests are in the entry, ``types`` are theirs."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED
    has_payload = True

    children: int
    types: tuple[str, ...] = _kept(always=True, default=())


@dataclass(frozen=True, slots=True)
class ChildrenEnded(Fact):
    """The children of the step at ``index`` are over; their results are in the entry.

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


@dataclass(frozen=True, slots=True)
class Postponed(StepFact):
    """The step or its undo said that it is not yet time: nothing failed.

    Args:
        message: what it waits for.
        after: seconds that it asked for.
        retry_at: epoch seconds of the next look.
        since: epoch seconds of the first look in vain.
        looks: how many there were.
    """

    message: str
    after: float
    retry_at: float = _kept("next_attempt_at", time=True)
    since: float = _kept(time=True)
    looks: int = _kept(always=True, default=1)


@dataclass(frozen=True, slots=True)
class StepPostponed(Postponed):
    """The step said that it is not yet time: nothing failed."""

    leaves = StepStatus.WAITING
    reports = Reports.STEP_SUCCEEDED


@dataclass(frozen=True, slots=True)
class CompensationPostponed(Postponed):
    """The step's undo said that it is not yet time: nothing failed."""

    leaves = StepStatus.COMPENSATION_FAILED
    reports = Reports.UNDO_SUCCEEDED


@dataclass(frozen=True, slots=True)
class SagaTimedOut(Fact):
    """The saga's own deadline has passed: it is undone, or goes on behind its pivot, and needs a person."""

    why = Failure("SagaTimedOut", "the saga's own timeout has passed")


@dataclass(frozen=True, slots=True)
class CancelRequested(Fact):
    """An accepted cancel takes effect; or it came too late, for the pivot has completed meanwhile."""


@dataclass(frozen=True, slots=True)
class SagaFailed(Fact):
    """The saga ends FAILED: nothing is undone."""


@dataclass(frozen=True, slots=True)
class SagaRecovered(Fact):
    """The current message is sent again. ``stall``: its queue showed that the last one was lost, which uses up a
    recovery attempt. ``unanswered``: how many messages in a row were sent without a sign of what happened to them.
    ``attention``: so many that the saga needs an operator."""

    stall: bool = _kept(always=True, default=True)
    unanswered: int = 0
    attention: bool = False


@dataclass(frozen=True, slots=True)
class SagaRecoveryExhausted(Fact):
    """The saga stalled too often at its current step: it is given up, or stops behind its pivot."""

    leaves = StepStatus.COMPENSATION_FAILED


@dataclass(frozen=True, slots=True)
class SagaRetried(Fact):
    """A new budget of attempts for what failed, by an operator, by its parent, or by redriving the dead letter."""

    note: str = _kept(always=True, default="")


@dataclass(frozen=True, slots=True)
class SagaResolved(Fact):
    """An operator settled it by hand; ``steps`` (by name) were undone by hand."""

    note: str
    taken: str = _kept("action")
    steps: tuple[str, ...] = _kept("undone_by_hand", always=True, default=())


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
