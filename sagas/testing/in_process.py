"""One saga in process: the worker that runs in Lambda, over a store in memory and a clock that skips."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from sagas.authoring.codec import content_hash, encode
from sagas.authoring.definition import SagaDefinition, StepDefinition
from sagas.core import events as ev
from sagas.core.automaton import decide
from sagas.core.rules import in_wait
from sagas.core.states import SagaState, SagaStatus
from sagas.engine.advance import Advancer
from sagas.engine.attempt import Attempt, AttemptServices, Invocation
from sagas.engine.breaker import Breakers
from sagas.engine.carrying import carried, digest_of
from sagas.engine.clock import SystemClock
from sagas.engine.committer import Committer, EntryContext
from sagas.engine.outcome import Done, Later
from sagas.engine.ports import NullObserver
from sagas.engine.registry import Registry, SagaType
from sagas.engine.runner import Runner
from sagas.engine.worker import Worker
from sagas.errors import DefinitionError
from sagas.messaging.message import Message
from sagas.store.entries import Entry
from sagas.store.sent import Signal
from sagas.testing.fake_context import fake_callback_url
from sagas.testing.memory import MemoryBreakers, MemoryControl, MemoryInbox, MemoryJournal

Raised = BaseException | type[BaseException]
Failing = Raised | Sequence[Raised | None]
"""What every attempt raises instead of running; or what each raises in turn: ``None`` where it runs, as do the rest."""
_LIFETIME = 900.0
"""Seconds that each invocation has, as on Lambda at most."""


class SkippingClock:
    """Time passes only where something waits for it, and then at once; chance repeats."""

    def __init__(self, saga_id: str) -> None:
        self._now = SystemClock().now()
        self._saga_id = saga_id

    def now(self) -> float:
        """Epoch seconds, to the millisecond."""
        return round(self._now, 3)

    def sleep(self, seconds: float) -> None:
        """Skip that long."""
        self._now += max(0.0, seconds)

    def chance(self) -> float:
        """The middle of [0, 1)."""
        return 0.5

    def new_id(self) -> str:
        """The id of the one saga there is."""
        return self._saga_id

    def new_owner(self) -> str:
        """A claim's nonce: nothing but the time."""
        return f"{round(self._now * 1000):011x}"

    def new_salt(self) -> str:
        """No salt: nothing is kept."""
        return ""


class InProcessRun:
    """One saga on its way: nothing can get lost, and messages are delivered one at a time.

    Args:
        definition: the saga type.
        fail: what every attempt of a step or undo raises instead of running, by its name.
        clients: what ``ctx.client(service)`` returns: by service, or a function.
        saga_id: the saga's id.
        request: its request, as JSON builtins.
        signals: what is sent to each wait, by its name.
        at: how long after the wait began it is sent; at once by default.
    """

    def __init__(
        self,
        definition: SagaDefinition,
        fail: Mapping[str, Failing],
        clients: Mapping[str, Any] | Callable[[str], Any] | None,
        saga_id: str,
        request: Any,
        signals: Mapping[str, object] | None = None,
        at: Mapping[str, timedelta] | None = None,
    ) -> None:
        self.definition = definition
        self.saga_id = saga_id
        self._clock = SkippingClock(saga_id)
        self._control, self._journal = MemoryControl(), MemoryJournal()
        self._inbox = MemoryInbox(self._control)
        self._signals, self._at = dict(signals or {}), dict(at or {})
        self._sent: list[tuple[float, Message]] = []
        # A lease that outlasts every invocation needs no heartbeat, and one saga alone trips no breaker.
        steps = tuple(replace(_with_failures(step, fail), circuit_breaker=None) for step in definition.steps)
        registry = Registry.of(replace(definition, steps=steps, lock_expiry=timedelta(days=1)))
        logger, quiet = logging.getLogger("sagas.testing"), NullObserver()
        runner = Runner()
        try:
            runner.instance(definition)
        except Exception as error:
            told = f"{definition.saga_class.__name__}.create() raised {type(error).__name__}: {error}"
            raise DefinitionError(told) from error
        breakers = Breakers(MemoryBreakers(), registry, self._clock, logger, quiet)
        committer = Committer(self._control, self._journal, self._clock, inbox=self._inbox)
        services = AttemptServices(
            self._control,
            self._journal,
            committer,
            breakers,
            runner,
            self._clock,
            logger,
            connect=_connecting(clients),
            callback_url=fake_callback_url,
            accept=self._inbox.accept,
        )
        self._advancer = Advancer(services, registry, self, Attempt)
        self._worker = Worker(self._advancer)
        self._start(SagaType(definition), request)

    @property
    def state(self) -> SagaState:
        """The saga as it is."""
        return self._control.items[self.saga_id]

    @property
    def entries(self) -> dict[int, Entry]:
        """The saga's committed entries, by their number."""
        return {seq: self._journal.stored[self.saga_id, seq] for seq in range(1, self.state.seq + 1)}

    def send(self, message: Message, delay: float = 0.0) -> None:
        """Keep a message for its time, as a queue does."""
        due = self._clock.now() + max(delay, 0.0)
        self._sent.append((due, replace(message, message_id=f"message-{message.dispatch}")))

    def play(self) -> None:
        """Let come what comes next, until nothing does, or a message has died: a message, a signal, the end of a wait,
        the saga's own deadline."""
        while True:
            coming: list[tuple[float, int, Callable[[], bool]]] = []
            if self._sent:
                first = min(range(len(self._sent)), key=lambda index: self._sent[index][0])
                coming.append((self._sent[first][0], 1, partial(self._deliver, first)))
            state, step = self.state, self.state.current
            if state.status is SagaStatus.WAITING and step is not None:
                coming.append((state.not_before, 2, self._look))
                if in_wait(state) and step.name in self._signals and not step.signalled:
                    sent = state.updated_at + self._at.get(step.name, timedelta()).total_seconds()
                    coming.append((sent, 0, self._signal))
            if state.ends_at:
                coming.append((state.ends_at, 3, self._end))
            if not coming:
                return
            when, _, act = min(coming, key=lambda one: one[:2])
            self._clock.sleep(when - self._clock.now())
            if not act():
                return

    def _deliver(self, index: int) -> bool:
        _, message = self._sent.pop(index)
        outcome = self._worker.handle(message, Invocation(self._clock.now() + _LIFETIME))
        if isinstance(outcome, Later):
            self._sent.append((outcome.until, message))
        return isinstance(outcome, Done | Later)

    def _look(self) -> bool:
        """What the supervisor does at the end of a wait: of a step that looks again it sends the message."""
        if not in_wait(self.state):
            self._advancer.send_again(self.state, 0.0)
            return True
        self._advancer.advance(self.state, ev.StallNoticed(self._advancer.lease()), EntryContext(actor="supervisor"))
        return True

    def _signal(self) -> bool:
        state = self.state
        step = state.steps[state.cursor]
        data = encode(self._signals[step.name], self.definition.step(step.name).signal_type)
        payload = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        self._inbox.stored[step.name, step.round] = Signal(payload, content_hash(data), "test", self._clock.now())
        return self._decided(ev.SignalAsked(state.cursor))

    def _end(self) -> bool:
        return self._decided(ev.CancelAsked(ev.DEADLINE))

    def _decided(self, arrival: ev.Arrival) -> bool:
        state = self.state
        self._control.items[self.saga_id] = decide(self._advancer.plan(state), state, arrival, self._clock.now()).state
        return self._look()

    def _start(self, saga_type: SagaType, request: Any) -> None:
        now, definition = self._clock.now(), saga_type.definition
        entry = Entry(
            saga_id=self.saga_id,
            seq=1,
            at=now,
            saga=definition.name,
            action="SagaStarted",
            status="PENDING",
            token=0,
            actor="test",
            correlation_id=self.saga_id,
            details={"request_hash": content_hash(request)} | saga_type.first_entry_details,
            payload=json.dumps(request, separators=(",", ":"), ensure_ascii=False),
        )
        inputs = (carried(entry),)
        state = SagaState(
            saga_id=self.saga_id,
            saga=definition.name,
            version=definition.version,
            steps=saga_type.new_steps,
            correlation_id=self.saga_id,
            created_at=now,
            updated_at=now,
            digest=digest_of(inputs),
            deadline=saga_type.deadline(now),
            head=entry.hash_after(b""),
        )
        self._journal.put(entry)
        self._control.create(state, definition.stale_after.total_seconds())
        self.send(Message(state.saga_id, state.saga, state.steps[0].name, 0, False, state.dispatch, inputs=inputs))


def _connecting(clients: Mapping[str, Any] | Callable[[str], Any] | None) -> Callable[[str], Any]:
    """What ``ctx.client`` calls: never AWS by itself."""
    if callable(clients):
        return clients

    def connect(service: str) -> Any:
        if clients is None or service not in clients:
            raise LookupError(f'there is no client for "{service}": pass clients={{"{service}": ...}}')
        return clients[service]

    return connect


def _with_failures(step: StepDefinition, fail: Mapping[str, Failing]) -> StepDefinition:
    """The step with what ``fail`` names replaced by code that raises."""
    if step.undo is not None and step.undo.name in fail:
        step = replace(step, undo=replace(step.undo, function=_raising(fail[step.undo.name], step.undo.function)))
    return replace(step, function=_raising(fail[step.name], step.function)) if step.name in fail else step


def _raising(failing: Failing, works: Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(failing, Sequence):

        def fail(*_: object, **__: object) -> None:
            raise failing if isinstance(failing, type) else failing.with_traceback(None)

        return fail
    left = list(failing)

    def fail_at_first(*given: Any, **named: Any) -> Any:
        raised = left.pop(0) if left else None
        if raised is None:
            return works(*given, **named)
        raise raised if isinstance(raised, type) else raised.with_traceback(None)

    return fail_at_first
