"""Advances a saga where no code of a step is to run: arrive, decide, claim, journal, commit, send.

So do workers, the supervisor, operators' calls and the in-process run. The automaton decides what to do about an
arrival. Its decision is always executed in this order. ``docs/contributing/protocol.md`` explains and numbers the
rules.

1.  *claim*: one conditional update takes the lease (rules 1, 6);
2.  *journal*, then *commit*: one open slot at a time (rules 2, 3, 12), until no fact follows;
3.  *send*: the next message, or postpone the current one.

An attempt (:mod:`sagas.engine.attempt.attempt`) runs code after its claim, and has the message sent here, too.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from msgspec import Struct, structs

from sagas.core.arrivals import settling
from sagas.core.automaton import decide
from sagas.core.commands import Arrival, Refuse, Send, Then, Write
from sagas.core.rules import Plan, settles, waits_without_code
from sagas.core.states import Lease, SagaState
from sagas.core.transitions import send_current
from sagas.engine.attempt.attempt import AttemptServices
from sagas.engine.attempt.course import next_inputs
from sagas.engine.committer import Committed, EntryContext, write_contended
from sagas.engine.ports import Gate, MessageSender, WorkSender
from sagas.engine.registry import Registry
from sagas.errors import Conflict, Denied, NotFound, SagaError
from sagas.messaging.message import CarriedInput, Message
from sagas.messaging.work import NOW, SagasToAdvance

_LEASE = 30.0
"""Seconds of a lease for work that only writes the journal."""


class Advanced(Struct, frozen=True):
    """The result of an arrival.

    Args:
        state: the saga afterwards.
        then: what remains to be done: postpone, drop or dead-letter the message, or claim it again.
        keep_until: epoch seconds at which this message, which is still the saga's current message, is due again.
        lost_race: another worker, the supervisor or an operator was faster, so read the saga again.
        adopted: the first commit was an entry that a predecessor had left in the journal.
        message: the message, updated to the step that its saga has reached.
        gate: the gate that refused the claim, if one did.
    """

    state: SagaState
    then: Then | None = None
    keep_until: float | None = None
    lost_race: bool = False
    adopted: bool = False
    message: Message | None = None
    gate: Gate | None = None


class Advancer(Struct, frozen=True):
    """Advances sagas.

    Args:
        services: store, committer, clock.
        registry: the saga types.
        sender: the queues.
        carry: whether messages contain small results. If not, no queue contains payloads.
        work: the service's own queues, for sagas with children.
    """

    services: AttemptServices
    registry: Registry
    sender: MessageSender
    carry: bool = True
    work: WorkSender | None = None

    def await_release(self, state: SagaState) -> Then | None:
        """Let a saga wait for a release with the code that it needs. Returns what to do with its message; ``None`` if
        the saga has waited long enough."""
        plan = Plan((), settle=self.registry.settle)
        now = self.services.clock.now()
        if not settles(plan, state, now):
            return None
        decision = settling(plan, state, now)
        if decision.state is not state:
            self.services.control.mark_settling(decision.state)
        return decision.then

    def advance(
        self, state: SagaState, arrival: Arrival, context: EntryContext, message: Message | None = None
    ) -> Advanced:
        """Handle an arrival that needs no step code."""
        plan = self.plan(state)
        clock = self.services.clock
        decision = decide(plan, state, arrival, clock.now())
        match decision.then:
            case Refuse(reason):
                raise Conflict(reason)
            case Write(fact):
                if not write_contended(
                    clock, partial(self.services.control.claim, state, decision.state, plan.stale_after)
                ):
                    return Advanced(state, lost_race=True)
                held = self._correlated(decision.state)
                try:
                    committed = self.services.committer.commit(plan, held, fact, context)
                except Denied:  # nothing was written, so others need not wait for the lease
                    with suppress(SagaError):
                        self.services.control.commit(held, structs.replace(held, lease=None), plan.stale_after)
                    raise
                return self.send_next(committed, message)
            case _:
                if decision.state.settling_since != state.settling_since:  # the saga now waits for a release
                    self.services.control.mark_settling(decision.state)
                if decision.send is not None:
                    self._send(state, decision.send)
                return Advanced(state, decision.then)

    def send_again(self, state: SagaState, delay: float) -> None:
        """Send a saga's current message again. Only the copy that arrives first takes effect. ``delay``: seconds before
        which it does not arrive."""
        send = send_current(state)
        self._send(state, structs.replace(send, not_before=max(send.not_before, self.services.clock.now() + delay)))

    def plan(self, state: SagaState) -> Plan:
        """Return the saga's plan."""
        return self.registry.plan(state)

    def lease(self) -> Lease:
        """Return a fresh lease for work without step code."""
        until = round(self.services.clock.now() + _LEASE, 3)
        return Lease(self.services.clock.new_owner(), until, until)

    def send_next(self, committed: Committed, message: Message | None) -> Advanced:
        """Send the message that follows a commit. For a retry, keep the current message (rule 8)."""
        send = committed.send
        keep_until = None
        if send is not None and message is not None and send.dispatch == message.dispatch:
            keep_until = send.not_before
        elif send is not None:
            self._send(committed.state, send, self._next_inputs(committed, message))
        return Advanced(committed.state, None, keep_until, adopted=committed.adopted, message=message)

    def _next_inputs(self, committed: Committed, message: Message | None) -> tuple[CarriedInput, ...]:
        state = committed.state
        if message is None or not message.inputs or not self.carry or state.saga not in self.registry:
            return ()
        taken = self.registry.get(state.saga).still_taken(state)
        return next_inputs(message.inputs, committed.entry, state.digest, taken)

    def _correlated(self, state: SagaState) -> SagaState:
        """Fill in the correlation id. A long id is stored only in the first entry."""
        if state.correlation_id:
            return state
        first = self.services.journal.entries(state.saga_id, [1])[1]
        return structs.replace(state, correlation_id=first.correlation_id)

    def _send(self, state: SagaState, send: Send, inputs: tuple[CarriedInput, ...] = ()) -> None:
        if state.joins and self.work is not None:  # no step runs, but the children have to be advanced
            self.work.send_work(NOW, [SagasToAdvance([state.saga_id]).work()])
            return
        message = Message(
            saga_id=state.saga_id,
            saga=state.saga,
            step=state.steps[send.index].name,
            index=send.index,
            undo=send.undo,
            dispatch=send.dispatch,
            correlation_id=self._correlated(state).correlation_id,
            inputs=inputs,
            codeless=not send.undo and waits_without_code(self.plan(state), state, send.index),
        )
        try:
            self.sender.send(message, send.not_before - self.services.clock.now())
        except NotFound:  # the queue was deleted with its step; the supervisor will handle the saga
            fields = {"saga_id": state.saga_id, "step": message.step}
            self.services.logger.warning("the step of a message has no queue in this deployment", extra=fields)
