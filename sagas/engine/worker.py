"""Handling one message: the fast way without a read, and the examination when the claim is refused."""

from __future__ import annotations

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)

from sagas.core.automaton import decide
from sagas.core.commands import Command, Decision, Die, Discard, Postpone, Run, Send, Write
from sagas.core.events import MessageArrived
from sagas.core.states import Lease, SagaState, SagaStatus
from sagas.engine.attempt import Attempt, Tools, lease_for
from sagas.engine.committer import Committed
from sagas.engine.late_commits import LateCommits
from sagas.engine.outcome import Done, Failed, Later, Outcome
from sagas.engine.ports import MessageSender
from sagas.engine.registry import Registry, SagaType, plan_for
from sagas.errors import InvalidRequest, NotFound, Problem, Unavailable
from sagas.messaging.message import Message
from sagas.store.idempotency import ClaimRecord
from sagas.store.outcomes import Fenced

_ROUNDS = 200
"""A message is looked at again after each thing done for it; more often than this it is left to its queue."""
_SHORT_WAIT = 1.0
"""Seconds below which a retry is waited out in the function: SQS counts whole seconds."""
_RACE = 1.0
"""Seconds after which a message comes back that lost a race with another delivery."""


class Invocation:
    """The Lambda invocation a message is handled in.

    Args:
        deadline: epoch seconds at which the function is stopped.
        trace_id: its trace.
        config: Powertools' settings, with the Lambda context registered.
    """

    def __init__(self, deadline: float, trace_id: str = "", config: IdempotencyConfig | None = None) -> None:
        self.deadline = deadline
        self.trace_id = trace_id
        self.config = config or IdempotencyConfig(event_key_jmespath="[saga_id, index, undo]")


def message_for(state: SagaState, send: Send) -> Message:
    """Return the message that ``send`` asks for."""
    name = state.steps[send.index].name
    return Message(
        state.saga_id, state.saga, name, send.index, send.undo, send.dispatch, correlation_id=state.correlation_id
    )


class Worker:
    """Handles messages of all saga types of this engine."""

    def __init__(self, tools: Tools, registry: Registry, sender: MessageSender) -> None:
        self._tools = tools
        self._registry = registry
        self._sender = sender
        self._late_commits = LateCommits(tools, sender)

    def handle(self, message: Message, invocation: Invocation) -> Outcome:
        """Do what the message asks for, or find out why not.

        Returns:
            What becomes of the message.

        Raises:
            NotFound: no such saga type or saga: the message belongs into the dead-letter queue.
            InvalidRequest: the message does not fit its saga: likewise.
            Unavailable: the store or a queue is out of reach: the message must come back.
        """
        saga_type = self._registry.get(message.saga)
        for _ in range(_ROUNDS):
            try:
                outcome = self._once(saga_type, message, invocation)
            except Fenced:
                return Later(self._tools.clock.now() + _RACE)
            except Unavailable:
                if message.pending_commit is None:
                    raise
                return self._late_commits.later(message)
            if outcome is not None:
                return outcome
        return Later(self._tools.clock.now() + _RACE)

    def _once(self, saga_type: SagaType, message: Message, invocation: Invocation) -> Outcome | None:
        carried = self._late_commits.commit(saga_type, message)
        if carried is not None:
            return self._carry_out(carried, message, invocation, saga_type)
        if not saga_type.has_code(message.step, undo=message.undo):
            return self._examine(saga_type, message, invocation)
        attempt = Attempt(self._tools, saga_type, message, invocation.deadline, invocation.trace_id)
        try:
            claimed = self._run(attempt, message, invocation)
        except Unavailable:
            if attempt.pending_commit is None or not self._late_commits.send(message, attempt.pending_commit):
                raise
            return Done()
        if not claimed:
            return self._examine(saga_type, message, invocation)
        if attempt.committed is None:
            raise Fenced("the attempt was not committed")
        return self._carry_out(attempt.committed, message, invocation, saga_type)

    def _run(self, attempt: Attempt, message: Message, invocation: Invocation) -> bool:
        """Run the attempt under Powertools' idempotency; ``False`` if it could not be claimed."""

        def execute(record: dict[str, object]) -> str | None:
            return attempt.execute()

        guarded = idempotent_function(
            execute,
            data_keyword_argument="record",
            persistence_store=ClaimRecord(attempt),
            config=invocation.config,
            key_prefix="sagas",
        )
        key = {"saga_id": message.saga_id, "index": message.index, "undo": message.undo}
        try:
            guarded(record=key)
        except IdempotencyAlreadyInProgressError:
            return False
        except IdempotencyPersistenceLayerError as error:
            raise error.__cause__ or error from error
        except Exception as error:
            if attempt.committed is None:
                raise
            # The code's own error: it is in the journal. The log has its kind, not its text, which may quote payloads.
            fields = {"saga_id": message.saga_id, "step": message.step, "error": type(error).__name__}
            self._tools.logger.warning("the attempt failed", extra=fields)
        return True

    def _examine(self, saga_type: SagaType, message: Message, invocation: Invocation) -> Outcome | None:
        """The claim was refused: read the saga and do what the automaton says."""
        state = self._tools.control.get(message.saga_id)
        if state is None:
            raise NotFound(f"there is no saga {message.saga_id}")
        _check_place(message, state)
        plan = plan_for(saga_type.definition, (step.name for step in state.steps))
        lease = lease_for(saga_type, self._tools.clock, invocation.deadline)
        arrived = MessageArrived(
            message.index, message.undo, message.dispatch, message.hops, message.message_id, lease, message.sent_at
        )
        decision = decide(plan, state, arrived, self._tools.clock.now())
        write = next((command for command in decision.commands if isinstance(command, Write)), None)
        if write is None:
            return self._obey(state, decision, message) or self._barred(message, lease)
        if not self._tools.control.claim(state, decision.state, plan.stale_after):
            return None
        attempt = Attempt(self._tools, saga_type, message, invocation.deadline, invocation.trace_id)
        committed = self._tools.committer.commit(plan, decision.state, write.fact, attempt.note)
        return self._carry_out(committed, message, invocation, saga_type)

    def _barred(self, message: Message, lease: Lease) -> Later | None:
        """The step would run now: postpone it while its circuit breaker is open."""
        until = self._tools.breakers.admit(message, lease.act_until)
        return Later(until) if until else None

    def _obey(self, state: SagaState, decision: Decision, message: Message) -> Outcome | None:
        for command in decision.commands:
            match command:
                case Send():
                    self._sender.send(message_for(state, command), command.not_before - self._tools.clock.now())
                case Postpone(until):
                    return Later(until)
                case Die():
                    return Failed("the saga is DEAD_LETTERED: this message goes to the dead-letter queue")
                case Run():
                    return None
                case Discard(reason):
                    self._tools.logger.info("message dropped", extra={"saga_id": state.saga_id, "reason": reason})
                    return Done()
                case _:
                    pass
        return Done()

    def _carry_out(
        self, committed: Committed, message: Message, invocation: Invocation, saga_type: SagaType
    ) -> Outcome | None:
        """Send what is to be sent; keep the message at hand if it is the one."""
        send = _send(committed.commands)
        if send is None:
            return self._at_rest(committed.state, message)
        if send.dispatch == message.dispatch:
            return self._wait(send.not_before, saga_type, message, invocation)
        self._sender.send(message_for(committed.state, send), send.not_before - self._tools.clock.now())
        return Done()

    def _at_rest(self, state: SagaState, message: Message) -> Outcome | None:
        if state.status is not SagaStatus.DEAD_LETTERED:
            return Done()
        dying = state.dead is not None and state.dead.message_id == message.message_id
        return Failed("the step is exhausted: this message goes to the dead-letter queue") if dying else None

    def _wait(self, until: float, saga_type: SagaType, message: Message, invocation: Invocation) -> Outcome | None:
        """Wait a short delay out in the function; have the message come back after a longer one."""
        clock = self._tools.clock
        delay = until - clock.now()
        step = saga_type.step(message.step)
        needed = step.undo.timeout if message.undo and step.undo else step.timeout
        if delay >= _SHORT_WAIT or clock.now() + delay + needed > invocation.deadline:
            return Later(until)
        if delay > 0:
            clock.sleep(delay)
        return None


def _check_place(message: Message, state: SagaState) -> None:
    """Refuse a message that names a step of the type which is not the saga's step at that position."""
    names = [step.name for step in state.steps]
    if message.index >= len(names) or names[message.index] != message.step:
        raise InvalidRequest("the message does not fit its saga", [Problem("$.index", "is not this step's position")])
    current = message.dispatch == state.dispatch and not state.over
    if current and message.index != min(state.cursor, len(names) - 1):
        raise InvalidRequest("the message does not fit its saga", [Problem("$.index", "is not the current step's")])


def _send(commands: tuple[Command, ...]) -> Send | None:
    return next((command for command in commands if isinstance(command, Send)), None)
