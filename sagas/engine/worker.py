"""Handling one message: advance its saga for as long as this invocation is needed, then say what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sagas.core.effects import Die, Discard, Postpone, Run
from sagas.core.states import SagaStatus
from sagas.engine.advance import Advanced, Advancer
from sagas.engine.attempt.attempt import Invocation, NotCommitted, lease_for
from sagas.engine.attempt.course import RECORDING, Course
from sagas.engine.attempt.late_commits import comes_back, with_pending
from sagas.errors import Unavailable
from sagas.formats import NewerFormat
from sagas.messaging.message.message import Message
from sagas.store.outcomes import Fenced

_ROUNDS = 200
"""A message is looked at again after each thing done for it, such as an attempt whose retry is due within the second;
more often than this it is left to its queue, so that no invocation is kept for good by a retry without delay."""
_SHORT_WAIT = 1.0
"""Seconds below which a retry is waited out in the function: SQS counts whole seconds."""
_RACE = 1.0
"""Seconds after which a message comes back that lost a race with another delivery."""
_KNOWN_DYING = 60.0
"""Seconds for which a message that was found dying is let die without another look at its saga. It is received a dozen
times on its way or more, mostly by this environment; an operator's retry has the saga go on by another message."""
_MOST_DYING = 1_000


End = Discard | Postpone | Die
"""What becomes of a message."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Handles messages of all saga types of this service."""

    advancer: Advancer
    _dying: dict[str, float] = field(default_factory=dict[str, float])
    """Message ids, and until when they are known to be dying (epoch seconds)."""

    def handle(self, message: Message, invocation: Invocation) -> tuple[End, Message]:
        """Do what the message asks for, or find out why not. Returns what becomes of the message, and the message as it
        stands now: it names the step that its saga has gone on to."""
        services, received = self.advancer.services, message
        if self._dying.get(message.message_id, 0.0) > services.clock.now():
            return Die(), received
        if until := max((gate.known_until(message) for gate in services.gates), default=0.0):
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
                raise  # no wait of this version's helps: the message waits for the newer one
            except Unavailable:
                if message.pending_commit is None:
                    raise
                return comes_back(message, services.clock), received
            if end is not None:
                return end, message
        return Postpone(services.clock.now() + _RACE), received

    def _keep(self, error: NotCommitted) -> Discard:
        """Send an outcome that could not be committed to its queue, in place of the message at hand."""
        message = error.message
        logger, known = self.advancer.services.logger, {"saga_id": message.saga_id, "step": message.step}
        copy = with_pending(message, error.pending) if self.advancer.carry else None
        if copy is None:
            logger.error("the outcome cannot be committed, and cannot be kept in a message either", extra=known)
            raise error
        self.advancer.sender.send(copy)
        logger.warning("the outcome cannot be committed yet: it waits in its queue", extra=known)
        return Discard()

    def _end(self, advanced: Advanced, message: Message, invocation: Invocation, course: Course) -> End | None:
        """What becomes of the message; ``None`` to look at it again."""
        services = self.advancer.services
        match advanced.then:
            case Postpone() as postponed:
                return postponed
            case Die():
                return self._let_die(message)
            case Run():
                return self._held_back(advanced, message, invocation, course)
            case Discard(reason) as discarded:
                services.logger.info("message dropped", extra={"saga_id": message.saga_id, "reason": reason})
                return discarded
            case _:
                pass
        if advanced.keep_until is not None:
            return self._wait(advanced.keep_until, message, invocation)
        if advanced.beaten:
            return None
        if advanced.state.status is not SagaStatus.DEAD_LETTERED:
            return Discard()
        dead = advanced.state.dead
        if dead is None or dead.message_id != message.message_id:
            return None
        return self._let_die(message)

    def _held_back(self, advanced: Advanced, message: Message, invocation: Invocation, course: Course) -> End | None:
        """What becomes of a message whose claim was refused and would hold now: a gate was shut, or the saga has
        changed."""
        if advanced.gate is None:
            return None
        lease = lease_for(self.advancer.registry.get(message.saga), self.advancer.services.clock, invocation.deadline)
        match advanced.gate.admit(message, advanced.state, lease.act_until):
            case Discard() | Postpone() as end:
                return end
            case None:
                return None
            case error:
                refused = self.advancer.refuse(message, invocation, error, course)
                return None if refused is None else self._end(refused, message, invocation, course)

    def _let_die(self, message: Message) -> Die:
        if len(self._dying) >= _MOST_DYING:
            self._dying.clear()
        self._dying[message.message_id] = self.advancer.services.clock.now() + _KNOWN_DYING
        return Die()

    def _wait(self, until: float, message: Message, invocation: Invocation) -> Postpone | None:
        """Wait a short delay out in the function; have the message come back after a longer one."""
        clock = self.advancer.services.clock
        delay = until - clock.now()
        step = self.advancer.registry.get(message.saga).step(message.step)
        timeout = step.code(undo=message.undo).timeout
        if delay >= _SHORT_WAIT or clock.now() + delay + timeout + RECORDING > invocation.deadline:
            return Postpone(until)
        if delay > 0:
            clock.sleep(delay)
        return None
