"""What the automaton is asked, and what it answers. None of it is journaled.

Arrivals are messages, and requests of the supervisor, operators and callers. The answer is a decision: the next state
and an instruction to the engine. The automaton never acts.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from sagas.core.events import ChildrenEnded, CompensationFailed, Fact, SagaRecovered, StepCompensated
from sagas.core.states import Lease, SagaState


class MessageArrived(Struct, frozen=True):
    """A message of the saga was received.

    Args:
        index: its step.
        undo: whether it is for the step's undo.
        dispatch: its number.
        hops: how often it was copied to wait longer.
        message_id: its id in SQS.
        lease: the lease that the receiver would take.
        sent_at: epoch seconds at which it entered its queue; 0 if unknown.
        reason: why an operator redrove it; empty if unknown.
    """

    index: int
    undo: bool
    dispatch: int
    hops: int
    message_id: str
    lease: Lease
    sent_at: float = 0.0
    reason: str = ""


class Backlog(StrEnum):
    """What the queue of a step shows about a message that no worker has claimed."""

    LOST = "LOST"
    """The queue is empty, and much later messages were handled: the message is lost."""
    UNKNOWN = "UNKNOWN"
    """The message may be lost, or its function cannot run. Or only messages that overtook it are waiting."""
    WAITING = "WAITING"
    """Messages are waiting, and this one may be among them."""


class StallNoticed(Struct, frozen=True):
    """The supervisor looked at the saga, or the API did after a cancel or a signal.

    Args:
        lease: the lease it would take.
        stale_after: seconds of silence after which the message counts as lost; the type's by default.
        postponed_until: epoch seconds until which an open circuit breaker explains the silence; 0 without one.
        backlog: what its queue shows about the message.
        asked: an operator asks for the message now, if the saga waits for a release.
    """

    lease: Lease
    stale_after: float | None = None
    postponed_until: float = 0.0
    backlog: Backlog = Backlog.UNKNOWN
    asked: bool = False


class CancelArrived(Struct, frozen=True):
    """A caller cancels the saga. ``actor``: the caller; ``reason``: why."""

    actor: str = ""
    reason: str = ""


class SignalArrived(Struct, frozen=True):
    """A caller sends a value to the step at ``index``, which waits for a signal, has waited, or will wait."""

    index: int


class RetryArrived(Struct, frozen=True):
    """An operator retries a failed step or undo. ``lease``: the lease it would take."""

    lease: Lease
    reason: str = ""


class CompensateArrived(Struct, frozen=True):
    """An operator undoes a saga that is dead-lettered or has failed; with ``force`` also a COMPLETED one, and with
    ``force`` and a ``reason`` one past its pivot."""

    lease: Lease
    force: bool = False
    reason: str = ""


class ChildrenSeen(Struct, frozen=True):
    """All children of a saga have ended or are undone, or this could not be journaled again and again. The supervisor
    or the function that advances parents saw it.

    Args:
        lease: the lease it would take.
        fact: the resulting fact.
        round: the step's round at that time.
    """

    lease: Lease
    fact: ChildrenEnded | StepCompensated | CompensationFailed | SagaRecovered
    round: int = 0


class ResolveArrived(Struct, frozen=True):
    """An operator resolves the saga.

    Args:
        lease: the lease it would take.
        reason: why.
        taken: the action that was taken.
        steps: names of the steps undone by hand.
    """

    lease: Lease
    reason: str
    taken: str
    steps: tuple[str, ...] = ()


Arrival = (
    MessageArrived
    | StallNoticed
    | CancelArrived
    | SignalArrived
    | RetryArrived
    | CompensateArrived
    | ResolveArrived
    | ChildrenSeen
)
Event = Fact | Arrival


class Run(Struct, frozen=True):
    """Execute the step at ``index`` (or its undo); the state already counts the attempt."""

    index: int
    undo: bool
    attempt: int


class Write(Struct, frozen=True):
    """As the lease holder, journal this fact next; user code does not run."""

    fact: Fact


class Send(Struct, frozen=True):
    """Send the saga's current message, not to be delivered before ``not_before`` (epoch seconds)."""

    index: int
    undo: bool
    dispatch: int
    not_before: float = 0.0


class Postpone(Struct, frozen=True):
    """Deliver the message again at ``until`` (epoch seconds). ``itself``: a copy must not take its place."""

    until: float
    itself: bool = False


class Discard(Struct, frozen=True):
    """Delete the message: it was handled, or it is stale, and then it has a reason."""

    reason: str = ""


class FailDelivery(Struct, frozen=True):
    """Report the message failed until its queue moves it to the dead-letter queue."""


class Refuse(Struct, frozen=True):
    """Refuse the request: the state does not allow it."""

    reason: str


Then = Run | Write | Postpone | Discard | FailDelivery | Refuse
"""The instruction to the process that received the arrival."""


class Decision(Struct, frozen=True):
    """The next state, and what follows from it.

    Args:
        state: the saga from now on; the same object if nothing changed.
        then: the next instruction; ``None`` if there is none.
        send: the message to send; if it is the current one, it is kept.
    """

    state: SagaState
    then: Then | None = None
    send: Send | None = None
