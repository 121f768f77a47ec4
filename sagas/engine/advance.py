"""Advances a saga: arrive, decide, claim, run, journal, commit, send.

Sagas advance only here: for workers, the supervisor, operators' calls and the in-process run. The automaton decides
what to do about an arrival. Its decision is always executed in this order. ``docs/contributing/protocol.md`` explains
and numbers the rules.

1.  *claim*: one conditional update takes the lease (rules 1, 6);
2.  *run*: the code of the step or its undo, only if the claim succeeded;
3.  *journal*, then *commit*: one open slot at a time (rules 2, 3, 12), until no fact follows;
4.  *send*: the next message, or postpone the current one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct, structs
from msgspec.structs import replace

from sagas.core.arrivals import settling
from sagas.core.automaton import decide
from sagas.core.commands import Arrival, Discard, MessageArrived, Refuse, Run, Send, Then, Write
from sagas.core.rules import Plan, lacks_policy, misfit, settles, waits_without_code
from sagas.core.states import DeadMessage, Lease, SagaState
from sagas.core.transitions import send_current
from sagas.engine.attempt.attempt import Attempt, AttemptServices, Invocation, lease_for
from sagas.engine.attempt.course import UNCHAINED, Chain, Course, carried, correlated, next_inputs
from sagas.engine.attempt.failures import pending_fact
from sagas.engine.committer import Committed, EntryContext, write_contended
from sagas.engine.ports import Gate, MessageSender, WorkSender, shut_gate
from sagas.engine.registry import Registry, SagaType
from sagas.errors import Conflict, Denied, InvalidRequest, NotFound, Problem, SagaError
from sagas.messaging.message import CarriedInput, Message, PendingCommit
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


MakesAttempts = Callable[[AttemptServices, SagaType, Message, Invocation, Course], Attempt]
"""The function that makes the attempt of a message."""


class Advancer(Struct, frozen=True):
    """Advances sagas.

    Args:
        services: store, committer, clock.
        registry: the saga types.
        sender: the queues.
        attempt: claims and runs a message's code.
        carry: whether messages contain small results. If not, no queue contains payloads.
        chain: the steps that one invocation of this function may run in a row.
        work: the service's own queues, for sagas with children.
    """

    services: AttemptServices
    registry: Registry
    sender: MessageSender
    attempt: MakesAttempts
    carry: bool = True
    chain: Chain = UNCHAINED
    work: WorkSender | None = None

    def handle(self, message: Message, invocation: Invocation, course: Course) -> Advanced:
        """Advance the saga of a message: run the code that it names, or decide what to do instead."""
        if message.saga not in self.registry:
            return self._of_another_release(message, invocation)
        saga_type = self.registry.get(message.saga)
        services = self.services
        dying = DeadMessage(message.dispatch, message.hops, message.message_id)
        if message.pending_commit is not None:
            committed = self._commit_late(message, message.pending_commit, dying)
            if committed is not None:
                return self._send_next(committed, message)
        gate: Gate | None = None
        code = saga_type.code(message.step, undo=message.undo)
        if code is not None:
            attempt = self.attempt(services, saga_type, message, invocation, course)
            committed = attempt.run()
            gate = attempt.shut
            if committed is not None:
                return self._run_on(committed, message, invocation, course)
        state = services.control.get(message.saga_id)
        if state is None:
            return self._purged(message)
        message = self._standing_for(state, message)
        if message.index >= len(state.steps) or state.steps[message.index].name != message.step:
            problem = Problem("$.index", "is not this step's position")
            raise InvalidRequest("the message names a step that this saga does not have", [problem])
        if code is None and state.lease is None and misfit(self.plan(state), state, services.clock.now()):
            gate = shut_gate(services.gates, message)  # a paused saga does not wait for a release
            if gate is not None and message.dispatch == state.dispatch:
                return Advanced(state, Run(state.cursor, state.undoing, 0), message=message, gate=gate)
        # In a chain, even a lease for work without code is short.
        lease = self.lease() if course.chained else lease_for(saga_type, services.clock, invocation.deadline)
        dying_now = None if message.chained else dying
        context = EntryContext(trace_id=invocation.trace_id, message=dying_now)
        return replace(self._arrived(state, message, lease, context), gate=gate)

    def _arrived(self, state: SagaState, message: Message, lease: Lease, context: EntryContext) -> Advanced:
        """Handle the arrival of a message."""
        arrival = MessageArrived(
            message.index,
            message.undo,
            message.dispatch,
            message.hops,
            message.message_id,
            lease,
            message.sent_at,
        )
        return replace(self.advance(correlated(state, message), arrival, context, message), message=message)

    def _purged(self, message: Message) -> Advanced:
        """Drop the message of a purged saga."""
        first = self.services.journal.entries(message.saga_id, [1]).get(1)
        if first is None or first.tombstone is None:
            raise NotFound(f"no saga with id {message.saga_id} (type {message.saga})")
        return Advanced(first.tombstone.state, Discard("the saga was purged"))

    def _commit_late(self, message: Message, pending: PendingCommit, dying: DeadMessage) -> Committed | None:
        """Commit an outcome that waited in a queue; ``None`` if its execution no longer holds the saga, or if a release
        has to say first what follows from the outcome."""
        state = self.services.control.get(message.saga_id)
        fact = pending_fact(state, message, pending) if state else None
        if state is None or fact is None or lacks_policy(self.plan(state), state, fact):
            return None
        context = EntryContext(pending.payload, pending.details, trace_id=pending.trace_id, message=dying)
        return self.services.committer.commit(self.plan(state), correlated(state, message), fact, context)

    def _of_another_release(self, message: Message, invocation: Invocation) -> Advanced:
        """Advance a saga whose type is not deployed as far as is possible without its code."""
        state = self.services.control.get(message.saga_id)
        if state is None:
            return self._purged(message)
        return self._arrived(state, message, self.lease(), EntryContext(trace_id=invocation.trace_id))

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

    def _run_on(self, committed: Committed, message: Message, invocation: Invocation, course: Course) -> Advanced:
        """Run the step that a commit has claimed, then the next step, until a commit claims no step."""
        while committed.claimed:
            state = committed.state
            entry = committed.entry
            inputs = message.inputs
            if entry is not None and entry.action == "StepCompleted":
                inputs = (*inputs, carried(entry))
            course.claim(state, entry, adopted=committed.adopted)
            message = replace(
                message,
                step=state.steps[state.cursor].name,
                index=state.cursor,
                undo=state.undoing,
                pending_commit=None,
                inputs=inputs,
                chained=True,
            )
            saga_type = self.registry.get(message.saga)
            self.services.on_next_step(message)
            following = self.attempt(self.services, saga_type, message, invocation, course).run()
            if following is None:
                raise SagaError("internal error: a step claimed by the previous commit did not run; please report it")
            committed = following
        return self._send_next(committed, message)

    def _standing_for(self, state: SagaState, message: Message) -> Message:
        """Return the message, updated to the saga's current step. A saga that advances in a chain keeps its message,
        which names the step for which it was sent."""
        step = state.current
        if message.dispatch != state.dispatch or state.ended or step is None or message.index >= len(state.steps):
            return message
        elsewhere = (message.index, message.undo) != (state.cursor, state.undoing)
        same_step = state.steps[message.index].name == message.step
        if not elsewhere or not same_step or message.step not in self.chain or step.name not in self.chain:
            return message
        return replace(message, step=step.name, index=state.cursor, undo=state.undoing, inputs=(), chained=True)

    def fail_uncalled(
        self, message: Message, invocation: Invocation, error: Exception, course: Course
    ) -> Advanced | None:
        """Fail a message's attempt without running its code.

        Raises: as :meth:`message`. Returns the result; ``None`` if it may not be claimed.
        """
        saga_type = self.registry.get(message.saga)
        committed = self.attempt(self.services, saga_type, message, invocation, course).fail_uncalled(error)
        return None if committed is None else self._run_on(committed, message, invocation, course)

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
                return self._send_next(committed, message)
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

    def _send_next(self, committed: Committed, message: Message | None) -> Advanced:
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
        if message is None or not self.carry or state.saga not in self.registry:
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
