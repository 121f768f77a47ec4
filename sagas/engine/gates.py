"""Gates: they can refuse the claim of a step or undo. Pauses and circuit breakers are gates.

They are asked in the order of ``AttemptServices.gates``: pauses by an operator first. A circuit breaker comes last,
because a message that it admits may be its trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sagas.core.commands import Discard, Postpone
from sagas.core.states import SagaState
from sagas.errors import PermanentError
from sagas.messaging.message.message import Message
from sagas.store.control.control import ControlItems
from sagas.store.types.pauses import Pauses


class Gate(Protocol):
    """Can block a message before its claim. Each method except ``cached_until`` raises ``Unavailable`` if the store is
    unreachable."""

    def cached_until(self, message: Message) -> float:
        """Return when (epoch seconds) a message known to be blocked should return; 0 to check. Sends no request."""
        ...

    def is_open(self, message: Message) -> bool:
        """Whether the message's step may be claimed at once, as far as this environment knows."""
        ...

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | Postpone | PermanentError | None:
        """Decide about a message whose claim this gate refused, and whose step would run now.

        Args:
            message: the refused one.
            state: its saga, by a consistent read; the message is its current one.
            act_until: epoch seconds after which the message's function can no longer act.

        Returns:
            ``Discard`` if the saga was set aside, ``Postpone`` to retry the message later, an error to fail the
            attempt, or ``None`` to try again.
        """
        ...

    def silent_until(self, state: SagaState) -> float:
        """Return until when (epoch seconds) this gate explains the silence of a saga; 0 if it does not."""
        ...


@dataclass(frozen=True, slots=True)
class PauseGate:
    """The gate for pauses; see :class:`Gate`."""

    pauses: Pauses
    control: ControlItems

    def cached_until(self, message: Message) -> float:
        """Return 0: the saga must be set aside, so its message must be checked."""
        return 0.0

    def is_open(self, message: Message) -> bool:
        """Whether the message's step or undo may start."""
        return self.pauses.holding(message.saga, message.step, message.saga_id, undo=message.undo) is None

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | None:
        """Set the saga aside until it is resumed."""
        if not self.control.mark_paused(state):
            return None
        if self.pauses.holding_back(state, fresh=True):
            return Discard()
        # It was resumed in the meantime: the operator's call may have run before the saga was set aside.
        self.control.mark_resumed(state, state.updated_at)
        return None

    def silent_until(self, state: SagaState) -> float:
        """Return 0: the supervisor does not look for a paused saga."""
        return 0.0


Gates = Sequence[Gate]


def shut_gate(gates: Gates, message: Message) -> Gate | None:
    """Return the first gate that blocks a message; ``None`` if all are open."""
    return next((gate for gate in gates if not gate.is_open(message)), None)
