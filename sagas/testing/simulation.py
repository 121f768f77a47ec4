"""Simulates a service in one process: Lambda's worker, tables in memory, and a clock that skips waits.

Three kinds of events are handled in order of their time: work of the queue ``now``, messages of steps, and the
supervisor's looks at sagas. The control items say when the supervisor looks, as in an AWS account.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import heappop, heappush
from typing import Any, NoReturn
from weakref import finalize

from msgspec.structs import replace

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.core.automaton import decide
from sagas.core.commands import CancelArrived, Postpone, Visited
from sagas.core.events import Fact, WaitStarted
from sagas.core.ids import child_id
from sagas.core.states import SagaState, SagaStatus
from sagas.core.text import epoch
from sagas.engine.attempt.attempt import Attempt, AttemptServices, Invocation
from sagas.engine.attempt.call import CallsCode, new_instance
from sagas.engine.attempt.context import StepContext
from sagas.engine.clock import SystemClock
from sagas.engine.committer import Committed, EntryContext
from sagas.engine.engine import Engine
from sagas.engine.ports import NullObserver
from sagas.engine.registry import Registry
from sagas.errors import DefinitionError, SagaError, text_of
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.routes import Routes
from sagas.messaging.work import CHILDREN, LOOK, START, ChildrenToStart, SagasToAdvance, Work
from sagas.store.connection import Fenced
from sagas.store.control.mapping import NEVER_DUE, STOPPED, purge_shard
from sagas.store.index.listing import IndexPosition
from sagas.store.journal.entries import Entry
from sagas.store.tables import Tables
from sagas.testing.fake_context import fake_callback_url
from sagas.testing.scripts import ACTOR, Died, Failing, Moment, Raised
from sagas.testing.store import SETTINGS, MemoryStore, borrow_store, give_back
from sagas.topology import AFTER_FUNCTION, FUNCTION_SPARE

_ROUTES = Routes("memory:", {})
_ACTION, _WORK, _MESSAGE = range(3)
"""Kinds of events, in the order in which they are handled if they are due at the same time."""
_WORK_HIDDEN = 30.0 + AFTER_FUNCTION
"""Seconds after which work comes back if the function of the queue ``now`` dies."""
_UNVISITED = (STOPPED, purge_shard(0))
"""Keys in the index of due sagas of what the supervisor does not look at here: breakers, and sagas to be purged."""


class _Ended(BaseException):
    """An error of the test's own code, which must pass through the engine."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class SkippingClock:
    """A clock that runs while code runs, and skips all waiting. Chance is constant.

    Args:
        ids: the ids of sagas that are started without a key. Ids of children are derived from them.
    """

    def __init__(self, ids: Iterator[str]) -> None:
        self._machine = SystemClock()
        self._now = self._machine.now()
        self._running_since: float | None = None
        self._ids = ids
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
        """The next id."""
        return next(self._ids)

    def new_owner(self) -> str:
        """A nonce, made of the time and a counter."""
        self._owners += 1
        return f"{round(self._now * 1000):011x}{self._owners:08x}"

    def new_salt(self) -> str:
        """An empty salt, because nothing is stored for long."""
        return ""


class MemoryQueues(Queues):
    """All queues, in memory, in order of the time at which something is due."""

    def __init__(self, clock: SkippingClock) -> None:
        super().__init__(_ROUTES)
        self._clock = clock
        self._events = list[tuple[float, int, int, Any]]()
        self._added = 0
        self.hidden_until: float | None = None
        """Epoch seconds at which the message that is being handled returns if its worker dies, if a step has set it."""

    def add(self, due: float, kind: int, event: Any) -> None:
        """Add an event. ``due``: epoch seconds."""
        self._added += 1
        heappush(self._events, (due, kind, self._added, event))

    @property
    def due(self) -> float:
        """Epoch seconds at which the first event is due; infinite if there is none."""
        return self._events[0][0] if self._events else math.inf

    def take(self) -> tuple[int, Any]:
        """Take the first event, and return it with its kind."""
        _, kind, _, event = heappop(self._events)
        return kind, event

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Queue a message until it is due."""
        sent = replace(message, message_id=f"message-{message.dispatch}")
        self.add(self._clock.now() + max(delay, 0.0), _MESSAGE, sent)

    def send_all(self, messages: Sequence[Message]) -> None:
        """Queue messages that are due at once."""
        for message in messages:
            self.send(message)

    def delay(self, message: Message, seconds: float) -> None:
        """Have the message that is being handled return after some seconds if its worker dies."""
        self.hidden_until = self._clock.now() + seconds

    def waiting(self, saga: str, step: str) -> int:
        """Return the number of messages for a step."""
        messages = (event for _, kind, _, event in self._events if kind == _MESSAGE)
        return sum((message.saga, message.step) == (saga, step) for message in messages)

    def send_work(self, queue: str, work: Sequence[Work], delay: float = 0.0) -> None:
        """Queue work until it is due."""
        for each in work:
            self.add(self._clock.now() + max(delay, 0.0), _WORK, each)

    def has_work(self, queue: str) -> bool:
        """Whether there is a queue for this work. One queue takes all work."""
        return True


@dataclass(frozen=True, kw_only=True)
class _Engine(Engine):
    """The engine of all functions, over tables and queues in memory.

    Args:
        store: the tables.
        lines: the queues.
        calling: returns what calls the code of steps and undos in place of the function that it is given.
    """

    store: MemoryStore
    lines: MemoryQueues
    calling: Callable[[CallsCode], CallsCode]

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
        return replace(services, call=self.calling(services.call), callback_url=fake_callback_url)


class _Observer(NullObserver):
    """Sees where waits without code begin, since no attempt is made for them."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def committed(self, before: SagaState, after: SagaState, fact: Fact) -> None:
        """Reach the moments of a wait without code, and see the end of a saga."""
        if after.ended:
            self._simulation.ended(after)
        definition = self._simulation.definition(after.saga)
        if isinstance(fact, WaitStarted):
            name = "after"
            step = after.steps[fact.index]
        elif after.current is not None and after.cursor != before.cursor and not after.undoing:
            name = "before"
            step = after.current
        else:
            return
        if not definition.step(step.name).asks:
            self._simulation.reach(Moment(after.saga_id, step.name, False, name, 1))


class _SeenAttempt(Attempt):
    """An attempt whose beginning and end a simulation sees."""

    def __init__(self, simulation: Simulation, *given: Any) -> None:
        super().__init__(*given)
        self._simulation = simulation

    def run(self) -> Committed | None:
        """Make the attempt; see :meth:`sagas.engine.attempt.attempt.Attempt.run`."""
        moment = self._simulation.arrived(self._message)
        committed = super().run()
        if moment is not None and committed is not None:
            self._simulation.reach(moment._replace(name="after"))
        return committed


class Simulation:
    """A service in one process, with its sagas. Messages are delivered one at a time.

    Args:
        definitions: the saga types, without those of their children.
        clients: the clients of ``ctx.client``, by service, or a function that makes them.
        settle: seconds for which sagas wait for a release.
        ids: the ids of the sagas.
    """

    def __init__(
        self,
        definitions: Sequence[SagaDefinition],
        clients: Mapping[str, Any] | Callable[[str], Any] | None,
        settle: float,
        ids: Iterator[str],
    ) -> None:
        self.clock = SkippingClock(ids)
        self.reached: Callable[[Moment], object] = lambda moment: None
        """Called with each moment that an attempt reaches."""
        self.ended: Callable[[SagaState], object] = lambda state: None
        """Called with each saga that ends."""
        self.wraps: Callable[[CallsCode], CallsCode] = lambda call: call
        """Returns what calls code in place of the function that it is given."""
        self._store = borrow_store()
        finalize(self, give_back, self._store)
        self._queues = MemoryQueues(self.clock)
        self._fail = dict[str, dict[str, Raised | list[Raised | None]]]()
        self._busy = False
        logger = logging.getLogger("sagas.testing")
        if logger.level == logging.NOTSET:  # as in a function, so that a line which fails there fails here
            logger.setLevel(logging.INFO)
        family = {member.name: member for each in definitions for member in (each, *each.family)}
        self.engine = _Engine(
            Registry.of(*family.values(), settle=settle),
            SETTINGS,
            _ROUTES,
            clock=self.clock,
            observer=_Observer(self),
            logger=logger,
            clients=_connecting(clients),
            attempt=partial(_SeenAttempt, self),
            store=self._store,
            lines=self._queues,
            calling=self._calling,
        )

    def close(self) -> None:
        """Close the event loop of coroutines, if there were any. Sagas can still be read."""
        if "event_loop" in vars(self.engine):
            self.engine.event_loop.close()

    def start(
        self,
        definition: SagaDefinition,
        request: Any,
        key: str | None = None,
        fail: Mapping[str, Failing] | None = None,
    ) -> str:
        """Start a saga, and return its id. ``request``: in JSON builtins."""
        try:
            if definition.has_code:
                new_instance(definition)
        except Exception as error:
            text = f"{definition.saga_class.__name__}.create() raised {type(error).__name__}: {text_of(error)}"
            raise DefinitionError(text) from error
        started = self.engine.starter.start(definition.name, request, key=key, actor=ACTOR)
        saga_id = started.state.saga_id
        if started.created:
            self._fail[saga_id] = {
                name: list(each) if isinstance(each, Sequence) else each for name, each in (fail or {}).items()
            }
        return saga_id

    def send_signal(self, saga_id: str, step: str, value: Any, actor: str = ACTOR) -> bool:
        """Send a value in JSON builtins to a step. Return whether it was accepted; if not, an equal one was, before."""
        signals = self.engine.signals
        return signals.send(self.stored(saga_id).saga, saga_id, step, value, actor).accepted

    def cancel(self, saga_id: str) -> None:
        """Have a cancel accepted, even if the type of the saga is not cancellable."""
        advancer = self.engine.advancer
        state = self.stored(saga_id)
        accepted = decide(advancer.plan(state), state, CancelArrived(ACTOR), self.clock.now()).state
        if accepted is not state and self.engine.control.request_cancel(state, accepted):
            with suppress(Fenced):  # a worker holds the saga, and will see the cancel
                advancer.advance(self.stored(saga_id), Visited(advancer.lease()), EntryContext(actor=ACTOR))

    def compensate(self, saga_id: str) -> None:
        """Undo a saga that has completed."""
        self.engine.operations.compensate(self.stored(saga_id).saga, saga_id, "", ACTOR, force=True)

    # What is stored

    def definition(self, name: str) -> SagaDefinition:
        """Return the saga type with this name."""
        return self.engine.registry.get(name).definition

    def stored(self, saga_id: str) -> SagaState:
        """Return a saga."""
        state = self._store.state(saga_id)
        if state is None:
            raise LookupError(f"no saga with id {saga_id}")
        return state

    def entries(self, saga_id: str) -> dict[int, Entry]:
        """Return the entries of a saga's audit trail, by number."""
        entries = self.engine.journal.entries(saga_id, range(1, self.stored(saga_id).seq + 1))
        return dict(sorted(entries.items()))

    def children(self, saga_id: str) -> dict[str, dict[int, SagaState]]:
        """Return a saga's children by step and position. If a position had several, the last counts."""
        by_step = dict[str, dict[int, SagaState]]()
        for step in self.stored(saga_id).steps:
            if step.waits_for != "children":
                continue
            children = by_step[step.name] = dict[int, SagaState]()
            for position in range(step.fan_out.children):
                ids = (child_id(saga_id, step.name, position, round_) for round_ in range(step.round, -1, -1))
                child = next((child for child in map(self._store.state, ids) if child is not None), None)
                if child is not None:
                    children[position] = child
        return by_step

    def place(self, saga_id: str) -> tuple[str, str]:
        """Return the id of a saga's topmost parent, and the prefix of the saga's step names, like ``payouts[3].`` for a
        child."""
        parent = self.stored(saga_id).parent
        if parent is None:
            return saga_id, ""
        root, path = self.place(parent.saga_id)
        return root, f"{path}{parent.step}[{parent.position}]."

    # Events

    def play(self) -> None:
        """Handle all events, whenever they are due. A dead-lettered saga that is no child waits for an operator, even
        past its deadline."""
        aside = list[tuple[str, str]]()
        self._handle_events(math.inf, aside)
        for visit in aside:
            heappush(self._store.due, visit)

    def advance(self, seconds: float) -> None:
        """Handle the events that are due within some seconds, and let that time pass."""
        until = round(self.clock.now() + seconds, 3)
        self._handle_events(until, None)
        self.clock.sleep(until - self.clock.now())

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Call a function after some seconds of the simulation's time."""
        self._queues.add(self.clock.now() + seconds, _ACTION, act)

    def _handle_events(self, until: float, aside: list[tuple[str, str]] | None) -> None:
        """Handle events in order. Those that became due while code ran are handled, too. ``until``: epoch seconds.
        ``aside`` takes the deadlines of dead-lettered sagas, which are not handled then."""
        if self._busy:
            raise RuntimeError("a step is running: the world's time passes only between two deliveries")
        self._busy = True
        handle: dict[int, Callable[[Any], object]] = {
            _ACTION: lambda act: act(),
            _WORK: self._work,
            _MESSAGE: self._deliver,
        }
        try:
            while True:
                visit = self._next_visit(aside)
                due = min(self._queues.due, visit)
                if math.isinf(due) or due > max(until, self.clock.now()):
                    return
                self.clock.sleep(due - self.clock.now())
                if visit < self._queues.due:
                    self._visit()
                    continue
                kind, event = self._queues.take()
                handle[kind](event)
        except _Ended as ended:
            raise ended.error from None
        finally:
            self._busy = False

    def _next_visit(self, aside: list[tuple[str, str]] | None) -> float:
        """Return when the supervisor looks at a saga next (epoch seconds); infinite if it never does."""
        due = self._store.due
        while due:
            at, saga_id = due[0]
            item = self._store.item(saga_id)
            stale = (
                item is None
                or item.get("due") != {"S": at}
                or item.get("open_shard", {"S": STOPPED})["S"] in _UNVISITED
            )
            if not stale and epoch(at) < NEVER_DUE:
                state = self.stored(saga_id)
                if aside is None or state.status is not SagaStatus.DEAD_LETTERED or state.parent is not None:
                    return epoch(at)
                aside.append((at, saga_id))
            heappop(due)
        return math.inf

    def _visit(self) -> None:
        """Look at a saga as the supervisor does."""
        due = self._store.due
        visit = heappop(due)
        while due and due[0] == visit:  # each write of the saga has noted the same time
            heappop(due)
        try:
            report = self.engine.recovery.recover_due([IndexPosition(*visit)], math.inf)
        except Died:  # the saga stays due
            return
        if report.failed:
            raise SagaError(
                f"internal error: saga {visit[1]} could not be recovered; the log says why; please report it"
            )

    def _work(self, work: Work) -> None:
        """Handle work as the function of the queue ``now`` does. If it dies, the work comes back."""
        try:
            self._advance(work)
        except Died:
            is_thorough = {"thorough": True} if work.task == CHILDREN else {}
            again = replace(work, details={**work.details, **is_thorough})
            self._queues.add(self.clock.now() + _WORK_HIDDEN, _WORK, again)

    def _advance(self, work: Work) -> None:
        """Advance the sagas that work names, without its schema, since a test may use any saga id."""
        if work.task == START:
            self.engine.children.start(ChildrenToStart(**work.details))
        elif work.task == LOOK:
            until = self.engine.codeless_advancer.look(**work.details)
            if until:
                self._queues.add(until, _WORK, work)
        else:
            details = SagasToAdvance(**work.details)
            for saga_id in details.sagas:
                self.engine.children.look(saga_id, thorough=details.thorough)

    def _deliver(self, message: Message) -> None:
        """Deliver a message to the function of its step."""
        saga_type = self.engine.registry.get(message.saga)
        step = saga_type.step(message.step)
        lifetime = math.ceil(step.longest_timeout) + FUNCTION_SPARE
        visible_at = self.clock.now() + lifetime + AFTER_FUNCTION
        self._queues.hidden_until = None
        try:
            if saga_type.code(message.step, undo=message.undo) is None:
                self.arrived(message)
            end, message = self.engine.worker.handle(message, Invocation(self.clock.now() + lifetime))
        except Died:
            back = self._queues.hidden_until or visible_at
            self._queues.add(back, _MESSAGE, replace(message, receives=message.receives + 1))
            return
        if isinstance(end, Postpone):
            self._queues.add(end.until, _MESSAGE, message)

    # Moments

    def arrived(self, message: Message) -> Moment | None:
        """Reach the first moment of the attempt that a message is for, and return it; ``None`` if the message is
        stale."""
        state = self.stored(message.saga_id)
        if state.dispatch != message.dispatch or state.ended:
            return None
        step = state.steps[message.index]
        made = step.undo_attempts.made if message.undo else step.attempts.made
        moment = Moment(message.saga_id, message.step, message.undo, "before", made + 1)
        self.reach(moment)
        return moment

    def reach(self, moment: Moment) -> None:
        """Tell the test that an attempt has reached a moment. An error of the test's own code ends the test."""
        try:
            self.reached(moment)
        except Died:
            if not self._busy:
                what = f'{moment.step} reached "{moment.name}" in a call of the test itself'
                raise RuntimeError(f"die: {what}, so there is no worker that could die") from None
            raise
        except Exception as error:
            raise _Ended(error) from error

    def _calling(self, call: CallsCode) -> CallsCode:
        """Return a function that calls steps and undos by ``call``, or raises the exceptions that a test asks for."""

        def in_time(*given: Any) -> str | None:
            with self.clock.running():
                return call(*given)

        def calling(
            definition: SagaDefinition,
            step: StepDefinition,
            undo: bool,
            payloads: Mapping[str, str | None],
            context: StepContext,
            *rest: Any,
        ) -> str | None:
            moment = Moment(context.saga_id, step.name, undo, "calling", context.attempt)
            self.reach(moment)
            failing = self._failing(step, undo, context.saga_id)
            payload = self.wraps(in_time)(definition, failing, undo, payloads, context, *rest)
            self.reach(moment._replace(name="returned"))
            return payload

        return calling

    def _failing(self, step: StepDefinition, undo: bool, saga_id: str) -> StepDefinition:
        """Return a step which raises the exception that a test asks for, if it asks for one."""
        root, path = self.place(saga_id)
        own = step.undo
        name = own.name if undo and own is not None else step.name
        failing = self._fail.get(root, {}).get(f"{path}{name}")
        raised = (failing.pop(0) if failing else None) if isinstance(failing, list) else failing
        if raised is None:
            return step
        raising = partial(_raise, raised)
        if undo and own is not None:
            return replace(step, undo=replace(own, function=raising))
        return replace(step, function=raising)


def _raise(raised: Raised, *_: object, **__: object) -> NoReturn:
    raise raised if isinstance(raised, type) else raised.with_traceback(None)


def _connecting(clients: Mapping[str, Any] | Callable[[str], Any] | None) -> Callable[[str], Any]:
    """Return the function behind ``ctx.client``. It never connects to AWS by itself."""
    if callable(clients):
        return clients

    def connect(service: str) -> Any:
        if clients is None or service not in clients:
            raise LookupError(f'no client for "{service}": pass clients={{"{service}": ...}}')
        return clients[service]

    return connect
