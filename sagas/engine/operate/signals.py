"""Signals: values that people and systems send to steps that wait for them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from sagas.authoring.codec import content_hash, decode, encode
from sagas.authoring.definition.definition import StepDefinition
from sagas.core.automaton import decide
from sagas.core.commands import SignalAsked, StallNoticed
from sagas.core.effects import Refuse
from sagas.core.rules import in_wait
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext
from sagas.engine.contention import patiently
from sagas.engine.ports import WorkSender
from sagas.engine.read.reader import Reader
from sagas.errors import Conflict, NotFound, SagaError, Unavailable
from sagas.messaging.work import NOW, OneSaga
from sagas.store.outcomes import Fenced
from sagas.store.signals.inbox import Inbox
from sagas.store.signals.sent import Signal

_TRIES = 10


@dataclass(frozen=True, slots=True)
class Signalled:
    """What became of a signal.

    Args:
        state: the saga afterwards.
        accepted: by this call; else the same value had been accepted before.
    """

    state: SagaState
    accepted: bool


@dataclass(frozen=True, slots=True)
class Signals:
    """Accepts signals. Each is put into the inbox and flagged in one transaction, and taken by the holder of the lease:
    here at once, if nobody does and the saga waits for it."""

    reader: Reader
    inbox: Inbox
    advancer: Advancer
    queues: WorkSender

    def step(self, name: str, step: str) -> StepDefinition:
        """Return the step that takes a signal."""
        found = next((one for one in self.advancer.registry.get(name).definition.steps if one.name == step), None)
        if found is None or found.waits_for != "signal":
            raise NotFound(f"saga {name!r} has no step {step!r} that takes a signal")
        return found

    def send(self, name: str, saga_id: str, step: str, value: Any, actor: str) -> Signalled:
        """Send a value to a step, which may wait for it already, or come to it later."""
        type_ = self.step(name, step).signal_type
        # As its type writes it: what has a default says the same, written out or left out.
        written = encode(decode(value, type_), type_)
        payload = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        clock = self.advancer.services.clock
        signal = Signal(payload, content_hash(written), actor, clock.now())
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            index = next((i for i, one in enumerate(state.steps) if one.name == step and one.waits_for), None)
            if index is None:
                raise NotFound(f"this saga was started without the step {step!r}, or when it took no signal")
            plan = self.advancer.plan(state)
            decision = decide(plan, state, SignalAsked(index), clock.now())
            if isinstance(decision.then, Refuse):
                found = self.inbox.get(saga_id, state.steps[index])
                if found is None:
                    raise Conflict(decision.then.reason)
                if found.content != signal.content:
                    raise Conflict(f"another value was sent to step {step} before")
                return Signalled(self._look_after(state), accepted=False)
            if patiently(clock, partial(self.inbox.accept, state, index, signal, plan.stale_after)):
                return Signalled(self._look_after(self.reader.state(name, saga_id)), accepted=True)
        raise Unavailable("the saga changes too fast; try again", retry_after=1)

    def _look_after(self, state: SagaState) -> SagaState:
        """Take the signal if the saga waits for it and nobody holds it; else its holder will. That one may die, and
        the store be out of reach: then it is taken by way of the queue ``now``."""
        if not _to_be_taken(state):
            return state
        try:
            stall = StallNoticed(self.advancer.lease())
            self.advancer.advance(state, stall, EntryContext(actor="api"))
        except Fenced:
            pass
        except Unavailable:
            # It is accepted: the supervisor takes it, should nobody else.
            self.advancer.services.logger.warning("a signal waits to be taken", extra={"saga_id": state.saga_id})
        after = self.reader.state(state.saga, state.saga_id)
        if _to_be_taken(after) and self.queues.has_work(NOW):
            with suppress(SagaError):
                self.queues.send_work(NOW, [OneSaga(state.saga_id).work()])
        return after


def _to_be_taken(state: SagaState) -> bool:
    """Whether the saga waits for a signal that has come."""
    step = state.current
    return in_wait(state) and step is not None and step.signalled
