"""What is to be done, in the imperative. The automaton decides; it never acts."""

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
    """Have the message come back at ``until`` (epoch seconds); ``itself``: no copy of it may take its place."""

    until: float
    itself: bool = False


class Discard(Struct, frozen=True):
    """The message is done with, or has nothing to say any more, and then there is a reason: delete it."""

    reason: str = ""


class Die(Struct, frozen=True):
    """Report the message failed until its queue moves it to the dead-letter queue."""


class Refuse(Struct, frozen=True):
    """The state does not allow what was asked."""

    reason: str


Then = Run | Write | Postpone | Discard | Die | Refuse
"""What is to be done now, by what brought the arrival."""


class Decision(Struct, frozen=True):
    """The next state, and what follows from it.

    Args:
        state: the saga from now on; the same object if nothing changed.
        then: what is to be done at once; ``None`` when that is nothing.
        send: the message that is to be sent, or kept if it is the one at hand.
    """

    state: SagaState
    then: Then | None = None
    send: Send | None = None
