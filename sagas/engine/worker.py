"""Handles a message: advances its saga as far as this invocation can, then decides what to do with the message.

If the message names code, an attempt claims the step, runs the code and commits the outcome. If not, or if the claim
was refused, the automaton decides. Also notes how far the message's queue has got.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from sagas.core.commands import Discard, FailDelivery, MessageArrived, Postpone, Run
from sagas.core.rules import lacks_policy, misfit
from sagas.core.states import DeadMessage, Lease, SagaState, SagaStatus
from sagas.core.text import iso
from sagas.engine.advance import Advanced, Advancer
from sagas.engine.attempt.attempt import Attempt, AttemptServices, Invocation, NotCommitted, lease_for
from sagas.engine.attempt.course import RECORDING, UNCHAINED, Chain, Course, carried, correlated
from sagas.engine.attempt.failures import comes_back, pending_fact, with_pending
from sagas.engine.clock import Clock
from sagas.engine.committer import Committed, EntryContext
from sagas.engine.ports import Gate, shut_gate
from sagas.engine.registry import SagaType
from sagas.errors import InvalidRequest, NewerFormat, NotFound, Problem, SagaError, Unavailable
from sagas.messaging.message import Message, PendingCommit
from sagas.store.connection import Fenced

if TYPE_CHECKING:
    from sagas.store.watermarks import Watermarks

_ROUNDS = 200
"""One invocation spends at most this many rounds on a message, for example for retries that are due within a second.
Then the queue redelivers the message, so retries without delay do not occupy an invocation forever."""
_SHORT_WAIT = 1.0
"""For fewer seconds than this, the function itself waits for a retry, because SQS counts whole seconds."""
_RACE = 1.0
"""Seconds after which a message is redelivered if another delivery was faster."""
_FAILING_CACHED = 60.0
"""If a message must be dead-lettered, its deliveries fail for this many seconds without a read of the saga. SQS
delivers such a message a dozen times or more, mostly to this environment. An operator's retry uses another message."""
_MOST_FAILING = 1_000
BETWEEN_NOTES = 30.0
"""Minimum seconds between two notes of one environment about one queue."""


End = Discard | Postpone | FailDelivery
"""What to do with a message."""


MakesAttempts = Callable[[AttemptServices, SagaType, Message, Invocation, Course], Attempt]
"""The function that makes the attempt of a message."""


class Worker(Struct, frozen=True):
    """Handles messages of all saga types of this service.

    Args:
        advancer: advances sagas where no code of a step is to run.
        attempt: claims and runs a message's code.
        chain: the steps that one invocation of this function may run in a row.
    """

    advancer: Advancer
    attempt: MakesAttempts
    chain: Chain = UNCHAINED
    _failing: dict[str, float] = field(default_factory=dict[str, float])
    """Ids of messages that go to the dead-letter queue, each with the epoch seconds until which it is cached."""

    def handle(self, message: Message, invocation: Invocation) -> tuple[End, Message]:
        """Handle a message, maybe in several rounds. Returns what to do with the message, and a version of the message
        that names the step that the saga has reached."""
        services = self.advancer.services
        received = message
        if self._failing.get(message.message_id, 0.0) > services.clock.now():
            return FailDelivery(), received
        if until := max((gate.cached_until(message) for gate in services.gates), default=0.0):
            return self._postponed(Postpone(until), message, "gate"), received
        course = Course.of(self.chain, message.step)
        for _ in range(_ROUNDS):
            try:
                advanced = self._advance(message, invocation, course)
                message = advanced.message or message
                end = self._end(advanced, message, invocation, course)
            except Fenced:
                break
            except NotCommitted as error:
                return self._keep(error), received
            except NewerFormat:
                raise  # the message waits for the newer version, which can handle it
            except Unavailable:
                if message.pending_commit is None:
                    raise
                return self._postponed(comes_back(message, services.clock), message, "outage"), received
            if end is not None:
                return end, message
        return self._postponed(Postpone(services.clock.now() + _RACE), message, "race"), received

    def _advance(self, message: Message, invocation: Invocation, course: Course) -> Advanced:
        """Advance the saga of a message: run the code that it names, or decide what to do instead."""
        if message.saga not in self.advancer.registry:
            return self._of_another_release(message, invocation)
        saga_type = self.advancer.registry.get(message.saga)
        services = self.advancer.services
        dying = DeadMessage(message.dispatch, message.hops, message.message_id)
        if message.pending_commit is not None:
            committed = self._commit_late(message, message.pending_commit, dying)
            if committed is not None:
                return self.advancer.send_next(committed, message)
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
        if code is None and state.lease is None and misfit(self.advancer.plan(state), state, services.clock.now()):
            gate = shut_gate(services.gates, message)  # a paused saga does not wait for a release
            if gate is not None and message.dispatch == state.dispatch:
                return Advanced(state, Run(state.cursor, state.undoing, 0), message=message, gate=gate)
        # In a chain, even a lease for work without code is short.
        lease = self.advancer.lease() if course.chained else lease_for(saga_type, services.clock, invocation.deadline)
        dying_now = None if message.chained else dying
        context = EntryContext(trace_id=invocation.trace_id, message=dying_now)
        return replace(self._arrived(state, message, lease, context), gate=gate)

    def _commit_late(self, message: Message, pending: PendingCommit, dying: DeadMessage) -> Committed | None:
        """Commit an outcome that waited in a queue; ``None`` if its execution no longer holds the saga, or if a release
        has to say first what follows from the outcome."""
        state = self.advancer.services.control.get(message.saga_id)
        fact = pending_fact(state, message, pending) if state else None
        if state is None or fact is None or lacks_policy(self.advancer.plan(state), state, fact):
            return None
        context = EntryContext(pending.payload, pending.details, trace_id=pending.trace_id, message=dying)
        committer = self.advancer.services.committer
        return committer.commit(self.advancer.plan(state), correlated(state, message), fact, context)

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
            saga_type = self.advancer.registry.get(message.saga)
            self.advancer.services.on_next_step(message)
            following = self.attempt(self.advancer.services, saga_type, message, invocation, course).run()
            if following is None:
                raise SagaError("internal error: a step claimed by the previous commit did not run; please report it")
            committed = following
        return self.advancer.send_next(committed, message)

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
        return replace(self.advancer.advance(correlated(state, message), arrival, context, message), message=message)

    def _purged(self, message: Message) -> Advanced:
        """Drop the message of a purged saga."""
        first = self.advancer.services.journal.entries(message.saga_id, [1]).get(1)
        if first is None or first.tombstone is None:
            raise NotFound(f"no saga with id {message.saga_id} (type {message.saga})")
        return Advanced(first.tombstone.state, Discard("the saga was purged"))

    def _of_another_release(self, message: Message, invocation: Invocation) -> Advanced:
        """Advance a saga whose type is not deployed as far as is possible without its code."""
        state = self.advancer.services.control.get(message.saga_id)
        if state is None:
            return self._purged(message)
        return self._arrived(state, message, self.advancer.lease(), EntryContext(trace_id=invocation.trace_id))

    def _keep(self, error: NotCommitted) -> Discard:
        """Send a message with an outcome that could not be committed, in place of the current message."""
        message = error.message
        logger = self.advancer.services.logger
        fields = {"saga_id": message.saga_id, "step": message.step}
        copy = with_pending(message, error.pending) if self.advancer.carry else None
        if copy is None:
            logger.error("the outcome cannot be committed, and is too large for a message", extra=fields)
            raise error
        self.advancer.sender.send(copy)
        logger.warning("the outcome cannot be committed yet; it waits in its queue", extra=fields)
        return Discard()

    def _end(self, advanced: Advanced, message: Message, invocation: Invocation, course: Course) -> End | None:
        """Return what to do with the message; ``None`` to handle it once more."""
        services = self.advancer.services
        match advanced.then:
            case Postpone() as postponed:
                state = advanced.state
                reason = "lease" if state.lease else "release" if state.settling_since else "not_due"
                return self._postponed(postponed, message, reason)
            case FailDelivery():
                return self._fail_delivery(message)
            case Run():
                return self._blocked(advanced, message, invocation, course)
            case Discard(reason) as discarded:
                services.logger.info("message dropped", extra={"saga_id": message.saga_id, "reason": reason})
                return discarded
            case _:
                pass
        if advanced.keep_until is not None:
            return self._wait(advanced.keep_until, message, invocation)
        if advanced.lost_race:
            return None
        if advanced.state.status is not SagaStatus.DEAD_LETTERED:
            return Discard()
        dead = advanced.state.dead
        if dead is None or dead.message_id != message.message_id:
            return None
        return self._fail_delivery(message)

    def _blocked(self, advanced: Advanced, message: Message, invocation: Invocation, course: Course) -> End | None:
        """Return what to do with a message whose claim was refused although its step is due: a gate was shut, or the
        saga had changed."""
        saga_type = self.advancer.registry.get(message.saga)
        if advanced.gate is None:
            if saga_type.code(message.step, undo=message.undo) is None:
                raise SagaError(f"internal error: step {message.step!r} has no code to run; please report it")
            return None
        services = self.advancer.services
        lease = lease_for(saga_type, services.clock, invocation.deadline)
        match advanced.gate.admit(message, advanced.state, lease.act_until):
            case Postpone() as end:
                return self._postponed(end, message, "gate")
            case Discard() as end:
                return end
            case None:
                return None
            case error:
                committed = self.attempt(services, saga_type, message, invocation, course).fail_uncalled(error)
                if committed is None:
                    return None
                return self._end(self._run_on(committed, message, invocation, course), message, invocation, course)

    def _postponed(self, end: Postpone, message: Message, reason: str) -> Postpone:
        """Log why a message comes back: a ``lease`` is held, a ``gate`` (a breaker or a pause) is shut, a ``release``
        is awaited, others changed the saga at the same time (``race``), the tables are out of reach (``outage``), or
        the step is ``not_due``."""
        fields = {"saga_id": message.saga_id, "step": message.step, "reason": reason, "until": iso(end.until)}
        self.advancer.services.logger.info("message postponed", extra=fields)
        return end

    def _fail_delivery(self, message: Message) -> FailDelivery:
        if len(self._failing) >= _MOST_FAILING:
            self._failing.clear()
        self._failing[message.message_id] = self.advancer.services.clock.now() + _FAILING_CACHED
        return FailDelivery()

    def _wait(self, until: float, message: Message, invocation: Invocation) -> Postpone | None:
        """Wait here if the delay is short. If it is long, postpone the message."""
        clock = self.advancer.services.clock
        delay = until - clock.now()
        step = self.advancer.registry.get(message.saga).step(message.step)
        timeout = step.code(undo=message.undo).timeout
        if delay >= _SHORT_WAIT or clock.now() + delay + timeout + RECORDING > invocation.deadline:
            return self._postponed(Postpone(until), message, "not_due")
        if delay > 0:
            clock.sleep(delay)
        return None


class _Seen(Struct):
    """One environment's observations of a queue. Times are epoch seconds."""

    noted_at: float
    passed: float = 0.0
    failing: bool = False


class QueueProgress:
    """Stores how far each queue has got, as seen by this environment: at most every 30 seconds, and first after 30
    seconds.

    Args:
        watermarks: returns the store of the notes. The first note loads it.
        clock: the current time.
        queue_of: the function that maps a step to the step that names its shared queue.
    """

    def __init__(
        self,
        watermarks: Callable[[], Watermarks],
        clock: Clock,
        queue_of: Callable[[str, str], str] = lambda saga, step: step,
    ) -> None:
        self._watermarks = watermarks
        self._clock = clock
        self._queue_of = queue_of
        self._seen: dict[tuple[str, str], _Seen] = {}

    def handled(self, message: Message) -> None:
        """Record that a message was handled, with any outcome."""
        now = self._clock.now()
        step = self._queue_of(message.saga, message.step)
        seen = self._seen.setdefault((message.saga, step), _Seen(now))
        seen.passed = max(seen.passed, message.sent_at)
        if not seen.passed or (not seen.failing and now - seen.noted_at < BETWEEN_NOTES):
            return
        seen.noted_at = now
        try:
            self._watermarks().note(message.saga, step, seen.passed, now, resumed=seen.failing)
        except SagaError:
            return  # another environment or the next message will note it
        seen.failing = False

    def failed(self, message: Message) -> None:
        """Remember that a message of a step's queue could not be handled."""
        key = message.saga, self._queue_of(message.saga, message.step)
        self._seen.setdefault(key, _Seen(self._clock.now())).failing = True
