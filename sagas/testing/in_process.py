"""Runs a saga and its children in process: with Lambda's worker, a store in memory, and a clock that skips waits."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from sagas.authoring.codec import content_hash, encode
from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.core.commands import FailDelivery, Postpone, StallNoticed
from sagas.core.rules import forward, in_wait, next_fact, owed_by_time
from sagas.core.states import SagaState, SagaStatus, StepStatus
from sagas.engine.advance import Advancer
from sagas.engine.attempt.attempt import Attempt, AttemptServices, Invocation
from sagas.engine.attempt.context import StepContext
from sagas.engine.attempt.course import carried
from sagas.engine.attempt.runner import Runner, new_instance
from sagas.engine.children import Children
from sagas.engine.clock import SystemClock
from sagas.engine.committer import Committer, EntryContext
from sagas.engine.joining import JoinObserver
from sagas.engine.operate.breaker import Breakers
from sagas.engine.ports import NullObserver
from sagas.engine.registry import Registry, SagaType
from sagas.engine.start.blueprints import Blueprints
from sagas.engine.start.children import ChildCreator, first_entry, new_state
from sagas.engine.worker import Worker
from sagas.errors import DefinitionError, text_of
from sagas.messaging.message import Message
from sagas.messaging.work import START, ChildrenToStart, SagasToAdvance, Work
from sagas.store.inbox import SentSignal
from sagas.store.journal.entries import Entry
from sagas.testing.fake_context import fake_callback_url
from sagas.testing.run import Failing, Raised
from sagas.testing.store import MemoryStore

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
            self._now, self._running_since = self.now(), None

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


class FailingRunner(Runner):
    """Runs steps and undos, or raises the configured exceptions instead. ``fail`` has these by
    step or undo; those of children have paths such as ``payouts[3].pay``. ``path_of`` returns the prefix of a saga's
    step names, which is empty for the topmost saga."""

    def __init__(self, fail: Mapping[str, Failing], path_of: Callable[[str], str], clock: SkippingClock) -> None:
        super().__init__()
        self._clock = clock
        self._failures = {name: list(each) if isinstance(each, Sequence) else each for name, each in fail.items()}
        self._path_of = path_of

    def run(
        self,
        definition: SagaDefinition,
        step: StepDefinition,
        undo: bool,
        payloads: Mapping[str, str | None],
        context: StepContext,
        began: Callable[[], None] = lambda: None,
        changed: Collection[str] = (),
    ) -> str | None:
        """Run a step or its undo; see :meth:`sagas.engine.attempt.runner.Runner.run`."""
        name = step.undo.name if undo and step.undo is not None else step.name
        failing = self._failures.get(f"{self._path_of(context.saga_id)}{name}")
        if isinstance(failing, list):
            failing = failing.pop(0) if failing else None
        if failing is not None:
            raising = partial(_raise, failing)
            own = step.undo
            if undo and own is not None:
                step = replace(step, undo=replace(own, function=raising))
            else:
                step = replace(step, function=raising)
        with self._clock.running():
            return super().run(definition, step, undo, payloads, context, began, changed)


def _raise(raised: Raised, *_: object, **__: object) -> None:
    raise raised if isinstance(raised, type) else raised.with_traceback(None)


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
        self._signals, self._at = dict(signals or {}), dict(at or {})
        self._sent: list[tuple[float, Message]] = []
        self._work: list[Work] = []
        # Leases outlast every invocation, so no heartbeat is needed.
        family = (definition, *definition.family)
        lasting = (replace(member, lock_expiry=timedelta(days=1)) for member in family)
        registry = Registry.of(*lasting, settle=settle.total_seconds())
        logger, quiet = logging.getLogger("sagas.testing"), NullObserver()
        if logger.level == logging.NOTSET:  # as in a function, so that a line which fails there fails here
            logger.setLevel(logging.INFO)
        runner = self._runner = FailingRunner(fail, self.path, self._clock)
        try:
            if definition.has_code:
                new_instance(definition)
        except Exception as error:
            text = f"{definition.saga_class.__name__}.create() raised {type(error).__name__}: {text_of(error)}"
            raise DefinitionError(text) from error
        breakers = Breakers(store.breakers, registry, self._clock, logger, quiet)
        joined = JoinObserver(store.control, store.joins, self, logger)
        committer = Committer(store.control, store.journal, self._clock, (breakers, joined), inbox=lambda: store.inbox)
        services = AttemptServices(
            store.control,
            store.journal,
            committer,
            runner,
            self._clock,
            logger,
            connect=_connecting(clients),
            callback_url=fake_callback_url,
            accept=store.inbox.accept,
            gates=(breakers,),
        )
        self._advancer = Advancer(services, registry, self, Attempt, work=self)
        self._worker = Worker(self._advancer)
        self._blueprints = Blueprints(store.blueprints, self._clock)
        creator = ChildCreator(registry, store.control, store.journal, self._clock, self._blueprints)
        self._children = Children(self._advancer, store.control, store.joins, creator, self, self)
        self._start(SagaType(definition), request)

    def close(self) -> None:
        """Close the event loop of the saga's coroutines."""
        self._runner.close()

    def stored(self, saga_id: str) -> SagaState:
        return self._store.states()[saga_id]

    def children(self, saga_id: str) -> Iterator[SagaState]:
        for state in self._store.states().values():
            if state.parent is not None and state.parent.saga_id == saga_id:
                yield state

    def entries(self, saga_id: str) -> dict[int, Entry]:
        entries = self._store.journal.entries(saga_id, range(1, self.stored(saga_id).seq + 1))
        return dict(sorted(entries.items()))

    def path(self, saga_id: str) -> str:
        """The prefix of a saga's step names: empty for the topmost saga, and like ``payouts[3].`` for a child."""
        state = self._store.states().get(saga_id)
        if state is None or state.parent is None:
            return ""
        return f"{self.path(state.parent.saga_id)}{state.parent.step}[{state.parent.position}]."

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Queue a message until it is due."""
        due = self._clock.now() + max(delay, 0.0)
        self._sent.append((due, replace(message, message_id=f"message-{message.dispatch}")))

    def send_all(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.send(message)

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        """Queue work, which is always done before other events."""
        self._work.extend(work)

    def has_work(self, queue: str) -> bool:
        """Whether there is a queue for this work. One queue takes all work."""
        return True

    def work_waiting(self, queue: str) -> int:
        return len(self._work)

    def play(self) -> None:
        """Process events until there are none, or the saga's own message is dead-lettered. Events are work, a message,
        a signal, the end of a wait, and a saga's deadline."""
        while True:
            if self._work:
                # Like the function of the queue ``now``, but without its schema, because a test may use any saga id.
                work = self._work.pop(0)
                if work.task == START:
                    self._children.start(ChildrenToStart(**work.details))
                    continue
                for saga_id in SagasToAdvance(**work.details).sagas:
                    self._children.look(saga_id)
                continue
            coming: list[tuple[float, int, Callable[[], bool]]] = []
            if self._sent:
                first = min(range(len(self._sent)), key=lambda index: self._sent[index][0])
                coming.append((self._sent[first][0], 1, partial(self._deliver, first)))
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
        step, path = state.current, self.path(state.saga_id)
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
        _, message = self._sent.pop(index)
        end, _ = self._worker.handle(message, Invocation(self._clock.now() + _LIFETIME))
        if isinstance(end, Postpone):
            self._sent.append((end.until, message))
        return not isinstance(end, FailDelivery) or message.saga_id != self.saga_id

    def _look(self, saga_id: str) -> bool:
        """Act as the supervisor does at the end of a wait and at a saga's deadline. A step that polls gets its message
        again."""
        state = self.stored(saga_id)
        plan, now = self._advancer.plan(state), self._clock.now()
        owed = next_fact(plan, state, now) or owed_by_time(plan, state, now)
        if state.status is SagaStatus.WAITING and not in_wait(state) and owed is None:
            self._advancer.send_again(state, 0.0)
            return True
        self._advancer.advance(state, StallNoticed(self._advancer.lease()), EntryContext(actor="supervisor"))
        return True

    def _signal(self, saga_id: str, index: int) -> bool:
        state = self.stored(saga_id)
        step, definition = state.steps[index], self._advancer.registry.get(state.saga).definition
        data = encode(self._signals[self.path(saga_id) + step.name], definition.step(step.name).signal_type)
        payload = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        hidden = definition.redaction.hidden.get(step.name, ())
        signal = SentSignal(payload, content_hash(data), "test", self._clock.now(), hidden)
        self._store.inbox.accept(state, index, signal, definition.stale_after.total_seconds())
        return self._look(saga_id) if state.status is SagaStatus.WAITING and index == state.cursor else True

    def _start(self, saga_type: SagaType, request: Any) -> None:
        blueprint = self._blueprints.name(saga_type.definition)
        entry = first_entry(saga_type, self.saga_id, request, "test", self._clock, blueprint)
        state = new_state(saga_type, entry)
        self._store.journal.put(entry)
        self._store.control.create(state, saga_type.definition.stale_after.total_seconds())
        inputs = (carried(entry),)
        self.send(Message(state.saga_id, state.saga, state.steps[0].name, 0, False, state.dispatch, inputs=inputs))


def _connecting(clients: Mapping[str, Any] | Callable[[str], Any] | None) -> Callable[[str], Any]:
    """Return the function behind ``ctx.client``. It never connects to AWS by itself."""
    if callable(clients):
        return clients

    def connect(service: str) -> Any:
        if clients is None or service not in clients:
            raise LookupError(f'no client for "{service}": pass clients={{"{service}": ...}}')
        return clients[service]

    return connect
