"""What reaches a saga from outside: a message, the supervisor, an operator, a caller. None of it is journaled."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from sagas.core.events import ChildrenEnded, CompensationFailed, Fact, SagaRecovered, StepCompensated
from sagas.core.states import Lease


class MessageArrived(Struct, frozen=True):
    """A message of the saga was received.

    Args:
        index: the step it is for.
        undo: whether for the step's undo.
        dispatch: its number.
        hops: how often it was copied to wait longer.
        message_id: SQS's id of it.
        lease: the lease the receiver would take.
        sent_at: epoch seconds at which it entered its queue; 0 if unknown.
        reason: why it was moved back from the dead letters; empty if that is not said.
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
    """What the queue of its step says of a message that no worker has claimed."""

    LOST = "LOST"
    """Nothing waits there, and messages sent a good while later were handled: the message is lost."""
    UNKNOWN = "UNKNOWN"
    """Nothing shows what became of it: it may be lost, or its function cannot run. Or others wait there, by which it
    was passed."""
    WAITING = "WAITING"
    """Others wait there, and this one may be among them."""


class StallNoticed(Struct, frozen=True):
    """The supervisor looked at the saga; or the caller did who has cancelled it, or sent it a signal.

    Args:
        lease: what would be taken.
        stale_after: seconds of silence after which the message counts as lost; the type's by default.
        postponed_until: epoch seconds until which an open circuit breaker explains the silence; 0 if it does not.
        backlog: what its queue says of it.
    """

    lease: Lease
    stale_after: float | None = None
    postponed_until: float = 0.0
    backlog: Backlog = Backlog.UNKNOWN


class CancelAsked(Struct, frozen=True):
    """A caller wants the saga cancelled; ``actor``: who; ``reason``: why."""

    actor: str = ""
    reason: str = ""


class SignalAsked(Struct, frozen=True):
    """A caller has a value for the step at ``index``, which waits for a signal, has waited, or will."""

    index: int


class RetryAsked(Struct, frozen=True):
    """An operator wants what failed tried again; ``lease`` is what would be taken."""

    lease: Lease
    reason: str = ""


class CompensateAsked(Struct, frozen=True):
    """An operator gives up on a saga that waits or has failed, and wants it undone; with ``force`` also one that is
    COMPLETED, and with a ``reason``, too, one that is past its pivot."""

    lease: Lease
    force: bool = False
    reason: str = ""


class ChildrenSeen(Struct, frozen=True):
    """The supervisor, or the function that looks after parents, saw that all children of a saga are over, or undone; or
    that nobody manages to journal it.

    Args:
        lease: what would be taken.
        fact: what that comes to.
        round: of the step, as it was seen.
    """

    lease: Lease
    fact: ChildrenEnded | StepCompensated | CompensationFailed | SagaRecovered
    round: int = 0


class ResolveAsked(Struct, frozen=True):
    """An operator says that it is settled.

    Args:
        lease: what would be taken.
        reason: why.
        taken: what was done.
        steps: names of steps whose undo was done by hand.
    """

    lease: Lease
    reason: str
    taken: str
    steps: tuple[str, ...] = ()


Arrival = (
    MessageArrived
    | StallNoticed
    | CancelAsked
    | SignalAsked
    | RetryAsked
    | CompensateAsked
    | ResolveAsked
    | ChildrenSeen
)
Event = Fact | Arrival
