"""Runs a saga and its children in process: with Lambda's worker, a store in memory, and a clock that skips waits."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

from msgspec.structs import replace

from sagas.authoring.codec import content_hash, encode
from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.core.commands import FailDelivery, Postpone, Visited
from sagas.core.rules import forward, in_wait, next_fact, owed_by_time
from sagas.core.states import SagaState, SagaStatus, StepStatus
from sagas.engine.attempt.attempt import AttemptServices, Invocation
from sagas.engine.attempt.call import CallsCode, new_instance
from sagas.engine.attempt.context import StepContext
from sagas.engine.attempt.course import carried
from sagas.engine.clock import SystemClock
from sagas.engine.committer import EntryContext
from sagas.engine.engine import Engine
from sagas.engine.registry import Registry, SagaType
from sagas.engine.start.children import first_entry, new_state
from sagas.errors import DefinitionError, text_of
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.routes import Routes
from sagas.messaging.work import START, ChildrenToStart, SagasToAdvance, Work
from sagas.store.inbox import SentSignal
from sagas.store.journal.entries import Entry
from sagas.store.tables import Tables
from sagas.testing.fake_context import fake_callback_url
from sagas.testing.run import Failing, Raised
from sagas.testing.store import SETTINGS, MemoryStore

_ROUTES = Routes("memory:", {})
_LIFETIME = 900.0
"""Seconds per invocation, which is Lambda's maximum."""


class SkippingClock:
    """A clock that runs while code runs, and skips all waiting. Chance is constant."""

    def __init__(self, saga_id: str) -> None:
        self._machine = SystemClock()
        self._now = self._machine.now()
        self._running_since: float | None = None
        self._saga_id = saga_id
        self._owners = 0

    def now(self) -> float:
        since = self._running_since
        return round(self._now if since is None else self._now + self._machine.now() - since, 3)

    @contextmanager
    def running(self) -> Generator[None]:
        self._running_since = self._machine.now()
        try:
            yield
        finally:
            self._now = self.now()
            self._running_since = None

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)

    def chance(self) -> float:
        """A constant instead of a random number: the middle of [0, 1)."""
        return 0.5

    def new_id(self) -> str:
        """The id of the topmost saga. Ids of children are derived from it."""
        return self._saga_id

    def new_owner(self) -> str:
        """A nonce, made of the time and a counter."""
        self._owners += 1
        return f"{round(self._now * 1000):011x}{self._owners:08x}"

    def new_salt(self) -> str:
        """An empty salt, because nothing is stored for long."""
        return ""


def _failing(
    fail: Mapping[str, Failing], path_of: Callable[[str], str], clock: SkippingClock, call: CallsCode
) -> CallsCode:
    """Return a function that calls steps and undos by ``call``, or raises the configured exceptions instead. ``fail``
    has these by step or undo; those of children have paths such as ``payouts[3].pay``. ``path_of`` returns the prefix
    of a saga's step names, which is empty for the topmost saga."""
    failures = {name: list(each) if isinstance(each, Sequence) else each for name, each in fail.items()}

    def calling(
        definition: SagaDefinition,
        step: StepDefinition,
        undo: bool,
        payloads: Mapping[str, str | None],
        context: StepContext,
        *rest: Any,
    ) -> str | None:
        name = step.undo.name if undo and step.undo is not None else step.name
        failing = failures.get(f"{path_of(context.saga_id)}{name}")
        if isinstance(failing, list):
            failing = failing.pop(0) if failing else None
        if failing is not None:
            raising = partial(_raise, failing)
            own = step.undo
            if undo and own is not None:
                step = replace(step, undo=replace(own, function=raising))
            else:
                step = replace(step, function=raising)
        with clock.running():
            return call(definition, step, undo, payloads, context, *rest)

    return calling


def _raise(raised: Raised, *_: object, **__: object) -> None:
    raise raised if isinstance(raised, type) else raised.with_traceback(None)


class MemoryQueues(Queues):
    """All queues, in memory. Messages are delivered when they are due, and work at once."""

    def __init__(self, clock: SkippingClock) -> None:
        super().__init__(_ROUTES)
        self._clock = clock
        self.messages = list[tuple[float, Message]]()
        """Each with the time at which it is due."""
        self.work = list[Work]()

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Queue a message until it is due."""
        due = self._clock.now() + max(delay, 0.0)
        self.messages.append((due, replace(message, message_id=f"message-{message.dispatch}")))

    def send_all(self, messages: Sequence[Message]) -> None:
        """Queue messages that are due at once."""
        for message in messages:
            self.send(message)

    def delay(self, message: Message, seconds: float) -> None:
        """Do nothing, because no worker dies."""

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        """Queue work, which is always done before other events."""
        self.work.extend(work)

    def has_work(self, queue: str) -> bool:
        """Whether there is a queue for this work. One queue takes all work."""
        return True

    def work_waiting(self, queue: str) -> int:
        """Return the number of messages with work."""
        return len(self.work)


@dataclass(frozen=True, kw_only=True)
class InProcessEngine(Engine):
    """The engine of all functions, over tables and queues in memory.

    Args:
        store: the tables.
        lines: the queues.
        failing: returns what calls the code of steps and undos in place of the function that it is given.
    """

    store: MemoryStore
    lines: MemoryQueues
    failing: Callable[[CallsCode], CallsCode]

    @cached_property
    def tables(self) -> Tables:
        """The models of the tables."""
        return self.store.tables

    @cached_property
    def queues(self) -> MemoryQueues:
        """The queues."""
        return self.lines

    @cached_property
    def services(self) -> AttemptServices:
        """Services of an attempt."""
        services = super().services
        return replace(services, call=self.failing(services.call), callback_url=fake_callback_url)


class InProcessRun:
    """A saga in flight, with its children. No message gets lost, and messages are delivered one at a time. For the
    arguments, see :func:`sagas.testing.run`; ``request`` is in JSON builtins."""

    def __init__(
        self,
        definition: SagaDefinition,
        fail: Mapping[str, Failing],
        clients: Mapping[str, Any] | Callable[[str], Any] | None,
        saga_id: str,
        request: Any,
        store: MemoryStore,
        signals: Mapping[str, object] | None = None,
        at: Mapping[str, timedelta] | None = None,
        settle: timedelta = timedelta(0),
    ) -> None:
        self.definition = definition
        self.saga_id = saga_id
        self._clock = SkippingClock(saga_id)
        self._store = store
        self._signals = dict(signals or {})
        self._at = dict(at or {})
        self._queues = MemoryQueues(self._clock)
        # Leases outlast every invocation, so no heartbeat is needed.
        family = (definition, *definition.family)
        lasting = (replace(member, lock_expiry=timedelta(days=1)) for member in family)
        registry = Registry.of(*lasting, settle=settle.total_seconds())
        logger = logging.getLogger("sagas.testing")
        if logger.level == logging.NOTSET:  # as in a function, so that a line which fails there fails here
            logger.setLevel(logging.INFO)
        try:
            if definition.has_code:
                new_instance(definition)
        except Exception as error:
            text = f"{definition.saga_class.__name__}.create() raised {type(error).__name__}: {text_of(error)}"
            raise DefinitionError(text) from error
        self._engine = InProcessEngine(
            registry,
            SETTINGS,
            _ROUTES,
            clock=self._clock,
            logger=logger,
            clients=_connecting(clients),
            store=store,
            lines=self._queues,
            failing=partial(_failing, fail, self.path, self._clock),
        )
        self._start(SagaType(definition), request)

    def close(self) -> None:
        """Close the event loop of the saga's coroutines, if it had any."""
        if "event_loop" in vars(self._engine):
            self._engine.event_loop.close()

    def stored(self, saga_id: str) -> SagaState:
        return self._store.states()[saga_id]

    def children(self, saga_id: str) -> Iterator[SagaState]:
        for state in self._store.states().values():
            if state.parent is not None and state.parent.saga_id == saga_id:
                yield state

    def entries(self, saga_id: str) -> dict[int, Entry]:
        entries = self._engine.journal.entries(saga_id, range(1, self.stored(saga_id).seq + 1))
        return dict(sorted(entries.items()))

    def path(self, saga_id: str) -> str:
        """The prefix of a saga's step names: empty for the topmost saga, and like ``payouts[3].`` for a child."""
        state = self._store.states().get(saga_id)
        if state is None or state.parent is None:
            return ""
        return f"{self.path(state.parent.saga_id)}{state.parent.step}[{state.parent.position}]."

    def play(self) -> None:
        """Process events until there are none, or the saga's own message is dead-lettered. Events are work, a message,
        a signal, the end of a wait, and a saga's deadline."""
        while True:
            if self._queues.work:
                # Like the function of the queue ``now``, but without its schema, because a test may use any saga id.
                work = self._queues.work.pop(0)
                if work.task == START:
                    self._engine.children.start(ChildrenToStart(**work.details))
                    continue
                for saga_id in SagasToAdvance(**work.details).sagas:
                    self._engine.children.look(saga_id)
                continue
            coming: list[tuple[float, int, Callable[[], bool]]] = []
            if sent := self._queues.messages:
                first = min(range(len(sent)), key=lambda index: sent[index][0])
                coming.append((sent[first][0], 1, partial(self._deliver, first)))
            for state in self._store.states().values():
                coming += self._awaited(state)
            if not coming:
                return
            when, _, act = min(coming, key=lambda event: event[:2])
            self._clock.sleep(when - self._clock.now())
            if not act():
                return

    def _awaited(self, state: SagaState) -> Iterator[tuple[float, int, Callable[[], bool]]]:
        """Yield the events that a saga waits for, each with its time, its priority, and the function that processes
        it."""
        step = state.current
        path = self.path(state.saga_id)
        for index, later in enumerate(state.steps):
            early = later.status is StepStatus.PENDING and self._at.get(path + later.name, timedelta()) < timedelta()
            if early and forward(state) and not later.signalled and not state.cancel.at:
                yield state.created_at, 0, partial(self._signal, state.saga_id, index)
        if state.status is SagaStatus.WAITING and step is not None and not state.joins:
            yield state.not_before, 2, partial(self._look, state.saga_id)
            if in_wait(state) and path + step.name in self._signals and not step.signalled:
                after = self._at.get(path + step.name, timedelta())
                yield state.updated_at + after.total_seconds(), 0, partial(self._signal, state.saga_id, state.cursor)
        dead_lettered = state.status is SagaStatus.DEAD_LETTERED and state.saga_id == self.saga_id
        if state.ends_at and not dead_lettered:  # a dead-lettered saga waits for an operator
            yield state.ends_at, 3, partial(self._look, state.saga_id)

    def _deliver(self, index: int) -> bool:
        _, message = self._queues.messages.pop(index)
        end, _ = self._engine.worker.handle(message, Invocation(self._clock.now() + _LIFETIME))
        if isinstance(end, Postpone):
            self._queues.messages.append((end.until, message))
        return not isinstance(end, FailDelivery) or message.saga_id != self.saga_id

    def _look(self, saga_id: str) -> bool:
        """Act as the supervisor does at the end of a wait and at a saga's deadline. A step that polls gets its message
        again."""
        state = self.stored(saga_id)
        advancer = self._engine.advancer
        plan = advancer.plan(state)
        now = self._clock.now()
        owed = next_fact(plan, state, now) or owed_by_time(plan, state, now)
        if state.status is SagaStatus.WAITING and not in_wait(state) and owed is None:
            advancer.send_again(state, 0.0)
            return True
        advancer.advance(state, Visited(advancer.lease()), EntryContext(actor="supervisor"))
        return True

    def _signal(self, saga_id: str, index: int) -> bool:
        state = self.stored(saga_id)
        step = state.steps[index]
        definition = self._engine.registry.get(state.saga).definition
        data = encode(self._signals[self.path(saga_id) + step.name], definition.step(step.name).signal_type)
        payload = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        hidden = definition.redaction.hidden.get(step.name, ())
        signal = SentSignal(payload, content_hash(data), "test", self._clock.now(), hidden)
        self._engine.inbox.accept(state, index, signal, definition.stale_after.total_seconds())
        return self._look(saga_id) if state.status is SagaStatus.WAITING and index == state.cursor else True

    def _start(self, saga_type: SagaType, request: Any) -> None:
        engine = self._engine
        blueprint = engine.blueprints.name(saga_type.definition)
        entry = first_entry(saga_type, self.saga_id, request, "test", self._clock, blueprint)
        state = new_state(saga_type, entry)
        engine.journal.put(entry)
        engine.control.create(state, saga_type.definition.stale_after.total_seconds())
        inputs = (carried(entry),)
        self._queues.send(
            Message(state.saga_id, state.saga, state.steps[0].name, 0, False, state.dispatch, inputs=inputs)
        )


def _connecting(clients: Mapping[str, Any] | Callable[[str], Any] | None) -> Callable[[str], Any]:
    """Return the function behind ``ctx.client``. It never connects to AWS by itself."""
    if callable(clients):
        return clients

    def connect(service: str) -> Any:
        if clients is None or service not in clients:
            raise LookupError(f'no client for "{service}": pass clients={{"{service}": ...}}')
        return clients[service]

    return connect
