"""Signals: values sent to steps that wait for them."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from sagas.authoring.codec import content_hash, decode, encode
from sagas.authoring.definition.definition import StepDefinition
from sagas.authoring.shapes.comparing import equal
from sagas.core.automaton import decide
from sagas.core.commands import Refuse, SignalArrived, Visited
from sagas.core.rules import in_wait
from sagas.core.states import SagaState
from sagas.engine.advance import Advancer
from sagas.engine.committer import EntryContext, write_contended
from sagas.engine.ports import WorkSender
from sagas.engine.read.reader import Reader
from sagas.errors import Conflict, InvalidRequest, NotFound, SagaError, Unavailable
from sagas.messaging.work import NOW, OneSaga
from sagas.store.connection import Fenced
from sagas.store.inbox import Inbox, SentSignal

_TRIES = 10


class Signalled(Struct, frozen=True):
    """Outcome of sending a signal.

    Args:
        state: the saga afterwards.
        accepted: whether this call's signal was accepted; false if the same value had been accepted before.
    """

    state: SagaState
    accepted: bool


class Signals(Struct, frozen=True):
    """Accepts signals. One transaction puts a signal into the inbox and sets the saga's flag. If a worker holds the
    lease, it takes the signal. Otherwise this call takes it, if the saga waits for it."""

    reader: Reader
    inbox: Inbox
    advancer: Advancer
    queues: WorkSender

    def step(self, name: str, saga_id: str, step: str) -> StepDefinition:
        """Return the step that takes a signal. If the saga has such a step but waits for a release with its code, ask
        the sender to try again."""
        registry = self.advancer.registry
        steps = registry.get(name).definition.steps if name in registry else ()
        definition = next((declared for declared in steps if declared.name == step), None)
        if definition is not None and definition.waits_for == "signal":
            return definition
        state = self.reader.stored(name, saga_id)
        if state is None or not any(was.name == step and was.waits_for == "signal" for was in state.steps):
            raise NotFound(f"saga type {name!r} has no step {step!r} that takes a signal")
        if state.ended or not self.advancer.await_release(state):
            raise Conflict(f"step {step} is not deployed as a wait")
        raise Unavailable(f"step {step} is not deployed as a wait; the saga waits for a release", retry_after=60)

    def send(self, name: str, saga_id: str, step: str, value: Any, actor: str) -> Signalled:
        """Send a value to a step that waits for it now, or will wait for it."""
        type_ = self.step(name, saga_id, step).signal_type
        decoded = decode(value, type_)
        # Decode and encode the value as its type: values with and without explicit defaults then have the same hash.
        written = encode(decoded, type_, reads_back=False)
        payload = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        clock = self.advancer.services.clock
        hidden = self.advancer.registry.get(name).definition.redaction.hidden.get(step, ())
        signal = SentSignal(payload, content_hash(written), actor, clock.now(), hidden, clock.new_salt())
        for _ in range(_TRIES):
            state = self.reader.state(name, saga_id)
            steps = enumerate(state.steps)
            index = next((i for i, recorded in steps if recorded.name == step and recorded.waits_for), None)
            if index is None:
                raise NotFound(f"saga {saga_id} was started before step {step!r} existed or took a signal")
            plan = self.advancer.plan(state)
            decision = decide(plan, state, SignalArrived(index), clock.now())
            if isinstance(decision.then, Refuse):
                existing = self.inbox.get(saga_id, state.steps[index])
                if existing is None:
                    raise Conflict(decision.then.reason)
                if existing.content != signal.content and not _is_equal(existing, decoded, type_):
                    raise Conflict(f"another value was sent to step {step} before")
                return Signalled(self._take(state), accepted=False)
            if write_contended(clock, partial(self.inbox.accept, state, index, signal, plan.stale_after)):
                return Signalled(self._take(self.reader.state(name, saga_id)), accepted=True)
        raise Unavailable("the saga was changed by others ten times in a row; try again", retry_after=1)

    def _take(self, state: SagaState) -> SagaState:
        """Take the signal if the saga waits for it. If a worker holds the saga, that worker takes it. If the signal is
        not taken here, a message in the queue ``now`` lets another worker take it, in case the first worker dies."""
        if not _to_be_taken(state):
            return state
        try:
            stall = Visited(self.advancer.lease())
            self.advancer.advance(state, stall, EntryContext(actor="api"))
        except Fenced:
            pass
        except Unavailable:
            # The signal is accepted. If no worker takes it, the supervisor does.
            self.advancer.services.logger.warning(
                "a signal was accepted but not yet taken", extra={"saga_id": state.saga_id}
            )
        after = self.reader.state(state.saga, state.saga_id)
        if _to_be_taken(after) and self.queues.has_work(NOW):
            with suppress(SagaError):
                self.queues.send_work(NOW, [OneSaga(state.saga_id).work()])
        return after


def _is_equal(existing: SentSignal, value: Any, type_: Any) -> bool:
    """Whether a signal has an equal value in another spelling."""
    try:
        return equal(decode(json.loads(existing.payload), type_), value)
    except InvalidRequest:  # the type has changed
        return False


def _to_be_taken(state: SagaState) -> bool:
    """Whether the saga waits for a signal, and it has arrived."""
    step = state.current
    return in_wait(state) and step is not None and step.signalled
