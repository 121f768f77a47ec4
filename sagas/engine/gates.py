"""Gates: what may hold a saga back before its step or undo is claimed, such as a pause or a circuit breaker.

They are asked in the order in which ``AttemptServices.gates`` has them: what an operator has stopped comes first. A
circuit breaker comes last, because letting a message through may make it the one that tries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sagas.core.effects import Discard, Postpone
from sagas.core.states import SagaState
from sagas.errors import PermanentError
from sagas.messaging.message.message import Message
from sagas.store.control.control import ControlItems
from sagas.store.types.pauses import Pauses


class Gate(Protocol):
    """What may hold a message back before its claim. Each method but ``known_until`` raises ``Unavailable`` if the
    store is out of reach."""

    def known_until(self, message: Message) -> float:
        """Return when (epoch seconds) a message is to come back that is known to wait here; 0 to look. Asks nobody."""
        ...

    def is_open(self, message: Message) -> bool:
        """Whether the message's step may be claimed at once, as far as is known here."""
        ...

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | Postpone | PermanentError | None:
        """Decide about a message whose claim this gate refused, and whose step would run now.

        Args:
            message: the message at hand.
            state: its saga, by a consistent read; the message is its current one.
            act_until: epoch seconds from which on the message's function cannot act any more.

        Returns:
            What becomes of the message: it is deleted if its saga was put away. An error is that of its attempt, which
            fails. ``None`` to try again.
        """
        ...

    def silent_until(self, state: SagaState) -> float:
        """Return until when (epoch seconds) this gate explains that nothing is heard of a saga; 0 if it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Parking:
    """The gate of what is paused; see :class:`Gate`."""

    pauses: Pauses
    control: ControlItems

    def known_until(self, message: Message) -> float:
        """Never: a saga is to be parked, so its message must be looked at."""
        return 0.0

    def is_open(self, message: Message) -> bool:
        """Whether the message's step, or undo, may begin."""
        return self.pauses.holding(message.saga, message.step, message.saga_id, undo=message.undo) is None

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | None:
        """Park the saga until it is resumed."""
        if not self.control.park(state):
            return None
        if self.pauses.holding_back(state, fresh=True):
            return Discard()
        # Resumed meanwhile: the operator's call may have looked before it was parked.
        self.control.unpark(state, state.updated_at)
        return None

    def silent_until(self, state: SagaState) -> float:
        """Never: nobody looks for a saga that is parked."""
        return 0.0


Gates = Sequence[Gate]


def shut_gate(gates: Gates, message: Message) -> Gate | None:
    """Return the first gate that holds a message back; ``None`` if all are open."""
    return next((gate for gate in gates if not gate.is_open(message)), None)
