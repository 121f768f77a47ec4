"""Instructions to the engine. The automaton decides; it never acts."""

from __future__ import annotations

from msgspec import Struct

from sagas.core.events import Fact
from sagas.core.states import SagaState


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
