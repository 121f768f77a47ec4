"""Handle a message: advance its saga as far as this invocation can, then decide about the message."""

from __future__ import annotations

from dataclasses import dataclass, field

from sagas.core.commands import Discard, FailDelivery, Postpone, Run
from sagas.core.states import SagaStatus
from sagas.engine.advance import Advanced, Advancer
from sagas.engine.attempt.attempt import Invocation, NotCommitted, lease_for
from sagas.engine.attempt.course import RECORDING, Course
from sagas.engine.attempt.late_commits import comes_back, with_pending
from sagas.errors import SagaError, Unavailable
from sagas.formats import NewerFormat
from sagas.messaging.message.message import Message
from sagas.store.outcomes import Fenced

_ROUNDS = 200
"""How many times one invocation works on the same message, such as on attempts whose retries are due within a second.
After that the queue redelivers it, so that retries without delay do not occupy an invocation forever."""
_SHORT_WAIT = 1.0
"""Seconds below which the function itself waits for a retry: SQS counts whole seconds."""
_RACE = 1.0
"""Seconds after which a message is redelivered if it lost a race with another delivery."""
_FAILING_CACHED = 60.0
"""Seconds for which deliveries of a message on its way to the dead-letter queue fail without reading its saga. It is
received a dozen times or more, mostly by this environment. An operator's retry uses another message."""
_MOST_FAILING = 1_000


End = Discard | Postpone | FailDelivery
"""The fate of a message."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Handles messages of all saga types of this service."""

    advancer: Advancer
    _failing: dict[str, float] = field(default_factory=dict[str, float])
    """Ids of messages that go to the dead-letter queue, and until when that is cached (epoch seconds)."""

    def handle(self, message: Message, invocation: Invocation) -> tuple[End, Message]:
        """Do what the message asks for, or find out why not. Returns the fate of the message, and the message as it
        stands now, naming the step that its saga has reached."""
        services, received = self.advancer.services, message
        if self._failing.get(message.message_id, 0.0) > services.clock.now():
            return FailDelivery(), received
        if until := max((gate.cached_until(message) for gate in services.gates), default=0.0):
            return Postpone(until), received
        course = Course.of(self.advancer.chain, message.step)
        for _ in range(_ROUNDS):
            try:
                advanced = self.advancer.message(message, invocation, course)
                message = advanced.message or message
                end = self._end(advanced, message, invocation, course)
            except Fenced:
                break
            except NotCommitted as error:
                return self._keep(error), received
            except NewerFormat:
                raise  # this version cannot handle it: the message waits for the newer one
            except Unavailable:
                if message.pending_commit is None:
                    raise
                return comes_back(message, services.clock), received
            if end is not None:
                return end, message
        return Postpone(services.clock.now() + _RACE), received

    def _keep(self, error: NotCommitted) -> Discard:
        """Send an outcome that could not be committed to its queue, instead of the current message."""
        message = error.message
        logger, fields = self.advancer.services.logger, {"saga_id": message.saga_id, "step": message.step}
        copy = with_pending(message, error.pending) if self.advancer.carry else None
        if copy is None:
            logger.error("the outcome cannot be committed, and is too large for a message", extra=fields)
            raise error
        self.advancer.sender.send(copy)
        logger.warning("the outcome cannot be committed yet; it waits in its queue", extra=fields)
        return Discard()

    def _end(self, advanced: Advanced, message: Message, invocation: Invocation, course: Course) -> End | None:
        """Return the fate of the message; ``None`` to check it again."""
        services = self.advancer.services
        match advanced.then:
            case Postpone() as postponed:
                return postponed
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
        """Return the fate of a message whose refused claim would hold now: a gate was shut, or the saga has
        changed."""
        saga_type = self.advancer.registry.get(message.saga)
        if advanced.gate is None:
            if saga_type.code(message.step, undo=message.undo) is None:
                raise SagaError(f"internal error: step {message.step!r} has no code to run; please report it")
            return None
        lease = lease_for(saga_type, self.advancer.services.clock, invocation.deadline)
        match advanced.gate.admit(message, advanced.state, lease.act_until):
            case Discard() | Postpone() as end:
                return end
            case None:
                return None
            case error:
                refused = self.advancer.refuse(message, invocation, error, course)
                return None if refused is None else self._end(refused, message, invocation, course)

    def _fail_delivery(self, message: Message) -> FailDelivery:
        if len(self._failing) >= _MOST_FAILING:
            self._failing.clear()
        self._failing[message.message_id] = self.advancer.services.clock.now() + _FAILING_CACHED
        return FailDelivery()

    def _wait(self, until: float, message: Message, invocation: Invocation) -> Postpone | None:
        """Wait for a short delay in the function; postpone the message for a longer one."""
        clock = self.advancer.services.clock
        delay = until - clock.now()
        step = self.advancer.registry.get(message.saga).step(message.step)
        timeout = step.code(undo=message.undo).timeout
        if delay >= _SHORT_WAIT or clock.now() + delay + timeout + RECORDING > invocation.deadline:
            return Postpone(until)
        if delay > 0:
            clock.sleep(delay)
        return None
