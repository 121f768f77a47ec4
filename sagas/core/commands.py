"""The inputs of the automaton, and its answers. Neither are journaled.

Inputs that are not facts are *arrivals*: messages, and requests of the supervisor, operators and callers. The answer is
a decision: the next state, and an instruction to the engine. The automaton itself never acts.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from sagas.core.events import (
    ChildrenEnded,
    CompensationFailed,
    Fact,
    MessageResent,
    StepCompensated,
    StepDeadLettered,
)
from sagas.core.states import Lease, SagaState


class MessageArrived(Struct, frozen=True):
    """A message of the saga was received.

    Args:
        index: its step.
        undo: whether the message is for the step's undo.
        dispatch: its number.
        hops: how often the message was copied to wait longer.
        message_id: the id that SQS gave it.
        lease: the lease for the receiver.
        sent_at: epoch seconds at which it entered its queue; 0 if unknown.
    """

    index: int
    undo: bool
    dispatch: int
    hops: int
    message_id: str
    lease: Lease
    sent_at: float = 0.0


class Backlog(StrEnum):
    """What the queue of a step shows about a message that no worker has claimed."""

    LOST = "LOST"
    """The message is lost: the queue is empty, and much later messages have been handled."""
    UNKNOWN = "UNKNOWN"
    """The message may be lost, its function may be unable to run, or only later messages may be waiting."""
    WAITING = "WAITING"
    """Messages are waiting, and this one may be among them."""


class Visited(Struct, frozen=True):
    """The supervisor looks at the saga, or the API does after a cancel or a signal.

    Args:
        lease: the lease to take.
        stale_after: seconds without a response after which the message counts as lost. Default: the type's number.
        postponed_until: epoch seconds until which an open circuit breaker may postpone the message; 0 if there is none.
        backlog: what the step's queue shows about the message.
        asked: an operator wants the message sent now, even if the saga waits for a release.
    """

    lease: Lease
    stale_after: float | None = None
    postponed_until: float = 0.0
    backlog: Backlog = Backlog.UNKNOWN
    asked: bool = False


class CancelArrived(Struct, frozen=True):
    """A caller, the ``actor``, cancels the saga. ``reason`` says why."""

    actor: str = ""
    reason: str = ""


class SignalArrived(Struct, frozen=True):
    """A caller sends a signal to the step at ``index``, which waits for it, has waited, or will wait."""

    index: int


class RetryArrived(Struct, frozen=True):
    """An operator retries a failed step or undo. ``lease``: the operator's lease."""

    lease: Lease
    reason: str = ""


class CompensateArrived(Struct, frozen=True):
    """An operator undoes a saga that is dead-lettered or has failed. A COMPLETED saga takes ``force``, and a saga past
    its pivot takes ``force`` and a ``reason``."""

    lease: Lease
    force: bool = False
    reason: str = ""


ChildrenFact = ChildrenEnded | StepCompensated | CompensationFailed | MessageResent | StepDeadLettered
"""A fact about a saga's children."""


class ChildrenSeen(Struct, frozen=True):
    """The supervisor, or the function that advances parents, has seen one of three things: all children of a saga have
    ended or are undone, or no attempt could journal their end, or the code of children is not deployed.

    Args:
        lease: the lease to take.
        fact: the fact to journal.
        round: the step's round at that time.
    """

    lease: Lease
    fact: ChildrenFact
    round: int = 0


class ResolveArrived(Struct, frozen=True):
    """An operator resolves the saga.

    Args:
        lease: the operator's lease.
        reason: why.
        taken: the action that was taken.
        steps: names of the steps that were undone by hand.
    """

    lease: Lease
    reason: str
    taken: str
    steps: tuple[str, ...] = ()


Arrival = (
    MessageArrived
    | Visited
    | CancelArrived
    | SignalArrived
    | RetryArrived
    | CompensateArrived
    | ResolveArrived
    | ChildrenSeen
)
Event = Fact | Arrival


class Run(Struct, frozen=True):
    """Run the step at ``index``, or its undo. The state already counts the attempt."""

    index: int
    undo: bool
    attempt: int


class Write(Struct, frozen=True):
    """As the lease holder, journal this fact. No user code runs."""

    fact: Fact


class Send(Struct, frozen=True):
    """Send the saga's current message. It must not be delivered before ``not_before`` (epoch seconds)."""

    index: int
    undo: bool
    dispatch: int
    not_before: float = 0.0


class Postpone(Struct, frozen=True):
    """Deliver the message again at ``until`` (epoch seconds). ``itself``: no copy may replace the message."""

    until: float
    itself: bool = False


class Discard(Struct, frozen=True):
    """Delete the message, which was handled or is stale. ``reason``: why it is stale; empty if it was handled."""

    reason: str = ""


class FailDelivery(Struct, frozen=True):
    """Report each delivery of the message as failed, so that its queue moves it to the dead-letter queue."""


class Refuse(Struct, frozen=True):
    """Refuse the request, because the state does not allow it."""

    reason: str


Then = Run | Write | Postpone | Discard | FailDelivery | Refuse
"""The instruction to the process that received the arrival."""


class Decision(Struct, frozen=True):
    """The next state, and what follows from it.

    Args:
        state: the saga from now on; the same object if nothing changed.
        then: the next instruction; ``None`` if there is none.
        send: the message to send. If it is the message being handled, that message is kept instead.
    """

    state: SagaState
    then: Then | None = None
    send: Send | None = None
