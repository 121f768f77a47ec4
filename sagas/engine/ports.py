"""What the engine needs from the layers below and from what embeds it, as protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sagas.core.events import Fact
from sagas.core.states import Lease, Parent, Progress, SagaState, StepState
from sagas.messaging.message import Message
from sagas.messaging.work import Work
from sagas.store.entries import Entry
from sagas.store.joined import Outcome, Tally
from sagas.store.sent import Signal


class JournalStore(Protocol):
    """The journal; see ``sagas.store.journal.Journal``."""

    def put(self, entry: Entry) -> Entry: ...
    def occupant(self, entry: Entry, item: dict[str, Any] | None) -> Entry: ...
    def entries(self, saga_id: str, seqs: Iterable[int]) -> dict[int, Entry]: ...
    def entries_of(self, places: Iterable[tuple[str, int]]) -> dict[str, dict[int, Entry]]: ...
    def load(self, entry: Entry) -> Entry: ...


class ControlStore(Protocol):
    """The control items; see ``sagas.store.control.ControlItems``."""

    def get(self, saga_id: str) -> SagaState | None: ...
    def claim_step(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None: ...
    def claim_undo(
        self, saga_id: str, index: int, dispatch: int, lease: Lease, now: float, name: str | None = None
    ) -> SagaState | None: ...
    def extend(self, state: SagaState, expires_at: float, progress: Progress | None = None) -> bool: ...
    def note_progress(self, state: SagaState, progress: Progress) -> bool: ...
    def claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool: ...
    def commit(self, before: SagaState, after: SagaState, stale_after: float) -> None: ...
    def commit_and_claim(self, before: SagaState, after: SagaState, stale_after: float) -> bool: ...
    def finish(self, entry: Entry, before: SagaState, after: SagaState, stale_after: float, journal: Any) -> None: ...


class ChildControl(Protocol):
    """The control items, as the parent of children sees them; see ``sagas.store.control.ControlItems``."""

    def get(self, saga_id: str) -> SagaState | None: ...
    def get_many(self, saga_ids: list[str], *, consistent: bool = False) -> dict[str, SagaState]: ...
    def hand_out(self, state: SagaState, index: int, count: int, token: int) -> bool: ...
    def order(self, state: SagaState, number: int, now: float) -> bool: ...
    def request_cancel(self, before: SagaState, after: SagaState) -> bool: ...


class BirthStore(Protocol):
    """The control items, as those who start sagas see them."""

    def get(self, saga_id: str) -> SagaState | None: ...
    def create(self, state: SagaState, stale_after: float) -> bool: ...
    def create_again(
        self, state: SagaState, stale_after: float, journal: Any, found_by: Sequence[Any] = ()
    ) -> bool: ...


class FindingStore(Protocol):
    """What sagas are found by; see ``sagas.store.findings.Findings``."""

    def items(self, state: SagaState, values: Mapping[str, str]) -> Sequence[Any]: ...
    def put(self, state: SagaState, values: Mapping[str, str]) -> None: ...


class JoinStore(Protocol):
    """What became of children; see ``sagas.store.joins.Joins``."""

    def record(self, parent: Parent, phase: str, outcome: Outcome) -> bool: ...
    def tally(self, parent: str, step: str, rounds: Iterable[int], children: int) -> Tally: ...
    def first_ends(self, parent: str, step: StepState) -> Tally: ...
    def outcomes(self, parent: str, step: str, round_: int, phase: str) -> dict[int, Outcome]: ...


class ChildStarter(Protocol):
    """Stores children; see ``sagas.engine.births.Births``."""

    def start_child(
        self, name: str, request: Any, parent: Parent, *, correlation_id: str, sends: bool = True
    ) -> Message | None: ...


class SignalSource(Protocol):
    """What was sent to steps; see ``sagas.store.inbox.Inbox``."""

    def get(self, saga_id: str, step: StepState) -> Signal | None: ...


class MessageSender(Protocol):
    """The queues; see ``sagas.messaging.queues.Queues``."""

    def send(self, message: Message, delay: float = 0.0) -> None: ...


class BatchSender(Protocol):
    """The queues, for several messages at a time."""

    def send_all(self, messages: Sequence[Message]) -> None: ...


class LaneQueues(Protocol):
    """The queues, as the supervisor counts their messages; see ``sagas.messaging.queues.Queues``."""

    def waiting(self, saga: str, step: str) -> int: ...
    def lane(self, saga: str, step: str) -> str: ...


class WorkSender(Protocol):
    """The service's own work queues; see ``sagas.messaging.queues.Queues``."""

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None: ...
    def has_work(self, queue: str) -> bool: ...
    def work_waiting(self, queue: str) -> int: ...


class CommitObserver(Protocol):
    """Told of every fact once it is committed."""

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None: ...


class EngineObserver(CommitObserver, Protocol):
    """For metrics and logs: also told of saga types and steps that keep failing."""

    def paused(self, saga: str) -> None:
        """Starts of a saga type are refused from now on."""
        ...

    def breaker_opened(self, saga: str) -> None:
        """A circuit breaker of a saga type holds its step back from now on."""
        ...

    def breaker_closed(self, saga: str) -> None:
        """A circuit breaker of a saga type lets its step through again."""
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
