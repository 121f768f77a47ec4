"""Protocols for what the engine calls: queues and observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sagas.core.events import Fact
from sagas.core.states import SagaState
from sagas.messaging.message.message import Message
from sagas.messaging.work import Work


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
