"""Protocols for what the engine calls: gates, queues and observers.

Gates can refuse the claim of a step or undo. Pauses and circuit breakers are gates. ``AttemptServices.gates`` has them
in order: pauses come first, and circuit breakers last, because a message that a breaker admits may be its probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from sagas.core.commands import Discard, Postpone
from sagas.core.events import Fact
from sagas.core.states import SagaState
from sagas.errors import PermanentError, WrongTables
from sagas.messaging.message import Message
from sagas.messaging.work import Work
from sagas.store.control.control import ControlItems
from sagas.store.pauses import Pauses


class MessageSender(Protocol):
    """The queues; see ``sagas.messaging.queues.Queues``."""

    def send(self, message: Message, delay: float = 0.0) -> None: ...
    def send_all(self, messages: Sequence[Message]) -> None: ...


class WorkSender(Protocol):
    """The service's own work queues; see ``sagas.messaging.queues.Queues``."""

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None: ...
    def has_work(self, queue: str) -> bool: ...
    def work_waiting(self, queue: str) -> int: ...


class CommitObserver(Protocol):
    """Called with every fact once it is committed."""

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None: ...


class EngineObserver(CommitObserver, Protocol):
    """An observer for metrics and logs. The observer is also called for saga types and steps that keep failing."""

    def paused(self, saga: str) -> None:
        """The library has paused starts of a saga type."""
        ...

    def breaker_opened(self, saga: str) -> None:
        """A circuit breaker of a saga type has opened."""
        ...

    def breaker_closed(self, saga: str) -> None:
        """A circuit breaker of a saga type has closed."""
        ...

    def callback_key_too_short(self) -> None:
        """The current secret of callback URLs is too short, so the previous one signs them."""
        ...

    def wrong_tables(self, error: WrongTables) -> None:
        """The tables belong to another service, so nothing is done with them."""
        ...


class NullObserver:
    """An observer that does nothing."""

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Do nothing."""

    def paused(self, saga: str) -> None:
        """Do nothing."""

    def breaker_opened(self, saga: str) -> None:
        """Do nothing."""

    def breaker_closed(self, saga: str) -> None:
        """Do nothing."""

    def callback_key_too_short(self) -> None:
        """Do nothing."""

    def wrong_tables(self, error: WrongTables) -> None:
        """Do nothing."""


class Gate(Protocol):
    """A gate can block a message before its claim. All methods but ``cached_until`` may raise ``Unavailable``."""

    def cached_until(self, message: Message) -> float:
        """Return the time (epoch seconds) at which a message should return if it is blocked according to the cache; 0
        otherwise."""
        ...

    def is_open(self, message: Message) -> bool:
        """Whether the message's step may be claimed now, as far as this environment knows."""
        ...

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | Postpone | PermanentError | None:
        """Decide about a message whose claim this gate refused although its step is due.

        Args:
            message: the message whose claim was refused.
            state: the message's saga, by a consistent read. This is the saga's current message.
            act_until: epoch seconds after which the function that handles the message can no longer act.

        Returns:
            ``Discard`` if the saga was marked as paused, ``Postpone`` to handle the message later, an error to fail the
            attempt, or ``None`` to try the claim again.
        """
        ...

    def silent_until(self, state: SagaState) -> float:
        """Return the time (epoch seconds) until which this gate may hold back a saga; 0 if it does not."""
        ...


class PauseGate(Struct, frozen=True):
    """The gate for pauses; see :class:`Gate`."""

    pauses: Pauses
    control: ControlItems

    def cached_until(self, message: Message) -> float:
        """Return 0: the message must be handled, because that marks the saga as paused."""
        return 0.0

    def is_open(self, message: Message) -> bool:
        """Whether the message's step or undo may start."""
        return self.pauses.holding(message.saga, message.step, message.saga_id, undo=message.undo) is None

    def admit(self, message: Message, state: SagaState, act_until: float) -> Discard | None:
        """Mark the saga as paused. It stays so until it is resumed."""
        if not self.control.mark_paused(state):
            return None
        if self.pauses.holding_back(state, fresh=True):
            return Discard()
        # The pause has ended in the meantime, maybe before the saga was marked.
        self.control.mark_resumed(state, state.updated_at)
        return None

    def silent_until(self, state: SagaState) -> float:
        """Return 0: the supervisor does not visit paused sagas."""
        return 0.0


Gates = Sequence[Gate]


def shut_gate(gates: Gates, message: Message) -> Gate | None:
    """Return the first gate that blocks a message; ``None`` if all are open."""
    return next((gate for gate in gates if not gate.is_open(message)), None)
